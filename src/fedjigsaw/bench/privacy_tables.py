"""Tables of docs/privacy.md about what privacy costs, made from the rows of the study "privacy"."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.privacy_cells import (
    COLUMNS,
    EPSILONS,
    OURS,
    PEER_EPSILON,
    PER_SITE,
    S1,
    S1_EPSILONS,
    SPLITS,
)
from fedjigsaw.bench.privacy_peers import PEERS
from fedjigsaw.bench.private_problem import WIDTHS
from fedjigsaw.messages import OWN, SHARED

Row = Mapping[str, Any]
LEVEL = 0.0005  # means that are closer are printed alike
DATA = [(n_columns, width) for n_columns in COLUMNS for width in WIDTHS]


class Place(NamedTuple):
    """One cell of the study, over all seeds."""

    method: str
    n_columns: int
    width: str
    split: str
    epsilon: float
    cells: str = OWN

    @property
    def data(self) -> str:
        return f"{self.n_columns} columns, {self.width}"


class Ratios:
    """Ratios of the study's rows by cell."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.found: dict[Place, list[float]] = {}
        for row in rows:
            if "ratio" in row:
                place = Place(*(row[name] for name in Place._fields))
                self.found.setdefault(place, []).append(row["ratio"])

    def mean(self, place: Place) -> float:
        """Return the mean over seeds; NaN if there is no row yet."""
        values = self.found.get(place, [])
        return float(np.mean(values)) if values else float("nan")

    def over_splits(self, place: Place) -> str:
        """Write the means for both splits, or one if the split does not matter."""
        splits = SPLITS if place.method in (OURS, *PER_SITE) else ["iid"]
        return " / ".join(_number(self.mean(place._replace(split=split))) for split in splits)


def cost_table(ratios: Ratios) -> str:
    """Jigsaw's objective for each epsilon, and the worst cell."""
    lines = [
        [
            f"{n_columns} columns, {width}",
            *(ratios.over_splits(Place(OURS, n_columns, width, "", e)) for e in EPSILONS),
        ]
        for n_columns, width in DATA
    ]
    table = markdown_table(["data", *(f"epsilon {e:g}" for e in EPSILONS)], lines)
    return "\n\n".join([table, "\n".join(_worst(ratios, epsilon) for epsilon in EPSILONS)])


def s1_table(ratios: Ratios) -> str:
    """Jigsaw's objective on S1, with the cells of each site and with shared ones."""
    lines = [
        [
            f"{cells} cells",
            *(ratios.over_splits(Place(OURS, 2, S1, "", e, cells)) for e in S1_EPSILONS),
        ]
        for cells in (OWN, SHARED)
    ]
    return markdown_table(["S1", *(f"epsilon {e:g}" for e in S1_EPSILONS)], lines)


def peers_table(ratios: Ratios) -> str:
    """All methods side by side, and where ours is not ahead."""
    methods = [OURS, *PEERS]
    lines = [
        [
            f"{n_columns} columns, {width}",
            *(
                ratios.over_splits(Place(method, n_columns, width, "", PEER_EPSILON))
                for method in methods
            ),
        ]
        for n_columns, width in DATA
    ]
    head = ["data", "Jigsaw", *(peer.label for peer in PEERS.values())]
    return "\n\n".join([markdown_table(head, lines), comparison(ratios)])


def comparison(ratios: Ratios) -> str:
    """Say for each peer in how many cells ours is ahead, and name the others."""
    lines = []
    for method, peer in PEERS.items():
        pairs = list(_pairs(ratios, method))
        ahead = sum(theirs - ours > LEVEL for _, ours, theirs in pairs)
        behind = [
            f"{place.data}, {SPLITS[place.split]} ({_number(ours)} against {_number(theirs)})"
            for place, ours, theirs in pairs
            if ours - theirs > LEVEL
        ]
        text = f"- {peer.label}: Jigsaw is ahead in {ahead} of {len(pairs)} cells"
        lines.append(text + (f", and behind in {len(behind)}:" if behind else "."))
        lines += [f"  - {where}" for where in behind]
    return "\n".join(lines)


def _pairs(ratios: Ratios, method: str) -> Iterator[tuple[Place, float, float]]:
    """Yield cells with our mean and a peer's."""
    for n_columns, width in DATA:
        for split in SPLITS:
            place = Place(OURS, n_columns, width, split, PEER_EPSILON)
            other = split if method in PER_SITE else "iid"
            theirs = ratios.mean(place._replace(method=method, split=other))
            if not np.isnan(theirs):
                yield place, ratios.mean(place), theirs


def _worst(ratios: Ratios, epsilon: float) -> str:
    places = [
        Place(OURS, n_columns, width, split, epsilon)
        for n_columns, width in DATA
        for split in SPLITS
    ]
    found = [place for place in places if place in ratios.found]
    if not found:
        return f"- epsilon {epsilon:g}: no rows yet."
    place = max(found, key=ratios.mean)
    largest = max(value for place in found for value in ratios.found[place])
    return (
        f"- epsilon {epsilon:g}: the worst mean is {_number(ratios.mean(place))} ({place.data}, "
        f"{SPLITS[place.split]}), the worst run {_number(largest)}."
    )


def _number(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.3f}" if value < 2 else f"{value:.1f}"
