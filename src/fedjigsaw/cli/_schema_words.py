"""Options of `fedjigsaw schema apply`: from the words of the command line to changes of a file."""

from collections.abc import Iterable, Sequence

from fedjigsaw.errors import ParameterError


def _split(
    option: str, text: str, names: Sequence[str], sign: str, example: str
) -> tuple[str, str]:
    """Split a text into the name of a column and the rest; a name may contain the sign, too."""
    for place, found in enumerate(text):
        if found == sign and text[:place] in names:
            return text[:place], text[place + 1 :]
    name, found, rest = text.partition(sign)
    if not (name and found and rest):
        raise ParameterError(f"{option} takes {example}; got {text!r}.")
    return name, rest


def pairs(option: str, texts: Iterable[str], names: Sequence[str]) -> dict[str, str]:
    """Return column -> value of options such as glucose=18.016."""
    examples = {
        "--factor": "COLUMN=NUMBER, such as glucose=18.016",
        "--date-format": "COLUMN=FORMAT, such as seen=%d.%m.%Y",
    }
    found: dict[str, str] = {}
    for text in texts:
        name, value = _split(option, text, names, "=", examples[option])
        if name in found:
            raise ParameterError(f"{option} is given twice for column {name!r}.")
        found[name] = value
    return found


def number(name: str, text: str) -> float:
    """Return the number of a --factor."""
    try:
        return float(text)
    except ValueError as error:
        raise ParameterError(
            f"--factor of column {name!r} must be a number, such as 18.016; got {text!r}."
        ) from error


def renamed(texts: Iterable[str], names: Sequence[str]) -> dict[str, str]:
    """Return name in the schema -> name in the file."""
    found: dict[str, str] = {}
    for text in texts:
        there, equals, name = text.rpartition("=")
        for place, sign in enumerate(text):
            if sign == "=" and text[place + 1 :] in names:
                there, name = text[:place], text[place + 1 :]
                break
        if not (there and equals and name):
            raise ParameterError(f"--rename takes FILE=SCHEMA, such as Alter=age; got {text!r}.")
        if name in found:
            raise ParameterError(f"--rename is given twice for column {name!r}.")
        found[name] = there
    return found


def levels(texts: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return column -> value in the file -> category of the schema."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        example = "COLUMN:VALUE=CATEGORY, such as sex:w=female"
        name, rest = _split("--map", text, names, ":", example)
        old, equals, new = rest.rpartition("=")
        if not (old and equals and new):
            raise ParameterError(f"--map takes {example}; got {text!r}.")
        if old in found.setdefault(name, {}):
            raise ParameterError(f"--map is given twice for {old!r} of column {name!r}.")
        found[name][old] = new
    return found


def missing(
    texts: Iterable[str], names: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return what is missing in all columns, and in single ones."""
    everywhere: list[str] = []
    in_one: dict[str, list[str]] = {}
    for text in texts:
        places = [i for i, sign in enumerate(text) if sign == ":" and text[:i] in names]
        if places:
            in_one.setdefault(text[: places[0]], []).append(text[places[0] + 1 :].strip())
        else:
            everywhere.append(text.strip())
    if not all([*everywhere, *(m for some in in_one.values() for m in some)]):
        raise ParameterError("--missing takes a text, such as -9. Empty values always are missing.")
    return tuple(everywhere), in_one
