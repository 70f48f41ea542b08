"""Messages between clients and server, and the transcript of a run.

All messages are frozen and check themselves when made: a message that exists is well formed,
wherever it came from. Arrays inside are private, read-only copies.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.parameters import Rule, integer
from fedjigsaw.validation import MAX_COUNT, MAX_MAGNITUDE, MAX_SAMPLES, check_name

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
REGION_HEAD = f"{REGION}head"  # its sites, as a JSON text
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
PER_CENTER = FIELDS[:3]
N_SAMPLES, NATURAL = integer(1, MAX_SAMPLES), integer(0)
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
            _same(value, vars(other)[name]) for name, value in vars(self).items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        values = (vars(self)[f.name] for f in fields(self))  # type: ignore[arg-type]
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
                total += sum(part.nbytes for part in value.values() if isinstance(part, np.ndarray))
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
        unnamed = isinstance(self.client, str) and not self.client
        owner = "a client" if unnamed else f"client {check_name(self.client)!r}"
        _check("n_samples", owner, self.n_samples, N_SAMPLES)
        _check("merged", owner, self.merged, NATURAL)
        centers, tensors = _centers(self.centers, owner), _tensors(self.tensors, owner)
        vars(self).update(n_samples=int(self.n_samples), centers=centers, tensors=tensors)
        for name in PER_CENTER:
            if vars(self)[name] is not None:
                vars(self)[name] = _per_center(name, vars(self)[name], len(centers), owner)
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
            _check("n_samples", "a client", number, N_SAMPLES)
        many = "many clients"
        joined: Any = {n: _array(n, parts, many, "same_kind") for n, parts in fields.items()}
        whole = cls(
            max(n_samples),
            _array("centers", centers, many, "same_kind"),
            tensors={n: _array(f"tensor {n!r}", parts, many, "no") for n, parts in tensors.items()},
            **joined,
        )
        own = {name: _parted(getattr(whole, name), sizes) for name in ("centers", *fields)}
        named = {n: _parted(whole.tensors[n], map(len, parts)) for n, parts in tensors.items()}
        made = [
            whole._with(
                n_samples=int(number),
                tensors=MappingProxyType({name: parts[i] for name, parts in named.items()}),
                **{name: parts[i] for name, parts in own.items()},
            )
            for i, (number, _) in enumerate(zip(n_samples, centers, strict=True))
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
        removed = {name: None for name in PER_CENTER if name not in fields}
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
        if not isinstance(self.method, str):
            raise MessageError(invalid("method", "a model", "a text", type(self.method).__name__))
        vars(self).update(
            centers=_centers(self.centers, "a model"),
            params=MappingProxyType(dict(self.params)),
            tensors=_tensors(self.tensors, "a model"),
        )
        if self.feature_names is not None:
            vars(self).update(feature_names=tuple(self.feature_names))
            if len(self.feature_names) != self.centers.shape[1]:
                allowed = f"one per column, {self.centers.shape[1]}"
                got = len(self.feature_names)
                raise MessageError(invalid("feature_names", "a model", allowed, got))
        self._check_sites()
        _check_not_empty(self, "a model")

    def _check_sites(self) -> None:
        """Check the numbers about each site, and the site of each lone cluster."""
        found = {name: self.tensors[name] for name in OF_SITES if name in self.tensors}
        for name, tensor in found.items():
            most, kinds = OF_SITES[name]
            bad = tensor[~((tensor >= 0) & (tensor <= most))].ravel()
            if tensor.ndim == 1 and tensor.dtype.kind in kinds and not len(bad):
                continue
            allowed = f"{'whole ' * (kinds == 'iu')}numbers from 0 to {most:g}, one for each site"
            got = bad[0] if len(bad) else f"{tensor.dtype} of shape {tensor.shape}"
            raise MessageError(invalid(name, "a model", allowed, got))
        if len({tensor.shape for tensor in found.values()}) > 1:
            raise MessageError(invalid("reports", "a model", "one number per client", list(found)))
        lone = self.tensors.get(LONE_SITES, np.zeros(0, np.int64))
        if lone.ndim != 1 or lone.dtype.kind != "i" or len(lone) > max(0, len(self.centers) - 1):
            allowed, got = "a number for each of some centers", f"shape {lone.shape}"
            raise MessageError(invalid(LONE_SITES, "a model", allowed, got))

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
            _check(name, "a broadcast", vars(self)[name], NATURAL)
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
        rounds = []
        for r in self.rounds:
            failures = {f.client: f.reason for f in r.failures}
            rounds.append({**vars(r), "bytes_up": dict(r.bytes_up), "failures": failures})
        return {"seed": self.seed, "rounds": rounds}


def check_same_width(summaries: Sequence[Summary]) -> None:
    """Check that all clients have the same number of columns."""
    first, width = summaries[0].client, summaries[0].centers.shape[1]
    for one in summaries[1:]:
        if (got := one.centers.shape[1]) != width:
            who, allowed = f"client {one.client!r}", f"that of client {first!r}, {width}"
            raise MessageError(invalid("number of features", who, allowed, got))


def check_received(summaries: Any, owner: str) -> list[Summary]:
    """Return what a server received as a list: summaries, at least one, of equally many columns."""
    received: list[Any] = list(summaries) if isinstance(summaries, Iterable) else [None]
    if wrong := [type(one).__name__ for one in received if not isinstance(one, Summary)]:
        got = wrong[0] if isinstance(summaries, Iterable) else type(summaries).__name__
        raise MessageError(invalid("summaries", owner, "a list of Summary", got))
    if not received:
        raise MessageError(f"{owner} needs the summary of at least one client; got none.")
    check_same_width(received)
    return received


# ---------------------------------------------------------------------------------------- checks


def _check(name: str, owner: str, value: object, rule: Rule) -> None:
    if not rule.accepts(value):
        raise MessageError(invalid(name, owner, rule.allowed, repr(value)))


def _check_not_empty(message: "Summary | Model", owner: str) -> None:
    if not len(message.centers) and not message.tensors:
        raise MessageError(f"{owner[:1].upper()}{owner[1:]} has neither centers nor tensors.")


def _array(name: str, values: Any, owner: str, join: Any = None) -> np.ndarray:
    """Return a read-only array of numbers: a copy, unless nobody can change the given one.

    Parameters
    ----------
    join : what NumPy may cast, to put several arrays together; None is for a single one.
    """
    try:
        given = values if join is None else np.concatenate(values, casting=join)
        array: np.ndarray = given if _is_frozen(given) else np.array(given, order="C")
    except (TypeError, ValueError) as error:
        what = f"the {name} of {owner} to an array of numbers"
        raise MessageError(f"Cannot convert {what}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise MessageError(invalid(name, owner, "an array of numbers", array.dtype))
    array.setflags(write=False)
    return array


def _is_frozen(values: Any) -> bool:
    return (
        type(values) is np.ndarray
        and (values.base is None or _is_frozen(values.base))
        and values.flags.c_contiguous
        and not values.flags.writeable
    )


def _parted(array: np.ndarray, sizes: Iterable[int]) -> list[np.ndarray]:
    """Take them apart again: the array has so many rows of each client."""
    return [array[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]


def _centers(values: Any, owner: str) -> Floats:
    array = _array("centers", values, owner)
    got = f"NaN, infinity or a size above {MAX_MAGNITUDE:g}"
    if array.ndim != 2 or array.shape[1] == 0:
        got = f"shape {array.shape}"
    elif not array.size or max(-array.min(), array.max()) <= MAX_MAGNITUDE:  # not so for NaN
        return _array("centers", array.astype(np.float64, copy=False), owner)
    allowed = "finite numbers of shape (n_centers, n_features >= 1)"
    raise MessageError(invalid("centers", owner, allowed, got))


def _per_center(name: str, values: Any, n_centers: int, owner: str) -> np.ndarray:
    """Return the numbers of which each center has one."""
    array, whole = _array(name, values, owner), name == "counts"
    good = (array >= 0) & (array <= (MAX_COUNT if whole else sys.float_info.max))
    if whole and array.dtype.kind == "f":
        good &= array == np.floor(array)
    if array.shape == (n_centers,) and good.all():
        dtype = np.int64 if whole else np.float64
        return _array(name, array.astype(dtype, copy=False), owner)
    kind = f"whole numbers >= 0, <= {MAX_COUNT}" if whole else "finite numbers >= 0"
    got = array[~good][0] if array.shape == (n_centers,) else f"shape {array.shape}"
    raise MessageError(invalid(name, owner, f"{kind}, one per center, shape ({n_centers},)", got))


def _tensors(values: Any, owner: str) -> Tensors:
    if not isinstance(values, Mapping):
        allowed = "a mapping of names to arrays"
        raise MessageError(invalid("tensors", owner, allowed, type(values).__name__))
    named = {str(name): _array(f"tensor {name!r}", array, owner) for name, array in values.items()}
    return MappingProxyType(named)


def _same(a: object, b: object) -> bool:
    """Say whether two values of messages are equal, arrays bit by bit."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b
