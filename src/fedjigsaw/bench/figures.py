"""The paper's figures, drawn from rows alone: no data set is read here.

Each function takes the rows of all studies by name and returns a figure. Every method has its color
of the table of methods; variants of one method differ by marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw import methods
from fedjigsaw.bench.cells import Cell
from fedjigsaw.bench.hard_tables import EDGES, Bin, HardRuns, confidence_bins
from fedjigsaw.bench.paper import MAIN_SPLITS, PAPER_METHODS, SPLIT_TITLES, SSETS
from fedjigsaw.bench.studies import studies
from fedjigsaw.report.pictures import INK, PALE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
Results = Mapping[str, Sequence[Row]]
MARKERS = {
    "FFCMv1(Rd=1)": "v", "FFCMv1(Rd=10)": "^", "FFCMv2(Rd=1)": "<", "FFCMv2(Rd=10)": ">",
    "M-Avg": "s", "k-FED": "D", "FeCA": "o", "Jigsaw": "P", "Jigsaw (detail=4)": "*",
    "Centralized": "x",
}  # fmt: skip
PAPER: dict[str, Any] = {
    "color": "#888888",
    "linestyle": "--",
    "linewidth": 1.2,
    "label": "the paper",
}


def color_of(label: str) -> str:
    """Return the color of a method by its name in the paper's tables."""
    name = "central" if label == "Centralized" else PAPER_METHODS[label][0]
    return methods.CLUSTERERS[name].color


def over_seeds(results: Results) -> Figure:
    """Center distance of every method and run on S1 to S4: one dot for each seed."""
    figure = new_figure(13, 8)
    rows = results["table1"]
    labels = [label for label in MARKERS if any(r["cell"].endswith(f"/{label}") for r in rows)]
    for place, name in enumerate(SSETS):
        axes = figure.add_subplot(2, 2, place + 1)
        for x, split in enumerate(MAIN_SPLITS):
            for i, label in enumerate(labels):
                where = "any" if label == "Centralized" else split
                values = [r["l2"] / 1e4 for r in rows if r["cell"] == f"{name}/{where}/{label}"]
                offset = x + (i - (len(labels) - 1) / 2) * 0.095
                axes.plot(
                    np.full(len(values), offset), values, MARKERS[label],
                    color=color_of(label), markersize=4, alpha=0.75, markeredgewidth=0.8,
                    label=label if x == 0 else None,
                )  # fmt: skip
        axes.set(xticks=range(3), xticklabels=[SPLIT_TITLES[s] for s in MAIN_SPLITS])
        _log_scale(axes)
        _style(axes, name, ylabel="center distance, l2 / 1e4 (log)")
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="outside lower center", ncols=5, frameon=False,
    )  # fmt: skip
    return figure


def recovered(results: Results) -> Figure:
    """Recovered and true centers of all methods on S1 to S4 at Dirichlet(0.3), seed 0."""
    rows = {row["cell"]: row for row in results["table1"] if row["seed"] == 0}
    labels = [label for label in MARKERS if f"S1/dirichlet(0.3)/{label}" in rows] + ["Centralized"]
    figure = new_figure(1.75 * len(labels), 8)
    for line, name in enumerate(SSETS):
        for column, label in enumerate(labels):
            axes = figure.add_subplot(4, len(labels), line * len(labels) + column + 1)
            split = "any" if label == "Centralized" else "dirichlet(0.3)"
            row = rows[f"{name}/{split}/{label}"]
            _draw_centers(axes, _truth(results, name), row["centers"], color_of(label))
            axes.set_title(label if line == 0 else "", fontsize=9, color=INK)
            axes.set_xlabel(f"l2 / 1e4 = {row['l2'] / 1e4:.1f}", fontsize=8, color=INK)
            axes.set_ylabel(name if column == 0 else "", color=INK)
    _explain_marks(figure, INK)
    return figure


def ssets(results: Results) -> Figure:
    """The four data sets, from well separated to overlapping."""
    figure = new_figure(12, 3.2)
    for place, name in enumerate(SSETS):
        axes = figure.add_subplot(1, 4, place + 1)
        _draw_centers(axes, _truth(results, name), [], INK)
        axes.set_title(name, fontsize=10, color=INK)
    _explain_marks(figure)
    return figure


