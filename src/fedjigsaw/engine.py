"""What a method is to everything that runs one; clients that hold data; and the loop of rounds.

An :class:`Engine` is the seam between methods and the world. It has one method, ``ask``: send the
same question to all clients and collect one reply from each. :class:`SerialEngine` runs them in
this process, that of :mod:`fedjigsaw.parallel` in worker processes; a real federation does the same
over a network (:mod:`fedjigsaw.flower`). All engines give the same bits.
"""

import gc
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from fedjigsaw._rows import is_plain, n_converted, read_only, ready, unweighted
from fedjigsaw.errors import (
    ExtraError,
    FedJigsawError,
    FewerClustersWarning,
    MessageError,
    ParameterError,
    QuorumError,
    invalid,
    quote_names,
    warn,
)
from fedjigsaw.kernels.kmeans import count_distinct
from fedjigsaw.messages import (
    Broadcast,
    Failure,
    Model,
    Round,
    Summary,
    Transcript,
    check_received,
    check_same_width,
)
from fedjigsaw.parameters import integer, is_integer
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.random import stream, streams
from fedjigsaw.sources import Unread
from fedjigsaw.threads import one_thread

logger = logging.getLogger(__name__)

T = TypeVar("T")
Reply = Summary | Failure
# errors that say that the run itself is wrong, not that a client failed
CONFIGURATION_ERRORS = (ParameterError, ExtraError)
NO_GUARD = Guard(min_cluster_size=1)

BATCH = 4096  # clients that are summarized in one call
CONVERTED = 2**23  # numbers of clients that are converted to double precision at a time


# ------------------------------------------------------------------------------------------ methods


