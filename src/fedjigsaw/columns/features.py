"""Check that the statistics of features do not contradict each other.

A scaler is made from means and spreads, which are judged beside those of the other sites
(:mod:`fedjigsaw.sites.moments`), and from quantiles, which are not: they must fit the means and
spreads of the same site, so that they can move the scaler no further than these.
"""

import numpy as np

from fedjigsaw.columns.encoding import anchor, feature
from fedjigsaw.columns.scaling import Stats
from fedjigsaw.columns.schema import ABSENT, BOOLEAN, CATEGORY, OTHER, Column, Schema
from fedjigsaw.columns.sketches import Sketch
from fedjigsaw.errors import MessageError

SLACK = 1e-6  # of rounding, relative


def check_features(name: str, stats: Stats, schema: Schema) -> None:
    """Raise a MessageError if exact statistics of a schema's features cannot be true.

    Parameters
    ----------
    name : of the file, for the error.
    """
    mean = dict(zip(stats.columns, stats.mean.tolist(), strict=True))
    squares = dict(zip(stats.columns, stats.sum_of_squares.tolist(), strict=True))
    for column in schema.clustered:
        problem = _shares_problem(column, mean)
        sketch = stats.sketches.get(column.name)
        if not problem and sketch is not None:
            problem = _sketch_problem(column, sketch, stats.n_samples, mean, squares)
        if problem:
            raise MessageError(
                f"{name}, column {column.name!r} of client {stats.client!r}: {problem}. "
                "Ask this site, or leave it out.",
                parameter="without",
                file=name,
                column=column.name,
            )


def _shares_problem(column: Column, mean: dict[str, float]) -> str:
    parts = (*column.categories, OTHER, ABSENT) if column.kind == CATEGORY else (ABSENT,)
    shares = [mean.get(feature(column.name, part), 0.0) for part in parts]
    if column.kind == BOOLEAN:
        shares.append(mean[column.name])
    if min(shares) < -SLACK or max(shares) > 1 + SLACK:
        return "a share is not between 0 and 1"
    if column.kind == CATEGORY and sum(shares) > 1 + SLACK:
        return "the shares of its categories add up to more than 1"
    return ""


def _sketch_problem(
    column: Column, sketch: Sketch, n: int, mean: dict[str, float], squares: dict[str, float]
) -> str:
    share = mean.get(feature(column.name, ABSENT), 0.0)
    n_values = n - round(share * n)
    if int(sketch.sizes.sum()) != n_values:
        return f"its quantiles are of {sketch.sizes.sum():,} values, but it has {n_values:,}"
    stand_in, p = anchor(column), share
    center = (mean[column.name] - p * stand_in) / (1 - p)
    spread = max(0.0, squares[column.name] - n * p * (1 - p) * (center - stand_in) ** 2)
    weights = sketch.sizes / n_values
    ours = float(weights @ sketch.means)
    size = np.sqrt(squares[column.name] / n) + abs(center) + abs(stand_in)
    if abs(ours - center) > SLACK * size:
        return "its quantiles do not fit its mean"
    between = float(sketch.sizes @ (sketch.means - ours) ** 2)
    if between > spread + SLACK * n * size**2:
        return "its quantiles do not fit its spread"
    return ""
