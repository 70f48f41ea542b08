r"""Federated standardization: sites send column statistics and receive one common scaler.

Site m sends, per column, its number of rows :math:`n_m`, mean :math:`\mu_m` and sum of squared
deviations :math:`S_m = \sum_x (x - \mu_m)^2`. With :math:`n = \sum_m n_m`, the pooled values are

.. math:: \mu = \frac1n \sum_m n_m \mu_m, \qquad S = \sum_m S_m + n_m (\mu_m - \mu)^2,

which are exactly those of all rows together. The scaler is
:math:`x \mapsto (x - \mu) / \sqrt{S / n}`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import Encoding, provisional
from fedjigsaw.columns.profiles import merge_moments
from fedjigsaw.columns.schema import Schema
from fedjigsaw.columns.sketches import Sketch
from fedjigsaw.errors import MessageError, invalid, quote_names
from fedjigsaw.validation import MAX_MAGNITUDE, MAX_SAMPLES, check_name, repeated


@dataclass(frozen=True, eq=False)
class Stats:
    """Column statistics of one site: means and sums of squared deviations.

    :func:`fedjigsaw.sites.measure` makes them, for :func:`fedjigsaw.sites.common_scaler`.

    Attributes
    ----------
    client : name of the site.
    columns, mean, sum_of_squares : of each column, its name, mean and squared deviations from it.
    n_samples : number of rows.
    made_by : the schema that the columns were made by, or None.
    sketches : quantiles of the columns that need them.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import measure
    >>> stats = measure(from_array([[30.0], [50.0]] * 3, ["age"]), client="bern")
    >>> stats.columns, stats.n_samples, stats.mean.tolist(), stats.sum_of_squares.tolist()
    (('age',), 6, [40.0], [600.0])
    """

    client: str
    columns: tuple[str, ...]
    n_samples: int
    mean: Floats
    sum_of_squares: Floats
    made_by: Schema | None = field(default=None, kw_only=True)
    sketches: Mapping[str, Sketch] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.client)
        owner = f"client {self.client!r}"
        if not 1 <= self.n_samples <= MAX_SAMPLES:
            allowed = f"an integer >= 1, <= {MAX_SAMPLES}"
            raise MessageError(invalid("n_samples", owner, allowed, self.n_samples))
        check_columns(self.columns, owner)
        check_vector("mean", self.mean, len(self.columns), owner)
        most = self.n_samples * (2 * MAX_MAGNITUDE) ** 2
        check_vector("sum_of_squares", self.sum_of_squares, len(self.columns), owner, most)
        if (self.sum_of_squares < 0).any():
            raise MessageError(invalid("sum_of_squares", owner, ">= 0", self.sum_of_squares.min()))
        made = self.columns if self.made_by is None else provisional(self.made_by).features
        if sorted(self.columns) != sorted(made):
            raise MessageError(f"The columns of {owner} are not those that its schema gives.")

    @property
    def schema(self) -> str:
        """Fingerprint of the schema that the columns were made by; empty without one."""
        return "" if self.made_by is None else self.made_by.fingerprint

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the table; a schema makes several of one, such as one per category."""
        if self.made_by is None:
            return self.columns
        return tuple(column.name for column in self.made_by.clustered)


@dataclass(frozen=True, eq=False)
class Scaler:
    """Mean and standard deviation of every column, the same at all sites.

    Attributes
    ----------
    encoding : how the columns of a file become these columns of numbers; None if they are the same.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.columns.scaling import Scaler
    >>> scaler = Scaler(("age",), np.array([40.0]), np.array([10.0]))
    >>> scaler.scale(np.array([[60.0]])).tolist(), scaler.unscale(np.array([[2.0]])).tolist()
    ([[2.0]], [[60.0]])
    """

    columns: tuple[str, ...]
    mean: Floats
    deviation: Floats
    encoding: Encoding | None = None

    def __post_init__(self) -> None:
        check_columns(self.columns, "a scaler")
        if self.encoding is not None and self.encoding.features != self.columns:
            raise MessageError("The columns of the scaler are not those that its schema gives.")
        for name in ("mean", "deviation"):
            check_vector(name, getattr(self, name), len(self.columns), "a scaler")
        if not (self.deviation > 0).all():
            raise MessageError(invalid("deviation", "a scaler", "> 0", self.deviation.min()))

    @property
    def fingerprint(self) -> str:
        """Short hash of the columns and numbers: sites with the same one use the same scaler."""
        digest = sha256("\0".join(self.columns).encode())
        digest.update(self.mean.astype("<f8").tobytes() + self.deviation.astype("<f8").tobytes())
        if self.encoding is not None:
            digest.update(self.encoding.fingerprint.encode())
        return digest.hexdigest()[:16]

    def scale(self, rows: Floats) -> Floats:
        """Standardize rows."""
        scaled: Floats = (rows - self.mean) / self.deviation
        return scaled

    def scale_in_place(self, rows: Floats) -> None:
        """Standardize rows where they are: large data are not copied."""
        rows -= self.mean
        rows /= self.deviation

    def unscale(self, rows: Floats) -> Floats:
        """Return standardized rows in their original units."""
        return rows * self.deviation + self.mean


