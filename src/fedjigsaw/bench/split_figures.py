"""Pictures of the splits, for docs/splits.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedjigsaw import datasets, partition
from fedjigsaw.report.holdings import Holdings, draw_classes
from fedjigsaw.report.pictures import INK, PALE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_CLIENTS = 10
# title -> split, and its options
SHOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "iid": ("iid", {}),
    "dirichlet, alpha = 1": ("dirichlet", {"alpha": 1.0}),
    "dirichlet, alpha = 0.1": ("dirichlet", {"alpha": 0.1}),
    "shards, 2 per client": ("shards", {"shards_per_client": 2}),
    "quantity, alpha = 0.3": ("quantity", {"alpha": 0.3}),
    "features": ("features", {}),
}
REGIONS = {"iid": None, "mix = 0.5": 0.5, "mix = 0": 0.0}
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")


def class_figure() -> Figure:
    """Draw who holds which of scikit-learn's digits, by each split."""
    data = datasets.load("digits")
    figure = new_figure(10.5, 7.2)
    for axes, (title, (name, options)) in zip(
        figure.subplots(2, 3).ravel(), SHOWN.items(), strict=True
    ):
        ids = partition.split(name, data.y, N_CLIENTS, rng=0, X=data.X, **options)
        draw_classes(axes, Holdings.of(ids, data.y))
        axes.set_title(title, fontsize=10, color=INK)
    for axes in figure.axes:
        axes.label_outer()
    return figure


def region_figure() -> Figure:
    """Draw which region each of five clients holds, by how much is mixed."""
    data = datasets.gaussian_grid(600)
    figure = new_figure(10.5, 3.6)
    for axes, (title, mix) in zip(figure.subplots(1, 3), REGIONS.items(), strict=True):
        options: dict[str, Any] = {} if mix is None else {"X": data.X, "mix": mix, "direction": 0}
        name = "iid" if mix is None else "features"
        ids = partition.split(name, data.y, len(COLORS), rng=0, **options)
        axes.scatter(*data.X.T, c=[COLORS[i] for i in ids], s=5, linewidths=0)
        axes.set_title(title, fontsize=10, color=INK)
        axes.set(xticks=[], yticks=[], aspect="equal")
        for spine in axes.spines.values():
            spine.set_color(PALE)
    return figure
