"""Quotation marks in files of text: one that is not closed swallows all rows up to the next one."""

import codecs
import io
import re
from collections.abc import Iterable, Iterator

MAX_LINE = 2**22  # characters; no such line or value can be read


def first_wrong_mark(chunks: Iterable[bytes], encoding: str, delimiter: str, n_columns: int) -> int:
    r"""Return the line of the first value whose quotation marks do not enclose it; 0 if all do.

    A mark opens a value only at its start: elsewhere, as in ``5"``, it is a sign like others. Two
    marks that are not of one value may still look so, with whole rows between them.

    Examples
    --------
    >>> text = 'x,c\n1,"a"\n2,5"\n3,"b ""c"" d"\n'
    >>> first_wrong_mark([text.encode()], "utf-8", ",", 2)
    0
    >>> text = 'x,c\n1,a\n2,"b\n3,c\n4,"d"\n'
    >>> first_wrong_mark([text.encode()], "utf-8", ",", 2)
    3
    """
    edge = rf"[{re.escape(delimiter)}\n]"
    enclosed = rf'"[^"]*+(?:""[^"]*+)*+"(?= *{edge})'
    in_one_line = f"(?<={edge})" + enclosed.replace('[^"]', r'[^"\n]')
    # expressions that never step back: they take a third of the time of a loop over marks
    good = re.compile(rf'(?:[^"]++|(?<!{edge})"|{in_one_line})*+')
    value, begun = re.compile(enclosed), re.compile(r'"[^"]*+(?:""[^"]*+)*+')
    n_lines, rest = 0, "\n"  # the end of the line before tells that a value begins
    for lines in _whole_lines(chunks, encoding):
        text, place = rest + lines, 1
        while (place := _end(good, text, place)) < len(text):
            if (found := value.match(text, place)) is None:
                break
            if _holds_rows(found[0], delimiter, n_columns):
                return n_lines + text.count("\n", 0, place)
            place = found.end()
        n_lines += text.count("\n", 0, place - 1)
        rest = text[place - 1 :]
        if len(rest) > 1 and (_end(begun, text, place) < len(text) or len(rest) > MAX_LINE):
            return n_lines + rest.startswith("\n")
    return n_lines + rest.startswith("\n") if len(rest) > 1 else 0


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place


def _holds_rows(value: str, delimiter: str, n_columns: int) -> bool:
    """Tell whether most lines of a value are rows: the end of the first and the start of the last
    together, and each between them. After a delimiter, rows have no space, and sentences do.
    """
    if "\n" not in value:
        return False
    counts = [len(re.findall(rf"{re.escape(delimiter)}(?! )", line)) for line in value.split("\n")]
    whole = [counts[0] + counts[-1], *counts[1:-1]]
    return 2 * whole.count(n_columns - 1) > len(whole)


def _whole_lines(chunks: Iterable[bytes], encoding: str) -> Iterator[str]:
    """Decode a file, with a line feed after each line; those beyond MAX_LINE are cut."""
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    decode = codecs.getincrementaldecoder(name)("replace")
    decoder = io.IncrementalNewlineDecoder(decode, translate=True)
    rest = ""
    for chunk in chunks:
        text = rest + decoder.decode(chunk)
        end = text.rfind("\n") + 1
        if not end and len(text) > MAX_LINE:
            end = len(text)
        yield text[:end]
        rest = text[end:]
    yield rest + decoder.decode(b"", final=True) + "\n"
