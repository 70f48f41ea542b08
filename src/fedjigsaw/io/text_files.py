"""Files of text: columns separated by commas, semicolons, tabs or bars, also compressed."""

import codecs
import contextlib
import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from fedjigsaw.errors import DataError, broken, counted, error_at
from fedjigsaw.io.detection import (
    DELIMITERS,
    Found,
    check_one_encoding,
    find_delimiter,
    find_encoding,
    find_text_format,
    grouped_later,
    in_words,
    whole_rows,
)
from fedjigsaw.io.headers import MAX_TITLE, Title, check_header, find_title, name_columns
from fedjigsaw.io.last_rows import check_last
from fedjigsaw.io.quotes import first_wrong_mark
from fedjigsaw.io.regular import ending

CHUNK, SAMPLE, BLOCK = 2**20, 2**21, 1_000_000  # bytes
ENOUGH, JOINED = 4096, 2**25  # rows that are worth a batch, and bytes that are too many for one
MAX_COLUMNS = 2**17  # a column takes thousands of times its two bytes in a line of commas
TOP = 2**16  # characters in which a title is looked for
TAIL = 2**16  # bytes at the end of the file, in which rows without any value are looked for
TOO_LONG = f"is longer than {BLOCK:,} bytes. Is a quotation mark or line break missing?"
UNKNOWN = "^~#:!*&§¦"  # signs that separate columns in files that are not read
SEPARATOR = re.compile(r'"?sep=([,;|\t])"?\n')


