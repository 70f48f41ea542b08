"""Names of columns in files that people made: CSV and Excel."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedjigsaw.columns.text import TextFormat, to_numbers
from fedjigsaw.columns.words import UNNAMED
from fedjigsaw.errors import DataError
from fedjigsaw.io.detection import KINDS

DAY = "[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.]([0-9]{2}|[0-9]{4})"
DATE = f"^({DAY})([ T][0-9:.Z+-]*)?$"
TRUTHS = ("true", "false")


def name_columns(path: Path, header: Sequence[str], columns: Sequence[pa.Array]) -> list[str]:
    """Return the name of each column, or "" for columns without a name and without values.

    A single column without a name, such as the index that pandas writes, is called "unnamed".
    """
    names = [name.strip() for name in header]
    nameless = [j for j, name in enumerate(names) if not name and _has_values(columns[j])]
    if len(nameless) > 1:
        where = ", ".join(str(j + 1) for j in nameless[:5])
        raise DataError(f"{path} has columns without a name: {where}. Give each a name.")
    for j in nameless:
        names[j] = UNNAMED
    return names


def check_header(path: Path, names: Sequence[str], columns: Sequence[pa.Array]) -> None:
    """Raise if the first line of a file looks like data: names of columns leave the site.

    The error does not show that line, for it is about a person.
    """
    given = [name for name in names if name]
    data = _look_like_data(given) and not _counts_up(given)
    if data or any(_is_text(names[j], columns[j]) for j in _in_own_column(names, columns)):
        raise DataError(
            f"{path} has no header line: its first line looks like data. Add a line with the names "
            "of the columns. A name must not be a number, a date, or a value of its own column."
        )


def _look_like_data(names: Sequence[str]) -> bool:
    """Tell whether a name is a number in any format, a date, or true or false."""
    values = pa.array(names, pa.string())
    if pc.any(pc.is_in(pc.utf8_lower(values), value_set=pa.array(TRUTHS))).as_py():
        return True
    patterns = (DATE, *(pattern for _, pattern in KINDS.values()))
    return any(pc.any(pc.match_substring_regex(values, p)).as_py() for p in patterns)


def _counts_up(names: Sequence[str]) -> bool:
    """Tell whether names are 0, 1, 2, ... as pandas writes them: that is no row of data."""
    names = names[1:] if names[:1] == [UNNAMED] else names
    starts = [[str(j + start) for j in range(len(names))] for start in (0, 1)]
    return len(names) > 2 and list(names) in starts


def _in_own_column(names: Sequence[str], columns: Sequence[pa.Array]) -> list[int]:
    """Return the places of names that are also values of their own column."""
    n_rows = len(columns[0])
    if not n_rows:
        return []
    repeated = pa.array(np.repeat(np.array(names, dtype=object), n_rows), pa.string())
    same = pc.equal(pa.concat_arrays(columns), repeated).to_numpy(zero_copy_only=False)
    found = np.flatnonzero(same.reshape(len(names), n_rows).any(axis=1)).tolist()
    return [j for j in found if names[j]]


def _is_text(name: str, values: pa.Array) -> bool:
    """Tell whether a name that is a value of its own column is one of several texts there.

    Where it is the only one, it is the mark of a box that was ticked. Among numbers, it is a
    header that was repeated, which is found where the numbers are read.
    """
    others = values.filter(pc.and_(pc.not_equal(values, name), pc.not_equal(values, "")))
    return len(others) > 0 and to_numbers(others, TextFormat()) is None


def _has_values(values: pa.Array) -> bool:
    return bool(pc.any(pc.not_equal(pc.utf8_trim_whitespace(values), "")).as_py())
