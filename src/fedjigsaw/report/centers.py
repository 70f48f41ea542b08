r"""Centers in the user's own units and categories.

The centers of a prepared table are means of features. They are read back as means of the rows that
have a value: if a share p of a cluster has none, and f took its place, a feature with the mean
:math:`\mu` stands for a mean value of :math:`(\mu - p f) / (1 - p)`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import Encoder
from fedjigsaw.columns.in_words import day, level, value_of, within
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.columns.schema import ABSENT, BOOLEAN, CATEGORY, DATE, ORDERED
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.report.units import number, percent

ALL_MISSING = 0.95  # from this share of missing values on, the others are too few to be read
SHOWN = 0.005  # categories of smaller shares are not put into words
MAX_LEVELS = 5


@dataclass(frozen=True)
class Reading:
    """What the center of a cluster says about one column of the file.

    Attributes
    ----------
    value : mean of the rows that have a value: of dates in days since 1970-01-01, of booleans the
        share of yes, of ordered categories the mean rank from 0; of a log column the geometric
        mean. NaN for a category, and where hardly any row has a value.
    shares : share of each category among all rows, missing values not included.
    missing : share of the rows without a value; 0 where the column has no indicator.
    text : the same in words, such as "54.2 years" or "62 % female, 38 % male".
    """

    column: str
    kind: str
    unit: str = ""
    value: float = math.nan
    shares: Mapping[str, float] = field(default_factory=dict)
    missing: float = 0.0
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; a value that is not known is None."""
        found: dict[str, Any] = {"kind": self.kind, "text": self.text, "missing": self.missing}
        if self.unit:
            found["unit"] = self.unit
        if self.kind == CATEGORY:
            return found | {"shares": dict(self.shares)}
        return found | {"value": None if math.isnan(self.value) else self.value}


def centers_table(file: SummaryFile | ModelFile) -> list[dict[str, Reading]]:
    """Read the centers of a summary or model: for each center, column of the file -> reading."""
    centers = file.summary.centers if isinstance(file, SummaryFile) else file.model.centers
    return read_centers(centers, file.columns, file.scaler)


def read_centers(
    centers: Floats, columns: Sequence[str], scaler: Scaler | None
) -> list[dict[str, Reading]]:
    """Read centers: for each of them, column of the file -> reading.

    Examples
    --------
    >>> scaler = Scaler(("age",), np.array([40.0]), np.array([10.0]))
    >>> read_centers(np.array([[1.42]]), ("age",), scaler)[0]["age"].text
    '54.2'
    """
    rows = centers if scaler is None else scaler.unscale(centers)
    if scaler is None or scaler.encoding is None:
        return [
            {name: _plain(name, x) for name, x in zip(columns, row, strict=False)}
            for row in rows.tolist()
        ]
    encoders = scaler.encoding.encoders
    blocks = scaler.encoding.by_column(rows)
    widths = scaler.encoding.by_column(scaler.deviation)
    return [
        {
            e.column.name: _read(e, blocks[e.column.name][i], float(widths[e.column.name][0]))
            for e in encoders
        }
        for i in range(len(rows))
    ]


def _plain(name: str, value: float) -> Reading:
    return Reading(name, "number", value=value, text=f"{value:.6g}")


def _read(encoder: Encoder, features: Floats, width: float) -> Reading:
    column = encoder.column
    if column.kind == CATEGORY:
        found = np.clip(features, 0, 1)
        found /= max(1.0, found.sum())  # noise may have given away more than all rows
        shares = dict(zip(encoder.parts, found.tolist(), strict=True))
        missing = shares.pop(ABSENT, 0.0)
        text = _shares_in_words(shares, missing)
        return Reading(column.name, column.kind, shares=shares, missing=missing, text=text)
    missing = float(np.clip(features[1], 0, 1)) if encoder.parts else 0.0
    value = float(features[0])
    if missing >= ALL_MISSING:
        value = math.nan
    elif missing > 0:
        value = (value - missing * encoder.fill) / (1 - missing)
    value = within(column, value_of(column, value))
    text = _value_in_words(encoder, value, width * column.weight)
    if missing > SHOWN:
        text = "missing" if math.isnan(value) else f"{text} ({percent(missing)} missing)"
    return Reading(column.name, column.kind, column.unit, value, {}, missing, text)


def _value_in_words(encoder: Encoder, value: float, width: float) -> str:
    column = encoder.column
    if column.kind == DATE:
        return day(value) if math.isfinite(value) else "unknown"
    if column.kind == BOOLEAN:
        return f"{percent(value)} yes"
    if column.kind == ORDERED:
        return f"around {level(value, column.categories)}"
    spread = abs(value) if column.scale == "log" else width
    text = number(value, spread / 5)  # about one digit more than beside a standard deviation
    return f"{text} {column.unit}" if column.unit else text


def _shares_in_words(shares: Mapping[str, float], missing: float) -> str:
    """List the categories with their shares, the largest first.

    Examples
    --------
    >>> _shares_in_words({"m": 0.38, "f": 0.58}, 0.04)
    '58 % f, 38 % m, 4 % missing'
    """
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    shown = [(name, share) for name, share in ordered if share >= SHOWN]
    words = [f"{percent(share)} {name}" for name, share in shown[:MAX_LEVELS]]
    if len(shown) > MAX_LEVELS:
        rest = sum(share for _, share in shown[MAX_LEVELS:])
        words.append(f"{percent(rest)} others")
    if missing >= SHOWN:
        words.append(f"{percent(missing)} missing")
    return ", ".join(words) or "none of the categories"
