"""The study "shapes": labels by the shapes of clusters, on generated sets, and its table."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fedjigsaw
from fedjigsaw import metrics
from fedjigsaw.bench.hard_cells import SPLITS, TEN_CLIENTS, dealt
from fedjigsaw.bench.hard_sets import FIRST_SEED, HARD_SETS
from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.study import PlainCell, Plan
from fedjigsaw.choice.shapes import NOISE
from fedjigsaw.io.rows import Row
from fedjigsaw.report.provenance import provenance

SETS = ("elong5-2d", "elong6-5d", "elong5-20d", "moons-2d", "noise5-2d", "over6-4d")
OPTIONS: dict[str, dict[str, Any]] = {
    'shape="round"': {},
    'shape="elongated"': {"shape": "elongated"},
    'shape="any"': {"shape": "any"},
    "noise=True": {"noise": True},
}


@dataclass(frozen=True)
class ShapeCell(PlainCell):
    """Jigsaw with ``n_clusters="auto"`` and an option, on one set of :data:`HARD_SETS`.

    Parameters
    ----------
    split : a key of :data:`SPLITS`.
    option : a key of :data:`OPTIONS`.
    """

    dataset: str
    split: str
    option: str
    seed: int = 0

    def compute(self) -> Row:
        chosen, seed = HARD_SETS[self.dataset], FIRST_SEED + self.seed
        data, clients = dealt(chosen.draw(seed), SPLITS[self.split], seed)
        method = fedjigsaw.Jigsaw("auto", random_state=seed, **OPTIONS[self.option])
        with warnings.catch_warnings():  # the row says what came of it
            warnings.simplefilter("ignore")
            method.fit(data.X, clients=clients)
        numbers = {
            "true_k": chosen.n_clusters,
            "n_found": method.n_clusters_,
            "ari": round(metrics.ari(data.y, method.labels_), 4),
            "noise": round(float(np.mean(method.labels_ == NOISE)), 4),
            "confidence": round(method.k_confidence_, 3),
        }
        return {**self.as_row(), **numbers, **provenance()}


def plans() -> tuple[Plan, ...]:
    """Return all plans, those on the same set together."""
    return tuple(
        Plan(f"{name}/{split}/{option}", ShapeCell(name, split, option))
        for name in SETS
        for split in TEN_CLIENTS
        for option in OPTIONS
    )


def shapes_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write mean adjusted Rand index and how often the number of clusters was right."""
    lines = []
    for name in SETS:
        chosen = HARD_SETS[name]
        cells = []
        for option in OPTIONS:
            runs = [r for r in rows if (r["dataset"], r["option"]) == (name, option)]
            right = sum(row["n_found"] == row["true_k"] for row in runs)
            mean = float(np.mean([row["ari"] for row in runs])) if runs else float("nan")
            cells.append(f"{mean:.3f}, {right} of {len(runs)}")
        lines.append([f"{name}: {chosen.about}", *cells])
    return markdown_table(["data", *(f"`{option}`" for option in OPTIONS)], lines)
