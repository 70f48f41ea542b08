"""The two halves of a Flower app, and the engine that lets any method run on it.

A site's half is made by :func:`client_app`, the server's by :func:`server_app`. A program of your
own is four lines on each side::

    # at a site                                       # at the server
    def load(context):                                app = server_app(
        return Site("bern", from_array(rows))             FeCA(n_clusters=15, random_state=0),
    app = client_app(load)                                output=Path("model"))

The commands ``fedjigsaw federation ...`` need no program at all.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedjigsaw._random import resolve_seed
from fedjigsaw.base import FederatedClusterer
from fedjigsaw.engine import Reply, run_rounds
from fedjigsaw.errors import FedJigsawError, MessageError, ParameterError, invalid
from fedjigsaw.flower import records
from fedjigsaw.flower.records import Question
from fedjigsaw.flower.site import ImageSite, PunctualSite, Site
from fedjigsaw.io import formats
from fedjigsaw.io.formats import MAX_BYTES, ModelFile, SummaryFile
from fedjigsaw.messages import MAX_COUNT, Broadcast, Failure, Model, Transcript
from fedjigsaw.methods import METHODS
from fedjigsaw.parameters import real

if TYPE_CHECKING:
    from fedjigsaw.deep import DeepFeCA

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
VERB = "summary"

NOT_CONNECTED = "it is not connected"
GARBAGE = "its answer is not in order"
OTHER_KIND = "its columns, scaler or fields are not those of the other sites"
# Flower's own error codes: what happened before our half of the app could say anything
FLOWER_SAYS = {
    1: "its half of the app could not be loaded",
    2: "its half of the app failed",
    3: "the question did not reach it in time",
    4: "its answer did not come whole, or was too large",
    5: "it lost its connection",
    7: "it refuses the app: it was handed another one",
    8: "its half of the app ended abruptly",
}


# --------------------------------------------------------------------------------------- at a site


def client_app(
    load: Callable[[Context], Site | ImageSite | PunctualSite],
    *,
    keep: Callable[[SummaryFile], object] = lambda file: None,
) -> ClientApp:
    """The half of the app that runs at a site.

    Parameters
    ----------
    load : finds the site's data, from Flower's context; called once per question.
    keep : called with what is about to leave; if it fails, nothing does.

    Whatever goes wrong is told to the server in one word; the whole story goes to the log here.
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        try:
            question = records.unpack_question(message.content)
            told = f"round {question.broadcast.round} of {question.method}"
            logger.info("asked for %s", told)
            file = load(context).answer(question)
            keep(file)
            sent = file.summary
            logger.info(
                "%s: %d centers leave, %d bytes in all", told, len(sent.centers), sent.nbytes
            )
            content = records.pack_answer(file)
        except Exception as error:
            word = records.category(error)
            logger.exception("failed; all that the server is told is %r", word)
            content = records.pack_failure(word)
        return Message(content, reply_to=message)

    app.query(VERB)(answer)
    return app


# ---------------------------------------------------------------------------------- at the server


def quiet(event: str, site: str, detail: str) -> None:
    """The progress that nobody watches."""


