"""At which sizes compiled k-means is faster, as it was measured once on two cores."""

import json
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np

from fedjigsaw._typing import Floats

TABLE = "sizes.json"  # beside this module
OTHERS = ("sklearn", "intelex")  # in the order of the table


@lru_cache(2**16)
def speedup(n_rows: int, n_columns: int, n_clusters: int, over: str = "sklearn") -> float:
    """Return how many times as fast as another library it is, at the nearest size measured.

    Examples
    --------
    >>> speedup(50, 2, 5) > 10
    True
    """
    sizes, ratios = _table(over)
    wanted = np.log([n_rows, n_columns, min(n_clusters, n_rows)])
    return float(ratios[((sizes - wanted) ** 2).sum(axis=1).argmin()])


def measured_speedups(over: str = "sklearn") -> dict[tuple[int, int, int], float]:
    """Return the whole table: ratios by rows, columns and clusters."""
    lines, column = json.loads(files(__package__).joinpath(TABLE).read_text()), OTHERS.index(over)
    return {(n, d, k): ratios[column] for n, d, k, *ratios in lines}


@cache
def _table(over: str) -> tuple[Floats, Floats]:
    """Return logarithms of rows, columns and clusters, and the ratio of times for each."""
    table = measured_speedups(over)
    return np.log(np.array(list(table), np.float64)), np.array(list(table.values()))
