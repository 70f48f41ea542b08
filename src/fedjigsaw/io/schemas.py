"""A schema as a TOML file, which people write and edit."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjigsaw.columns.schema import DATE, IGNORE, SCALES_BY_KIND, Column, Schema, from_days
from fedjigsaw.errors import DataError, ParameterError, error_at
from fedjigsaw.io._codec import read_bounded

MAX_TOML = 2**20
MAX_POINTS = 8  # in a line, outside of texts: each nests deeper
TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"?|\'[^\']*\'?|#.*')  # in quotes, and comments
WIDTH = 90  # of lines


def load_schema(path: Path | str) -> Schema:
    """Read a schema, within a limit on its size; every error names the file.

    Parameters
    ----------
    path : a TOML file, such as one that ``fedjigsaw schema init`` wrote.

    Raises
    ------
    DataError
        If the file cannot be read, or is not a schema; the error says where.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedjigsaw.columns.schema import Column, Schema
    >>> from fedjigsaw.io.schemas import load_schema, schema_to_toml
    >>> path = Path(tempfile.mkdtemp(), "schema.toml")
    >>> _ = path.write_text(schema_to_toml(Schema((Column("age", range=(0, 120)),))))
    >>> load_schema(path)["age"].range
    (0.0, 120.0)
    """
    path = Path(path)
    content = read_bounded(path, MAX_TOML)
    try:
        text = content.decode("utf-8-sig")
        _check_depth(text)
        return Schema.from_dict(tomllib.loads(text))
    except UnicodeDecodeError as error:
        raise error_at(path, " is not a schema: it is not UTF-8 text.") from error
    except ParameterError as error:
        raise DataError(f"{path}: {error}", **error.subject | {"file": path}) from error
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise error_at(path, f" is not a schema: it is not valid TOML ({error}).") from error


def _check_depth(text: str) -> None:
    """Raise if keys nest deeper than those of a schema: the time to read them grows too fast."""
    several_lines = any(quotes in text for quotes in ('"""', "'''"))  # texts that end elsewhere
    for n, line in enumerate(text.splitlines()):
        keys = line if several_lines or line.count(".") <= MAX_POINTS else TEXTS.sub("", line)
        if keys.count(".") > MAX_POINTS:
            text = f"Line {n + 1} is not one of a schema: it has too many points."
            raise ParameterError(text, row=n + 1)


def schema_to_toml(
    schema: Schema,
    *,
    header: Sequence[str] = (),
    comments: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Write a schema as TOML, with a block for each column.

    Parameters
    ----------
    header : comments at the top, as they are to be shown.
    comments : name of a column -> lines above its block.

    Examples
    --------
    >>> from fedjigsaw.columns.schema import Column, Schema
    >>> from fedjigsaw.io.schemas import schema_to_toml
    >>> print(schema_to_toml(Schema((Column("age", range=(0, 120)),))), end="")
    format = 1
    rare = 0.01
    <BLANKLINE>
    [columns.age]
    kind = "number"
    range = [0, 120]
    missing = "mean"
    scale = "standard"
    """
    lines = [*header, "format = 1"]
    if schema.missing:
        lines.append(f"missing = {_value(list(schema.missing))}")
    lines.append(f"rare = {_value(schema.rare)}")
    for column in schema.columns:
        lines.append("")
        lines += [f"# {line}" for line in (comments or {}).get(column.name, ())]
        lines.append(f"[columns.{_key(column.name)}]")
        lines += [f"{key} = {_value(value)}" for key, value in _settings(column).items()]
    return "\n".join(lines) + "\n"


def _settings(column: Column) -> dict[str, Any]:
    """Return the settings that a person may want to see, also if they are the default."""
    found = column.to_dict()
    if column.kind != IGNORE:
        found["missing"] = column.missing
    if column.kind in SCALES_BY_KIND:
        found["scale"] = column.scale
    if column.kind == DATE and column.range is not None:
        found["range"] = [from_days(day) for day in column.range]
    order = ("kind", "unit", "format", "categories", "range", "outside", "missing", "scale")
    return {key: found[key] for key in (*order, "weight") if key in found}


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # what JSON escapes, TOML escapes alike
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, list):
        parts = [_value(entry) for entry in value]
        line = f"[{', '.join(parts)}]"
        return line if len(line) < WIDTH else f"[\n{_wrapped(parts)}]"
    return str(value)


def _wrapped(parts: Sequence[str]) -> str:
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > WIDTH:
            lines.append("")
        lines[-1] += f" {part}," if lines[-1] else f"    {part},"
    return "".join(f"{line}\n" for line in lines)