class FlowerEngine:
    """Sites that are really apart: asks them over Flower's grid, one message per site and round.

    Parameters
    ----------
    grid : Flower's, as a ServerApp gets it.
    clusterer : the method to ask for; sites make their own of its name and parameters.
    names : the sites that should take part; None means all that are connected.
    timeout : seconds that a site has for its answer.
    wait : seconds to wait for all named sites (without names, for one) to connect.
    tell : called with what happened ("waiting", "asked", "answered", "failed"), to whom, and a
        detail, as it happens.

    Attributes
    ----------
    files : the last answer of every site, by name.
    """

    def __init__(
        self,
        grid: Grid,
        clusterer: "FederatedClusterer | DeepFeCA",
        *,
        names: Sequence[str] | None = None,
        timeout: float = 600.0,
        wait: float = 60.0,
        tell: Callable[[str, str, str], object] = quiet,
    ) -> None:
        for what, value in (("timeout", timeout), ("wait", wait)):
            real(0, inclusive=what == "wait").check(what, "FlowerEngine", value)
        if clusterer.method not in METHODS:
            allowed = "one of " + ", ".join(METHODS)
            raise ParameterError(invalid("method", "FlowerEngine", allowed, clusterer.method))
        self.grid = grid
        self.clusterer = clusterer
        self.names = None if names is None else tuple(names)
        self.timeout = timeout
        self.wait = wait
        self.tell = tell
        self.files: dict[str, SummaryFile] = {}
        self._began = monotonic()

    def gather(self, broadcast: Broadcast) -> list[Reply]:
        connected = self._connected(0.0 if broadcast.round else self.wait)
        missing = [name for name in self.names or () if name not in connected]
        failures = [self._failure(name, NOT_CONNECTED) for name in missing]
        files = self._collect(connected, broadcast, failures)
        columns = self.columns or (files[0].columns if files else ())
        # a summary may hold more than centers by column: who has another order is asked once more
        turned = [file for file in files if file.columns != columns]
        if turned:
            files = [file for file in files if file.columns == columns]
            again = {file.summary.client: connected[file.summary.client] for file in turned}
            files += self._collect(again, broadcast, failures, columns)
        self.files |= {file.summary.client: file for file in files}
        summaries: list[Reply] = [file.summary for file in files]
        return summaries + failures

    def _collect(
        self,
        nodes: Mapping[str, int],
        broadcast: Broadcast,
        failures: list[Failure],
        columns: tuple[str, ...] | None = None,
    ) -> list[SummaryFile]:
        """Ask, and wait for the answers that fit together; the others are added to the failures."""
        waiting = self._ask(nodes, broadcast, columns)
        answers: list[SummaryFile] = []
        deadline = monotonic() + self.timeout
        while waiting and monotonic() < deadline:
            for number in list(waiting):
                reply = self._pull(number, waiting[number], broadcast)
                if reply is not None:
                    del waiting[number]
                if isinstance(reply, SummaryFile):
                    self.tell("answered", reply.summary.client, f"{reply.summary.nbytes} bytes")
                    answers.append(reply)
                elif reply is not None:
                    failures.append(reply)
            if waiting:
                sleep(POLL_SECONDS)
        late = f"it did not answer within {self.timeout:g} s"
        failures += [self._failure(name, late) for name in waiting.values()]
        return self._agreeing(answers, failures)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def _connected(self, patience: float) -> dict[str, int]:
        """Name -> node of all who are connected, after some patience with those who are not."""
        deadline = monotonic() + patience
        told: list[str] | None = None
        while True:
            nodes = {node.name or str(node.node_id): node.node_id for node in self.grid.get_nodes()}
            if self.names is not None:
                nodes = {name: nodes[name] for name in self.names if name in nodes}
            missing = [name for name in self.names or () if name not in nodes]
            if (nodes and not missing) or monotonic() >= deadline:
                return nodes
            if missing != told:
                self.tell("waiting", ", ".join(missing), "")
                told = missing
            sleep(POLL_SECONDS)

    def _ask(
        self, nodes: Mapping[str, int], broadcast: Broadcast, columns: tuple[str, ...] | None
    ) -> dict[str, str]:
        """Send the question; message number -> site that has yet to answer it."""
        if broadcast.model is not None:  # from here on, in one order of columns everywhere
            columns = self.columns
            broadcast = replace(broadcast, model=self.name_columns(broadcast.model))
        method, params = self.clusterer.method, self.clusterer.configuration()
        question = Question(broadcast, method, params, self.timeout, columns)
        content = records.pack_question(question)  # once: a network may be in it
        messages = [
            Message(
                content,
                dst_node_id=node,
                message_type=f"query.{VERB}",
                ttl=self.timeout + 60,
                group_id=str(broadcast.round),
            )
            for node in nodes.values()
        ]
        numbers = self.grid.push_messages(messages) if messages else []
        for name in nodes:
            self.tell("asked", name, self._progress(broadcast.round))
        return dict(zip(numbers, nodes, strict=True))

    def _progress(self, number: int) -> str:
        """The round and, where there are several, the last one and the time until then."""
        last = self.clusterer.total_rounds - 1
        if not number:
            self._began = monotonic()
        if number < 2:  # the first ones are too few to tell
            return f"round {number}" + (f" of 0 to {last}" if last else "")
        left = (monotonic() - self._began) / number * (last + 1 - number)
        words = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min"
        return f"round {number} of 0 to {last}, about {words} left"

    def _pull(self, number: str, name: str, broadcast: Broadcast) -> Failure | SummaryFile | None:
        """A site's reply, if it is there. Sites are read one by one, so that none spoils others."""
        try:
            found: Iterable[Message] = self.grid.pull_messages([number])
            for message in found:
                if message.has_error():
                    return self._failure(name, FLOWER_SAYS.get(message.error.code, GARBAGE))
                return self._read(name, message, broadcast)
        except Exception as error:  # what a site sent must not end the run
            logger.warning("site %r: %s", name, error, exc_info=True)
            return self._failure(name, GARBAGE)
        return None

    def _read(self, name: str, message: Message, broadcast: Broadcast) -> Failure | SummaryFile:
        answer = records.unpack_answer(message.content)
        if isinstance(answer, str):
            return self._failure(name, answer)
        asked = self.clusterer.method, self.clusterer.configuration()
        if (answer.method, without_seed(answer.params)) != (asked[0], without_seed(asked[1])):
            raise MessageError(invalid("method", f"client {name!r}", f"{asked}", "another"))
        # the name is the one that the server knows the sender's key by, whatever it signs with
        if answer.summary.client != name and self.names is not None:
            raise MessageError(invalid("name", f"client {name!r}", "its own", "another"))
        self.clusterer.check_answer(answer.summary, broadcast)
        return answer

    def _failure(self, name: str, reason: str) -> Failure:
        """A failure, told as it happens."""
        self.tell("failed", name, reason)
        return Failure(name, reason)

    def _agreeing(self, files: Sequence[SummaryFile], failures: list[Failure]) -> list[SummaryFile]:
        """Summaries of one kind, that of most sites; the others cannot be put together with them.

        Columns and scaler are settled by the first answers. Of two kinds that are equally frequent,
        the one that says more counts, then the one whose site's name comes first.
        """
        files = sorted(files, key=lambda file: file.summary.client)
        settled = next((source(file) for file in self.files.values()), None)
        counts = Counter(kind(file) for file in files if settled in (None, source(file)))
        usual = max(counts, key=lambda k: (counts[k], len(k[-1])), default=None)
        failures += [
            self._failure(file.summary.client, OTHER_KIND) for file in files if kind(file) != usual
        ]
        return [file for file in files if kind(file) == usual]

    @property
    def columns(self) -> tuple[str, ...]:
        return next((file.columns for file in self.files.values()), ())

    def name_columns(self, model: Model) -> Model:
        return replace(model, feature_names=self.columns)


