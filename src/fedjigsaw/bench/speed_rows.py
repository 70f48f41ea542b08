"""Rows of ``benchmarks/speed.py``, for the tables and the picture of docs/performance.md."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedjigsaw.bench.markdown import markdown_table

Row = Mapping[str, Any]
Rows = Sequence[Row]
MISSING = "(not measured)"
ASKED = ("jigsaw", "feca")  # methods of which something was asked
INPUTS = ("blurred", "alone")  # kinds of centers that the server received


def part(rows: Rows, name: str, **values: object) -> list[Row]:
    """Return the rows of one benchmark, with certain values.

    Examples
    --------
    >>> part([{"benchmark": "auto", "n": 1}, {"benchmark": "auto", "n": 2}], "auto", n=2)
    [{'benchmark': 'auto', 'n': 2}]
    """
    wanted = {"benchmark": name, **values}
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def size(row: Row) -> str:
    """Write the size of a client's problem.

    Examples
    --------
    >>> size({"n_rows": 20_000, "n_columns": 2, "n_clusters": 15})
    '20,000 x 2, k = 15'
    """
    return f"{row['n_rows']:,} x {row['n_columns']}, k = {row['n_clusters']}"


def table_of(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table, or that nothing was measured."""
    return markdown_table(head, lines) if lines else MISSING
