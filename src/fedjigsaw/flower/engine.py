"""The engine that runs any method over Flower: one message per site and round."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic, sleep
from typing import Self, TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.engine import FederatedMethod, Reply
from fedjigsaw.errors import FedJigsawError, MessageError, ParameterError, invalid
from fedjigsaw.flower import patches, records
from fedjigsaw.flower.agreement import agreeing
from fedjigsaw.flower.records import Question, Shown
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.io.regions import is_region
from fedjigsaw.messages import MAX_TIMEOUT, Broadcast, Failure
from fedjigsaw.methods import METHODS, is_known
from fedjigsaw.parameters import real
from fedjigsaw.sites.admission import check_answer
from fedjigsaw.sites.compatibility import reorder
from fedjigsaw.sites.keeping import question_params

logger = logging.getLogger(__name__)

T = TypeVar("T")
POLL_SECONDS = 0.2
VERB = "summary"

NOT_CONNECTED = "it is not connected"
INVALID_ANSWER = "its answer is not valid"
# without this, one site could count as many, and outvote the others
NO_REGION = "it answered as a region: regions are aggregated by file"
INVALID_KEPT = "its kept summary is not valid; forget it, and ask again"
KEPT_UNSCALED = "its kept summary was not made with the scaler of this run"


def ignore(event: str, site: str, detail: str) -> None:
    """Do nothing with an event."""


class FlowerEngine:
    """Engine for sites on a network. It sends one message per site and round.

    Parameters
    ----------
    grid : Flower's grid, which a ServerApp receives; None if nobody is asked.
    method : the method to run. Each site makes its own from the name and the parameters.
    names : sites that should take part; None is all that are connected.
    timeout : seconds that a site has to answer in each round, even if it is asked twice.
    wait : seconds to wait for all named sites (without names: for one site) to connect.
    tell : called with each event ("waiting", "asked", "answered", "kept", "failed"), the name of
        the site, and a detail; also with "resumed", without a site.
    kept : answers that are there already, by site; these sites are not asked. Only for methods with
        one round.
    scaler : the scaler that all sites must use; None leaves it to them.
    cells : which cells sites under differential privacy describe, "own" or "shared".

    Attributes
    ----------
    files : the last answer of every site, by name.
    shown : what the next round shows to the sites: the summaries of this one.

    Raises
    ------
    ParameterError
        If the method is not known, a time is not allowed, or answers are kept for a method with
        several rounds.
    """

    def __init__(
        self,
        grid: Grid | None,
        method: FederatedMethod,
        *,
        names: Sequence[str] | None = None,
        timeout: float = 600.0,
        wait: float = 60.0,
        tell: Callable[[str, str, str], object] = ignore,
        kept: Mapping[str, SummaryFile] | None = None,
        scaler: Scaler | None = None,
        cells: str | None = None,
    ) -> None:
        real(0, MAX_TIMEOUT, inclusive=False).check("timeout", "FlowerEngine", timeout)
        real(0).check("wait", "FlowerEngine", wait)
        if not is_known(method.method):
            allowed = "one of " + ", ".join(METHODS)
            raise ParameterError(invalid("method", "FlowerEngine", allowed, method.method))
        if kept and method.total_rounds > 1:
            raise ParameterError(
                f"{method.method} has {method.total_rounds} rounds, and each site must answer in "
                "all of them: kept summaries are for methods with one."
            )
        self.grid = grid
        self.method = method
        self.kept = dict(kept or {})
        self.names = None if names is None else tuple(names)
        self.timeout = timeout
        self.wait = wait
        self.tell = tell
        self.scaler = scaler
        self.cells = cells
        self.files: dict[str, SummaryFile] = {}
        self.shown: Shown | None = None
        self._first: int | None = None  # number of the first round that is asked, and when that was
        self._began = monotonic()
        self._patient = False  # whether to wait for sites in a round that is not the first

    @property
    def late(self) -> str:
        """Reason of a site that answered too late, or not at all."""
        return f"it did not answer within {max(round(self.timeout, 2), 0.01):g} s"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the sites, in the order of the model's."""
        return next((file.columns for file in self.files.values()), ())

    def ask(self, broadcast: Broadcast) -> list[Reply]:
        """Ask all sites, and return their summaries and the failures."""
        starts = self._first is None
        if starts:
            self._first, self._began = broadcast.round, monotonic()
        connected = self.connected(self.wait if starts or self._patient else 0.0)
        missing = [name for name in self._to_ask if name not in connected]
        failures = [self.fail(name, NOT_CONNECTED) for name in missing]
        deadline = monotonic() + self.timeout
        kept = self._use_kept(broadcast, failures)
        files = self._collect(connected, broadcast, failures, deadline, kept=kept)
        columns = self.columns or (files[0].columns if files else ())
        # a site with another order of columns is asked again: its answer may have other bits
        others = {file.summary.client: file for file in files if file.columns != columns}
        again = {name: connected[name] for name in others if name in connected}
        files = [file for file in files if file.summary.client not in others]
        files += [reorder(others[name], columns) for name in others if name not in again]
        if again:
            files += self._collect(again, broadcast, failures, deadline, columns)
        self.files |= {file.summary.client: file for file in files}
        before = broadcast.model and broadcast.model.with_feature_names(self.columns)
        self.shown = Shown(before, tuple(files))
        summaries: list[Reply] = [file.summary for file in files]
        return summaries + failures

    @property
    def _to_ask(self) -> list[str]:
        """The named sites without a kept answer."""
        return [name for name in self.names or () if name not in self.kept]

    def _use_kept(self, broadcast: Broadcast, failures: list[Failure]) -> list[SummaryFile]:
        """Return the kept answers that the method can use; add the others to `failures`."""
        good = []
        for name, file in self.kept.items():
            if not self._is_scaled(file):
                failures.append(self.fail(name, KEPT_UNSCALED))
                continue
            try:
                self._check(name, file, broadcast)
            except FedJigsawError as error:
                logger.warning("kept summary of %r: %s", name, error)
                failures.append(self.fail(name, INVALID_KEPT))
            else:
                self.tell("kept", name, "not asked again")
                good.append(file)
        return good

    def connected(self, patience: float) -> dict[str, int]:
        """Return name -> node of the connected sites, after waiting for those that are missing."""
        if self.grid is None or (self.names is not None and not self._to_ask):
            return {}
        deadline = monotonic() + patience
        reported: list[str] | None = None
        while True:
            nodes = patches.nodes_by_name(self.grid)
            wanted = nodes if self.names is None else self.names
            nodes = {n: nodes[n] for n in wanted if n in nodes and n not in self.kept}
            missing = [name for name in self._to_ask if name not in nodes]
            if (nodes and not missing) or monotonic() >= deadline:
                return nodes
            if missing != reported:
                self.tell("waiting", ", ".join(missing), "")
                reported = missing
            sleep(POLL_SECONDS)

    def _collect(
        self,
        nodes: Mapping[str, int],
        broadcast: Broadcast,
        failures: list[Failure],
        deadline: float,
        columns: tuple[str, ...] | None = None,
        kept: Sequence[SummaryFile] = (),
    ) -> list[SummaryFile]:
        """Ask sites, and return the answers that fit together; add the others to `failures`."""
        waiting = self._ask(nodes, broadcast, deadline, columns)
        answers = list(kept)
        for name, reply in self.receive(waiting, deadline, partial(self._read, broadcast)):
            if isinstance(reply, str):
                failures.append(self.fail(name, reply))
            else:
                self.tell("answered", reply.summary.client, f"{reply.summary.nbytes} bytes")
                answers.append(reply)
        good, others = agreeing(answers, self.files.values(), kept=bool(self.kept))
        failures += [self.fail(name, reason) for name, reason in others]
        return good

    def _ask(
        self,
        nodes: Mapping[str, int],
        broadcast: Broadcast,
        deadline: float,
        columns: tuple[str, ...] | None,
    ) -> dict[str, str]:
        """Send the question, and return message number -> site for the answers to come."""
        if broadcast.model is not None:  # from the second round on, all sites use one order
            columns = self.columns
            broadcast = replace(broadcast, model=broadcast.model.with_feature_names(columns))
        name, params = self.method.method, self.method.configuration()
        seconds = max(deadline - monotonic(), POLL_SECONDS)  # less if a site is asked again
        # summaries of rows only: what a site learned from images is not for the others
        rows = self.method.data_kind == "rows"
        shown = self.shown if broadcast.round and rows else None
        question = Question(broadcast, name, params, seconds, columns, shown, self.scaler)
        content = records.pack_question(question)  # once: it may contain a network
        waiting = self.send(nodes, VERB, content, seconds, str(broadcast.round))
        for name in nodes:
            self.tell("asked", name, self._progress(broadcast.round))
        return waiting

    def send(
        self, nodes: Mapping[str, int], verb: str, content: RecordDict, seconds: float, group: str
    ) -> dict[str, str]:
        """Send a question of any kind to sites; return message number -> site for the replies."""
        messages = [
            Message(
                content,
                dst_node_id=node,
                message_type=f"query.{verb}",
                ttl=seconds + 60,
                group_id=group,
            )
            for node in nodes.values()
        ]
        numbers = self.grid.push_messages(messages) if self.grid and messages else []
        return dict(zip(numbers, nodes, strict=True))

    def receive(
        self, waiting: dict[str, str], deadline: float, read: Callable[[str, RecordDict], T | str]
    ) -> Iterator[tuple[str, T | str]]:
        """Yield each site with its reply, or with the reason why it has none that can be used.

        Parameters
        ----------
        waiting : message number -> site, from `send`.
        deadline : when to stop waiting, by the monotonic clock.
        read : returns the reply of a site, or the reason that it gave, or raises an error.
        """
        while waiting and monotonic() < deadline:
            for number in list(waiting):
                reply = self._pull(number, waiting[number], read)
                if reply is not None:
                    yield waiting.pop(number), reply
            if waiting:
                sleep(POLL_SECONDS)
        for name in waiting.values():
            yield name, self.late

    def _progress(self, number: int) -> str:
        """Describe the round; if there are several, with the last one and the time left."""
        last = self.method.total_rounds - 1
        done = number - (self._first or 0)
        if done < 2:  # too early for an estimate
            return f"round {number}" + (f" of 0 to {last}" if last else "")
        left = (monotonic() - self._began) / done * (last + 1 - number)
        words = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min"
        return f"round {number} of 0 to {last}, about {words} left"

    def _pull(
        self, number: str, name: str, read: Callable[[str, RecordDict], T | str]
    ) -> T | str | None:
        """Return a site's reply, or None if it has not arrived.

        Sites are polled one by one to isolate failures.
        """
        assert self.grid is not None
        try:
            found: Iterable[Message] = self.grid.pull_messages([number])
            for message in found:
                if message.has_error():
                    return patches.ERRORS.get(message.error.code, INVALID_ANSWER)
                return read(name, message.content)
        except Exception:  # whatever a site sent must not end the run
            logger.warning("the answer of site %r cannot be used", name, exc_info=True)
            return INVALID_ANSWER
        return None

    def _read(self, broadcast: Broadcast, name: str, content: RecordDict) -> SummaryFile | str:
        answer = records.unpack_answer(content)
        if isinstance(answer, str):
            return answer
        self._check(name, answer, broadcast)
        if is_region(answer.summary):
            return NO_REGION
        return answer

    def _check(self, name: str, answer: SummaryFile, broadcast: Broadcast) -> None:
        """Raise if an answer is not for this question, or not of this site, or cannot be used."""
        asked, params = self.method.method, self.method.configuration()
        if answer.method != asked or question_params(answer.params) != question_params(params):
            raise MessageError(
                f"Site {name!r} answered for {answer.method} with {dict(answer.params)}; the "
                f"question was for {asked} with {params}."
            )
        # the server knows the sender by its key; the name in the answer must be the same
        if answer.summary.client != name and self.names is not None:
            raise MessageError(f"Site {name!r} signed as {answer.summary.client!r}.")
        if not self._is_scaled(answer):
            raise MessageError(f"Site {name!r} did not use the scaler of the question.")
        check_answer(self.method, answer.summary, broadcast)

    def _is_scaled(self, answer: SummaryFile) -> bool:
        """Tell whether an answer has the scaler of the question, if there is one."""
        asked, used = self.scaler, answer.scaler
        return asked is None or (used is not None and used.fingerprint == asked.fingerprint)

    def fail(self, name: str, reason: str) -> Failure:
        """Make a failure, and report it as an event."""
        self.tell("failed", name, reason)
        return Failure(name, reason)
