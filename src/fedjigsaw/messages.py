"""Messages between clients and server, and the transcript of a run.

All messages are frozen and check themselves when made: a message that exists is well formed,
wherever it came from. Arrays inside are private, read-only copies.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from fedjigsaw._arrays import (
    checked_centers,
    checked_per_center,
    checked_tensors,
    join,
    part,
    same,
)
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.parameters import is_integer
from fedjigsaw.validation import MAX_COUNT, MAX_SAMPLES, check_name

Tensors = Mapping[str, np.ndarray]
MAX_RATIO = 1e6  # largest cost and influence of a site that are reported
MAX_TIMEOUT = 86_400  # seconds, a day: a site works no longer on one question
FIELDS = ("radii", "counts", "sse", "tensors")  # of a summary, besides its centers
COUNTS = ("exact", "rounded", "none")  # how a guard lets cluster sizes leave
OWN, SHARED = "own", "shared"  # cells of summaries under differential privacy
IMAGE_SIZE = "image_size"  # tensor of a client's first summary, and of the model
LONE_SITES = "lone_sites"  # tensor of a model: the site of each cluster that one alone claims
# tensors of a model with a number for each site: the largest that makes sense, and its kind
OF_SITES = {
    "site_rows": (MAX_COUNT, "iu"),
    "site_clusters": (MAX_COUNT, "iu"),
    "site_alone": (MAX_COUNT, "iu"),
    "site_notes": (15, "iu"),
    "site_costs": (MAX_RATIO, "f"),
    "site_influence": (MAX_RATIO, "f"),
}
TOO_FEW = "too_few_support"  # tensor of a model: there if more than `liars` sites hold own groups
REGION = "region."  # tensors of a summary that tell of the sites of a region
N_SITES = f"{REGION}sites"  # number of sites whose centers a region merged
# tensors of a summary that a guard reads; the first two never leave
LABELS = "labels"  # cluster of each row, -1 for none
CELLS_ONLY = "cells_only"  # there if the clusters may be left out
LEFT_OUT = "left_out"  # number of rows that were left out far from all others
SUPPORT = "support"  # one number per center that adds up as counts do
SQUARES = "sum_of_squares"  # one sum of squares per column
# tensors of a summary under differential privacy, and what it needs of a model
NOISE = "noise"  # deviation of the noise on counts and on coordinates
CELLS, CELL_NOISE = "cells", "cell_noise"  # noisy table of shared cells
SPREAD = "support_spread"  # spread of each cluster of a model

SERVER_ONLY = "server."  # tensors of a model with such names are not sent to clients

# names of tensors
QUANTIZATION = "quantization"  # of a summary: the variance that hides the steps of each column
K_CURVE, K_CONFIDENCE, K_RUNNER_UP = "k_curve", "k_confidence", "k_runner_up"
K_CLOSEST, K_BACKGROUND, K_ELONGATION = "k_closest", "k_background", "k_elongation"
K_COLUMNS, K_DOUBTS, SUPPORT_SEPARATION = "k_columns", "k_doubts", "support_separation"
K_TENSORS = (  # of a model, about its number of clusters
    *(K_CURVE, K_CONFIDENCE, K_RUNNER_UP, K_CLOSEST, K_BACKGROUND),
    *(K_ELONGATION, K_COLUMNS, K_DOUBTS, SUPPORT_SEPARATION),
)
SHAPE_MEANS, SHAPE_BASIS, SHAPE_PULLS = "shape_means", "shape_basis", "shape_pulls"
SHAPE_VARIANCES, SHAPE_OFFSETS = "shape_variances", "shape_offsets"
SHAPE_CLUSTERS, SHAPE_BACKGROUND = "shape_clusters", "shape_background"
SHAPE_TENSORS = (  # of a model, about the shapes of its clusters
    *(SHAPE_MEANS, SHAPE_BASIS, SHAPE_PULLS, SHAPE_VARIANCES),
    *(SHAPE_OFFSETS, SHAPE_CLUSTERS, SHAPE_BACKGROUND),
)


class _Message:
    """Base of messages: equality bit by bit, size in bytes, checks again when unpickled."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            same(getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]
        return type(self), tuple(dict(v) if isinstance(v, Mapping) else v for v in values)

    def _with(self, **fields: Any) -> Self:
        """Return a copy with other values, which must have passed the checks of a message.

        It saves the time of checking the arrays of many small messages again.
        """
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **fields)
        return made

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers inside (8 for a scalar), without headers of files or networks."""
        total = 0
        for value in vars(self).values():
            if isinstance(value, (np.ndarray, _Message)):
                total += value.nbytes
            elif isinstance(value, (int, float)):
                total += 8
            elif isinstance(value, MappingProxyType):
                total += sum(item.nbytes for item in value.values() if isinstance(item, np.ndarray))
        return total


@dataclass(frozen=True, eq=False)
class Summary(_Message):
    """The one small summary that a client sends in a round.

    Parameters
    ----------
    n_samples : int
        Number of rows that the client has.
    centers : array of shape (k_m, d)
        Local centers. There may be none, shape (0, d), where a method sends tensors alone.
    radii, counts, sse : array of shape (k_m,) or None
        Radius of each local cluster, number of its rows, and their summed squared distance to the
        center. A method sends only what its server needs.
    tensors : mapping of str to array
        Further named arrays, for methods that send more than centers.
    client : str
        Name of the sender; ``Client.answer`` sets it.
    merged : int
        Number of centers that the client's guard merged into others before sending.

    Raises
    ------
    MessageError
        If a number is not finite, or shapes do not fit together.

    Examples
    --------
    >>> from fedjigsaw import Summary
    >>> Summary(n_samples=3, centers=[[0.0, 0.0]], radii=[1.5]).nbytes
    40
    """

    n_samples: int
    centers: Floats
    radii: Floats | None = None
    counts: Ints | None = None
    sse: Floats | None = None
    tensors: Tensors = field(default_factory=dict)
    client: str = ""
    merged: int = 0

    def __post_init__(self) -> None:
        owner = "a client"
        if not isinstance(self.client, str) or self.client:
            owner = f"client {check_name(self.client)!r}"
        _check_n_samples(self.n_samples, owner)
        if not is_integer(self.merged) or self.merged < 0:
            raise MessageError(invalid("merged", owner, "an integer >= 0", self.merged))
        _set(self, "n_samples", int(self.n_samples))
        _set(self, "centers", checked_centers(self.centers, owner))
        for name in ("radii", "counts", "sse"):
            values = getattr(self, name)
            if values is not None:
                dtype = np.int64 if name == "counts" else np.float64
                _set(self, name, checked_per_center(name, values, len(self.centers), owner, dtype))
        _set(self, "tensors", checked_tensors(self.tensors, owner))
        _check_not_empty(self, owner)

    @classmethod
    def many(
        cls,
        n_samples: Sequence[int],
        centers: Sequence[Any],
        *,
        tensors: Mapping[str, Sequence[Any]] | None = None,
        **fields: Sequence[Any],
    ) -> list[Self]:
        """Make the summaries of many clients, equal to those that are made one by one.

        Their arrays are put together, checked in one step, and taken apart again: for many small
        clients, checks one by one take as long as the clustering.

        Parameters
        ----------
        n_samples, centers, **fields : sequence
            Number of rows, centers, and radii, counts or sums of squares of each client.
        tensors : mapping of str to sequence
            For each name, the array of each client; all of one dtype.

        Examples
        --------
        >>> a, b = Summary.many([1, 5], [[[0.0]], [[1.0], [2.0]]], counts=[[1], [2, 3]])
        >>> b.n_samples, b.centers.tolist(), b.counts.tolist()
        (5, [[1.0], [2.0]], [2, 3])
        """
        if not centers:
            return []
        tensors, sizes = tensors or {}, list(map(len, centers))
        for name, parts in fields.items():
            if list(map(len, parts)) != sizes:
                raise MessageError(invalid(name, "a client", "one per center", "others"))
        for number in set(n_samples):
            _check_n_samples(number, "a client")
        joined: dict[str, Any] = {name: join(name, parts) for name, parts in fields.items()}
        named = {name: join(f"tensor {name!r}", parts, "no") for name, parts in tensors.items()}
        whole = cls(max(n_samples), join("centers", centers), tensors=named, **joined)
        own: dict[str, Sequence[Any]] = {
            name: part(getattr(whole, name), sizes) for name in ("centers", *fields)
        }
        own["n_samples"] = list(map(int, n_samples))
        parted = [part(whole.tensors[name], map(len, parts)) for name, parts in tensors.items()]
        own["tensors"] = [
            MappingProxyType(dict(zip(tensors, arrays, strict=True)))
            for arrays in (zip(*parted, strict=True) if parted else [()] * len(sizes))
        ]
        made = [
            whole._with(**dict(zip(own, values, strict=True)))
            for values in zip(*own.values(), strict=True)
        ]
        for summary in made if 0 in sizes else ():
            _check_not_empty(summary, "a client")
        return made

    def leaving(self, client: str, fields: Collection[str], tensors: Collection[str]) -> Self:
        """Return the summary of a named client, with no other fields and tensors than these.

        Examples
        --------
        >>> summary = Summary(n_samples=3, centers=[[0.0]], radii=[1.5], counts=[3])
        >>> sent = summary.leaving("oslo", ("counts",), ())
        >>> sent.client, sent.counts.tolist(), sent.radii
        ('oslo', [3], None)
        """
        kept = {name: array for name, array in self.tensors.items() if name in tensors}
        removed = {name: None for name in ("radii", "counts", "sse") if name not in fields}
        made = self._with(client=check_name(client), tensors=MappingProxyType(kept), **removed)
        _check_not_empty(made, f"client {client!r}")
        return made


@dataclass(frozen=True, eq=False)
class Model(_Message):
    """Result of aggregation: centers, method and parameters.

    Parameters
    ----------
    centers : array of shape (k, d)
        Recovered centers. There may be none, shape (0, d), while a method has only tensors.
    method : str
        Name of the method, as on the command line.
    params : mapping
        Parameters of the method, all of them JSON values.
    feature_names : tuple of str or None
        Names of the d columns, if the clients' data had names.
    tensors : mapping of str to array
        Further named arrays. Those whose names begin with ``server.`` never leave the server.

    Raises
    ------
    MessageError
        If a number is not finite, or there is not one name for each column.

    Examples
    --------
    >>> from fedjigsaw import Model
    >>> model = Model([[30.0, 1.5]], method="jigsaw", feature_names=("age", "dose"))
    >>> model.centers.shape, model.feature_names
    ((1, 2), ('age', 'dose'))
    """

    centers: Floats
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    tensors: Tensors = field(default_factory=dict)

    def __post_init__(self) -> None:
        _set(self, "centers", checked_centers(self.centers, "a model"))
        if not isinstance(self.method, str):
            raise MessageError(invalid("method", "a model", "a text", type(self.method).__name__))
        if self.feature_names is not None:
            names = tuple(self.feature_names)
            if len(names) != self.centers.shape[1]:
                allowed = f"one per column, {self.centers.shape[1]}"
                raise MessageError(invalid("feature_names", "a model", allowed, len(names)))
            _set(self, "feature_names", names)
        _set(self, "params", MappingProxyType(dict(self.params)))
        _set(self, "tensors", checked_tensors(self.tensors, "a model"))
        self._check_sites()
        _check_not_empty(self, "a model")

    def _check_sites(self) -> None:
        """Check the numbers about each site, and the site of each lone cluster."""
        found = {name: self.tensors[name] for name in OF_SITES if name in self.tensors}
        for name, tensor in found.items():
            most, kinds = OF_SITES[name]
            allowed = f"{'whole ' * (kinds == 'iu')}numbers from 0 to {most:g}, one for each site"
            if tensor.ndim != 1 or tensor.dtype.kind not in kinds:
                got: object = f"{tensor.dtype} of shape {tensor.shape}"
            elif not ((tensor >= 0) & (tensor <= most)).all():
                got = tensor[~((tensor >= 0) & (tensor <= most))][0]
            else:
                continue
            raise MessageError(invalid(name, "a model", allowed, got))
        if len({tensor.shape for tensor in found.values()}) > 1:
            raise MessageError(invalid("reports", "a model", "one number per client", list(found)))
        lone = self.tensors.get(LONE_SITES)
        if lone is not None and (
            lone.ndim != 1 or lone.dtype.kind != "i" or len(lone) >= len(self.centers)
        ):
            allowed = "a number for each of some centers"
            raise MessageError(invalid(LONE_SITES, "a model", allowed, f"shape {lone.shape}"))

    @property
    def n_lone(self) -> int:
        """Number of clusters, the last ones, that one client alone claims, besides the others."""
        return len(self.tensors.get(LONE_SITES, ()))

    def with_feature_names(self, names: Iterable[str] | None) -> Self:
        """Return the same model with names for its columns; None leaves it as it is."""
        return self if names is None else replace(self, feature_names=tuple(names))

    def for_clients(self) -> Self:
        """Return the model without what only the server needs, such as its momentum.

        Examples
        --------
        >>> made = Model([[0.0]], tensors={"server.velocity": [1.0], "weights": [2.0]})
        >>> list(made.for_clients().tensors)
        ['weights']
        """
        kept = {n: a for n, a in self.tensors.items() if not n.startswith(SERVER_ONLY)}
        return self if len(kept) == len(self.tensors) else replace(self, tensors=kept)


@dataclass(frozen=True, eq=False)
class Broadcast(_Message):
    """What the server sends to all clients at the start of a round.

    Parameters
    ----------
    round : int
        Number of the round, counted from 0.
    seed : int
        Seed of the run.
    model : Model or None
        The model so far; None in the first round.
    client : str
        Name of the client that received it; ``Client.answer`` sets it. The server leaves it empty.
    cells : {"own", "shared"} or None
        Which cells clients under differential privacy describe, the same for all. None is for
        runs without it, or where each client was told.

    Raises
    ------
    MessageError
        If `round` or `seed` is not an integer >= 0, or `cells` is none of these.

    Examples
    --------
    >>> from fedjigsaw import Broadcast
    >>> Broadcast(round=0, seed=7).received_by("bern").client
    'bern'
    """

    round: int
    seed: int
    model: Model | None = None
    client: str = ""
    cells: str | None = None

    def __post_init__(self) -> None:
        if self.cells not in (None, OWN, SHARED):
            raise MessageError(invalid("cells", "a broadcast", "own, shared or None", self.cells))
        for name in ("round", "seed"):
            value = getattr(self, name)
            if not is_integer(value) or value < 0:
                raise MessageError(invalid(name, "a broadcast", "an integer >= 0", repr(value)))
        if not isinstance(self.model, Model | None):
            raise MessageError(invalid("model", "a broadcast", "a Model or None", self.model))

    def received_by(self, client: str) -> Self:
        """Return the broadcast as a named client receives it."""
        return self._with(client=client)


@dataclass(frozen=True)
class Failure:
    """A client that did not answer, and why. No transcript keeps the `cause`.

    Attributes
    ----------
    client : str
        Name of the client.
    reason : str
        Why it did not answer, for people.
    cause : exception or None
        What was raised, if it was raised here.
    """

    client: str
    reason: str
    cause: BaseException | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Round:
    """Record of one round: bytes sent by each client, and failures.

    Attributes
    ----------
    number : int
        Number of the round, counted from 0.
    bytes_up : mapping of str to int
        Bytes that each client sent, by its name. Clients that failed are not in it.
    bytes_down : int
        Bytes that the server sent to all clients together.
    failures : tuple of Failure
    seconds : float
        Time that the round took.
    """

    number: int
    bytes_up: Mapping[str, int]
    bytes_down: int
    failures: tuple[Failure, ...]
    seconds: float


@dataclass(frozen=True)
class Transcript:
    """Record of a run: what was exchanged between clients and server.

    A fitted estimator has it as `transcript_`.

    Attributes
    ----------
    seed : int
        Seed of the run.
    rounds : tuple of Round

    Examples
    --------
    >>> from fedjigsaw import Transcript
    >>> from fedjigsaw.messages import Round
    >>> transcript = Transcript(seed=7, rounds=(Round(0, {"a": 96, "b": 64}, 16, (), 0.1),))
    >>> transcript.bytes_up, transcript.clients
    (160, ('a', 'b'))
    """

    seed: int
    rounds: tuple[Round, ...]

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients that answered in at least one round."""
        return tuple(sorted({name for r in self.rounds for name in r.bytes_up}))

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Failures of all rounds."""
        return tuple(failure for r in self.rounds for failure in r.failures)

    @property
    def bytes_up(self) -> int:
        """Bytes that all clients sent, in all rounds."""
        return sum(sum(r.bytes_up.values()) for r in self.rounds)

    @property
    def bytes_down(self) -> int:
        """Bytes that the server sent to all clients, in all rounds."""
        return sum(r.bytes_down for r in self.rounds)

    @property
    def seconds(self) -> float:
        """Duration of all rounds."""
        return sum(r.seconds for r in self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "seed": self.seed,
            "rounds": [
                {
                    "number": r.number,
                    "bytes_up": dict(r.bytes_up),
                    "bytes_down": r.bytes_down,
                    "failures": {f.client: f.reason for f in r.failures},
                    "seconds": r.seconds,
                }
                for r in self.rounds
            ],
        }


def check_same_width(summaries: Sequence[Summary]) -> None:
    """Check that all clients have the same number of columns."""
    first = summaries[0]
    for summary in summaries[1:]:
        if summary.centers.shape[1] != first.centers.shape[1]:
            raise MessageError(
                invalid(
                    "number of features",
                    f"client {summary.client!r}",
                    f"that of client {first.client!r}, {first.centers.shape[1]}",
                    summary.centers.shape[1],
                )
            )


def check_received(summaries: Any, owner: str) -> list[Summary]:
    """Return what a server received as a list: summaries, at least one, of equally many columns."""
    several = isinstance(summaries, Iterable) and not isinstance(summaries, Mapping)
    received = list(summaries) if several else [summaries]
    wrong = [type(one).__name__ for one in received if not isinstance(one, Summary)]
    if wrong or not several:
        got = wrong[0] if wrong else "a single one"
        raise MessageError(invalid("summaries", owner, "a list of Summary", got))
    if not received:
        raise MessageError(f"{owner} needs the summary of at least one client; got none.")
    check_same_width(received)
    return received


# ---------------------------------------------------------------------------------------- checks


def _set(message: object, name: str, value: object) -> None:
    object.__setattr__(message, name, value)  # the dataclass is frozen for everyone else


def _check_n_samples(number: Any, owner: str) -> None:
    if not is_integer(number) or not 1 <= number <= MAX_SAMPLES:
        allowed = f"an integer >= 1, <= {MAX_SAMPLES}"
        raise MessageError(invalid("n_samples", owner, allowed, number))


def _check_not_empty(message: "Summary | Model", owner: str) -> None:
    if not len(message.centers) and not message.tensors:
        raise MessageError(f"{owner[:1].upper()}{owner[1:]} has neither centers nor tensors.")
