"""The picture of docs/performance.md: how time grows, from the rows of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedjigsaw.bench.speed_rows import INPUTS, Rows, part
from fedjigsaw.report.pictures import INK, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = dict(zip(INPUTS, ("#0072B2", "#D55E00"), strict=True))


def seconds_over_sizes(rows: Rows) -> Figure:
    """Draw seconds over the number of clients and of received centers, on logarithmic scales."""
    figure = new_figure(10, 4)
    left, right = figure.subplots(1, 2)
    fits = part(rows, "many_clients", method="jigsaw")
    _line(left, fits, "n_clients", "seconds", "#0072B2", "Jigsaw.fit")
    _line(left, fits, "n_clients", "kernel_seconds", "#888888", "compiled k-means alone")
    _line(
        left, part(rows, "many_clients", method="feca"), "n_clients", "seconds", "#009E73", "FeCA"
    )
    _decorate(left, "Clients of 50 rows, k = 15", "clients")
    for kind, color in COLORS.items():
        served = part(rows, "server", input=kind)
        _line(right, served, "n_centers", "seconds", color, f"Jigsaw, {kind}")
        _line(right, served, "n_centers", "sklearn_seconds", color, f"one start, {kind}", "--")
    alone = part(rows, "grouping")
    _line(right, alone, "n_centers", "seconds", "#009E73", "FeCA's grouping, alone")
    _decorate(right, "Server: 16 columns, k = 100", "received centers")
    return figure


def _line(axes: Axes, rows: Rows, x: str, y: str, color: str, label: str, style: str = "-") -> None:
    if not rows:
        return
    points = [[row[x] for row in rows], [row[y] for row in rows]]
    axes.plot(*points, f"o{style}", color=color, markersize=4, label=label)


def _decorate(axes: Axes, title: str, xlabel: str) -> None:
    if axes.has_data():  # a log scale without any fails
        axes.set(xscale="log", yscale="log")
        axes.legend(fontsize=8, frameon=False)
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(xlabel, fontsize=9, color=INK)
    axes.set_ylabel("seconds", fontsize=9, color=INK)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(color="#eeeeee", linewidth=0.8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