def k_prime(results: Results) -> Figure:
    """k-FED on S1 at Dirichlet(0.3) for 2 to 15 clusters per client."""
    study = studies()["k-prime"]
    figure = new_figure(12, 3.4)
    x = [int(plan.name) for plan in study.plans]
    for place, (number, title, factor) in enumerate(
        (("l2", "center distance, l2 / 1e4", 1e-4), ("purity", "purity", 1), ("nmi", "NMI", 1))
    ):
        axes = figure.add_subplot(1, 3, place + 1)
        ours = [_values(results["k-prime"], plan.name, number) * factor for plan in study.plans]
        _band(axes, x, ours, color_of("k-FED"), "k-FED, ours")
        axes.plot(x, [plan.published[number][0] for plan in study.plans], **PAPER)
        _style(axes, title, xlabel="local clusters k'")
    figure.axes[0].legend(frameon=False, fontsize=8)
    return figure


def clients(results: Results) -> Figure:
    """FeCA on S1 for 1 to 20 clients (one client: plain k-means, one start)."""
    study = studies()["clients"]
    figure = new_figure(11, 3.6)
    for place, held in enumerate(dict.fromkeys(plan.name.split("/")[0] for plan in study.plans)):
        axes = figure.add_subplot(1, 2, place + 1)
        plans = [plan for plan in study.plans if plan.name.startswith(held)]
        x = [plan.cell.n_clients for plan in plans if isinstance(plan.cell, Cell)]
        ours = [_values(results["clients"], plan.name, "l2") / 1e4 for plan in plans]
        _band(axes, x, ours, color_of("FeCA"), "FeCA, ours")
        axes.plot(x, [plan.published["l2"][0] for plan in plans], **PAPER)
        axes.set(xticks=[1, 5, 10, 15, 20])
        _log_scale(axes)
        _style(axes, f"{held}", xlabel="clients M", ylabel="center distance, l2 / 1e4 (log)")
    figure.axes[0].legend(frameon=False, fontsize=8)
    return figure


def local_solutions(results: Results) -> Figure:
    """Plain k-means with one start: the objective over seeds, and the worst solution of all."""
    rows = results["local-solutions"]
    figure = new_figure(13, 6.4)
    shades = {"50%": ("#56B4E9", "o"), "75%": ("#009E73", "s"), "100%": (INK, "D")}
    for place, name in enumerate(SSETS):
        axes = figure.add_subplot(2, 4, place + 1)
        for share, (color, marker) in shades.items():
            group = sorted(
                (r for r in rows if r["cell"] == f"{name}/{share}"), key=lambda r: int(r["seed"])
            )
            values = [row["inertia"] / 1e12 for row in group]
            style: dict[str, Any] = {
                "marker": marker,
                "markersize": 4,
                "color": color,
                "linewidth": 1,
            }
            axes.plot(range(len(values)), values, label=f"{share} of the rows", **style)
        _style(axes, name, xlabel="seed", ylabel="objective / 1e12" if place == 0 else "")
        axes.set_ylim(bottom=0)
        whole = [row for row in rows if row["cell"] == f"{name}/100%"]
        worst = max(whole, key=lambda row: float(row["inertia"]))
        axes = figure.add_subplot(2, 4, place + 5)
        _draw_centers(axes, _truth(results, name), worst["centers"], color_of("Centralized"))
        axes.set_xlabel(f"the worst of ten, seed {worst['seed']}", fontsize=8, color=INK)
    lines, _ = figure.axes[0].get_legend_handles_labels()
    _explain_marks(figure, color_of("Centralized"), lines)
    return figure


def sigma(results: Results) -> Figure:
    """Distance of received centers to their true centers, in radii; below 0.5 suffices to group."""
    figure = new_figure(13, 3.6)
    for place, split in enumerate(MAIN_SPLITS):
        axes = figure.add_subplot(1, 3, place + 1)
        group = [row for row in results["sigma"] if row["cell"] == split]
        x = np.concatenate([row["true_center"] for row in group])
        y = np.concatenate([row["sigma"] for row in group])
        color = color_of("FeCA")
        axes.scatter(x + 1, y, s=7, color=color, alpha=0.5, lw=0, label="a received center")
        top = int(y.argmax())
        axes.plot(x[top] + 1, y[top], "*", color=INK, markersize=9, label="the largest")
        axes.axhline(0.5, color="#888888", ls="--", lw=1, label="0.5: enough to group")
        axes.set(xticks=[1, 5, 10, 15])
        share = (y < 0.5).mean()
        title = f"{SPLIT_TITLES[split]}: {share:.1%} below 0.5, largest {y.max():.2f}"
        _style(
            axes, title, xlabel="true center", ylabel="σ = distance / radius" if place == 0 else ""
        )
    handles, _ = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def varying_k(results: Results) -> Figure:
    """What FeCA recovers on S1 when k or k' is not the true number, seed 0."""
    names = [
        name for name in _cells(results["varying-k"]) if name.endswith(("/iid", "/dirichlet(0.3)"))
    ]
    return _panels(results, "varying-k", names, 4)


