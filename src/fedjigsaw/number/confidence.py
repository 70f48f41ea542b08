"""How sure is the number of clusters? Between 0 and 1; what that means was measured.

Agreement of the criteria, times the depth of the weakest valley or, for a single cluster, the share
of the variance that the cells show, times what is known to blur the picture. The rules were set by
hand on generated data with and without structure; ``docs/jigsaw.md`` shows how often a confidence
is right on other data.
"""

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.number.cells import LEAST_VARIANCE, Cells
from fedjigsaw.number.decision import AGREE, FEW_CELLS, JOINED, SEPARATE, Choice
from fedjigsaw.number.mixtures import MIN_ROWS

AGREEMENT = {AGREE: 0.98, SEPARATE: 0.85, JOINED: 0.85}
VOTES = (0.3, 0.45, 0.6, 0.7, 0.8, 0.8)  # otherwise, by how many of five criteria agree
RESOLVED = 0.8  # share of the variance between cells from which a single cluster is believed
FLAT, FLATTER = 2.4, 0.8  # kurtosis between Gaussian (3) and uniform (1.8), and below the others
COARSE = 0.1  # a column whose steps hide so much of its variance shows no shapes
HIDDEN = 0.4  # factor for one cluster where a few columns seem to have several
DOUBT_OF_STEPS = 0.55
BLURRED = 0.5
SMALL_CLUSTER = 0.02  # of an average cluster


def confidence(choice: Choice, left_out: float, seen: float = 1.0) -> float:
    """Return how much the number of clusters can be trusted.

    Parameters
    ----------
    left_out : number of rows that guards left out, far from all others.
    seen : how far noise lets so many clusters be believed; 1 without noise.
    """
    value = AGREEMENT.get(choice.way, 0.0)
    if not value:
        value = VOTES[sum(k == choice.k for k in choice.criteria.values())]
    value *= BLURRED if choice.valleys.arguable or are_copies(choice) else 1.0
    value *= BLURRED if choice.finer is not None else 1.0
    if choice.k == 1:
        value *= min(1.0, choice.cells.resolved / RESOLVED) ** 2
        value *= HIDDEN if len(telling_columns(choice.cells)) else 1.0
    else:
        value *= float(separation(np.array([choice.valleys.weakest]))[0])
    value *= 1 - DOUBT_OF_STEPS * float(coarse_columns(choice.cells).mean())
    value *= 1 - BLURRED * min(1.0, left_out / a_cluster(choice))
    value *= 1.0 if choice.complete else BLURRED
    value *= 1.0 if choice.mixture.background < choice.cells.n_rows / 2 else BLURRED
    if choice.per_client < FEW_CELLS:
        few = choice.k == 1 or choice.per_client < choice.k / 2
        value *= BLURRED if few else 1 - choice.dropped
    return float(value * seen)


def a_cluster(choice: Choice) -> float:
    """Return how many rows left out may well have been a cluster."""
    return max(3 * MIN_ROWS, SMALL_CLUSTER * choice.cells.n_rows / choice.k)


def are_copies(choice: Choice) -> bool:
    """Tell whether most clusters are a single row that repeats, by copies or by its weight.

    Rows that repeat are taken for as many rows that happen to be the same, so each place is a
    cluster. Whoever repeated them did not measure them again, usually.
    """
    moments = choice.mixture.moments
    variances = moments.traces / (np.maximum(moments.counts, 1) * choice.cells.n_columns)
    return choice.k > 1 and float(np.mean(variances <= LEAST_VARIANCE)) > 0.5


def separation(depths: Floats) -> Floats:
    """Return a score between 0 and 1 for valleys of this depth, in standard errors.

    Examples
    --------
    >>> separation(np.array([0.0, 3.0, 4.0, 5.0])).round(2).tolist()
    [0.0, 0.68, 0.86, 0.96]
    """
    scores: Floats = 1 - np.exp(-(depths**2) / 8)
    return scores


def telling_columns(cells: Cells) -> Ints:
    """Return columns of the data whose cells are far flatter than those of other columns.

    A column with clusters is flat, one of noise is a bell. Where few columns are flat, the others
    may hide clusters in them.
    """
    points, counts = cells.points, cells.counts
    variance = counts @ points**2 / cells.n_rows
    kurtosis = (counts @ points**4 / cells.n_rows) / np.maximum(variance, 1e-100) ** 2
    flat = (kurtosis < FLAT) & (kurtosis < np.median(kurtosis) - FLATTER)
    telling: Ints = cells.seen[flat & ~coarse_columns(cells)]
    return telling


def coarse_columns(cells: Cells) -> np.ndarray:
    """Tell which columns have so few values that the shapes of clusters do not show."""
    variance = cells.counts @ cells.points**2 / cells.n_rows
    return np.asarray(cells.grain > COARSE * variance)
