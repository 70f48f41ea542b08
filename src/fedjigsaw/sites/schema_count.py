"""Count what is right and wrong in the columns of a file, batch by batch."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw.columns.dates import exchanged
from fedjigsaw.columns.lenient import (
    Reading,
    best_format,
    count_exchanged,
    is_ambiguous,
    read_leniently,
)
from fedjigsaw.columns.ranges import Spread, spread_of
from fedjigsaw.columns.schema import BOOLEAN, DATE, NUMBER, TEXT_KINDS, Column
from fedjigsaw.columns.text import TextFormat, count_told
from fedjigsaw.columns.values import read_levels, show_value

MAX_UNKNOWN = 10_000  # different values that are no category, which are counted
SHOWN = 5  # of them, in words
LONGEST = 60  # characters of a value
TRIED = 1000  # values that cannot be read, of which the first few different ones are shown


@dataclass
class ColumnCount:
    """What is right and wrong in one column."""

    column: Column
    pattern: str = ""
    ambiguous: bool = False
    n_rows: int = 0
    n_missing: int = 0
    n_unreadable: int = 0
    n_outside: int = 0
    unreadable: dict[str, int] = field(default_factory=dict)  # value -> first row
    n_ordered: int = 0  # dates in the format of the schema
    n_exchanged: int = 0  # dates that fit with day and month exchanged
    first_outside: tuple[int, str] | None = None
    unknown: Counter[str] = field(default_factory=Counter)
    absent: Counter[str] = field(default_factory=Counter)  # words that count as missing
    spread: Spread = field(init=False)

    def __post_init__(self) -> None:
        self.spread = spread_of(self.column.kind, 1)

    def add(self, values: pa.Array, text: TextFormat) -> None:
        if self.column.kind == DATE and not self.pattern:
            self.pattern = best_format(self.column, values, text)
            self.ambiguous = is_ambiguous(self.column, values, text)
        if self.column.kind == DATE and exchanged(self.column.format):
            fits, both = count_exchanged(values, text, self.column.format)
            self.n_ordered, self.n_exchanged = self.n_ordered + fits, self.n_exchanged + both
        reading = read_leniently(self.column, values, text, self.pattern)
        self._note_places(values, reading)
        self.n_rows += len(values)
        self.n_missing += int(reading.missing.sum())
        self.n_unreadable += int(reading.unreadable.sum())
        self.n_outside += int(reading.outside.sum())
        if self.column.kind in (NUMBER, DATE):
            self.spread.add(reading.numbers)
        if self.column.kind in (*TEXT_KINDS, BOOLEAN):
            self.absent += count_told(values, text.keeping(self.column.categories))
        if self.column.kind in TEXT_KINDS and reading.outside.any():
            self._count_unknown(read_levels(values, text).filter(pa.array(reading.outside)))

    def _count_unknown(self, levels: pa.Array) -> None:
        if len(self.unknown) < MAX_UNKNOWN:
            for entry in pc.value_counts(levels).to_pylist():
                self.unknown[entry["values"]] += entry["counts"]

    def _note_places(self, values: pa.Array, reading: Reading) -> None:
        for place in np.flatnonzero(reading.unreadable)[:TRIED].tolist():
            if len(self.unreadable) <= SHOWN:
                self.unreadable.setdefault(str(values[place].as_py()), self.n_rows + place + 1)
        if self.first_outside is None:
            self.first_outside = self._first(values, reading.outside)

    def _first(self, values: pa.Array, flags: np.ndarray) -> tuple[int, str] | None:
        if not flags.any():
            return None
        place = int(np.argmax(flags))
        return self.n_rows + place + 1, show_value(values, place, LONGEST)

    @property
    def n_readable(self) -> int:
        return self.n_rows - self.n_missing - self.n_unreadable
