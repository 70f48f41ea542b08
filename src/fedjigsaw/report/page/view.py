"""What a page shows, as plain values: texts, numbers and pictures, ready for a template.

Texts are plain, not HTML: the template engine escapes them. Only pictures are markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True)
class Fact:
    """A number that stands out, and what it counts."""

    value: str
    label: str


@dataclass(frozen=True)
class Picture:
    """Static SVGs side by side, and the sentences about them."""

    svgs: tuple[Markup, ...]
    caption: tuple[str, ...] = ()


@dataclass(frozen=True)
class Absent:
    """A section whose files were not given: why, and the command that makes them."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class HowMany:
    """How sure the number of clusters is: a sentence, and what helps."""

    heading: str
    sentence: str
    advice: tuple[str, ...]
    in_doubt: bool


@dataclass(frozen=True)
class Table:
    """A table of texts; the first column names the rows.

    Attributes
    ----------
    words : the columns with words; all others but the first are numbers, aligned at the right.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[int, ...] = ()

    def is_number(self, place: int) -> bool:
        """Tell whether a column has numbers."""
        return place > 0 and place not in self.words


@dataclass(frozen=True)
class Segment:
    """One site's part of a bar: its color (a place in the palette), and percent of the width."""

    color: int
    percent: float
    name: str
    rows: str


@dataclass(frozen=True)
class SizeRow:
    """The rows of one cluster: in all, as a share, as a bar, and at each site."""

    cluster: int
    rows: str
    share: str
    segments: tuple[Segment, ...]
    by_site: tuple[str, ...]


@dataclass(frozen=True)
class Sizes:
    """Rows of all clusters, by site if scores were given."""

    rows: tuple[SizeRow, ...]
    sites: tuple[str, ...]
    legend: tuple[tuple[int, str], ...]
    note: str = ""


@dataclass(frozen=True)
class HeatCell:
    """One cluster in one column: a shade from -5 to 5, the difference, the value and its spread."""

    shade: int
    text: str
    value: str
    spread: str


@dataclass(frozen=True)
class HeatRow:
    """One column of the data: its value over all rows, and a cell for each cluster."""

    name: str
    overall: str
    cells: tuple[HeatCell, ...]
    missing: str = "–"


@dataclass(frozen=True)
class Heat:
    """Differences of all clusters from all rows, one row per column of the data."""

    clusters: tuple[int, ...]
    rows: tuple[HeatRow, ...]
    note: str
    about_shares: str = ""
    shows_missing: bool = False
    more: str = ""


@dataclass(frozen=True)
class Trait:
    """One column in one cluster.

    Attributes
    ----------
    percent : length of the bar, of half its width; negative to the left.
    """

    name: str
    value: str
    spread: str
    overall: str
    difference: str
    percent: float


@dataclass(frozen=True)
class Cluster:
    """One cluster in plain words."""

    number: int
    size: str
    share: str
    lead: str
    traits: tuple[Trait, ...]
    segments: tuple[Segment, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class ReportPage:
    """The report of one model."""

    title: str
    subtitle: str
    date: str
    version: str
    facts: tuple[Fact, ...]
    short: tuple[str, ...]
    glance: tuple[Cluster, ...]
    map: Picture | Absent
    legend: tuple[tuple[int, str], ...]
    sizes: Sizes | Absent
    heat: Heat
    profile_hint: Absent | None
    clusters: tuple[Cluster, ...]
    more_clusters: str
    how_many: HowMany | None
    k_curve: Picture | Absent
    support: Table | Absent
    sites: Table | Absent
    trust: tuple[str, ...]
    left: Table | Absent
    left_notes: tuple[str, ...]
    promise: tuple[str, ...]
    promise_details: tuple[str, ...]
    made: tuple[tuple[str, str], ...]
