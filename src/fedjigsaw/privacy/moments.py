r"""Counts, means and sums of squares of groups of rows, rounded in the units of the file.

A coordinator may choose the scaler of a run, and the centers of a model that is scored. If numbers
were rounded in the units of that scaler, or as distances to those centers, each choice would round
the same sum elsewhere, and some choices together would give its last digit. So these numbers are
rounded before any of that enters: in the units of the site's own file, each column by itself. What
leaves is computed from the rounded ones. Then a choice decides which rows are together, and no
digit.
"""

from typing import NamedTuple

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import label_sums
from fedjigsaw.privacy.rounding import Columns, columns_of, round_centers, to_bits


class Moments(NamedTuple):
    """What is told of groups of rows, in the units of the file.

    Attributes
    ----------
    counts : rows of each group, shape (k,).
    means, squares : mean and sum of squared deviations of each column, shape (k, d).
    """

    counts: Ints
    means: Floats
    squares: Floats

    def distances(self, centers: Floats, deviation: Floats | float = 1.0) -> Floats:
        """Return the summed squared distance of each group to its own center, in scaled units.

        Parameters
        ----------
        centers : in the units of the file.
        deviation : that of the scaler.
        """
        away = self.counts[:, None] * (self.means - centers) ** 2
        sums: Floats = ((self.squares + away) / np.square(deviation)).sum(axis=1)
        return sums


def rounded_moments(rows: Floats, labels: Ints, n_groups: int, least_rows: int = 1) -> Moments:
    """Return the rounded moments of groups; those of a group without rows are 0.

    Parameters
    ----------
    rows : in the units of the file.
    labels : group of each row, -1 for none.
    least_rows : where fewer rows than that differ from all others in a column, none seems to.

    Examples
    --------
    >>> rows = np.array([[0.0], [2.0], [4.0], [6.0], [9.0]])
    >>> found = rounded_moments(rows, np.zeros(5, dtype=np.int64), 1)
    >>> found.counts.tolist(), found.means.tolist(), found.squares.tolist()
    ([5], [[4.0]], [[48.0]])
    """
    exact = exact_moments(rows, labels, n_groups)
    there = exact.counts > 0
    means, squares = exact.means.copy(), exact.squares.copy()
    sizes = exact.counts[there]
    if not len(sizes):
        return exact
    facts = columns_of(rows[labels >= 0], least_rows)
    assert facts is not None
    squares[:, ~np.isnan(facts.common)] = 0.0
    squares[there] = to_bits(squares[there], sizes[:, None])
    for j in range(rows.shape[1]):
        own = Columns(*(fact[[j]] for fact in facts))
        column = round_centers(means[there][:, [j]], sizes, squares[there, j], own)
        means[there, j] = column[:, 0]
    return Moments(exact.counts, means, squares)


def exact_moments(rows: Floats, labels: Ints, n_groups: int) -> Moments:
    """Return the moments of groups as they are, for a site without a guard."""
    inside = labels >= 0
    rows, labels = rows[inside], labels[inside]
    counts = np.bincount(labels, minlength=n_groups)
    ones, n_rows = np.ones(len(rows)), np.maximum(counts, 1)[:, None]
    means = label_sums(rows, labels, ones, n_groups) / n_rows
    squares = label_sums((rows - means[labels]) ** 2, labels, ones, n_groups)
    return Moments(counts, means, squares)