def default_name(cls: type) -> str:
    """Return the name of a method that has none: that of its class, in lower case with hyphens.

    Examples
    --------
    >>> class KMeansOfCenters: ...
    >>> default_name(KMeansOfCenters)
    'k-means-of-centers'
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__)
    return words.replace("_", "-").strip("-").lower()


def own_name(cls: type) -> str | None:
    """Return the name that a class itself sets in `method`; None if it has its default name."""
    name = vars(cls).get("method")
    return None if isinstance(name, DefaultName) else name


class DefaultName:
    """Attribute `method` of a class that does not set it: :func:`default_name`."""

    def __get__(self, instance: object, owner: type) -> str:
        return default_name(owner)


class FederatedMethod(ABC):
    """A federated method: what a client computes, and what the server makes of it.

    Engines, the file workflow, federations and the comparison use these members and no others.
    :class:`~fedjigsaw.FederatedClusterer` adds scikit-learn's API for methods that cluster rows,
    :class:`fedjigsaw.deep.DeepFeCA` for images.

    A method may have another member, for many clients on one machine::

        def summarize_many(self, data, broadcasts, rngs): ...

    It gets what `summarize` gets, as a list of each, and returns a list of summaries with the same
    bits as those of `summarize`. All broadcasts have the same model. On a GPU, data that are given
    several times may be summarized together: the summaries are then the same up to rounding.

    Attributes
    ----------
    method : str
        Its name on the command line; by default that of the class: ``MyWard`` is "my-ward".
    data_kind : {"rows", "images"}
        What it learns from.
    pools_data : bool
        Whether raw data leave the clients: a benchmark, not a federation.
    sends : tuple of str
        Fields of a summary, besides its centers, that `aggregate` needs. No others are sent.
    client_parameters : tuple of str
        Parameters that each client may choose for itself: they change how hard it searches, not
        what its summary means.
    server_parameters : tuple of str
        Parameters that act at the server, where the coordinator sets them. On all that are neither
        a client's nor the server's, clients must agree.
    takes_weights, takes_sparse : bool
        Whether `summarize` takes rows with weights, instead of copies of them, and CSR matrices.
    random_state : int, generator or None
        Seed of a run.
    """

    method: ClassVar[str] = DefaultName()  # type: ignore[assignment]
    data_kind: ClassVar[str] = "rows"
    pools_data: ClassVar[bool] = False
    client_parameters: ClassVar[tuple[str, ...]] = ()
    server_parameters: ClassVar[tuple[str, ...]] = ()
    takes_weights: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    random_state: Any = None

    @property
    def sends(self) -> tuple[str, ...]:
        """Fields of a summary, besides its centers, that the server needs. No others are sent."""
        return ()

    @property
    def total_rounds(self) -> int:
        """Number of rounds: how often the server asks every client."""
        return 1

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Make a method from named parameters, such as those of `configuration`, and check it."""
        made = cls(**settings)
        made.check()
        return made

    def configuration(self) -> dict[str, Any]:
        """Return all parameters as JSON values."""
        return {}

    def check(self) -> None:
        """Check the parameters. Raise a ParameterError if one has a value that is not allowed."""
        return

    def check_federated(self) -> None:
        """Check the parameters for a federation; a method that pools data cannot take part."""
        self.check()
        if self.pools_data:
            raise ParameterError(
                f"Method {self.method!r} pools all data, so it cannot run in a federation. "
                "Use another method; `fedjigsaw methods` lists them."
            )

    def check_privacy(self, privacy: Privacy) -> None:
        """Raise a ParameterError if the method cannot keep this promise, before it is paid for."""
        raise ParameterError(
            f"Method {self.method!r} has no differential privacy. Use jigsaw, or leave out privacy."
        )

    @abstractmethod
    def summarize(self, X: Any, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Compute the summary of a client's data; only this summary leaves the client.

        Return `counts` (and `sse`) along with the centers, so that a guard can merge small
        clusters. What the server does not need (`sends`) is removed before the summary leaves.
        """

    def summarize_privately(
        self, X: Any, broadcast: Broadcast, rng: np.random.Generator, privacy: Privacy
    ) -> Summary:
        """Compute a summary that is differentially private as a whole, or raise a ParameterError.

        The random numbers of `rng` are for choices that do not depend on the data; noise comes
        from :mod:`fedjigsaw.privacy`.
        """
        self.check_privacy(privacy)
        raise NotImplementedError

    @abstractmethod
    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Run at the server, which knows nothing but the summaries."""

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted, before it is aggregated.

        Raise a MessageError if it is not an answer to the broadcast. A summary that contradicts
        itself is never made (see :class:`~fedjigsaw.Summary`); a method may ask for more. Whoever
        receives summaries from outside calls this once for each.
        """
        return

    def check_model(self, model: Model, n_rounds: int) -> None:
        """Raise a MessageError unless a model can be that of the server after so many rounds."""
        return


# ------------------------------------------------------------------------------------------ clients


@dataclass(frozen=True)
class Client:
    """A client: the only place that sees its own data.

    Parameters
    ----------
    id : str
        Name of the client. Its random stream depends on it.
    data : array, CSR matrix, Weighted or Unread
        The client's rows, or images; those that are not read yet are read to answer, and freed.
        Rows of float32 are converted to answer, and rows with weights are copied for a method
        that does not compute with weights.
    method : FederatedMethod
        The method that summarizes the data.
    guard : Guard
        What may leave the client. The default lets every summary pass.
    privacy : Privacy or None
        Differential privacy for the client's rows. It takes the place of the guard: everything
        that leaves is noisy.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw import Broadcast, Client, Jigsaw
    >>> bern = Client("Bern", np.array([[30.0], [32.0], [60.0], [62.0]]), Jigsaw(2))
    >>> summary = bern.answer(Broadcast(round=0, seed=0))
    >>> summary.client, summary.centers.tolist(), summary.counts.tolist()
    ('Bern', [[31.0], [61.0]], [2, 2])
    """

    id: str
    data: Any
    method: FederatedMethod
    guard: Guard = NO_GUARD
    privacy: Privacy | None = None

    @property
    def release(self) -> Guard | Privacy:
        """What decides which numbers leave the client."""
        return self.guard if self.privacy is None else self.privacy

    def answer(self, broadcast: Broadcast) -> Summary:
        """Summarize the data. Return what may leave, with the client's name."""
        if isinstance(self.data, Unread):
            return replace(self, data=self.data.read()).answer(broadcast)
        here = self._ready()
        with one_thread():
            rng = stream(broadcast.seed, broadcast.round, self.id)
            received = broadcast.received_by(self.id)
            summary = self.release.summarize(self.method, here.data, received, rng)
        return here.leaving(summary)

    def _ready(self) -> "Client":
        """Return the same client with rows as its method computes with them."""
        data = self.data
        if self._n_converted:
            weighted, owner = self.method.takes_weights, type(self.method).__name__
            data = ready(data, weighted=weighted, owner=owner)
        if not type(self.method).__module__.startswith("fedjigsaw."):
            data = read_only(data)  # methods of the package do not change rows
        if self._has_rows:
            data = self.release.ready(data, self.id)
        return self if data is self.data else replace(self, data=data)

    @property
    def _n_converted(self) -> int:
        if is_plain(self.data) or not self._has_rows:
            return 0
        return n_converted(self.data, weighted=self.method.takes_weights)

    @property
    def _has_rows(self) -> bool:
        return self.method.data_kind == "rows"

    def leaving(self, summary: Summary) -> Summary:
        """Return what may leave of what the method made, with the client's name."""
        half, (rows, _) = self.release.half, unweighted(self.data)
        summary = _made(summary, self.method, half)
        if getattr(rows, "ndim", 0) == 2 and self._has_rows and len(summary.centers):
            check_columns(summary, rows.shape[1], f"{type(self.method).__name__}.{half}")
        return self.release.leaving(summary, self.method, self.data, self.id)


class MadeError(ParameterError):
    """A half of a method returned something else than it must."""


def _made(found: T, method: FederatedMethod, half: str) -> T:
    """Return what a half of a method made; raise if it is not what that half must return."""
    kind: type = Model if half == "aggregate" else Summary
    if isinstance(found, kind):
        return found
    example = "Summary(n_samples=len(X), centers=centers, counts=counts)"
    if kind is Model:
        example = "self.make_model(centers)"
    got = "None" if found is None else f"an object of type {type(found).__name__}"
    raise MadeError(
        f"{type(method).__name__}.{half} must return a {kind.__name__}, such as {example}; "
        f"got {got}."
    )


def check_columns(made: Summary | Model, n_columns: int, half: str) -> None:
    """Raise a MadeError if centers of a method have other columns than the rows."""
    if not len(made.centers) or made.centers.shape[1] != n_columns:
        raise MadeError(
            f"{half} must return centers with a number for each of the {n_columns} columns of the "
            f"rows; got shape {made.centers.shape}."
        )


class Engine(Protocol):
    """Anything that can ask all clients and collect their replies.

    Any class with these methods is an engine, and need not inherit from this one. ``fit`` calls it
    with a list of clients, as in ``fit(X, clients=site, engine=SerialEngine)``.
    """

    def ask(self, broadcast: Broadcast) -> list[Reply]:
        """Send the broadcast to every client. Return one reply from each, in any order.

        An engine whose clients are not to be trusted calls the method's `check_answer` on each
        summary, and returns a failure instead of a summary that does not pass.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class SerialEngine:
    """Run all clients in this process, many in one call where their method can.

    This is how :meth:`~fedjigsaw.FederatedClusterer.fit` runs clients. One call for many small ones
    is ten to a hundred times as fast as one after the other, with the same bits.

    Parameters
    ----------
    clients : sequence of Client

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw import Broadcast, Client, FeCA, SerialEngine
    >>> clients = [Client(name, np.array([[30.0], [32.0]]), FeCA(1)) for name in ("Bern", "Oslo")]
    >>> replies = SerialEngine(clients).ask(Broadcast(round=0, seed=0))
    >>> [(reply.client, reply.centers.tolist()) for reply in replies]
    [('Bern', [[31.0]]), ('Oslo', [[31.0]])]
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = clients

    def ask(self, broadcast: Broadcast) -> list[Reply]:
        """Ask all clients."""
        found: list[Reply] = []
        for start in range(0, len(self.clients), BATCH):
            enabled = gc.isenabled()
            gc.disable()  # among messages of many clients it takes long, and finds nothing
            try:
                found += replies(self.clients[start : start + BATCH], broadcast)
            finally:
                if enabled:
                    gc.enable()
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def reply_of(client: Client, broadcast: Broadcast) -> Reply:
    """Ask one client in this thread. Return its summary, or a failure if it raised an error."""
    try:
        return client.answer(broadcast)
    except Exception as error:
        logger.info("client %r failed", client.id, exc_info=True)
        return Failure(client.id, f"{type(error).__name__}: {error}", cause=error)


def replies(clients: Sequence[Client], broadcast: Broadcast) -> list[Reply]:
    """Ask several clients in this thread, in one call if their method has `summarize_many`.

    If that call fails, they are asked one by one, to find out which of them failed, and why.
    """
    found: list[Reply] = []
    start, total = 0, 0
    for i, client in enumerate([*clients, None]):  # parts without too many rows to be converted
        own = 0 if client is None else client._n_converted
        total += own
        if client is None or (total > CONVERTED and i > start):
            found += _replies(clients[start:i], broadcast)
            start, total = i, own
    return found


def _replies(clients: Sequence[Client], broadcast: Broadcast) -> list[Reply]:
    method = clients[0].method if clients else None
    together = all(
        c.method is method and c.privacy is None and not isinstance(c.data, Unread) for c in clients
    )
    widths = {np.shape(unweighted(c.data)[0])[1:] for c in clients}
    if method is None or not together or len(widths) > 1 or not summarizes_many(method):
        return [reply_of(client, broadcast) for client in clients]
    try:
        asked = [client._ready() for client in clients]
        with one_thread():
            summaries = method.summarize_many(  # type: ignore[attr-defined]
                [client.data for client in asked],
                [broadcast.received_by(client.id) for client in clients],
                streams(broadcast.seed, broadcast.round, [client.id for client in clients]),
            )
        return [client.leaving(s) for client, s in zip(asked, summaries, strict=True)]
    except Exception:
        alone = [reply_of(client, broadcast) for client in clients]
        if not any(isinstance(reply, Failure) for reply in alone):
            raise  # nobody's data are at fault, but the code for many clients
        return alone


def summarizes_many(method: FederatedMethod) -> bool:
    """Say whether `summarize_many` is there, and no subclass has changed `summarize` since."""
    for names in (vars(method), *map(vars, type(method).__mro__)):
        if "summarize_many" in names or "summarize" in names:
            return "summarize_many" in names
    return False


# ------------------------------------------------------------------------------------------ rounds


class Outcome(NamedTuple):
    """Result of a run.

    Attributes
    ----------
    model : Model
    transcript : Transcript
        What was exchanged in each round.
    summaries : tuple of Summary
        Those of the last round, in the order of the clients' names.
    """

    model: Model
    transcript: Transcript
    summaries: tuple[Summary, ...]


def run_rounds(
    method: FederatedMethod,
    engine: Engine,
    *,
    seed: int,
    n_rounds: int = 1,
    min_clients: int | None = None,
    first: int = 0,
    model: Model | None = None,
    cells: str | None = None,
    called: str = "client",
    aggregate: Callable[..., Model] | None = None,
    after: Callable[[Model, Round], object] = lambda model, done: None,
) -> Outcome:
    """Run a federated method: ask all clients and aggregate their replies, `n_rounds` times.

    Replies are sorted by client name before they are aggregated, so their order of arrival does not
    matter. A client that fails is recorded, and the round goes on if enough others answered. A
    wrong configuration (ParameterError, ExtraError) ends the run with that error.

    Parameters
    ----------
    method : FederatedMethod
    engine : Engine
    seed : int
        Seed of the run.
    n_rounds : int, default 1
    min_clients : int or None
        Number of clients that must answer in every round. None is all of them.
    first, model : int, Model or None
        Number of the first round and the model so far, to continue a run that stopped.
    cells : {"own", "shared"} or None
        Which cells clients under differential privacy describe.
    called : str, default "client"
        What errors call a client: operators of a federation know sites.
    aggregate : callable or None
        The server's half of a round; None is :func:`aggregate_round`.
    after : callable
        Called after each round with the model so far and the record of the round.

    Returns
    -------
    Outcome
        The model, the transcript of all rounds, and the summaries of the last round.

    Raises
    ------
    QuorumError
        If fewer than `min_clients` clients answered in a round.
    MessageError
        If summaries do not fit together.
    ParameterError
        If a parameter of the run or of the method is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw import Client, FeCA, SerialEngine, run_rounds
    >>> rows = {"Bern": np.array([[0.0], [1.0], [9.0]]), "Oslo": np.array([[8.0], [9.0], [10.0]])}
    >>> method = FeCA(2)
    >>> clients = [Client(name, X, method) for name, X in rows.items()]
    >>> model, transcript, summaries = run_rounds(method, SerialEngine(clients), seed=0)
    >>> [summary.client for summary in summaries], len(model.centers)
    (['Bern', 'Oslo'], 2)
    """
    integer(1, or_none=True).check("min_clients", "a run", min_clients)
    integer(1).check("n_rounds", "a run", n_rounds)
    summaries: list[Summary] = []
    rounds: list[Round] = []
    for number in range(first, first + n_rounds):
        started = perf_counter()
        broadcast = Broadcast(number, seed, model, cells=cells)
        sent = broadcast if model is None else replace(broadcast, model=model.for_clients())
        found = sorted(engine.ask(sent), key=lambda reply: reply.client)
        summaries = _quorum(found, min_clients, called)
        model = (aggregate or aggregate_round)(method, summaries, broadcast)
        rounds.append(
            Round(
                number=number,
                bytes_up={summary.client: summary.nbytes for summary in summaries},
                bytes_down=sent.nbytes * len(found),
                failures=tuple(
                    replace(reply, cause=None) for reply in found if isinstance(reply, Failure)
                ),
                seconds=perf_counter() - started,
            )
        )
        after(model, rounds[-1])
    assert model is not None  # there was at least one round
    return Outcome(model, Transcript(seed, tuple(rounds)), tuple(summaries))


def aggregate_round(
    method: FederatedMethod, summaries: Sequence[Summary], broadcast: Broadcast
) -> Model:
    """Run the server's half of a round. Summaries are aggregated in the order of client names."""
    from fedjigsaw.robust import support  # it needs what clusters

    name = f"{type(method).__name__}.aggregate"
    ordered = sorted(check_received(summaries, name), key=lambda summary: summary.client)
    with one_thread():
        rng = stream(broadcast.seed, broadcast.round)
        try:
            found = support.aggregate(method, ordered, broadcast, rng)
        except FedJigsawError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            sent = ", ".join(("n_samples", "centers", *method.sends))
            note = (
                f"{name} gets these fields of a summary: {sent}. Others are None or empty, "
                f"unless `sends` of {type(method).__name__} names them."
            )
            if "NoneType" in str(error):
                raise ParameterError(f"{note} It failed: {error}.") from error
            error.add_note(note)
            raise
    model: Model = _made(found, method, "aggregate")
    sent_centers = next((summary.centers for summary in ordered if len(summary.centers)), None)
    if sent_centers is not None and len(model.centers) and method.data_kind == "rows":
        check_columns(model, sent_centers.shape[1], name)
    return model


def warn_of_fewer_clusters(
    asked: object,
    found: int,
    summaries: Sequence[Summary] = (),
    *,
    owner: str | None = None,
    why: str = "",
) -> None:
    """Warn if a model has fewer clusters than were asked for; "auto" asks for no number.

    The reason is said where it is known: a method may find fewer for one of its own.
    """
    wanted: int = int(asked) if is_integer(asked) else 0  # type: ignore[call-overload]
    if found >= wanted:
        return
    message = f"Only {found} of {asked} clusters were found"
    if owner is not None:
        message = f"{owner} found {found} of {asked} clusters"
    centers = [summary.centers for summary in summaries]
    if not why and centers and count_distinct(np.vstack(centers), at_most=wanted) < wanted:
        why = "the summaries have too few distinct centers"
    warn(f"{message}: {why}." if why else f"{message}.", FewerClustersWarning)


def _quorum(replies: Sequence[Reply], min_clients: int | None, called: str) -> list[Summary]:
    """Return the summaries, if there are enough of them and they fit together."""
    needed = len(replies) if min_clients is None else min_clients
    if needed > len(replies) or not replies:
        allowed = f"at most the number of clients asked, {len(replies)}"
        raise ParameterError(invalid("min_clients", "a run", allowed, needed))
    names = [reply.client for reply in replies]
    for name, following in pairwise(names):
        if name == following:
            raise MessageError(invalid("replies", f"client {name!r}", "one per round", "two"))
    summaries = [reply for reply in replies if isinstance(reply, Summary)]
    failures = [reply for reply in replies if isinstance(reply, Failure)]
    for failure in failures:
        if isinstance(failure.cause, CONFIGURATION_ERRORS):
            raise failure.cause
    if len(summaries) < needed or not summaries:
        asked = len(replies)
        text = (
            f"Only {len(summaries)} of {asked} {called}s answered, but at least {needed} must"
            if summaries
            else f"No {called} answered ({len(failures)} of {asked} failed)"
        )
        raise QuorumError(f"{text}: {_reasons(failures, called)}.") from failures[0].cause
    check_same_width(summaries)
    return summaries


def _reasons(failures: Sequence[Failure], called: str) -> str:
    """List the distinct reasons, each with up to five of the clients that gave it."""
    clients: dict[str, list[str]] = {}
    for failure in failures:
        clients.setdefault(failure.reason.rstrip("."), []).append(failure.client)
    parts = []
    for reason, (first, *others) in clients.items():
        also = f" (also {quote_names(others, 4)})" if others else ""
        parts.append(f"{called} {first!r} failed: {reason}{also}")
    return "; ".join(parts)
