"""Rows that are far from all others, of which a summary would tell the distance.

A sum of squares that is mostly that of one row tells how far away this row is, and k-means spends a
center on it. This is what the dominance rule of statistical disclosure control is for: fewer rows
than a guard lets out may not make up most of a sum. So a guard moves such rows in, as far as the
farthest of the others: among all rows of a site, before they are clustered, and in each cluster.

It acts from four times as many rows on, and never for a column that has two values at the site. In
columns with heavy tails, the largest rows may be moved, too.
"""

import numpy as np
import numpy.typing as npt

from fedjigsaw._rows import is_sparse
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import PrivacyWarning, counted, warn, warn_of_client
from fedjigsaw.kernels.kmeans import blocks

FAR = 3.0  # times as far from the middle as the farthest of the others
DOMINANT = 0.5  # share of the sum of squares of a cluster
WORTH_A_CENTER = 0.2  # share of that of all rows, from which k-means may spend a center
FEWEST = 4  # times as many rows as are let out: of fewer, gaps are chance, and digits are few
BLOCK = 2**18  # numbers that are copied at a time

Columns = npt.NDArray[np.bool_]


def pulled_in(rows: Floats, size: int, share: float = WORTH_A_CENTER) -> Floats:
    """Return rows of which fewer than `size` no longer are most of the sum of squares.

    The same array is returned if they are less than this share of it.

    Examples
    --------
    >>> rows = np.append(np.arange(40.0), 1e6)[:, None]
    >>> float(pulled_in(rows, 5).max())
    40.0
    """
    return _pulled_in(rows, size, share, _several_values(rows))


def _pulled_in(rows: Floats, size: int, share: float, columns: Columns) -> Floats:
    if len(rows) < FEWEST * size or not columns.any():
        return rows
    middle = np.median(rows, axis=0)
    offsets = np.where(columns, rows - middle, 0.0)
    squared = (offsets**2).sum(axis=1)
    top = np.sort(np.partition(squared, -size)[-size:])
    gaps = np.flatnonzero(top[1:] > FAR**2 * top[:-1])
    far = squared > (top[gaps[0]] if len(gaps) else np.inf)
    if not far.any() or squared[far].sum() <= share * squared.sum():
        return rows
    limits = np.sqrt(squared[~far].max() / squared[far])
    moved = rows.copy()
    moved[far] = np.where(columns, middle + limits[:, None] * offsets[far], rows[far])
    return moved


def pulled_in_clusters(rows: Floats, labels: Ints, size: int) -> Floats:
    """Return rows of which fewer than `size` dominate no cluster; label -1 is none."""
    moved, columns = rows, _several_values(rows)
    for j in range(int(labels.max(initial=-1)) + 1):
        own = np.flatnonzero(labels == j)
        near = _pulled_in(rows[own], size, DOMINANT, columns)
        if (near != rows[own]).any():
            moved = moved.copy() if moved is rows else moved
            moved[own] = near
    return moved


def pulled_in_at(client: str, rows: Floats, size: int) -> Floats:
    """Return the rows of a client that may be clustered, and tell it if some were far away."""
    near = pulled_in(rows, size)
    if near is not rows:
        n_far = int((near != rows).any(axis=1).sum())
        warn_of_client(
            client,
            f"{counted(n_far, 'row is', 'rows are')} far from all others, and moved in",
            "If such values are wrong, correct them: they would tell how far away they are.",
            PrivacyWarning,
        )
    return near


def warn_of_far_row(rows: Floats) -> None:
    """Warn if a single row makes up most of the sum of squares; for rows without a guard."""
    if rows.shape[0] < 2 * FEWEST or is_sparse(rows):
        return
    columns = _several_values(rows)
    middle, total, largest, where = rows.mean(axis=0), 0.0, 0.0, 0
    for part in blocks(len(rows), max(1, rows.shape[1]), BLOCK):
        squared = ((rows[part] - middle)[:, columns] ** 2).sum(axis=1)
        total += float(squared.sum())
        if squared.max() > largest:
            largest, where = float(squared.max()), part.start + int(squared.argmax())
    if largest > DOMINANT * total:
        warn(
            f"Row {where} is far from all others: it makes up {largest / total:.0%} of the sum of "
            "squares, so a center may be spent on it, and what leaves its client tells how far "
            "away it is. Correct it or leave it out. With guard=Guard(), it is moved in if its "
            "client has at least 20 rows.",
            PrivacyWarning,
        )


def _several_values(rows: Floats) -> Columns:
    """Tell which columns have more than two values: a rare one of two is not far away."""
    low, high = rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf)
    found = np.zeros(rows.shape[1], dtype=bool)
    for part in blocks(len(rows), max(1, rows.shape[1]), BLOCK):
        found |= ((rows[part] != low) & (rows[part] != high)).any(axis=0)
    return found
