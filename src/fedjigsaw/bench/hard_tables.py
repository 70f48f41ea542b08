"""Tables of docs/jigsaw.md about the number of clusters on generated sets, made from rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from fedjigsaw.bench.hard_cells import SMALL_CLIENTS, SPLITS, TEN_CLIENTS
from fedjigsaw.bench.hard_peers import PEERS
from fedjigsaw.bench.hard_sets import GAUSSIAN, HARD_SETS, KINDS, NOTHING, OTHER, HardSet
from fedjigsaw.bench.markdown import markdown_table

Row = Mapping[str, Any]
EDGES = (0.0, 0.25, 0.5, 0.7, 0.9, 1.0)  # of the bins of confidences
SCORE_EDGES = (0.0, 0.7, 0.9, 0.99, 1.0)  # of scores, of which most are near 1
UNSURE = 0.5  # confidences below it tell the reader to doubt k
HELD_OUT = "*"  # marks sets that were written after the rule was fixed
PEER_TITLES = {
    "silhouette": "pooled silhouette",
    "BIC": "pooled BIC",
    "HDBSCAN": "pooled HDBSCAN",
}


@dataclass(frozen=True)
class Bin:
    """Confidences or scores from `low` to below `high`, and the share of them that was right.

    Parameters
    ----------
    mean : of the confidences or scores.
    """

    low: float
    high: float
    n: int
    mean: float
    share: float

    @property
    def title(self) -> str:
        """Return its limits in words."""
        return f"{self.low:g} and more" if self.high == 1 else f"{self.low:g} to {self.high:g}"


class HardRuns:
    """The rows of the study "auto-hard"."""

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        self.runs = [row for row in rows if "split" in row]
        self.pooled = [row for row in rows if "split" not in row]

    @cached_property
    def ten_clients(self) -> list[Row]:
        """Return the runs with ten clients."""
        return [row for row in self.runs if row["split"] in TEN_CLIENTS]

    @cached_property
    def small_clients(self) -> list[Row]:
        """Return the runs with small clients."""
        return [row for row in self.runs if row["split"] in SMALL_CLIENTS]

    def of(self, rows: Iterable[Row], **values: object) -> list[Row]:
        """Return the rows that have these values."""
        return [row for row in rows if all(row.get(n) == value for n, value in values.items())]


def right(row: Row) -> bool:
    """Return whether a run found the true number of clusters."""
    return bool(row["n_found"] == row["true_k"])


def share_right(rows: Sequence[Row]) -> float:
    """Return the share of runs that found the true number of clusters."""
    return float(np.mean([right(row) for row in rows])) if rows else float("nan")


def unsure_share(rows: Iterable[Row], *, among_right: bool) -> float:
    """Return the share of unsure runs among those that are right, or wrong."""
    found = [row["confidence"] < UNSURE for row in rows if right(row) == among_right]
    return float(np.mean(found)) if found else float("nan")


def binned(
    values: Sequence[float], hits: Sequence[bool], edges: Sequence[float] = EDGES
) -> list[Bin]:
    """Return the bins that are not empty.

    Examples
    --------
    >>> [(one.title, one.n, one.share) for one in binned([0.1, 0.95, 1.0], [False, True, True])]
    [('0 to 0.25', 1, 0.0), ('0.9 and more', 2, 1.0)]
    """
    x, y = np.asarray(values, dtype=np.float64), np.asarray(hits, dtype=bool)
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    return [
        Bin(
            edges[i],
            edges[i + 1],
            int(inside.sum()),
            float(x[inside].mean()),
            float(y[inside].mean()),
        )
        for i in range(len(edges) - 1)
        if (inside := place == i).any()
    ]


def confidence_bins(rows: Sequence[Row]) -> list[Bin]:
    """Return how often runs were right, by their confidence."""
    return binned([row["confidence"] for row in rows], [right(row) for row in rows])


def score_bins(rows: Sequence[Row]) -> list[Bin]:
    """Return how often clusters were real, by their score."""
    real = [score for row in rows for score in row["scores_real"]]
    false = [score for row in rows for score in row["scores_false"]]
    return binned([*real, *false], [True] * len(real) + [False] * len(false), SCORE_EDGES)


# --------------------------------------------------------------------------------------- tables


def sets_table(hard: HardRuns, kind: str) -> str:
    """What was found on every set of one kind, and by pooled peers beside it."""
    head = [
        "data", "columns", "true k", *(SPLITS[name].title for name in TEN_CLIENTS),
        "confidence", "ARI", *PEER_TITLES.values(),
    ]  # fmt: skip
    chosen = [one for one in HARD_SETS.values() if one.kind == kind]
    return markdown_table(head, [_set_line(hard, one) for one in chosen])


def _set_line(hard: HardRuns, one: HardSet) -> list[str]:
    runs = hard.of(hard.ten_clients, dataset=one.name)
    *_, columns = one.name.split("-")
    return [
        one.about + HELD_OUT * one.held_out,
        columns.removesuffix("d"),
        str(one.n_clusters),
        *(_answers(hard.of(runs, split=name)) for name in TEN_CLIENTS),
        _median(runs, "confidence"),
        _median(runs, "ari"),
        *(_answers(hard.of(hard.pooled, dataset=one.name, method=name)) for name in PEERS),
    ]


def totals_table(hard: HardRuns) -> str:
    """How often k was right, by kind of data, and the time that it takes."""
    head = ["data", "sets", *(SPLITS[name].title for name in TEN_CLIENTS), "all", "share"]
    head += [*PEER_TITLES.values(), "time, median", "time, largest"]
    groups: dict[str, Callable[[HardSet], bool]] = {
        **{kind: (lambda one, kind=kind: one.kind == kind) for kind in KINDS},  # type: ignore[misc]
        "all": lambda one: True,
        f"of which held out ({HELD_OUT})": lambda one: one.held_out,
    }
    lines = []
    for title, belongs in groups.items():
        names = {name for name, one in HARD_SETS.items() if belongs(one)}
        runs = [row for row in hard.ten_clients if row["dataset"] in names]
        pooled = [row for row in hard.pooled if row["dataset"] in names]
        lines.append(
            [
                title,
                str(len(names)),
                *(_of(hard.of(runs, split=name)) for name in TEN_CLIENTS),
                _of(runs),
                _percent(share_right(runs)),
                *(_of(hard.of(pooled, method=name)) for name in PEERS),
                *_times(runs),
            ]
        )
    return markdown_table(head, lines)


def small_table(hard: HardRuns) -> str:
    """What was found where clients have few rows."""
    head = ["data", "columns", "true k", *(SPLITS[name].title for name in SMALL_CLIENTS)]
    head += ["confidence"]
    names = dict.fromkeys(row["dataset"] for row in hard.small_clients)
    lines = []
    for one in map(HARD_SETS.__getitem__, names):
        runs = hard.of(hard.small_clients, dataset=one.name)
        answers = [_answers(hard.of(runs, split=name)) for name in SMALL_CLIENTS]
        columns = one.name.rsplit("-", 1)[1].removesuffix("d")
        about = f"{one.kind}: {one.about}"
        line = [about, columns, str(one.n_clusters), *answers, _median(runs, "confidence")]
        lines.append(line)
    counts = [_of(hard.of(hard.small_clients, split=name)) for name in SMALL_CLIENTS]
    lines.append(["right", "", "", *counts, _median(hard.small_clients, "confidence")])
    return markdown_table(head, lines)


def confidence_table(hard: HardRuns) -> str:
    """How often runs with a certain confidence were right."""
    parts = (confidence_bins(hard.ten_clients), confidence_bins(hard.small_clients))
    return _bins_table(EDGES, parts, "confidence", "runs", "right")


def score_table(hard: HardRuns) -> str:
    """How often clusters with a certain score were real."""
    parts = (score_bins(hard.ten_clients), score_bins(hard.small_clients))
    return _bins_table(SCORE_EDGES, parts, "separation", "clusters", "real")


def doubt(hard: HardRuns) -> str:
    """Say how many of the wrong runs were unsure."""
    wrong = [row for row in hard.runs if not right(row)]
    unsure = [row for row in wrong if row["confidence"] < UNSURE]
    share = f" ({_percent(len(unsure) / len(wrong))})" if wrong else ""
    cautious = unsure_share(hard.runs, among_right=True)
    return (
        f"Of all {len(hard.runs)} runs, {len(wrong)} were wrong.\n"
        f"The confidence was below {UNSURE:g} in {len(unsure)} of these{share}, "
        f"and in {_percent(cautious)} of the right ones."
    )


# name of the block in the page -> its text
TABLES: dict[str, Callable[[HardRuns], str]] = {
    "hard-totals": totals_table,
    "hard-gaussian": partial(sets_table, kind=GAUSSIAN),
    "hard-nothing": partial(sets_table, kind=NOTHING),
    "hard-other": partial(sets_table, kind=OTHER),
    "hard-small": small_table,
    "hard-confidence": lambda hard: f"{confidence_table(hard)}\n\n{doubt(hard)}",
    "hard-separation": score_table,
}


def _bins_table(
    edges: Sequence[float], parts: Sequence[Sequence[Bin]], corner: str, unit: str, hit: str
) -> str:
    titles = ("ten clients", "small clients")
    head = [corner, *(f"{title}: {word}" for title in titles for word in (unit, hit))]
    lines = []
    for low, high in pairwise(edges):
        line = [Bin(low, high, 0, 0.0, 0.0).title]
        for part in parts:
            found = next((one for one in part if one.low == low), None)
            line += [str(found.n), _percent(found.share)] if found else ["0", ""]
        lines.append(line)
    return markdown_table(head, lines)


def _of(rows: Sequence[Row]) -> str:
    return f"{sum(map(right, rows))} of {len(rows)}"


def _percent(share: float) -> str:
    """Write a share; only what is whole is written as 100 %."""
    return f"{100 * share:.1f} %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def _answers(rows: Iterable[Row]) -> str:
    """Write the different numbers that were found, the most frequent one first."""
    counts = Counter(sorted(row["n_found"] for row in rows))
    return ", ".join(str(k) for k, _ in counts.most_common())


def _median(rows: Sequence[Row], number: str) -> str:
    known = [row[number] for row in rows if row[number] is not None]
    return f"{np.median(known):.2f}" if known else ""


def _times(rows: Sequence[Row]) -> list[str]:
    """Return median and maximum, over the sets, of the time relative to a run with k given."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault(row["dataset"], []).append(row["seconds"] / row["seconds_given"])
    medians = [float(np.median(found)) for found in ratios.values()]
    return [f"{np.median(medians):.1f}", f"{max(medians):.1f}"] if medians else ["", ""]
