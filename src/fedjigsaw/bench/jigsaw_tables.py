"""Tables of docs/jigsaw.md, made from rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.paper import MAIN_SPLITS, SPLIT_TITLES, SSETS

Row = Mapping[str, Any]
OURS = ("FeCA", "Jigsaw", "Jigsaw (detail=4)")
ONE_SHOT = ("Jigsaw", "FeCA", "k-FED", "FFCMv2(Rd=1)", "M-Avg", "FFCMv1(Rd=1)")


def mean(rows: Sequence[Row], cell: str, number: str) -> float:
    """Return the mean over seeds of a number of one cell; NaN if there is no row yet."""
    values = [row[number] for row in rows if row["cell"] == cell]
    return float(np.mean(values)) if values else float("nan")


def ssets_table(table1: Sequence[Row], best: Sequence[Row]) -> str:
    """Objective relative to the best known one, and center distance, on S1 to S4."""
    head = ["data", *(f"{m}, {SPLIT_TITLES[s]}" for m in OURS for s in MAIN_SPLITS)]
    lines = []
    for name in SSETS:
        least = min(row["inertia"] for row in best if row["cell"] == name)
        cells = [
            f"{mean(table1, f'{name}/{split}/{m}', 'inertia') / least:.4f}, "
            f"{mean(table1, f'{name}/{split}/{m}', 'l2') / 1e4:.2f}"
            for m in OURS
            for split in MAIN_SPLITS
        ]
        lines.append([name, *cells])
    return markdown_table(head, lines)


def overview_table(table1: Sequence[Row], best: Sequence[Row]) -> str:
    """Objective relative to the best known one, mean over S1 to S4, of all one-shot methods."""

    def cell(split: str, method: str) -> str:
        ratios = []
        for name in SSETS:
            least = min(row["inertia"] for row in best if row["cell"] == name)
            ratios.append(mean(table1, f"{name}/{split}/{method}", "inertia") / least)
        return f"{np.mean(ratios):.3f}"

    lines = [[m, *(cell(split, m) for split in MAIN_SPLITS)] for m in ONE_SHOT]
    lines.append(["Centralized", *[cell("any", "Centralized")] * len(MAIN_SPLITS)])
    return markdown_table(["method", *(SPLIT_TITLES[split] for split in MAIN_SPLITS)], lines)


def cifar_table(table2: Sequence[Row]) -> str:
    """Purity and NMI on CIFAR features by both label rules."""
    splits = ("iid", "dirichlet(1.0)", "dirichlet(0.3)", "dirichlet(0.1)")
    head = ["data, method, labels", *(SPLIT_TITLES[split] for split in splits)]
    lines = []
    for name in ("CIFAR-10", "CIFAR-100"):
        for method in ("FeCA", "k-FED", "Jigsaw"):
            for rule in ("nearest", "local"):
                cells = [
                    " / ".join(
                        f"{mean(table2, f'{name}/{split}/{method}', f'{number}_{rule}'):.2f}"
                        for number in ("purity", "nmi")
                    )
                    for split in splits
                ]
                lines.append([f"{name}, {method}, {rule}", *cells])
    return markdown_table(head, lines)


def auto_table(auto_k: Sequence[Row], true: int = 15) -> str:
    """How often Jigsaw found the true number of clusters, and how sure it was."""
    head = ["data", *(SPLIT_TITLES[split] for split in MAIN_SPLITS), "all", "confidence"]
    lines = []
    for name in SSETS:
        counts = []
        for split in MAIN_SPLITS:
            found = [row["n_found"] for row in auto_k if row["cell"] == f"{name}/{split}"]
            counts.append((sum(n == true for n in found), len(found)))
        counts.append((sum(a for a, _ in counts), sum(b for _, b in counts)))
        sure = [row["confidence"] for row in auto_k if row["cell"].startswith(f"{name}/")]
        lines.append([name, *(f"{a} of {b}" for a, b in counts), f"{np.median(sure):.2f}"])
    wrong = [row for row in auto_k if row["n_found"] != true]
    found = [f"{r['n_found']} on {r['dataset'].upper()} ({r['confidence']:.2f})" for r in wrong]
    words = f"\n\nOther answers, and their confidence: {', '.join(found)}." if found else ""
    return markdown_table(head, lines) + words


def untuned_table(untuned: Sequence[Row]) -> str:
    """Objective relative to the best of all methods, on data that no method was tuned on."""
    methods = (*OURS, "Centralized")
    splits = ("iid", "dirichlet(0.3)")
    names = list(dict.fromkeys(row["cell"].split("/")[0] for row in untuned))
    head = ["data", *(f"{m}, {SPLIT_TITLES[s]}" for s in splits for m in methods)]
    lines = []
    for name in names:
        mine = [row for row in untuned if row["cell"].startswith(f"{name}/")]
        least = min(row["inertia"] for row in mine)
        cells = [
            f"{mean(mine, f'{name}/{split}/{method}', 'inertia') / least:.3f}"
            for split in splits
            for method in methods
        ]
        lines.append([name, *cells])
    return markdown_table(head, lines)


def cost_table(benchmarks: Sequence[Row]) -> str:
    """The server's seconds and memory by the number of received centers."""
    rows = [row for row in benchmarks if row["benchmark"] == "solving"]
    head = ["received centers", "kind", "seconds", "peak MB", "of ten restarts' time"]
    lines = []
    for row in rows:
        cells = [str(row["input"]), f"{row['seconds']:.1f}", f"{row['peak_megabytes']:.0f}"]
        lines.append([f"{row['n_centers']:,}", *cells, f"{row['ratio']:.2f}"])
    return markdown_table(head, lines)
