"""Propose a schema from a site's files. It names nothing that only few rows have."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedjigsaw.columns.lenient import best_format, read_leniently
from fedjigsaw.columns.levels import fold
from fedjigsaw.columns.ranges import (
    CLEARLY,
    SKEWED,
    Spread,
    date_range,
    log_range,
    number_range,
    show_code,
    spread_of,
)
from fedjigsaw.columns.recognition import Recognized, Sighting, recognize
from fedjigsaw.columns.schema import (
    BOOLEAN,
    CATEGORY,
    DATE,
    IGNORE,
    NUMBER,
    REFUSE,
    TEXT_KINDS,
    Column,
    Schema,
    is_name,
)
from fedjigsaw.columns.values import MUST_BE
from fedjigsaw.columns.words import FALSE, TRUE
from fedjigsaw.errors import DataError, counted, quote_names
from fedjigsaw.io.tables import Table
from fedjigsaw.sites.preparation import Progress, quiet, raw_columns, with_all_columns

DOUBT = "CHECK: "  # before a note
SHOWN = 10  # columns that an error names
TREATED = "missing"  # what happens to values outside of a range, if enough rows have them


@dataclass(frozen=True)
class ProposedColumn:
    """A column of a proposed schema.

    Attributes
    ----------
    seen : what was seen in the file, for a comment.
    notes : what a person should look at.
    why : the part of `seen` that explains the kind.
    """

    column: Column
    seen: str
    notes: tuple[str, ...] = ()
    why: str = ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Those of the notes that a person must decide, without the word before them."""
        return tuple(n.removeprefix(DOUBT) for n in self.notes if n.startswith(DOUBT))


