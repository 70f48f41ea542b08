"""Tables of docs/security.md about sites that lie, made from the rows of the study "liars"."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjigsaw.bench.lies import ABOUT
from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.errors import counted

Row = Mapping[str, Any]
GRID, SSETS = ("gaussian-grid",), ("s1", "s2", "s3", "s4")
TITLES = {"gaussian-grid": "15 Gaussians", "s1": "S1", "s2": "S2", "s3": "S3", "s4": "S4"}
NAMES = {"feca": "FeCA", "jigsaw": "Jigsaw"}
LIARS = (1, 2, 3)
LIMITS = (1.10, 1.30)
HARMFUL = 1.05  # objective without checks, relative to that without liars
NONE = "none"


class Place(NamedTuple):
    """One cell of the study: a method with or without checks, a data set, a lie, its liars."""

    method: str
    robust: bool
    dataset: str
    lie: str
    n_liars: int

    @property
    def title(self) -> str:
        return f"{TITLES[self.dataset]}, lie {self.lie}, {self.n_liars} of 10"


class Liars:
    """The rows of the study by cell."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: dict[Place, list[Row]] = {}
        for row in rows:
            robust = row["params"].get("robust", True)
            names = (row["dataset"], row["lie"], row["n_liars"])
            self.rows.setdefault(Place(row["method"], robust, *names), []).append(row)

    def ratio(self, place: Place) -> float:
        """Return the mean over seeds; NaN if there is no row yet."""
        values = [row["honest_ratio"] for row in self.rows.get(place, [])]
        return float(np.mean(values)) if values else float("nan")

    def over_none(self, place: Place) -> float:
        """Return the objective relative to that without liars."""
        return self.ratio(place) / self.ratio(place._replace(lie=NONE))

    def places(
        self, method: str, datasets: Sequence[str], *, pairs: bool, robust: bool = True
    ) -> list[Place]:
        """Return the cells of one method with a lie, or with a combination of two."""
        return [
            place
            for place in self.rows
            if (place.method, place.robust) == (method, robust)
            and place.dataset in datasets
            and place.lie != NONE
            and ("+" in place.lie) == pairs
        ]


def ratios_table(liars: Liars) -> str:
    """Objective of the honest rows for each lie, with one, two and three liars."""
    columns = {
        "Jigsaw": ("jigsaw", True, GRID),
        "Jigsaw without checks": ("jigsaw", False, GRID),
        "FeCA": ("feca", True, GRID),
        "Jigsaw, S1 to S4": ("jigsaw", True, SSETS),
    }
    lines = []
    for lie, about in ABOUT.items():
        cells = []
        for method, robust, datasets in columns.values():
            places = [[Place(method, robust, name, lie, n) for name in datasets] for n in LIARS]
            means = [float(np.mean([liars.ratio(place) for place in group])) for group in places]
            cells.append(" / ".join(map(_number, means)))
        lines.append([about, *cells])
    return markdown_table(["lie", *columns], lines)


def limits_table(liars: Liars) -> str:
    """How many cells are above a limit, and the worst; FeCA relative to FeCA without liars."""
    kinds: dict[str, tuple[str, Sequence[str], bool]] = {
        "Jigsaw, one lie, 15 Gaussians": ("jigsaw", GRID, False),
        "Jigsaw, one lie, S1 to S4": ("jigsaw", SSETS, False),
        "Jigsaw, two lies at once, 15 Gaussians": ("jigsaw", GRID, True),
        "FeCA, one lie, 15 Gaussians": ("feca", GRID, False),
        "FeCA, one lie, S1": ("feca", SSETS, False),
        "FeCA, two lies at once, 15 Gaussians": ("feca", GRID, True),
    }
    lines = []
    for title, (method, datasets, pairs) in kinds.items():
        measure = liars.ratio if method == "jigsaw" else liars.over_none
        found = {place: measure(place) for place in liars.places(method, datasets, pairs=pairs)}
        above = [str(sum(value > limit for value in found.values())) for limit in LIMITS]
        worst = max(found, key=lambda place: found[place], default=None)
        text = "" if worst is None else f"{_number(found[worst])} ({worst.title})"
        lines.append([title, str(len(found)), *above, text])
    head = ["method and data", "cells", *(f"above {limit:.2f}" for limit in LIMITS), "worst cell"]
    return markdown_table(head, lines)


def naming(liars: Liars) -> str:
    """Say how often the largest influence is that of a liar, where a lie does harm."""
    plain = liars.places("jigsaw", (*GRID, *SSETS), pairs=False, robust=False)
    harmful = [place for place in plain if liars.over_none(place) > HARMFUL]
    named = {
        place: [bool(row["named"]) for row in liars.rows.get(place._replace(robust=True), [])]
        for place in harmful
    }
    named = {place: found for place, found in named.items() if found}
    runs = sum(map(len, named.values()))
    right = sum(map(sum, named.values()))
    few = [place for place, found in named.items() if np.mean(found) < 0.9]
    lines = [
        f"Without checks, {len(named)} cells of one lie raise the objective by more than "
        f"{100 * (HARMFUL - 1):.0f} %.",
        f"With checks, the largest influence in these cells is that of a liar in {right:,} of "
        f"{runs:,} runs.",
    ]
    if few:
        worst = min(few, key=lambda place: float(np.mean(named[place])))
        lines.append(
            f"In {len(few)} of these cells it is in fewer than nine of ten runs; "
            f"worst: {sum(named[worst])} of {len(named[worst])} ({worst.title})."
        )
    return "\n".join([*lines, _accused(liars)])


def _accused(liars: Liars) -> str:
    """Say how often honest sites were limited or set aside."""
    checked = [row for place, rows in liars.rows.items() if place.robust for row in rows]
    accused = [row for row in checked if row["accused"]]
    draws = {(row["method"], row["dataset"], row["n_liars"], row["seed"]) for row in accused}
    text = (
        f"In {len(accused):,} of all {len(checked):,} runs with checks, an honest site was limited "
        "or set aside, too."
    )
    if accused:
        methods = " and ".join(sorted({NAMES[row["method"]] for row in accused}))
        text += (
            f"\nThese are runs of {methods}, with {counted(len(draws), 'draw')} of rows and sites."
        )
    return text


def _number(value: float) -> str:
    if np.isnan(value):
        return "–"
    if value < 100:
        return f"{value:.2f}"
    return f"{value:.0f}" if value < 1e4 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
