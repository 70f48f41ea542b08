"""Whether a client makes cells, and how many."""

from collections.abc import Mapping
from typing import Any

MAX_CELLS = 200  # what a default policy lets a site send
ROWS_PER_CELL = 5  # as in the default guard
FEW_ROWS, PAIRS = 2, 20  # a client with few rows makes up to 20 cells of two, else clusters mix


def n_cells(n_rows: int) -> int:
    """Return the number of cells of a client with so many rows.

    Examples
    --------
    >>> [n_cells(n) for n in (1, 12, 50, 500, 10_000)]
    [1, 6, 20, 100, 200]
    """
    return max(1, min(MAX_CELLS, max(n_rows // ROWS_PER_CELL, min(n_rows // FEW_ROWS, PAIRS))))


def sends_cells(params: Mapping[str, Any]) -> bool:
    """Tell whether clients send cells: to find the number of clusters, or their shapes.

    Examples
    --------
    >>> sends_cells({"n_clusters": 8, "shape": "round"}), sends_cells({"n_clusters": "auto"})
    (False, True)
    """
    shaped = params.get("shape", "round") != "round" or bool(params.get("noise"))
    return shaped or params.get("n_clusters") == "auto"