class TextReader:
    """A file of text; how it is written is found out when it is opened.

    Columns are judged by the first two megabytes, the encoding by the whole file. Signs of numbers
    that do not occur in the first two megabytes are looked for in the rest.

    Attributes
    ----------
    text : how numbers are written.
    told : how the file differs from UTF-8 with commas between columns and decimal points.
    """

    n_rows = None

    def __init__(self, path: Path, decimal: str | None = None) -> None:
        self.path, self.decimal = path, decimal
        self.n_bytes, self.n_marks, self.n_blank, self.tail = 0, 0, 0, b""
        self.encoding = find_encoding(path, self._counted())
        self.skipped, self.delimiter, sample = self._sample()
        self._check_marks(sample)
        if self.encoding in ("cp1252", "latin-1"):
            check_one_encoding(path, self._chunks(), self.encoding)
        title = self._find_title(sample)
        title.refuse(path)
        self.hint = title.hint
        try:
            self._open_columns(sample)
        except DataError as error:
            raise DataError(f"{error} {self.hint}".rstrip(), **error.subject) from None

    def _open_columns(self, sample: str) -> None:
        path = self.path
        header = self._header(sample)
        if len(header) == 1:
            self._check_single(sample)
        columns = self._sampled(sample, len(header))
        self.is_empty = not len(columns[0])
        if any(name.count('"') % 2 for name in header):
            raise DataError(f"{path} has a single quotation mark in its first line. Remove it.")
        names = name_columns(path, header, columns)
        check_header(path, names, columns)
        self.names = [name for name in names if name]
        # columns without a name are never asked for
        self.all_names = [name or f"\0{j}" for j, name in enumerate(names)]
        found = find_text_format(path, names, columns, self.delimiter, decimal=self.decimal)
        found = self._beyond(found) if self.is_long else found
        found.check()
        self.text = found.text
        if len(names) > 1:
            self._check_end(names)
        delimiter = self.delimiter if len(names) > 1 else ","  # nothing to tell
        told = in_words(self.encoding, delimiter, found.text, found.guess)
        blank = f"{counted(self.n_blank, 'empty row')} at the end" if self.n_blank else ""
        self.told = ", ".join(filter(None, (told, blank)))

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        # as text, so that a bad value can be shown as it stands in the file
        convert = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), include_columns=names
        )
        n_rows = 0

        def tallied(stream: Iterable[Any]) -> Iterator[Any]:
            nonlocal n_rows
            for batch in stream:
                yield batch
                n_rows += batch.num_rows

        if self.is_empty:
            return
        try:
            with self._file() as file, self._open(file, convert) as stream:
                for batch in _without_last(_joined(tallied(stream)), self.n_blank):
                    yield batch.columns
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._why(error, n_rows) from error

    def _find_title(self, sample: str) -> Title:
        """Look for the names of the columns below a title; it hides what separates columns."""
        lines = sample[:TOP].split("\n")[:MAX_TITLE]
        for delimiter in DELIMITERS:
            rows = [
                [cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)
            ]
            title = find_title(rows, self.skipped + 1, "line")
            if title.hint:
                return title
        return Title()

    def _check_single(self, sample: str) -> None:
        """Raise if a sign that is not known as a delimiter is in all lines of a single column."""
        first, *lines = filter(None, sample[:TOP].split("\n")[:MAX_TITLE])
        for sign in UNKNOWN:
            if first.count(sign) and all(line.count(sign) == first.count(sign) for line in lines):
                raise DataError(
                    f"{self.path} has {sign!r} between its columns. Save it with "
                    f"{', '.join(DELIMITERS.values())} between them."
                )

    def _check_end(self, names: Sequence[str]) -> None:
        """Count rows without any value at the end, which are skipped; raise if a note is there.

        Excel writes such rows where cells below the table were used once.
        """
        lines = self._last_lines()
        blank = f'{self.delimiter}" '
        while lines and not lines[-1].strip(blank) and lines[-1].count('"') % 2 == 0:
            self.n_blank += bool(lines.pop())
        if self.n_blank and not lines and self.n_bytes > TAIL:  # there may be more before the tail
            raise DataError(f"{self.path} ends with many empty rows. Delete them.")
        if lines:
            rows = list(csv.reader(lines, delimiter=self.delimiter))
            check_last(self.path, names, rows)

    def _last_lines(self) -> list[str]:
        """Return the last lines of the file that are whole, without the header."""
        encoding = self.encoding
        if encoding == "utf-16":  # the mark that tells the order of bytes is at the start
            with self._file() as file:
                encoding = "utf-16-le" if file.read(2) == codecs.BOM_UTF16_LE else "utf-16-be"
        text = self.tail.decode(encoding, "ignore")
        return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[1:]

    # ------------------------------------------------------------------------------------- opening

    def _file(self) -> Any:
        file = pa.OSFile(str(self.path))
        return pa.CompressedInputStream(file, "gzip") if ending(self.path).endswith(".gz") else file

    def _open(self, file: Any, convert: Any, **options: Any) -> Any:
        read = pa.csv.ReadOptions(
            block_size=BLOCK,
            column_names=self.all_names,
            skip_rows=self.skipped + 1,
            encoding=self.encoding.replace("utf-8", "utf8"),
            use_threads=not options,
        )
        parse = self._parse(len(self.all_names), **options)
        return pa.csv.open_csv(
            file, read_options=read, parse_options=parse, convert_options=convert
        )

    def _parse(self, n_columns: int, **options: Any) -> Any:
        # in a file of one column an empty line is a missing value, and in others no row at all
        return pa.csv.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=True,
            ignore_empty_lines=n_columns > 1,
            **options,
        )

    def _chunks(self) -> Iterator[bytes]:
        with self._file() as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def _counted(self) -> Iterator[bytes]:
        """Yield the file in chunks, and count its quotation marks."""
        for chunk in self._chunks():
            self.n_marks += chunk.count(b'"')
            self.n_bytes += len(chunk)
            self.tail = (self.tail + chunk)[-TAIL:]
            yield chunk

    def _check_marks(self, sample: str) -> None:
        """Raise if a quotation mark is not closed: it would swallow rows without a word."""
        if not self.n_marks:
            return
        header = sample[: sample.index("\n")]
        n_columns = len(next(csv.reader([header], delimiter=self.delimiter)))
        if header.count('"') % 2:
            n_columns = 0  # the header is refused later
        line = first_wrong_mark(self._chunks(), self.encoding, self.delimiter, n_columns)
        if line:
            raise DataError(
                f"{self.path}, line {line}: a quotation mark opens a value and is not closed at "
                "its end. Close it, or remove it; inside such a value, write it twice.",
                row=line,
            )

    def _sample(self) -> tuple[int, str, str]:
        """Return how many lines are before the header, the delimiter, and the first rows."""
        with self._file() as file:
            start = file.read(SAMPLE)
        text = start.decode(self.encoding, "ignore").removeprefix("\ufeff")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        rows = text.lstrip("\n")
        skipped = len(text) - len(rows)
        told = SEPARATOR.match(rows)
        if told:  # a line for Excel
            rows, skipped = rows[told.end() :], skipped + 1
        if not rows.strip():
            raise DataError(f"{self.path} is empty.")
        self.is_long = len(start) == SAMPLE
        if self.is_long:
            rows = whole_rows(rows, len(rows) - 1)
            if rows.count("\n") < 2:
                row = 1 if "\n" in rows else None
                where = f"row {row}" if row else "its first line"
                raise DataError(f"{self.path}: {where} {TOO_LONG}", row=row)
        rows = rows if rows.endswith("\n") else f"{rows}\n"
        first = rows[: rows.index("\n")]
        if max(map(first.count, DELIMITERS)) >= MAX_COLUMNS:
            raise DataError(
                f"{self.path}: its first line has more than {MAX_COLUMNS:,} columns. Is a line "
                "break missing?"
            )
        return skipped, told[1] if told else find_delimiter(rows), rows

    def _beyond(self, found: Found) -> Found:
        """Look for signs that the sample does not show."""
        if not (found.decided or self.decimal) and (found.doubt or self.delimiter != ","):
            start, doubt = 0, found.doubt
            for columns in self.batches(self.names):
                found = find_text_format(self.path, self.names, columns, self.delimiter, start)
                if found.decided:
                    break
                doubt = doubt or found.doubt
                start += len(columns[0])
            else:
                found = replace(found, doubt=doubt)
        if found.text.thousands:
            return found
        chunks = self._chunks()
        if self.encoding == "utf-16":
            chunks = (text.encode() for text in codecs.iterdecode(chunks, "utf-16"))
        if not grouped_later(chunks, found.text.decimal, self.delimiter):
            return found
        other = "," if found.text.decimal == "." else "."
        return replace(found, text=replace(found.text, thousands=other))

    def _header(self, sample: str) -> list[str]:
        """Return the names in the first line, as they stand there."""
        line = sample[: sample.index("\n") + 1].encode()
        read = pa.csv.ReadOptions(block_size=len(line))
        try:
            with pa.csv.open_csv(
                pa.BufferReader(line), read_options=read, parse_options=self._parse(2)
            ) as stream:
                return list(stream.schema.names)
        except pa.ArrowInvalid:
            reason = "in its first line, a quotation mark is not closed, or a name has a line break"
            raise DataError(broken(self.path, ending(self.path), ValueError(reason))) from None

    def _sampled(self, sample: str, n_columns: int) -> list[pa.Array]:
        """Return the columns of the sample as texts."""
        data = sample.encode()
        names = list(map(str, range(n_columns)))
        wrong: list[Any] = []
        read = pa.csv.ReadOptions(
            column_names=names, skip_rows=1, block_size=len(data), use_threads=False
        )
        parse = self._parse(n_columns, invalid_row_handler=_keep(wrong))
        convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(data),
                read_options=read,
                parse_options=parse,
                convert_options=convert,
            )
        except pa.ArrowInvalid:
            if not wrong:
                raise
            raise self._ragged(wrong[0], 1) from None  # arrow's error shows the row
        return [column.combine_chunks() for column in table.columns]

    # -------------------------------------------------------------------------------------- errors

    def _why(self, error: Exception, n_rows: int) -> DataError:
        if "straddling" in str(error):
            return error_at(self.path, f", after row {n_rows}: a row {TOO_LONG}")
        wrong: list[Any] = []
        if "Expected" in str(error):  # arrow's error shows the row, and not its number
            convert = pa.csv.ConvertOptions(include_columns=self.names[:1])
            with contextlib.suppress(pa.ArrowInvalid), self._file() as file:
                for _ in self._open(file, convert, invalid_row_handler=_keep(wrong)):
                    pass
        if wrong:
            return self._ragged(wrong[0], self.skipped + 1)
        return DataError(broken(self.path, ending(self.path), error), file=self.path)

    def _ragged(self, row: Any, before: int) -> DataError:
        sign = DELIMITERS[self.delimiter]
        is_open = (row.text or "").rstrip("\r\n").endswith(self.delimiter)
        one_more = is_open and row.actual_columns == row.expected_columns + 1
        # it is not skipped: the header may lack the name of the first column instead of the last
        hint = f" If all rows end with one of the {sign}, end the first line with it, too."
        what = (
            f", has {counted(row.actual_columns, 'value')}, "
            f"and the header has {row.expected_columns} names (separated by {sign}). "
            "Correct the row, or delete it if it is a note; "
            f"a value that contains {sign} needs quotation marks.{hint if one_more else ''}"
        )
        return error_at(self.path, what, row=row.number - before)


def _joined(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield batches of enough rows: in a wide table, what is done once for each takes longest."""
    held: list[Any] = []
    n_rows = n_bytes = 0
    for batch in batches:
        held.append(batch)
        n_rows += batch.num_rows
        n_bytes += batch.get_total_buffer_size()  # `nbytes` takes ten times as long
        if n_rows >= ENOUGH or n_bytes >= JOINED:
            yield from _one(held)
            held, n_rows, n_bytes = [], 0, 0
    yield from _one(held)


def _one(batches: list[Any]) -> list[Any]:
    return pa.Table.from_batches(batches).combine_chunks().to_batches() if batches[1:] else batches


def _without_last(batches: Iterable[Any], n: int) -> Iterator[Any]:
    """Yield batches without the last n rows."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        while held and sum(len(later) for later in held[1:]) >= n:
            yield held.pop(0)
    n_left = sum(map(len, held)) - n
    for batch in held:
        if n_left > 0:
            yield batch.slice(0, n_left)
        n_left -= len(batch)


def _keep(rows: list[Any]) -> Callable[[Any], str]:
    """Make a handler of rows of another length that keeps the first one."""

    def handle(row: Any) -> str:
        rows.append(row)
        return "error"

    return handle
