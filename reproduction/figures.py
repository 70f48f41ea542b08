"""Draw the pictures of docs/ that rows or data sets make.

python reproduction/figures.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where this file is run by its path

from fedjigsaw import datasets, partition
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.report.holdings import Holdings, draw_classes
from fedjigsaw.report.pictures import INK, new_figure, render
from reproduction.studies import HERE, RESULTS, definitions, read
from reproduction.tables import SPLITS, SSETS, select

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "sv^<>DoP*x"  # of the methods of Table 1, in its order
SHOWN: dict[str, tuple[str, dict[str, Any]]] = {  # title -> split, and its options
    "iid": ("iid", {}),
    "dirichlet, alpha = 1": ("dirichlet", {"alpha": 1.0}),
    "dirichlet, alpha = 0.1": ("dirichlet", {"alpha": 0.1}),
    "shards, 2 per client": ("shards", {"shards_per_client": 2}),
    "quantity, alpha = 0.3": ("quantity", {"alpha": 0.3}),
    "features": ("features", {}),
}


def over_seeds(folder: Path) -> Figure:
    """Center distance of every method on S1 to S4: one dot for each seed."""
    axes = definitions()["axes"]
    figure, rows = new_figure(13, 8), read(folder, "table1")
    for panel, name in zip(figure.subplots(2, 2).flat, SSETS, strict=True):
        for i, (label, told) in enumerate({**axes["methods"], **axes["central"]}.items()):
            places = [(x, f"{name}/{split}/{label}") for x, split in enumerate(SPLITS)]
            places.append((0, f"{name}/any/{label}"))
            dots = [(x, row["l2"] / 1e4) for x, cell in places for row in select(rows, cell=cell)]
            x, y = np.array(dots).T
            style = {"color": CLUSTERERS[told["method"]].color, "label": label, "markersize": 4}
            panel.plot(x + 0.095 * (i - 4.5), y, MARKERS[i], **style)
        panel.set(title=name, yscale="log", ylabel="center distance, l2 / 1e4", xticks=range(3))
        panel.set_xticklabels(["IID", "Dirichlet(0.3)", "Dirichlet(0.1)"])
    shown = figure.axes[0].get_legend_handles_labels()
    figure.legend(*shown, loc="outside lower center", ncols=5, frameon=False)
    return figure


def splits(folder: Path) -> Figure:
    """Who holds which of scikit-learn's digits, by each split."""
    data, figure = datasets.load("digits"), new_figure(10.5, 7.2)
    for axes, told in zip(figure.subplots(2, 3).flat, SHOWN.items(), strict=True):
        title, (name, options) = told
        ids = partition.split(name, data.y, 10, rng=0, X=data.X, **options)
        draw_classes(axes, Holdings.of(ids, data.y))
        axes.set_title(title, fontsize=10, color=INK)
        axes.label_outer()
    return figure


FIGURES: Mapping[str, Callable[[Path], Figure]] = {"over-seeds": over_seeds, "splits": splits}

if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (HERE.parent / "docs" / f"{name}.svg").write_bytes(render(draw(RESULTS), ".svg"))
