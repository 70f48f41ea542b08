"""Tables of docs/peers.md, made from rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.peer_cells import PEERS, SETS

Row = Mapping[str, Any]
CLOSE = 1.1  # a ratio below is shown with four digits after the point, others with two
TIE = 1e-4  # ratios that differ by less are equal
SINGLE, DETAILED = "Centralized, 1 start", "Jigsaw, detail=4"
LLOYD = "Fed-Lloyd, 21 rounds"
OURS = {
    "Jigsaw": 1,
    "Jigsaw, 6 rounds": 6,
}  # and their rounds, to be compared with others of as many


def ratio_table(rows: Sequence[Row]) -> str:
    """Write the objective of each method relative to k-means on the pooled rows."""
    columns = [(name, split) for name, (_, _, splits) in SETS.items() for split in splits]
    head = ["method", *(f"{SETS[name][0]}, {_short(split)}" for name, split in columns)]
    lines = [
        [label, *(_mean_and_worst(_of(rows, name, split, label)) for name, split in columns)]
        for label in PEERS
    ]
    return markdown_table(head, lines)


def cost_table(rows: Sequence[Row]) -> str:
    """Write what celltype costs with each method, and the objective by both rules for labels."""
    head = ["method", "ratio", "ratio, local labels", "rounds", "bytes per client", "CPU seconds"]
    lines = []
    for label in PEERS:
        group = _of(rows, "celltype", "as published", label)
        if group:
            mean = {n: _mean(group, n) for n in ("ratio", "ratio_local", "rounds")}
            cells = [_shown(mean["ratio"]), _shown(mean["ratio_local"]), f"{mean['rounds']:.0f}"]
            sent = f"{_mean(group, 'bytes_per_client'):,.0f}"
            seconds = np.median([row["cpu_seconds"] for row in group])  # the first one compiles
            lines.append([label, *cells, sent, f"{seconds:.2f}"])
    return markdown_table(head, lines)


def in_words(rows: Sequence[Row]) -> str:
    """Say how far Jigsaw and Federated Lloyd are from the best, at most, and what they send."""
    one, more, lloyd = (
        f"{100 * (_worst_mean(rows, label) - 1):.1f} %" for label in ("Jigsaw", DETAILED, LLOYD)
    )
    times = _mean(_labeled(rows, LLOYD), "bytes_per_client")
    times /= _mean(_labeled(rows, "Jigsaw"), "bytes_per_client")
    return (
        f"The mean of Jigsaw with one round is at most {one} above the best known solution.\n"
        f"With `detail=4`, which sends up to four times as many centers, it is at most {more}.\n"
        f"That of Federated Lloyd with 21 rounds is at most {lloyd}; it is mostly closer than "
        f"Jigsaw with one round, and sends {times:.0f} times as much."
    )


def behind(rows: Sequence[Row]) -> str:
    """List where Jigsaw with one round is not the best of one round, nor with six the best of six.

    Methods that pool the rows do not count.
    """
    sentences = []
    for name, (title, _, splits) in SETS.items():
        for split in splits:
            group = [r for r in rows if (r["dataset"], r["split"]) == (name, split)]
            for ours, n_rounds in OURS.items():
                others = {row["label"] for row in group if row["rounds"] == n_rounds} - {SINGLE}
                means = {
                    label: _mean(_of(rows, name, split, label), "ratio")
                    for label in PEERS
                    if label in others
                }
                ahead = {n: m for n, m in means.items() if m < means.get(ours, np.inf) - TIE}
                if ours in means and set(ahead) - {DETAILED}:
                    listed = ", ".join(f"{label} {_shown(m)}" for label, m in ahead.items())
                    where = f"{title}, {_short(split)}"
                    sentences.append(f"- {where}: {ours} {_shown(means[ours])}; {listed}.")
    return "\n".join(sentences) or "Nowhere in this table."


def authors_table(rows: Sequence[Row]) -> str:
    """Write ours beside what the authors' own code reaches on the same rows."""
    head = ["method", "data", "authors' code", "ours", "runs of each"]
    lines = []
    for key in dict.fromkeys((row["label"], row["data"]) for row in rows):
        group = [row for row in rows if (row["label"], row["data"]) == key]
        theirs, ours = (
            [row["ratio"] for row in group if row["side"] == side] for side in ("authors", "ours")
        )
        lines.append([*key, _spread(theirs), _spread(ours), f"{len(theirs)}, {len(ours)}"])
    return markdown_table(head, lines)


TABLES: dict[str, Callable[[Sequence[Row]], str]] = {
    "ratios": ratio_table,
    "words": in_words,
    "celltype": cost_table,
    "behind": behind,
}


def _of(rows: Sequence[Row], name: str, split: str, label: str) -> list[Row]:
    return [r for r in rows if (r["dataset"], r["split"], r["label"]) == (name, split, label)]


def _labeled(rows: Sequence[Row], label: str) -> list[Row]:
    return [row for row in rows if row["label"] == label]


def _worst_mean(rows: Sequence[Row], label: str) -> float:
    """Return the largest mean ratio of a method on any data set and split."""
    own = _labeled(rows, label)
    cells = {(row["dataset"], row["split"]) for row in own}
    return max(_mean(_of(own, *cell, label), "ratio") for cell in cells)


def _short(split: str) -> str:
    return {"iid": "IID", "as published": "as published"}.get(split, split.capitalize())


def _mean(rows: Sequence[Row], number: str) -> float:
    return float(np.mean([row[number] for row in rows]))


def _mean_and_worst(rows: Sequence[Row]) -> str:
    if not rows:
        return "–"
    return f"{_shown(_mean(rows, 'ratio'))} ({_shown(max(row['ratio'] for row in rows))})"


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.4f} ± {np.std(values):.4f}" if values else "–"


def _shown(ratio: float) -> str:
    return f"{ratio:.4f}" if ratio < CLOSE else f"{ratio:.2f}"