@dataclass(frozen=True)
class Proposal:
    """A proposed schema, which may leave the site after a person has read it.

    Attributes
    ----------
    columns : what is proposed for each column, with what was seen.
    missing : texts that seem to stand for missing values.
    min_rows : fewest rows that anything in it is about.
    told : what is said at the site alone.

    See Also
    --------
    propose_schema : makes one, and has an example.
    """

    columns: tuple[ProposedColumn, ...]
    missing: tuple[str, ...]
    min_rows: int
    told: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The schema, without comments."""
        return Schema(tuple(entry.column for entry in self.columns), self.missing)


def propose_schema(
    data: Path | str | Table | Sequence[Path | str | Table],
    *,
    min_rows: int = 5,
    progress: Progress = quiet,
) -> Proposal:
    """Propose a schema from one or more files of a site, each read twice in bounded memory.

    Parameters
    ----------
    data : the path of a file, a table that is already open, or a list of them.
    min_rows : a category, or a mark for missing values, is named only if so many rows have it; a
        range is rounded outward from the means of so many smallest and largest values.
    progress : called with the number of rows of each batch that was read.

    Returns
    -------
    Proposal
        Its `schema` is what a person should read, and correct, before it leaves the site.

    Raises
    ------
    DataError
        If a file cannot be read, no file is given, or there are fewer than `min_rows` rows.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import propose_schema
    >>> rows = from_array([[50.5, 0], [61.0, 1], [50.5, 1], [72.5, 0]] * 5, ["weight", "smoker"])
    >>> [(column.name, column.kind) for column in propose_schema(rows).schema.columns]
    [('weight', 'number'), ('smoker', 'boolean')]
    """
    several = [data] if isinstance(data, (Path, str, Table)) else list(data)
    if not several:
        raise DataError("No file is given.")
    tables = [with_all_columns(entry) for entry in several]
    sightings = _look(tables, progress)
    n_rows = max((seen.n_rows for seen in sightings.values()), default=0)
    if n_rows < min_rows:
        hint = tables[0].reader.hint
        raise DataError(
            f"{tables[0].path} has {counted(n_rows, 'row')}; a schema of fewer than {min_rows} "
            f"rows may not leave (min_rows={min_rows}). {hint}".rstrip(),
            file=tables[0].path,
        )
    found = {name: recognize(seen, min_rows) for name, seen in sightings.items()}
    found = _without_answers(found)
    marks = tuple(sorted({mark for known in found.values() for mark in known.marks}))
    columns = {
        name: Column(name, known.kind, categories=known.categories, format=known.format)
        for name, known in found.items()
    }
    spreads = _measure(tables, columns, marks, min_rows)
    entries = [
        _entry(
            columns[name], found[name], sightings[name], spreads.get(name), marks, n_rows, min_rows
        )
        for name in found
    ]
    if all(entry.column.kind == IGNORE for entry in entries):
        reasons = [f"{name!r}: {known.why}" for name, known in found.items()]
        hint = tables[0].reader.hint or "Are the names of the columns in its first line?"
        more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
        raise DataError(
            f"{tables[0].path} has no column that could be clustered ("
            + "; ".join(reasons[:SHOWN])
            + f"{more}). {hint}",
            file=tables[0].path,
        )
    told = (*_told(sightings, found, marks), *_refused(entries, spreads))
    return Proposal(tuple(entries), marks, min_rows, told)


# ---------------------------------------------------------------------------------------- reading


def _look(tables: Sequence[Table], progress: Progress) -> dict[str, Sighting]:
    sightings: dict[str, Sighting] = {}
    for table in tables:
        names = [name for name in table.reader.names if is_name(name)]
        for name in names:
            sightings.setdefault(name, Sighting(name))
        for columns in raw_columns(table, names):
            for name, values in columns.items():
                sightings[name].add(values, table.reader.text)
            progress(max(map(len, columns.values()), default=0))
        for name in names:
            sightings[name].end_of_file()
    return sightings


def _measure(
    tables: Sequence[Table], columns: dict[str, Column], marks: Sequence[str], min_rows: int
) -> dict[str, Spread]:
    wanted = {name: c for name, c in columns.items() if c.kind in (NUMBER, DATE)}
    spreads = {name: spread_of(column.kind, min_rows) for name, column in wanted.items()}
    for table in tables:
        names = [name for name in table.reader.names if name in wanted]
        text, formats = table.reader.text.with_missing(marks), dict[str, str]()
        for values in raw_columns(table, names):
            for name, some in values.items():
                column = wanted[name]
                if column.kind == DATE and not formats.get(name):
                    formats[name] = best_format(column, some, text)
                reading = read_leniently(column, some, text, formats.get(name, ""))
                spreads[name].add(reading.numbers)
    return spreads


# --------------------------------------------------------------------------------------- proposing


def _without_answers(found: dict[str, Recognized]) -> dict[str, Recognized]:
    """Ignore columns with marks that are answers elsewhere: a mark is missing in every column.

    Answers are categories, and words for yes and no if a column has such: other sites may write
    other ones than this.
    """
    answers = {fold(level) for known in found.values() for level in known.categories}
    if any(known.kind == BOOLEAN for known in found.values()):
        answers |= {*TRUE, *FALSE}
    lost = {name: [m for m in known.marks if fold(m) in answers] for name, known in found.items()}
    return {n: _unreadable(n, known, lost[n]) if lost[n] else known for n, known in found.items()}


def _unreadable(name: str, known: Recognized, marks: Sequence[str]) -> Recognized:
    """Ignore a column that cannot be read without these marks, and say what to do."""
    shown = ", ".join(f'"{mark}"' for mark in marks)
    options = " ".join(f"--missing {shlex.quote(f'{name}:{mark}')}" for mark in marks)
    note = (
        f"{DOUBT}{shown} among {known.kind}s {'are answers' if len(marks) > 1 else 'is an answer'} "
        "in another column, so it cannot count as missing in all of them. If it does in this one, "
        f'kind = "{known.kind}", and make a copy with `schema apply {options}`.'
    )
    return Recognized(IGNORE, f"{known.kind}s, and {shown} among them", notes=(*known.notes, note))


def _entry(
    column: Column,
    known: Recognized,
    seen: Sighting,
    spread: Spread | None,
    marks: Sequence[str],
    n_rows: int,
    min_rows: int,
) -> ProposedColumn:
    n_missing = n_rows - seen.n_present + sum(seen.odd[mark] for mark in marks)
    words = f"{known.why}; {_share(n_missing, n_rows, min_rows)}"
    codes = {} if spread is None else spread.find_codes(min_rows)
    notes = [*known.notes, *(_code_note(column, *item, n_rows) for item in codes.items())]
    if spread is not None and spread.ends is not None:
        propose = _with_dates if column.kind == DATE else _with_numbers
        column, more = propose(column, spread, *spread.ends)
        notes += more
        if column.range and spread.n_outside(column.range) + sum(codes.values()) >= min_rows:
            column = replace(column, outside=TREATED)
            notes.append(OUTSIDE_NOTE)
    notes += _absent_notes(column, seen, min_rows)
    if column.kind == CATEGORY:
        notes.append("Other values are put together as (other).")
    return ProposedColumn(column, words, tuple(notes), known.why)


def _absent_notes(column: Column, seen: Sighting, min_rows: int) -> list[str]:
    """Name words that count as missing, though they could be an answer."""
    words = sorted(word for word, n in seen.absent.items() if n >= min_rows)
    if not words or column.kind not in (*TEXT_KINDS, BOOLEAN):
        return []
    shown = ", ".join(f'"{word}"' for word in words)
    if column.kind == BOOLEAN:
        return [f"Missing values: {shown}."]
    return [f"Missing values: {shown}. If that is an answer, add it to the categories."]


def _share(n_missing: int, n_rows: int, min_rows: int) -> str:
    """Say how many values are missing, so roughly that no single row shows."""
    if n_missing < min_rows:
        return "no or hardly any missing values"
    percent = 5 * round(20 * n_missing / n_rows)
    return f"about {percent} % missing" if percent else "under 5 % missing"


def _code_note(column: Column, code: float, n: int, n_rows: int) -> str:
    percent = round(100 * n / n_rows)
    share = f"about {percent} %" if percent else "under 1 %"
    shown = show_code(column.kind, code)
    mark = shlex.quote(f"{column.name}:{shown}")
    return (
        f"CHECK: {shown} occurs in {share} of the rows, far from the rest: a mark for a missing "
        f"value? If so, make a copy with `schema apply --missing {mark}`."
    )


RANGE_NOTE = "CHECK the range: it is rounded from one site's file."
OUTSIDE_NOTE = "CHECK: values outside of the range occur, and count as missing."


def _with_dates(
    column: Column, spread: Spread, low: float, high: float
) -> tuple[Column, list[str]]:
    return replace(column, range=date_range(low, high)), [RANGE_NOTE]


def _with_numbers(
    column: Column, spread: Spread, low: float, high: float
) -> tuple[Column, list[str]]:
    notes = []
    skewed, in_logs = spread.skewness()
    helps = in_logs < skewed / 2
    if helps and skewed > CLEARLY:
        column = replace(column, scale="log")
        notes.append("Some values are much larger than most: their logarithms are used.")
    elif helps and skewed > SKEWED:
        notes.append('Somewhat skewed: consider scale = "log".')
    limits = log_range(low, high) if column.scale == "log" else number_range(low, high)
    if limits is not None:
        column = replace(column, range=limits)
        notes.append(RANGE_NOTE)
    return column, notes


def _told(
    sightings: dict[str, Sighting], found: dict[str, Recognized], marks: Sequence[str]
) -> Iterator[str]:
    """Say what is for the site alone: values that are not of the kind of their column."""
    for name, known in found.items():
        seen = sightings[name]
        if known.kind == NUMBER:
            n_bad = sum(n for text, n in seen.odd.items() if text not in marks)
        elif known.kind == DATE:
            n_bad = seen.n_present - seen.n_dates - seen.n_typed[DATE]
            n_bad -= sum(seen.odd[mark] for mark in marks)
        else:
            continue
        if n_bad:
            values = counted(n_bad, "value is", "values are")
            yield f"Column {name!r}: {values} not {MUST_BE[known.kind]}."
    rare = [
        name
        for name, known in found.items()
        if known.kind in TEXT_KINDS
        and len(set(map(fold, sightings[name].levels))) > len(known.categories)
    ]
    if rare:
        yield f"Rare categories are left out of the schema: column {quote_names(rare)}."


def _refused(entries: Sequence[ProposedColumn], spreads: dict[str, Spread]) -> Iterator[str]:
    """Say at the site alone that so few values are outside of a range that the schema is silent."""
    for column in (entry.column for entry in entries):
        if column.range is None or column.outside != REFUSE:
            continue
        n = spreads[column.name].n_outside(column.range)
        if n:
            values = counted(n, "value is", "values are")
            yield (
                f"Column {column.name!r}: {values} outside of the proposed range, and will be "
                'refused. Correct this, widen the range, or set outside = "missing".'
            )