def source(file: SummaryFile) -> tuple[Any, ...]:
    """What must be the same in all rounds."""
    scaler = None if file.scaler is None else file.scaler.fingerprint
    return tuple(sorted(file.columns)), scaler


def kind(file: SummaryFile) -> tuple[Any, ...]:
    """What must be the same in all summaries that are put together."""
    summary = file.summary
    sent = [name for name in ("radii", "counts", "sse") if getattr(summary, name) is not None]
    sent += [f"{name} {tensor.ndim}" for name, tensor in sorted(summary.tensors.items())]
    return *source(file), tuple(sent)


def without_seed(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "random_state"}


def check_federated(clusterer: "FederatedClusterer | DeepFeCA") -> None:
    """Whether a method, with its parameters, can run between sites that are apart."""
    clusterer.check()
    if clusterer.pools_data:
        allowed = "one that keeps rows at the sites"
        raise ParameterError(invalid("method", "a federation", allowed, repr(clusterer.method)))
    if not isinstance(clusterer, FederatedClusterer):
        clusterer.check_federated()
        if clusterer.model_bytes > MAX_BYTES:
            allowed = f"at most {MAX_BYTES} bytes for a message"
            advice = "Use a smaller network, or neither ema nor server_momentum."
            got = clusterer.model_bytes
            raise ParameterError(invalid("model", "a federation", allowed, got, advice))


def federate(
    engine: FlowerEngine, *, seed: int | None = None, min_sites: int | None = None
) -> tuple[ModelFile, Transcript]:
    """Run the engine's method over its sites.

    Parameters
    ----------
    seed : of the run; by default the one of the clusterer's `random_state`.
    min_sites : how many sites must answer in every round; None means all of them.
    """
    clusterer = engine.clusterer
    check_federated(clusterer)
    if seed is None:  # at most what a file can hold exactly
        seed = resolve_seed(clusterer.random_state) % MAX_COUNT
    model, transcript, _ = run_rounds(
        clusterer, engine, seed=seed, n_rounds=clusterer.total_rounds, min_clients=min_sites
    )
    took_part = [engine.files[name] for name in transcript.clients]
    failed = {failure.client for failure in transcript.failures}
    file = ModelFile(
        engine.name_columns(model),
        took_part[0].scaler,
        transcript.clients,
        sum(file.summary.n_samples for file in took_part),
        tuple(name for name in transcript.clients if name in failed),
    )
    return file, transcript


def server_app(
    clusterer: "FederatedClusterer | DeepFeCA",
    output: Path,
    *,
    min_sites: int | None = None,
    **options: Any,
) -> ServerApp:
    """The half of the app that runs at the server; it writes the model to a file there.

    Parameters
    ----------
    clusterer : the method, its parameters and (`random_state`) its seed.
    output : where the model goes.
    min_sites : how many sites must answer in every round; None means all of them.
    options : `names`, `timeout`, `wait` and `tell` of :class:`FlowerEngine`.
    """
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        try:
            engine = FlowerEngine(grid, clusterer, **options)
            formats.save(federate(engine, min_sites=min_sites)[0], output)
        except FedJigsawError as error:
            logger.error("%s", error)
            raise

    app.main()(main)
    return app