def ablation(results: Results) -> Figure:
    """What FeCA recovers on S1, IID, with and without one-fit-many centers, seed 0."""
    return _panels(results, "ablation", list(_cells(results["ablation"])), 4)


def k_curves(rows: Sequence[Row]) -> Figure:
    """Index of every k on S1 to S4 at Dirichlet(0.1), and the k that Jigsaw chose."""
    figure = new_figure(13, 3)
    color = color_of("Jigsaw")
    for place, name in enumerate(SSETS):
        axes = figure.add_subplot(1, 4, place + 1)
        row = next(row for row in rows if row["cell"] == name)
        known = [(k, i) for k, i in zip(row["k"], row["index"], strict=True) if i is not None]
        k, index = np.array(known).T
        axes.axvline(row["n_found"], color=INK, ls="--", lw=1, label="chosen k")
        axes.plot(k, index, color=color, marker=".", markersize=4)
        best = int(index.argmax())
        axes.plot(k[best], index[best], "o", color=color, markersize=8, label="best index")
        axes.locator_params(axis="x", integer=True)
        title = f"{name}: k = {row['n_found']}"
        _style(axes, title, "number of clusters k", "index: minus BIC" if place == 0 else "")
    figure.axes[0].legend(frameon=False, fontsize=8)
    return figure


def confidences(rows: Sequence[Row]) -> Figure:
    """How often k is right on generated sets, by its confidence."""
    hard = HardRuns(rows)
    figure = new_figure(7, 4.6)
    axes = figure.add_subplot()
    for edge in EDGES[1:-1]:
        axes.axvline(edge, color="#eeeeee", lw=0.8)
    axes.plot([0, 1], [0, 1], **{**PAPER, "label": "share = confidence"})
    groups = (
        ("ten clients", hard.ten_clients, "o", color_of("Jigsaw")),
        ("clients of 5 to 25 rows", hard.small_clients, "s", color_of("k-FED")),
    )
    for place, (label, runs, marker, color) in enumerate(groups):
        _draw_bins(axes, confidence_bins(runs), place, marker, color, label)
    axes.set(xlim=(0, 1.01), ylim=(-0.02, 1.17))
    axes.set_xticks(EDGES, [f"{edge:g}" for edge in EDGES])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    _style(axes, "Number of runs, and how many were right", "k_confidence_", "right")
    handles, _ = axes.get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


FIGURES: dict[str, Callable[[Results], Figure]] = {
    "over-seeds": over_seeds,
    "recovered": recovered,
    "s-sets": ssets,
    "k-prime": k_prime,
    "clients": clients,
    "local-solutions": local_solutions,
    "sigma": sigma,
    "varying-k": varying_k,
    "ablation": ablation,
}


# ------------------------------------------------------------------------------------------ parts


def _cells(rows: Sequence[Row]) -> dict[str, None]:
    return dict.fromkeys(row["cell"] for row in rows)


def _values(rows: Sequence[Row], cell: str, number: str) -> np.ndarray:
    return np.array([row[number] for row in rows if row["cell"] == cell])


def _truth(results: Results, name: str) -> Row:
    return next(row for row in results["data"] if row["cell"] == name and row["seed"] == 0)


