"""Find out how a text file is written: its encoding, what separates columns, how numbers look."""

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from fedjigsaw._arrow import pc
from fedjigsaw.columns.text import MINUS, MISSING, SIGNS, TextFormat
from fedjigsaw.errors import MAX_VALUE, DataError, error_at, shorten

Flags = npt.NDArray[np.bool_]
# Where two delimiters fit alike, the first one is it: commas are in names and numbers, too.
DELIMITERS = {"\t": "tabs", ";": "semicolons", "|": "vertical bars", ",": "commas"}
BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
ENCODINGS = {"utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252", "latin-1": "Latin-1"}
THOUSANDS = {".": "points", ",": "commas", "'": "apostrophes", " ": "spaces"}
# letters and signs of Western languages in UTF-8; in Windows-1252, hardly any text has these bytes
WIDE = re.compile(rb"[\xc2\xc3][\x80-\xbf]|\xe2[\x80-\xbf]{2}")
LONG = 2**20  # bytes of a line; the reader refuses longer ones, and even shorter ones
TRIAL = 2**18  # characters by which delimiters are judged

# ------------------------------------------------------------------------------------- encoding


def find_encoding(path: Path, chunks: Iterable[bytes]) -> str:
    """Return Python's name of the encoding, from all bytes of the file."""
    first = b""
    decoder: codecs.IncrementalDecoder | None = None
    undefined = False  # bytes that Windows-1252 does not have
    utf8 = True
    for chunk in chunks:
        if decoder is None:
            first = next((bom for bom in BOMS if chunk.startswith(bom)), b"")
            _check_magic(path, chunk)
            decoder = codecs.getincrementaldecoder(BOMS.get(first, "utf-8"))()
        if BOMS.get(first) == "utf-16":
            decoder.decode(chunk)
            continue
        if b"\0" in chunk:
            raise DataError(
                f"{path} is not a text file: it has NUL bytes. If it is text, save it as UTF-8."
            )
        undefined = undefined or any(byte in chunk for byte in b"\x81\x8d\x8f\x90\x9d")
        utf8 = utf8 and _decodes(decoder, chunk)
    if decoder is not None and utf8:
        utf8 = _decodes(decoder, b"", final=True)
    if BOMS.get(first) == "utf-16":
        return "utf-16"
    if first and not utf8:
        raise DataError(f"{path} begins as UTF-8 and has bytes that are not. Save it as UTF-8.")
    return "utf-8" if utf8 else "latin-1" if undefined else "cp1252"