def even_blocks(blocks: Iterable[Floats], n_rows: int = 65_536) -> Iterator[Floats]:
    """Cut rows into blocks of one size, so that sums do not depend on the format of a file.

    Examples
    --------
    >>> [len(rows) for rows in even_blocks([np.zeros((3, 1)), np.zeros((4, 1))], 5)]
    [5, 2]
    """
    kept: list[Floats] = []
    for rows in blocks:
        kept.append(rows)
        if sum(map(len, kept)) >= n_rows:
            together = np.concatenate(kept)
            n_full = len(together) // n_rows
            for i in range(n_full):
                yield together[i * n_rows : (i + 1) * n_rows]
            kept = [together[n_full * n_rows :]]
    yield np.concatenate(kept) if kept else np.empty((0, 0))


def measure(client: str, columns: tuple[str, ...], blocks: Iterable[Floats]) -> Stats:
    """Compute the statistics of rows in one pass over blocks."""
    n, mean, squares = 0, np.zeros(len(columns)), np.zeros(len(columns))
    for rows in blocks:
        if len(rows):
            center = rows.mean(axis=0)
            within = ((rows - center) ** 2).sum(axis=0)
            n, mean, squares = merge_moments(n, mean, squares, len(rows), center, within)
    return Stats(client, columns, n, mean, squares)


def aligned(stats: Sequence[Stats]) -> list[Stats]:
    """Return statistics by client name, with the columns of all in the order of the first."""
    first, *others = sorted(stats, key=lambda s: s.client)
    found = [first]
    for other in others:
        if sorted(other.columns) != sorted(first.columns):
            ours, theirs = (quote_names(found.columns) for found in (first, other))
            raise MessageError(
                f"Client {first.client!r} has the columns {ours}; client {other.client!r} has "
                f"{theirs}. Use the same columns at all sites."
            )
        places = {name: j for j, name in enumerate(other.columns)}
        where = [places[name] for name in first.columns]
        mean, squares = other.mean[where], other.sum_of_squares[where]
        found.append(replace(other, columns=first.columns, mean=mean, sum_of_squares=squares))
    return found


def pool(stats: Sequence[Stats]) -> Stats:
    """Return the statistics of all rows together, under the name of the first client."""
    first, *others = aligned(stats)
    n, mean, squares = first.n_samples, first.mean, first.sum_of_squares
    for other in others:
        found = other.n_samples, other.mean, other.sum_of_squares
        n, mean, squares = merge_moments(n, mean, squares, *found)
    return replace(first, n_samples=n, mean=mean, sum_of_squares=squares)


def merge(stats: Sequence[Stats]) -> Scaler:
    """Compute the scaler of all rows together. A constant column is centered, not scaled."""
    pooled = pool(stats)
    n, mean = pooled.n_samples, pooled.mean
    deviation = np.sqrt(pooled.sum_of_squares / n)
    # a deviation this small is due to rounding: the rule of scikit-learn's StandardScaler
    constant = (
        deviation**2
        <= n * np.finfo(float).eps * deviation**2 + (n * mean * np.finfo(float).eps) ** 2
    )
    return Scaler(pooled.columns, mean, np.where(constant, 1.0, deviation))


def check_columns(columns: Sequence[str], owner: str) -> None:
    """Raise a MessageError if there are no columns, or a name is repeated."""
    if not columns:
        raise MessageError(f"No columns selected ({owner}).")
    for name in repeated(columns):
        raise MessageError(f"Column {name!r} is selected twice ({owner}).")


def check_vector(
    name: str, values: Floats, length: int, owner: str, most: float = 2 * MAX_MAGNITUDE
) -> None:
    """Raise a MessageError if the values are not finite, too large, or not one per column."""
    if values.shape != (length,):
        allowed = f"one number per column, shape ({length},)"
        raise MessageError(invalid(name, owner, allowed, f"shape {values.shape}"))
    if not np.isfinite(values).all():
        raise MessageError(invalid(name, owner, "finite", values[~np.isfinite(values)][0]))
    if (np.abs(values) > most).any():
        allowed = f"at most {most:g} in size"
        raise MessageError(invalid(name, owner, allowed, np.abs(values).max()))