def _panels(results: Results, study: str, names: Sequence[str], columns: int) -> Figure:
    """Draw FeCA's centers of seed 0 on S1, one panel for each cell."""
    lines = -(-len(names) // columns)
    figure = new_figure(3 * columns, 3.2 * lines)
    rows = {row["cell"]: row for row in results[study] if row["seed"] == 0}
    for place, name in enumerate(names):
        axes = figure.add_subplot(lines, columns, place + 1)
        _draw_centers(axes, _truth(results, "S1"), rows[name]["centers"], color_of("FeCA"))
        words = ", ".join(SPLIT_TITLES.get(word, word) for word in name.split("/"))
        axes.set_title(words, fontsize=8, color=INK)
        found = f"{rows[name]['n_found']} found, MSE / 1e6 = {rows[name]['mse'] / 1e6:.1f}"
        axes.set_xlabel(found, fontsize=8, color=INK)
    _explain_marks(figure, color_of("FeCA"))
    return figure


def _draw_centers(axes: Axes, truth: Row, centers: Sequence[Any], color: str) -> None:
    """Draw the density of the rows in gray, true centers as crosses, recovered ones as rings."""
    (left, right), (low, high) = truth["window"]
    axes.imshow(
        np.sqrt(np.array(truth["density"]).T), origin="lower", cmap="Greys", vmax=16,
        extent=(left, right, low, high), interpolation="nearest", aspect="auto",
    )  # fmt: skip
    true = np.array(truth["true_centers"])
    axes.scatter(true[:, 0], true[:, 1], marker="+", s=40, color="black", linewidths=1.0)
    if len(centers):
        ring: dict[str, Any] = {"facecolors": "none", "edgecolors": color, "linewidths": 1.5}
        found = np.array(centers)
        axes.scatter(found[:, 0], found[:, 1], s=34, **ring)
    axes.set(xlim=(left, right), ylim=(low, high), xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color(PALE)


def _explain_marks(figure: Figure, ring: str | None = None, lines: Sequence[Any] = ()) -> None:
    """Add a legend below a figure, for its lines, crosses, and rings of this color."""
    from matplotlib.lines import Line2D

    handles = [*lines, Line2D([], [], ls="", marker="+", ms=8, color="black", label="true center")]
    if ring is not None:
        style: dict[str, Any] = {"marker": "o", "ms": 7, "mfc": "none", "mec": ring, "mew": 1.5}
        handles.append(Line2D([], [], ls="", label="recovered center", **style))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


def _band(
    axes: Axes, x: Sequence[int], groups: Sequence[np.ndarray], color: str, label: str
) -> None:
    """Draw means as a line, with one standard deviation to either side."""
    means = np.array([group.mean() for group in groups])
    stds = np.array([group.std() for group in groups])
    axes.plot(x, means, "o-", color=color, markersize=4, label=f"{label} (mean ± std)")
    floor = means.min() / 3  # on a log scale, a band must not reach zero
    axes.fill_between(x, np.maximum(means - stds, floor), means + stds, color=color, alpha=0.18)


def _draw_bins(
    axes: Axes, bins: Sequence[Bin], place: int, marker: str, color: str, label: str
) -> None:
    """Draw the share in each bin with a 95 % interval, and the number behind it on top.

    Parameters
    ----------
    place : of the series, 0 or 1, beside the other series and in the numbers on top.
    """
    x, y, n = (np.array([getattr(one, name) for one in bins]) for name in ("mean", "share", "n"))
    x = x + (place - 0.5) * 0.016
    style: dict[str, Any] = {"color": color, "markersize": 5, "capsize": 2, "elinewidth": 1}
    low, high = _wilson(y, n)
    axes.errorbar(x, y, [y - low, high - y], fmt=f"{marker}-", lw=1.2, label=label, **style)
    for one in bins:
        middle, top = (one.low + one.high) / 2, 1.135 - 0.06 * place
        axes.text(middle, top, f"{one.n}", ha="center", va="center", fontsize=7, color=color)


def _wilson(share: np.ndarray, n: np.ndarray, z: float = 1.96) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's interval of shares; it has a width even where all of n agree."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z**2 / n)
    return np.minimum(middle - half, share), np.maximum(middle + half, share)


def _log_scale(axes: Axes) -> None:
    """Set a log scale with plain numbers."""
    from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator([0.5, 1, 2, 5, 10, 20, 50, 100]))
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.yaxis.set_minor_locator(NullLocator())


def _style(axes: Axes, title: str, xlabel: str = "", ylabel: str = "") -> None:
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(xlabel, fontsize=9, color=INK)
    axes.set_ylabel(ylabel, fontsize=9, color=INK)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(axis="y", color="#eeeeee", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
