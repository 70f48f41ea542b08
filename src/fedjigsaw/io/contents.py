"""What files hold besides scalers and exact statistics: summaries, models and scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.columns.profiles import Profile
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.columns.schema import Schema
from fedjigsaw.errors import MessageError, counted, invalid
from fedjigsaw.io.cluster_ids import check_ids
from fedjigsaw.messages import COUNTS, LONE_SITES, Model, Summary
from fedjigsaw.privacy import Privacy
from fedjigsaw.validation import MAX_COUNT, MAX_MAGNITUDE, MAX_SAMPLES, repeated

MAX_SSE = 2.0**62 * MAX_MAGNITUDE**2  # more than any rows that may be read can have


@dataclass(frozen=True)
class SummaryFile:
    """A summary, and all that a coordinator must know to aggregate it with others.

    Attributes
    ----------
    summary : what the site sends.
    method, params : name of the method that made it, and its parameters.
    columns : names of the columns, in the order of those of the centers.
    scaler : the scaler of all sites, or None; with one, centers are scaled.
    seed : seed of the clustering.
    guard : the rule that the summary passed before it left: min_cluster_size and counts.
    n_used : rows that were clustered; fewer than ``summary.n_samples`` if they were a sample.
    privacy : the promise of differential privacy, or None. Under one, the guard is not applied, and
        numbers of rows are noisy.
    n_skipped : further rows of the file, which were skipped for missing values; not told under
        privacy, nor in a federation.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import summarize
    >>> file = summarize(from_array([[30.0], [31.0], [32.0]] * 5, ["age"]), 1, client="bern")
    >>> file.summary.client, file.n_used, dict(file.guard)
    ('bern', 15, {'min_cluster_size': 5, 'counts': 'exact'})
    """

    summary: Summary
    method: str
    params: Mapping[str, Any]
    columns: tuple[str, ...]
    scaler: Scaler | None
    guard: Mapping[str, Any]
    seed: int
    n_used: int
    privacy: Privacy | None = None
    n_skipped: int = 0

    def __post_init__(self) -> None:
        owner = f"client {self.summary.client!r}"
        _check_skipped(self.n_skipped, owner, MAX_SAMPLES)
        if not 1 <= self.n_used <= self.summary.n_samples:
            allowed = f"from 1 to its rows, {self.summary.n_samples}"
            raise MessageError(invalid("n_used", owner, allowed, self.n_used))
        if not _is_guard(self.guard):
            allowed = f"an integer min_cluster_size >= 1 and counts, one of {', '.join(COUNTS)}"
            raise MessageError(invalid("guard", owner, allowed, repr(dict(self.guard))))

    @property
    def encoding(self) -> Encoding | None:
        """How the columns of a file became those of the summary; None if they are the same."""
        return None if self.scaler is None else self.scaler.encoding

    @property
    def made_by(self) -> Schema | None:
        """The schema that the columns of the summary were made by, or None."""
        return None if self.encoding is None else self.encoding.schema


def describe_rows(n_used: int, n_skipped: int, kind: str = "rows") -> str:
    """Say how many rows there are, and how many of them were skipped for missing values.

    Parameters
    ----------
    kind : what they are, rows or images.

    Examples
    --------
    >>> describe_rows(1, 0), describe_rows(150_617, 49_383)
    ('1 row', '200,000 rows, 49,383 of them skipped (missing values)')
    """
    skipped = f", {n_skipped:,} of them skipped (missing values)" if n_skipped else ""
    return f"{counted(n_used + n_skipped, kind.removesuffix('s'))}{skipped}"


def _check_skipped(n_skipped: int, owner: str, most: int = MAX_COUNT) -> None:
    if not 0 <= n_skipped <= most:
        raise MessageError(invalid("n_skipped", owner, f"from 0 to {most}", n_skipped))


def _is_guard(guard: Mapping[str, Any]) -> bool:
    if guard.keys() != {"min_cluster_size", "counts"}:
        return False
    size = guard["min_cluster_size"]
    return type(size) is int and 1 <= size <= MAX_SAMPLES and guard["counts"] in COUNTS


@dataclass(frozen=True)
class ModelFile:
    """A model, the clients that it was made from, and how to scale rows for it.

    Attributes
    ----------
    model : centers, method and parameters.
    scaler : the scaler of all sites, or None; with one, centers are scaled, and
        ``scaler.unscale(model.centers)`` has them in the units of the columns.
    clients : names of the clients that took part.
    n_samples : their rows, all together.
    partly : those of the clients that missed at least one round.
    privacy : the promise that holds for the rows of every client, or None if there is a client
        without one.
    n_skipped : rows of the clients that were skipped for missing values, as far as they are told.
    ids : the id of each cluster, if the model follows another one; empty for 0, 1, 2, ...
    next_id : the smallest id that no cluster has had, in this model or one before; 0 without ids.
    clients_column : the column of a table that named the client of each row, or None.

    Examples
    --------
    >>> from fedjigsaw import Model
    >>> from fedjigsaw.io.formats import ModelFile
    >>> file = ModelFile(Model([[32.0], [62.0]], feature_names=("age",)), None, ("bern",), 10)
    >>> file.columns, file.cluster_ids
    (('age',), (0, 1))
    """

    model: Model
    scaler: Scaler | None
    clients: tuple[str, ...]
    n_samples: int
    partly: tuple[str, ...] = ()
    privacy: Privacy | None = None
    n_skipped: int = 0
    ids: tuple[int, ...] = ()
    next_id: int = 0
    clients_column: str | None = None
    # what it was read from: its fingerprint is that of these bytes, whatever version reads them
    content: bytes = field(default=b"", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_skipped(self.n_skipped, "a model")
        ids, next_id = check_ids(self.ids, self.next_id, len(self.model.centers), "a model")
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "next_id", next_id)
        for client in repeated(self.clients):
            raise MessageError(f"The model lists a client twice: {client!r}.")
        lone = self.model.tensors.get(LONE_SITES, np.zeros(0))
        if ((lone < 0) | (lone >= len(self.clients))).any():
            allowed = f"numbers of its {counted(len(self.clients), 'client')}"
            raise MessageError(invalid(LONE_SITES, "a model", allowed, lone[:9]))
        if not set(self.partly) <= set(self.clients):
            allowed = "some of its clients"
            raise MessageError(invalid("partly", "a model", allowed, list(self.partly)[:9]))

    @property
    def cluster_ids(self) -> tuple[int, ...]:
        """The id of each cluster, in the order of the centers."""
        return self.ids or tuple(range(len(self.model.centers)))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the model was made from."""
        return self.model.feature_names or ()

    @property
    def encoding(self) -> Encoding | None:
        """How the columns of a file become those of the model; None if they are the same."""
        return None if self.scaler is None else self.scaler.encoding

    @property
    def made_by(self) -> Schema | None:
        """The schema that the columns of the model are made by, or None."""
        return None if self.encoding is None else self.encoding.schema


