"""A file whose columns are the features of an encoding."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import Encoder, Encoding
from fedjigsaw.columns.schema import CATEGORY, DATE, OTHER, Column
from fedjigsaw.columns.text import is_text, plain
from fedjigsaw.columns.values import BadValueError, Outside, date_format
from fedjigsaw.errors import DataError, DataWarning, error_at, quote_names, warn
from fedjigsaw.io.detection import DELIMITERS
from fedjigsaw.io.readers import Reader, as_arrow

BLANK = ' "' + "".join(DELIMITERS)  # a row of these alone is none at the end of a text file
FEWEST = 10  # values of a column by which its meaning is judged


class EncodedReader:
    """Encodes the columns of another reader, batch by batch.

    Columns of the file that are no features can be read, too: ids, for instance.

    Parameters
    ----------
    skip_blank : leave out rows in which no column that is encoded has a value
        Readers of text files and of sheets skip such rows at the end, and only there: one row more
        below them would make rows of all of them, which noise for one row does not hide.
    """

    def __init__(
        self, path: Path, reader: Reader, encoding: Encoding, *, skip_blank: bool = False
    ) -> None:
        self.path, self.reader, self.encoding = path, reader, encoding
        self.skip_blank = skip_blank
        features = set(encoding.features)
        self.names = [*encoding.features, *(n for n in reader.names if n not in features)]
        self.n_rows, self.told, self.hint = reader.n_rows, reader.told, reader.hint
        self.text = reader.text.with_missing(encoding.schema.missing)
        lacking = sorted(set(encoding.sources) - set(reader.names))
        if lacking:
            raise DataError(
                f"{path} has no column {quote_names(lacking)}, which the schema names. Rename a "
                "column of the file (`fedjigsaw schema apply --rename`), or ignore it in the "
                f"schema of all sites. {reader.hint}".rstrip(),
                file=path,
                column=lacking[0],
            )

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        """Yield features as floats, and other columns as they are.

        If the schema turns out not to allow most values of a column, that is an error at the end.
        """
        encoders = [e for e in self.encoding.encoders if not set(e.features).isdisjoint(names)]
        others = [name for name in names if name not in set(self.encoding.features)]
        sources = [encoder.column.name for encoder in encoders]
        formats: dict[str, str] = {}
        counted = [Outside() for _ in encoders]
        start = 0
        for columns in self.reader.batches([*sources, *others]):
            found = dict(zip(others, columns[len(sources) :], strict=True))
            for encoder, values, count in zip(encoders, columns, counted, strict=False):
                block = self._encode(encoder, as_arrow(values), formats, count, start)
                found |= zip(encoder.features, block.T, strict=True)
            read = [found[name] for name in names]
            yield _without_blank(columns[: len(sources)], read) if self.skip_blank else read
            start += len(columns[0])
        # a column may be read twice, to be clustered and to be shown
        self._tell({e.column: count for e, count in zip(encoders, counted, strict=True)})

    def _tell(self, counted: Mapping[Column, Outside]) -> None:
        """Warn of values that the schema does not allow; raise if they are most of a column's.

        They are in another unit then, perhaps. Categories that are not listed are allowed, but if
        most are not, they are perhaps only written in another way.
        """
        for column, found in counted.items():
            if not found.n_outside:
                continue
            values = (
                f"{self.path}, column {column.name!r}: {found.n_outside:,} of "
                f"{found.n_values:,} values are"
            )
            most = found.n_values >= FEWEST and found.n_outside > found.n_values / 2
            if column.kind == CATEGORY:
                if most:
                    warn(
                        f"{values} none of the categories in the schema, and count as {OTHER}. If "
                        "they are only written in another way, `fedjigsaw schema check` says how.",
                        DataWarning,
                    )
                continue
            text = f"{values} outside of what the schema allows"
            if most:
                raise DataError(
                    f"{text}. Are they in another unit, or is it another column? "
                    "`fedjigsaw schema check` says more.",
                    file=self.path,
                    column=column.name,
                )
            effect = "were clipped" if column.outside == "clip" else "count as missing"
            advice = "If they are right, widen the range in the schema of all sites."
            warn(f"{text} and {effect}. {advice}", DataWarning)

    def _encode(
        self,
        encoder: Encoder,
        values: pa.Array,
        formats: dict[str, str],
        counted: Outside,
        start: int,
    ) -> Floats:
        column = encoder.column
        try:
            if column.kind == DATE and not formats.get(column.name):
                formats[column.name] = date_format(column, values, self.text)
            return encoder.encode(values, self.text, formats.get(column.name, ""), counted)
        except BadValueError as error:
            what = f": {error.reason}. {error.advice}".rstrip()
            row = start + error.place + 1
            raise error_at(self.path, what, row=row, column=column.name) from error


def _without_blank(sources: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """Return columns without the rows in which all sources are blank."""
    blank = np.ones(len(sources[0]), dtype=bool)
    for values in map(as_arrow, sources):
        values = plain(values)
        if is_text(values.type):
            empty = pc.equal(pc.utf8_trim(values, characters=BLANK), "").fill_null(True)
        else:
            empty = values.is_null(nan_is_null=True)
        blank &= empty.to_numpy(zero_copy_only=False)
    if not blank.any():
        return list(columns)
    kept = pa.array(~blank)
    return [c[~blank] if isinstance(c, np.ndarray) else c.filter(kept) for c in columns]
