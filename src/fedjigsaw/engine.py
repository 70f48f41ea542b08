"""Clients that hold data, engines that ask them, and the loop of rounds.

An :class:`Engine` is the seam between methods and the world. It has one method, ``gather``: send
the same broadcast to all clients and collect one reply from each. The engines of this module run
them in this process, that of :mod:`fedjigsaw.parallel` in worker processes; a real federation does
the same over a network (:mod:`fedjigsaw.flower`). All engines give the same bits.
"""

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from fedjigsaw._regions import is_region, own_model, unpacked
from fedjigsaw._rows import is_plain, n_converted, read_only, ready, unweighted
from fedjigsaw.contract import FederatedMethod
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
    check_same_width,
)
from fedjigsaw.parameters import integer, is_integer
from fedjigsaw.privacy.far_rows import pulled_in_at
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.privacy.guard import Guard, check_counts
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

    def answer(self, broadcast: Broadcast) -> Summary:
        """Summarize the data. Return what may leave, with the client's name."""
        if isinstance(self.data, Unread):
            return replace(self, data=self.data.read()).answer(broadcast)
        return self._ready()._answer(broadcast)

    def _answer(self, broadcast: Broadcast) -> Summary:
        with one_thread():
            rng = stream(broadcast.seed, broadcast.round, self.id)
            received = broadcast.received_by(self.id)
            if self.privacy is not None:
                noisy = self.method.summarize_privately(self.data, received, rng, self.privacy)
                return replace(_made(noisy, self.method, "summarize_privately"), client=self.id)
            summary = self.method.summarize(self.data, received, rng)
        return self.leaving(summary)

    def _ready(self) -> "Client":
        """Return the same client with rows as its method computes with them."""
        data, size = self.data, self.guard.min_cluster_size
        if self._n_converted:
            weighted, owner = self._takes_weights, type(self.method).__name__
            data = ready(data, weighted=weighted, owner=owner)
        if not type(self.method).__module__.startswith("fedjigsaw."):
            data = read_only(data)  # methods of the package do not change rows
        if size > 1 and self.privacy is None and self._has_rows and isinstance(data, np.ndarray):
            data = pulled_in_at(self.id, data, size)
        return self if data is self.data else replace(self, data=data)

    @property
    def _n_converted(self) -> int:
        if is_plain(self.data) or not self._has_rows:
            return 0
        return n_converted(self.data, weighted=self._takes_weights)

    @property
    def _has_rows(self) -> bool:
        return getattr(self.method, "data_kind", "rows") == "rows"

    @property
    def _takes_weights(self) -> bool:
        return getattr(self.method, "takes_weights", False)

    def leaving(self, summary: Summary) -> Summary:
        """Return what may leave of a summary, with the client's name."""
        needed, (rows, _) = self.method.sends, unweighted(self.data)
        summary = _made(summary, self.method, "summarize")
        if getattr(rows, "ndim", 0) == 2 and self._has_rows and len(summary.centers):
            check_columns(summary, rows.shape[1], f"{type(self.method).__name__}.summarize")
        if self.guard.min_cluster_size > 1 and self._has_rows:  # heads of a network each count
            check_counts(summary, self.id)
        return self.guard.apply(summary, client=self.id, needed=needed, rows=rows)


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

    def gather(self, broadcast: Broadcast) -> list[Reply]:
        """Send the broadcast to every client. Return one reply from each, in any order.

        An engine whose clients are not to be trusted calls the method's `check_answer` on each
        summary, and returns a failure instead of a summary that does not pass.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class SerialEngine:
    """Run all clients in this process, one after the other.

    Parameters
    ----------
    clients : sequence of Client

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw import Broadcast, Client, FeCA, SerialEngine
    >>> clients = [Client(name, np.array([[30.0], [32.0]]), FeCA(1)) for name in ("Bern", "Oslo")]
    >>> replies = SerialEngine(clients).gather(Broadcast(round=0, seed=0))
    >>> [(reply.client, reply.centers.tolist()) for reply in replies]
    [('Bern', [[31.0]]), ('Oslo', [[31.0]])]
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = clients

    def gather(self, broadcast: Broadcast) -> list[Reply]:
        """Ask each client in turn."""
        return [ask(client, broadcast) for client in self.clients]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class BatchEngine(SerialEngine):
    """Run all clients in this process, many in one call where their method can.

    This is how :meth:`~fedjigsaw.FederatedClusterer.fit` runs clients: for many small ones it is
    ten to a hundred times as fast as one after the other, with the same bits.

    Parameters
    ----------
    clients : sequence of Client

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw import BatchEngine, Jigsaw
    >>> rows, site = np.array([[30.0], [32.0], [60.0], [62.0]]), ["Bern", "Oslo", "Bern", "Oslo"]
    >>> model = Jigsaw(2, random_state=0).fit(rows, clients=site, engine=BatchEngine)
    >>> model.cluster_centers_.tolist()
    [[31.0], [61.0]]
    """

    def gather(self, broadcast: Broadcast) -> list[Reply]:
        """Ask all clients, many in one call."""
        replies: list[Reply] = []
        for i in range(0, len(self.clients), BATCH):
            with _no_garbage():
                replies += answers(self.clients[i : i + BATCH], broadcast)
        return replies


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Do not look for garbage among the messages of many clients: it takes long, and finds none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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
    after: Callable[[Model, Round], object] = lambda model, done: None,
) -> Outcome:
    """Run a federated method: broadcast, gather, aggregate, `n_rounds` times.

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
        replies = sorted(engine.gather(sent), key=lambda reply: reply.client)
        summaries = _quorum(replies, min_clients, called)
        model = aggregate_round(method, summaries, broadcast)
        rounds.append(
            Round(
                number=number,
                bytes_up={summary.client: summary.nbytes for summary in summaries},
                bytes_down=sent.nbytes * len(replies),
                failures=tuple(
                    replace(reply, cause=None) for reply in replies if isinstance(reply, Failure)
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
    """Run the server's half of a round. Summaries are aggregated in the order of client names.

    Regions are taken apart into their sites. The model of a region that is alone, and that merged
    the summaries of its sites, is the one that it made of them.
    """
    from fedjigsaw.robust import support  # it needs what clusters

    ordered = unpacked(summaries)
    if any(map(is_region, ordered)):
        made = own_model(ordered, method.method, method.configuration())
        if made is not None:
            return made
    with one_thread(), _noting_what_was_sent(method):
        rng = stream(broadcast.seed, broadcast.round)
        found = support.aggregate(method, ordered, broadcast, rng)
    model = _made(found, method, "aggregate")
    sent = next((summary.centers for summary in ordered if len(summary.centers)), None)
    if sent is not None and len(model.centers) and getattr(method, "data_kind", "rows") == "rows":
        check_columns(model, sent.shape[1], f"{type(method).__name__}.aggregate")
    return model


@contextmanager
def _noting_what_was_sent(method: FederatedMethod) -> Iterator[None]:
    """Say in an error of a method, as of counts that are None, which fields its server gets."""
    try:
        yield
    except FedJigsawError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        sent = ", ".join(("n_samples", "centers", *method.sends))
        name = type(method).__name__
        note = (
            f"{name}.aggregate gets these fields of a summary: {sent}. Others are None or empty, "
            f"unless `sends` of {name} names them."
        )
        if "NoneType" in str(error):
            raise ParameterError(f"{note} It failed: {error}.") from error
        error.add_note(note)
        raise


def check_answer(method: FederatedMethod, summary: Summary, broadcast: Broadcast) -> None:
    """Check a summary of a client that is not trusted; of a region, those of its sites."""
    for answer in unpacked([summary]):
        method.check_answer(answer, broadcast)


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
    centers = [summary.centers for summary in unpacked(summaries)]
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


def ask(client: Client, broadcast: Broadcast) -> Reply:
    """Ask one client in this thread. Return its summary, or a failure if it raised an error."""
    try:
        return client.answer(broadcast)
    except Exception as error:
        logger.info("client %r failed", client.id, exc_info=True)
        return Failure(client.id, f"{type(error).__name__}: {error}", cause=error)


def answers(clients: Sequence[Client], broadcast: Broadcast) -> list[Reply]:
    """Ask several clients in this thread, in one call if their method has `summarize_many`.

    If that call fails, they are asked one by one, to find out which of them failed, and why.
    """
    return [reply for part in _parts(clients) for reply in _answers(part, broadcast)]


def _parts(clients: Sequence[Client]) -> Iterator[Sequence[Client]]:
    """Divide clients so that those of a part do not have too many rows to be converted."""
    start, total = 0, 0
    for i, client in enumerate(clients):
        own = client._n_converted
        total += own
        if total > CONVERTED and i > start:
            yield clients[start:i]
            start, total = i, own
    yield clients[start:]


def _answers(clients: Sequence[Client], broadcast: Broadcast) -> list[Reply]:
    method = clients[0].method
    together = all(
        c.method is method and c.privacy is None and not isinstance(c.data, Unread) for c in clients
    )
    if not together or not summarizes_many(method):
        return [ask(client, broadcast) for client in clients]
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
        replies = [ask(client, broadcast) for client in clients]
        if not any(isinstance(reply, Failure) for reply in replies):
            raise  # nobody's data are at fault, but the code for many clients
        return replies


def summarizes_many(method: FederatedMethod) -> bool:
    """Say whether `summarize_many` is there, and no subclass has changed `summarize` since."""
    owners = [vars(method), *map(vars, type(method).__mro__)]
    first = {
        name: next((i for i, names in enumerate(owners) if name in names), len(owners))
        for name in ("summarize", "summarize_many")
    }
    return first["summarize_many"] <= first["summarize"] < len(owners)