def check_one_encoding(path: Path, chunks: Iterable[bytes], encoding: str) -> None:
    """Raise if lines of a file that is not UTF-8 as a whole are UTF-8: two files were joined.

    One category would become two, since its letters such as ä are read in two ways.
    """
    wide = plain = 0  # numbers of the first lines that are UTF-8, and that are not
    for n, line in enumerate(_lines(chunks), start=1):
        if line.isascii():
            continue
        if not plain and not _is_utf8(line):
            plain = n
        elif not wide and WIDE.search(line) and _is_utf8(line):
            wide = n
        if wide and plain:
            raise DataError(
                f"{path} has two encodings: line {wide} is UTF-8, and line {plain} is "
                f"{ENCODINGS[encoding]}. Letters such as ä would be read wrong in one of them. "
                "If files were joined, save each of them as UTF-8 before; else correct the line.",
                row=min(wide, plain),
            )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines, whatever ends them, up to one that is too long for a table."""
    rest = b""
    for chunk in filter(None, chunks):
        *lines, rest = (rest + chunk).splitlines(keepends=True)
        yield from lines
        if len(rest) > LONG:
            return
    yield rest


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False) -> bool:
    if chunk and chunk.isascii() and not decoder.getstate()[0]:
        return True
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True


def _check_magic(path: Path, start: bytes) -> None:
    if start.startswith(b"\x1f\x8b"):
        raise DataError(f"{path} is compressed by gzip. Name it {path.name}.gz.")
    if start.startswith(b"PK\x03\x04"):
        raise DataError(
            f"{path} is a zip or Excel file, not text. Name it by what it is, or unzip."
        )


# ------------------------------------------------------------------------------------ delimiter


def find_delimiter(text: str) -> str:
    """Return what separates columns, by header and rows.

    That is the sign by which all rows have as many values as the header has names, and the most of
    them. If no sign is such, it is the one that the fewest rows contradict.

    Examples
    --------
    >>> find_delimiter("glucose, mg/dl;age\\n5,5;61\\n7;50,5\\n")
    ';'
    >>> find_delimiter("bmi\\n28,7\\n24,1\\n")
    '\\t'
    """
    rows = whole_rows(text, TRIAL)
    data = (rows if rows.count("\n") > 2 else text).encode()  # a header may be very long
    found = {sign: _try(sign, data) for sign in DELIMITERS}
    several = {sign: fits for sign, fits in found.items() if fits[1] > 1}
    if several:
        return max(several, key=lambda sign: several[sign])
    return max(found, key=lambda sign: found[sign])


def _try(sign: str, data: bytes) -> tuple[float, int]:
    """Return the share of rows that have as many values as the header, and that number."""
    n_others = 0

    def count(row: object) -> str:
        nonlocal n_others
        n_others += 1
        return "skip"

    parse = pa.csv.ParseOptions(delimiter=sign, newlines_in_values=True, invalid_row_handler=count)
    read = pa.csv.ReadOptions(use_threads=False, block_size=max(len(data), 1))
    try:
        table = pa.csv.read_csv(pa.BufferReader(data), read_options=read, parse_options=parse)
    except pa.ArrowException:
        return 0.0, 1
    n_rows = n_others + table.num_rows
    return table.num_rows / n_rows if n_rows else 1.0, table.num_columns


def whole_rows(text: str, limit: int) -> str:
    """Cut a text after a row, at most `limit` characters from its start, if there is such a row."""
    if len(text) <= limit:
        return text
    end = limit
    for _ in range(1000):  # a line break inside quotes ends no row
        end = text.rfind("\n", 0, end)
        if end < 0:
            break
        if text.count('"', 0, end) % 2 == 0:
            return text[: end + 1]
    return text[:limit]


# -------------------------------------------------------------------------------------- numbers

SIGN, POWER = f"^[+{MINUS}-]?", "([eE][+-]?[0-9]+)?$"
UNUSUAL = "[,'’ \u00a0\u2009\u202f]|[.].*[.]"  # without these, numbers are plain
DATES = "^(0?[1-9]|1[0-2])[.](19|20)[0-9][0-9]$"  # 12.2024
TIMES = "^([01]?[0-9]|2[0-3])[.][0-5][0-9]$"  # 23.59


def _grouped(signs: str, times: str) -> str:
    return f"[1-9][0-9]{{0,2}}([{signs}][0-9]{{3}}){times}"


def _decimal(sign: str, other: str) -> str:
    """Match numbers in which `sign` can only be the decimal sign."""
    d = f"[{sign}]"
    groups = "|".join(_grouped(signs, "+") for signs in (SIGNS["'"], SIGNS[" "], other))
    return (
        f"{SIGN}(([0-9]+{d}([0-9]{{1,2}}|[0-9]{{4,}})?|{d}[0-9]+|0[0-9]*{d}[0-9]+"
        f"|[0-9]{{4,}}{d}[0-9]+|({groups}){d}[0-9]*){POWER[:-1]}"
        f"|[0-9]+{d}[0-9]+[eE][+-]?[0-9]+)$"
    )


# kind -> the sign that such values contain, and their pattern
KINDS = {
    "point": (".", _decimal(".", ",")),
    "comma": (",", _decimal(",", ".")),
    "1.234": (".", f"{SIGN}{_grouped('.', '')}$"),
    "1,234": (",", f"{SIGN}{_grouped(',', '')}$"),
    "1.234.567": (".", f"{SIGN}{_grouped('.', '{2,}')}$"),
    "1,234,567": (",", f"{SIGN}{_grouped(',', '{2,}')}$"),
    "both": (",", f"{SIGN}[0-9.,]*[.][0-9.,]*{POWER}"),
    **{s: (s, f"{SIGN}{_grouped(SIGNS[s], '+')}([.,][0-9]*)?{POWER}") for s in ("'", " ")},
    "plain": ("", f"{SIGN}[0-9]+{POWER}"),
}


@dataclass(frozen=True)
class Found:
    """How numbers are written, as far as values tell.

    Attributes
    ----------
    guess : what is not sure about it, in words.
    decided : whether any value tells the decimal sign.
    doubt : the error about a number that can be read in two ways, if there is one.
    """

    text: TextFormat = field(default_factory=TextFormat)
    guess: str = ""
    decided: bool = False
    doubt: DataError | None = None

    def check(self) -> None:
        """Raise if nothing in the file tells whether a sign is decimal or separates thousands."""
        if self.doubt:
            raise self.doubt


def find_text_format(
    path: Path,
    names: Sequence[str],
    columns: Sequence[pa.Array],
    delimiter: str,
    start: int = 0,
    decimal: str | None = None,
) -> Found:
    """Find decimal sign and separator of thousands, from all values that look like numbers.

    The columns begin at row `start` of the file. A person may have named the decimal sign.
    """
    values = pc.utf8_trim_whitespace(pa.concat_arrays(columns))
    is_plain = not _any_match(values, UNUSUAL)
    if is_plain:
        decided = _any_match(values, KINDS["point"][1])
        ambiguous = delimiter != "," and not decided and _any_match(values, KINDS["1.234"][1])
        if decimal != "," and not ambiguous:
            return Found(decided=decided)
    found = _kinds_of(values, len(columns))
    point = found["point"] | found["1,234,567"]
    comma = found["comma"] | found["1.234.567"]
    if point.any() and comma.any():
        raise _contradiction(path, names, columns, point, comma, start)
    decided = bool(point.any() or comma.any())
    doubtful = found["1,234"] | (found["1.234"] & (delimiter != ","))
    doubt = None if decided or decimal else _doubt(path, names, columns, doubtful, start)
    decimal = decimal or ("," if comma.any() else ".")
    other = "," if decimal == "." else "."
    sure = found["both"].any() or found[f"1{other}234{other}567"].any()
    guess = f"1{other}234 is read as 1234" if found[f"1{other}234"].any() and not sure else ""
    return Found(TextFormat(decimal, _thousands(found, decimal)), guess, decided, doubt)


def grouped_later(chunks: Iterable[bytes], decimal: str, delimiter: str) -> bool:
    """Tell whether thousands are separated by the sign that is not the decimal one."""
    sign = b"[.]" if decimal == "," else b","
    edge = b'["\r\n' + delimiter.encode() + b"]"
    digits = rb"[+-]?[0-9]{1,3}(?:%s[0-9]{3})+(?:%s[0-9]*)?" % (sign, re.escape(decimal.encode()))
    # inside columns that are separated by commas, numbers with commas are in quotes
    start = b'"' if delimiter == "," and sign == b"," else edge
    quick = re.compile(rb"%s[0-9]{3}[^0-9]" % sign if start == edge else b'"%s"' % digits)
    exact = re.compile(start + digits + edge)
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        if quick.search(data) and exact.search(data):
            return True
        rest = data[-64:]
    return False


def _thousands(found: dict[str, Flags], decimal: str) -> str:
    """Return the sign that separates thousands in the most numbers."""
    other = "," if decimal == "." else "."
    groups = (f"1{other}234", f"1{other}234{other}567", "both")
    counts = {sign: int(found[sign].sum()) for sign in ("'", " ")}
    counts[other] = sum(int(found[kind].sum()) for kind in groups)
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] else ""


def _kinds_of(values: pa.Array, n_columns: int) -> dict[str, Flags]:
    """Say of each value, by column and row, which kind of number it is."""
    shape = (n_columns, len(values) // n_columns)
    where = {sign: _with_any(values, signs) for sign, signs in SIGNS.items()}
    where[""] = np.arange(len(values))

    def match(sign: str, pattern: str) -> Flags:
        flags = np.zeros(len(values), dtype=np.bool_)
        if len(where[sign]):
            found = pc.match_substring_regex(values.take(pa.array(where[sign])), pattern)
            flags[where[sign]] = found.to_numpy(zero_copy_only=False)
        return flags.reshape(shape)

    found = {kind: match(*how) for kind, how in KINDS.items()}
    number = np.logical_or.reduce([flags for kind, flags in found.items() if kind != "both"])
    absent = pc.is_in(values, value_set=pa.array(MISSING)).to_numpy(zero_copy_only=False)
    present = np.logical_not(absent.reshape(shape))
    # in a column of texts, a text that looks like a number is none
    counts = 2 * number.sum(axis=1) >= np.maximum(present.sum(axis=1), 1)
    for pattern in (DATES, TIMES):
        counts &= np.any(match(".", pattern) < number, axis=1)
    return {kind: flags & counts[:, None] & number for kind, flags in found.items()}


def _any_match(values: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, pattern)).as_py())


def _with_any(values: pa.Array, signs: str) -> npt.NDArray[np.int64]:
    """Return the places of values that contain one of some signs."""
    flags = np.zeros(len(values), dtype=np.bool_)
    for sign in signs:
        flags |= pc.match_substring(values, sign).to_numpy(zero_copy_only=False)
    return np.flatnonzero(flags)


def _doubt(
    path: Path, names: Sequence[str], columns: Sequence[pa.Array], doubtful: Flags, start: int
) -> DataError | None:
    """Return an error about the first number that can be read in two ways, if there is one."""
    if not doubtful.any():
        return None
    row, column = map(int, np.argwhere(doubtful.T)[0])
    value = columns[column][row].as_py().strip()
    readings = (value.replace(",", "."), value.replace(",", "").replace(".", ""))
    small, large = (f"{float(re.sub(f'[{MINUS}]', '-', reading)):.15g}" for reading in readings)
    what = (
        f": {value!r} can be {small} or {large}, and nothing in the file tells which. Name the "
        "decimal sign, a point or a comma, or give a Parquet file."
    )
    name = names[column]
    return error_at(path, what, row=start + row + 1, column=name, parameter="decimal")


def _contradiction(
    path: Path,
    names: Sequence[str],
    columns: Sequence[pa.Array],
    point: Flags,
    comma: Flags,
    start: int,
) -> DataError:
    places = [tuple(map(int, np.argwhere(flags.T)[0])) for flags in (point, comma)]
    first, second = (
        f"{shorten(repr(columns[column][row].as_py()), MAX_VALUE)} in row {start + row + 1}, "
        f"column {names[column]!r}"
        for row, column in places
    )
    row, column = places[0]
    return DataError(
        f"{path} has decimal points and decimal commas: {first}, and {second}. "
        "Write all numbers alike, or take a column that has no numbers out of the file.",
        file=path,
        row=start + row + 1,
        column=names[column],
    )


# ---------------------------------------------------------------------------------------- words


def in_words(encoding: str, delimiter: str, text: TextFormat, guess: str) -> str:
    """Say how a file differs from UTF-8 with commas between columns and decimal points.

    Examples
    --------
    >>> in_words("cp1252", ";", TextFormat(","), "")
    'semicolons between columns, decimal comma, Windows-1252'
    """
    parts = [
        f"{DELIMITERS[delimiter]} between columns" if delimiter != "," else "",
        "decimal comma" if text.decimal == "," else "",
        f"{THOUSANDS[text.thousands]} between thousands" if text.thousands else "",
        guess,
        ENCODINGS[encoding] if encoding != "utf-8" else "",
    ]
    return ", ".join(filter(None, parts))
