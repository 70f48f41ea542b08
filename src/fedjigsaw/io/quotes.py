"""Quotation marks in files of text: one that is not closed swallows all rows up to the next one."""

import codecs
import io
import re
from collections.abc import Iterable, Iterator

MAX_MARKS = 200_000  # in files with more of them, each is looked at only if there is a reason
MAX_LINES = 10  # of a category
MAX_LINE = 2**22  # characters; no such line can be read


def first_wrong_mark(chunks: Iterable[bytes], encoding: str, delimiter: str) -> int:
    r"""Return the line of the first value whose quotation marks do not enclose it; 0 if all do.

    A mark opens a value only at its start: elsewhere, as in ``5"``, it is a sign like others.

    Examples
    --------
    >>> text = 'x,c\n1,"a"\n2,5"\n3,"b ""c"" d"\n'
    >>> first_wrong_mark([text.encode()], "utf-8", ",")
    0
    >>> text = 'x,c\n1,a\n2,"b\n3,c\n4,"d"\n'
    >>> first_wrong_mark([text.encode()], "utf-8", ",")
    3
    """
    end_of_value = re.compile(rf" *[{re.escape(delimiter)}\n]")
    line, opened = 1, 0  # the line where the value began that is not closed yet
    for text in _whole_lines(chunks, encoding):
        counted, i = 0, text.find('"')
        while i >= 0:
            if opened:
                if text.startswith('""', i):
                    i += 1
                elif not end_of_value.match(text, i + 1):
                    return opened
                else:
                    opened = 0
            elif i == 0 or text[i - 1] in ("\n", delimiter):
                line += text.count("\n", counted, i)
                counted, opened = i, line
            i = text.find('"', i + 1)
        line += text.count("\n", counted)
    return opened


def swallows_rows(value: str) -> bool:
    r"""Tell whether a category seems to be rows of a file, up to the next quotation mark.

    Examples
    --------
    >>> swallows_rows('a\n502,"b"'), swallows_rows('a\n502,b"'), swallows_rows('see\nbelow')
    (False, True, False)
    """
    n_breaks = value.count("\n")
    return n_breaks >= MAX_LINES or (n_breaks > 0 and value.count('"') % 2 == 1)


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
