r"""What sets a cluster apart: its profile beside that of all rows.

The difference of a cluster from all rows is, for a column of numbers, that of the means in standard
deviations of all rows, :math:`(\mu_c - \mu) / \sigma`, and for a level of a category that of the
shares, :math:`(p_c - p) / \sqrt{p (1 - p)}`, which is the same for a column of 0 and 1.

Small clusters differ from all rows by chance. So columns are ranked by how far they differ *at
least*: by the size of the difference minus two standard errors. A standard error comes from the
cluster's rows and one more that has the spread of all rows: the spread of very few rows may be 0.

The guard of a site rounds the rows of each level to multiples of its least number of rows
(:mod:`fedjigsaw.privacy.statistics`). So a share may be off by half of that at each site: only what
differs even then is sure. ``(other)`` is many things, and never sure.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.profiles import Profile, merge_moments
from fedjigsaw.columns.schema import OTHER
from fedjigsaw.errors import UnavailableError

ERRORS = 2.0  # standard errors by which a difference must be sure
SMALL = 0.1  # standard deviations; less sets nothing apart, however sure it is
MOSTLY = 0.5  # share from which on a cluster is mostly of one category
FRAME = ("cluster", "column", "kind", "category", "rows", "mean", "std", "share", "difference")


@dataclass(frozen=True)
class Contrast:
    """One column of numbers, or one level of a category, in one cluster and in all rows.

    Attributes
    ----------
    category : the level; None for a column of numbers.
    rows : with a value, of numbers; of this level, of categories.
    mean, std : of the values in the cluster; NaN for categories, and if there are no values.
    share : of this level among the cluster's rows with a value; NaN for numbers.
    difference : from all rows, in standard deviations; NaN if there are no values.
    at_least : the size of the difference that is sure; 0 or more.
    all_mean, all_std, all_share : of all rows.
    """

    cluster: int
    column: str
    category: str | None
    rows: int
    difference: float
    at_least: float
    mean: float = nan
    std: float = nan
    share: float = nan
    all_mean: float = nan
    all_std: float = nan
    all_share: float = nan


def contrasts(
    profile: Profile, noise: float = 0.0, half: Floats | None = None, n_sites: int = 0
) -> Iterator[Contrast]:
    """Compare every cluster with all rows: clusters in order, in each the columns in order.

    Parameters
    ----------
    noise : standard deviation of the noise on each number of rows, if there is any.
    half : shape (d,), half the width of the bounds of each column of numbers: what a sum of its
        values has in noise for each row of noise.
    n_sites : sites whose guards may have rounded; 0 if that is not known.
    """
    width = np.zeros(len(profile.numbers)) if half is None else half
    shares = (_shares(profile, column, noise, n_sites) for column in profile.levels)
    columns = [_numbers(profile, noise * width), *shares]
    for c in range(profile.n_clusters):
        for by_cluster in columns:
            yield from by_cluster[c]


def _numbers(profile: Profile, noise: Floats) -> list[list[Contrast]]:
    count, mean, squares = profile.count, profile.mean, profile.sum_of_squares
    total = count[0], mean[0], squares[0]
    for c in range(1, profile.n_clusters):
        total = merge_moments(*total, count[c], mean[c], squares[c])
    n = np.maximum(total[0], 1)
    variance = total[2] / n
    width = np.where(variance > 0, np.sqrt(variance), 1.0)
    there, rows = count > 0, np.maximum(count, 1)
    difference = np.where(there, (mean - total[1]) / width, nan)
    # a noisy sum is divided by a noisy number of rows
    error = np.sqrt((squares + variance + 2 * noise**2) / rows / rows) / width
    at_least = _sure(difference, error)
    empty = total[0] == 0
    return _cells(
        [(column, None) for column in profile.numbers],
        rows=count,
        difference=difference,
        at_least=at_least,
        mean=np.where(there, mean, nan),
        std=np.where(there, np.sqrt(squares / rows), nan),
        all_mean=np.where(empty, nan, total[1])[None],
        all_std=np.where(empty, nan, np.sqrt(variance))[None],
    )


def _shares(profile: Profile, column: str, noise: float, n_sites: int) -> list[list[Contrast]]:
    counts = profile.level_counts[column]
    rows = counts.sum(axis=1, keepdims=True)
    all_share = counts.sum(axis=0) / max(1, counts.sum())
    n = np.maximum(rows, 1)
    share = np.where(rows > 0, counts / n, nan)
    spread = np.sqrt(all_share * (1 - all_share))
    width = np.where(spread > 0, spread, 1.0)
    difference = (share - all_share) / width
    smoothed = (counts + all_share) / (n + 1)
    error = np.sqrt(smoothed * (1 - smoothed) / n + 2 * (noise / n) ** 2) / width
    rounded = profile.min_cluster_size // 2 * max(1, n_sites)
    slack = rounded / n / width
    at_least = np.maximum(0.0, _sure(difference, error) - slack)
    at_least[:, [level == OTHER for level in profile.levels[column]]] = 0.0
    return _cells(
        [(column, level) for level in profile.levels[column]],
        rows=counts,
        difference=difference,
        at_least=at_least,
        share=share,
        all_share=all_share[None],
    )


def _cells(columns: list[tuple[str, str | None]], **fields: np.ndarray) -> list[list[Contrast]]:
    """Make a contrast of each cell of arrays; an array of one row is the same for all clusters."""
    shape = fields["rows"].shape
    lists = {name: np.broadcast_to(a, shape).tolist() for name, a in fields.items()}
    return [
        [
            Contrast(c, *column, **{name: values[c][j] for name, values in lists.items()})
            for j, column in enumerate(columns)
        ]
        for c in range(shape[0])
    ]


def _sure(difference: Floats, error: Floats) -> Floats:
    least: Floats = np.maximum(0.0, np.nan_to_num(np.abs(difference)) - ERRORS * error)
    return least


def sets_apart(found: Iterable[Contrast], most: int = 5) -> list[Contrast]:
    """Return the columns that set one cluster apart, the clearest first; each column once.

    A category is represented by the level that most of the cluster's rows have, if there is one
    and it is more frequent than in all rows, and else by the level that differs most.
    """
    by_column: dict[str, list[Contrast]] = {}
    for one in found:
        if one.at_least > SMALL and one.category != OTHER:
            by_column.setdefault(one.column, []).append(one)
    ranked = sorted(by_column.values(), key=lambda own: max(map(_rank, own)), reverse=True)
    return [max(own, key=lambda one: (_is_common(one), _rank(one))) for own in ranked[:most]]


def _rank(one: Contrast) -> tuple[float, bool]:
    return round(one.at_least, 9), one.difference > 0


def _is_common(one: Contrast) -> bool:
    return one.share > MOSTLY and one.difference > 0


def profile_frame(profile: Profile) -> Any:
    """Return a profile as a tidy pandas DataFrame: a row per cluster and column or category.

    Examples
    --------
    >>> two = Profile(("age",), [[5], [5]], [[30.0], [50.0]], [[20.0], [20.0]], {}, {})
    >>> profile_frame(two)[["cluster", "column", "rows", "mean", "std"]].values.tolist()
    [[0, 'age', 5, 30.0, 2.0], [1, 'age', 5, 50.0, 2.0]]
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise UnavailableError(
            "A profile as a table requires pandas: pip install pandas"
        ) from error
    known = dict.fromkeys(profile.numbers, "number") | dict.fromkeys(profile.levels, "category")
    rows = [
        [known[one.column] if name == "kind" else getattr(one, name) for name in FRAME]
        for one in contrasts(profile)
    ]
    return pd.DataFrame(rows, columns=list(FRAME))