@dataclass(frozen=True, eq=False)
class NoisyStats(Stats):
    """Column statistics of one site with noise, and the promise that they keep."""

    privacy: Privacy


@dataclass(frozen=True, eq=False)
class Score:
    """How well a model fits one site's rows: size and summed squared distance per cluster.

    Attributes
    ----------
    client : name of the site.
    counts : number of rows in each cluster.
    sse : their summed squared distance to the center, in units of the clustering.
    model : fingerprint of the model's file.
    profile : what the rows of each cluster are like, or None.
    privacy : the promise of differential privacy, or None. Under one, all numbers are noisy.
    n_skipped : further rows, which were skipped for missing values; not told under privacy.
    n_noise : further rows, which belong to no cluster or which a guard left out; not told under
        privacy.
    ids : the id of each cluster; empty for 0, 1, 2, ...
    made_by : the schema of the columns of the profile, so that people can read it, or None.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.io.formats import Score
    >>> score = Score("bern", "model 1", np.array([5, 3]), np.array([1.5, 0.5]))
    >>> score.n_rows, float(score.sse.sum() / score.n_rows)
    (8, 0.25)
    """

    client: str
    model: str
    counts: Ints
    sse: Floats
    profile: Profile | None = None
    privacy: Privacy | None = None
    n_skipped: int = 0
    n_noise: int = 0
    ids: tuple[int, ...] = ()
    made_by: Schema | None = None

    def __post_init__(self) -> None:
        # the checks of a summary are just those that are needed here
        centers = np.zeros((max(1, np.size(self.counts)), 1))
        checked = Summary(1, centers, None, self.counts, self.sse, {}, self.client)
        object.__setattr__(self, "counts", checked.counts)
        if not self.client:
            raise MessageError("The score has no client name.")
        _check_skipped(self.n_skipped, f"client {self.client!r}")
        if not 0 <= self.n_noise <= MAX_COUNT:
            owner, allowed = f"client {self.client!r}", f"from 0 to {MAX_COUNT}"
            raise MessageError(invalid("n_noise", owner, allowed, self.n_noise))
        if not self.n_rows and not self.n_noise:
            raise MessageError(f"The score of client {self.client!r} covers no rows.")
        if self.n_rows > MAX_COUNT or (self.sse > MAX_SSE).any():
            raise MessageError(
                f"The score of client {self.client!r} has more rows, or a larger summed squared "
                "distance, than any data can have."
            )
        owner = f"client {self.client!r}"
        ids, _ = check_ids(self.ids, None, len(self.counts), owner)
        object.__setattr__(self, "ids", ids)
        if self.profile is not None:
            self._check_profile(self.profile)

    def _check_profile(self, profile: Profile) -> None:
        owner = f"client {self.client!r}"
        if profile.n_clusters != len(self.counts):
            allowed = f"one of {len(self.counts)} clusters"
            raise MessageError(invalid("profile", owner, allowed, profile.n_clusters))
        levels = [counts.sum(axis=1) for counts in profile.level_counts.values()]
        # the guard rounds rows of levels, which at most doubles them
        too_many = any((rows > 2 * self.counts).any() for rows in levels)
        if too_many or (profile.count.max(axis=1, initial=0) > self.counts).any():
            allowed = "about no more rows than the clusters have"
            raise MessageError(invalid("profile", owner, allowed, "more"))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of numbers of the profile: those that bounds are about."""
        return () if self.profile is None else self.profile.numbers

    @property
    def cluster_ids(self) -> tuple[int, ...]:
        """The id of each cluster, in the order of the counts."""
        return self.ids or tuple(range(len(self.counts)))

    @property
    def n_rows(self) -> int:
        """Number of rows in all clusters."""
        return sum(self.counts.tolist())  # whole numbers of NumPy could overflow
