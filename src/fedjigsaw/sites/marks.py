"""Look for numbers such as 999 that may stand for missing values, before anything leaves a site.

With three sites or fewer, the coordinator cannot tell a mean that such numbers have shifted from
that of another population.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import feature, to_units
from fedjigsaw.columns.ranges import CODES, DATE_CODES, Spread, show_code, spread_of
from fedjigsaw.columns.schema import ABSENT, DATE, NUMBER, Column, Schema
from fedjigsaw.errors import DataWarning, warn

FEWEST = 2  # rows: what is told stays at the site


class Marks:
    """Collects the values of suspicious columns while rows are read.

    A column is suspicious from the first block on whose least or greatest value is a code. All
    others cost one comparison, so that tables of many columns stay fast.
    """

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self.spreads: dict[str, Spread] = {}

    def watch(self, blocks: Iterable[Floats], features: Sequence[str]) -> Iterator[Floats]:
        """Yield the blocks unchanged."""
        places = {name: j for j, name in enumerate(features)}
        columns = self._columns(features)
        where = [places[column.name] for column in columns]
        suspicious = np.zeros(len(columns), dtype=np.bool_)
        for rows in blocks:
            if len(rows):
                suspicious |= _have_codes(columns, rows.min(axis=0)[where])
                suspicious |= _have_codes(columns, rows.max(axis=0)[where])
            for column in (columns[j] for j in np.flatnonzero(suspicious)):
                values = rows[:, places[column.name]]
                absent = places.get(feature(column.name, ABSENT)) if self.schema else None
                self._add(column, values if absent is None else values[rows[:, absent] == 0])
            yield rows

    def _columns(self, features: Sequence[str]) -> list[Column]:
        if self.schema is None:
            return [Column(name) for name in features]
        return [column for column in self.schema.clustered if column.kind in (NUMBER, DATE)]

    def _add(self, column: Column, values: Floats) -> None:
        spread = self.spreads.setdefault(column.name, spread_of(column.kind, 1))
        spread.add(_in_units(column, values))

    def warn(self, path: Path) -> None:
        """Warn of each number that seems to stand for missing values."""
        for name, spread in self.spreads.items():
            kind = DATE if spread.are_days else NUMBER
            for code, n in spread.find_codes(FEWEST).items():
                shown = show_code(kind, code)
                advice = "empty these values in the file, or use a schema (`schema init`)"
                if self.schema is not None:
                    mark = shlex.quote(f"{name}:{shown}")
                    advice = f"make a copy with `fedjigsaw schema apply --missing {mark}`"
                warn(
                    f"{path}, column {name!r}: {shown} occurs in {n:,} rows, far from the rest, "
                    f"and counts as a value. If it stands for a missing value, {advice}, and do "
                    "not send what was made from it.",
                    DataWarning,
                )


def warn_of_marks(path: Path, rows: Floats, features: Sequence[str], schema: Schema | None) -> None:
    """Warn of numbers in rows that seem to stand for missing values."""
    marks = Marks(schema)
    for _ in marks.watch([rows], features):
        marks.warn(path)


def _have_codes(columns: Sequence[Column], values: Floats) -> npt.NDArray[np.bool_]:
    """Say of one value of each column whether it is a code."""
    found: npt.NDArray[np.bool_] = np.isin(values, CODES)
    for j, column in enumerate(columns):
        if column.kind == DATE:
            found[j] = np.floor(values[j]) in DATE_CODES
        elif column.scale == "log":
            found[j] = _in_units(column, values[j]) in CODES
    return found


def _in_units(column: Column, values: Floats) -> Floats:
    units: Floats = to_units(column, values)
    return units.round(6) if column.scale == "log" else units  # exp(log(1000)) - 1 is nearly 999
