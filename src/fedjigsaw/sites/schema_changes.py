"""What is different in one site's file, as a person says it; checked against the schema."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from fedjigsaw.columns.schema import BOOLEAN, CATEGORY, DATE, NUMBER, ORDERED, REFUSE, Column
from fedjigsaw.columns.words import FALSE, TRUE, close_names
from fedjigsaw.errors import ParameterError, invalid, quote_names

MAPPED = (CATEGORY, ORDERED, BOOLEAN)


@dataclass(frozen=True)
class Changes:
    """What is different in one site's file. Columns have the names of the schema.

    Attributes
    ----------
    names : column of the schema -> its name in the file.
    factors : column -> number by which the values are multiplied, to get the unit of the schema.
    levels : column -> {value in the file: category of the schema}.
    date_formats : column -> how dates are written, such as ``"%d.%m.%Y"``.
    missing : texts or numbers that stand for a missing value, in all columns.
    missing_in : column -> the same for this column alone.
    empty : columns that the file does not have, which get no values.

    Examples
    --------
    A file whose column Alter is the schema's age, with 999 for a missing value:

    >>> from fedjigsaw.sites import Changes
    >>> Changes(names={"age": "Alter"}, missing=["999"]).names["age"]
    'Alter'
    """

    names: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    date_formats: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()
    missing_in: Mapping[str, Sequence[str]] = field(default_factory=dict)
    empty: Sequence[str] = ()


def check_changes(used: Mapping[str, Column], changes: Changes) -> None:
    numbers, words = (NUMBER,), MAPPED
    for field_name, names, kinds in (
        ("names", changes.names, (*MAPPED, NUMBER, DATE)),
        ("factors", changes.factors, numbers),
        ("levels", changes.levels, words),
        ("date_formats", changes.date_formats, (DATE,)),
        ("missing_in", changes.missing_in, (*MAPPED, NUMBER, DATE)),
        ("empty", dict.fromkeys(changes.empty, ""), (*MAPPED, NUMBER, DATE)),
    ):
        for name in names:
            _check_column(field_name, name, used, kinds)
    for name in changes.empty:
        if used[name].missing == REFUSE:
            raise ParameterError(
                f"The schema refuses missing values of column {name!r}, so that it cannot be "
                "empty. Ignore the column in the schema of all sites instead.",
                parameter="empty",
                column=name,
            )
    for name, factor in changes.factors.items():
        if not isfinite(factor) or factor == 0:
            allowed = "a finite number other than 0"
            text = invalid("factor", f"column {name!r}", allowed, factor)
            raise ParameterError(text, parameter="factors", column=name)
    for name, levels in changes.levels.items():
        _check_levels(used[name], levels)
    sources = Counter(changes.names.values())
    for source, n in sources.items():
        if n > 1:
            raise ParameterError(
                f"Column {source!r} of the file is given two names.",
                parameter="names",
                column=source,
            )


def _check_column(field: str, name: str, used: Mapping[str, Column], kinds: Sequence[str]) -> None:
    if name not in used:
        close = close_names(name, list(used))
        guess = f" Is it {close[0]!r}?" if close else f" It has {quote_names(list(used))}."
        text = f"The schema uses no column {name!r}.{guess}"
    elif used[name].kind not in kinds:
        text = f"Column {name!r} is of kind {used[name].kind}; this is for {' and '.join(kinds)}."
    else:
        return
    raise ParameterError(text, parameter=field, column=name)


def _check_levels(column: Column, levels: Mapping[str, str]) -> None:
    for new in levels.values():
        known = (*TRUE, *FALSE) if column.kind == BOOLEAN else column.categories
        if (new.lower() if column.kind == BOOLEAN else new) not in known:
            shown = "true, false" if column.kind == BOOLEAN else quote_names(column.categories)
            raise ParameterError(
                f"{new!r} is no category of column {column.name!r}. It has {shown}.",
                parameter="levels",
                column=column.name,
            )
