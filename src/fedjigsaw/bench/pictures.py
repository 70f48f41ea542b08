"""Pictures. The only room that knows matplotlib.

They are drawn on a figure of their own, without pyplot, so that no window and no global setting of
the user's is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from fedjigsaw._inputs import Floats, Ints, rows_by_client
from fedjigsaw.base import FederatedClusterer
from fedjigsaw.datasets import Dataset
from fedjigsaw.engine import Client
from fedjigsaw.errors import ExtraError, ParameterError, complaint
from fedjigsaw.feca import FeCA
from fedjigsaw.jigsaw import Jigsaw, k_curve_of, runner_up
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#333333"
PALE = "#c9c9c9"
# no dates inside: the same figure gives the same bytes
FORMATS: dict[str, Any] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "ModDate": None},
}
# one color per client, of the same palette as the methods' (Okabe and Ito)
CLIENT_COLORS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, or an error that says which extra is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        advice = "Install it with `pip install 'fedjigsaw[plots]'`."
        raise ExtraError(
            complaint("matplotlib", "pictures", "installed", "none", advice)
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def render(figure: Figure, suffix: str) -> bytes:
    """The bytes of a figure in the format of a file name's ending, the same for the same figure."""
    check_format(suffix)
    from matplotlib import rc_context

    content = BytesIO()
    with rc_context({"svg.hashsalt": "fedjigsaw"}):  # else, names inside an SVG are random
        figure.savefig(content, format=suffix[1:], dpi=150, metadata=FORMATS[suffix])
    return content.getvalue()


def check_format(suffix: str) -> None:
    """Say before any work whether a picture of this kind can be made."""
    if suffix not in FORMATS:
        allowed = "one of " + ", ".join(FORMATS)
        raise ParameterError(complaint("ending", "a picture's name", allowed, repr(suffix)))
    new_figure(1, 1)


def roadmap(feca: FederatedClusterer, data: Dataset, clients: Ints) -> Figure:
    """The paper's roadmap: the data, what clients see and send, what the server makes of it.

    Parameters
    ----------
    feca : a FeCA, fitted on `data` split over `clients`
        What three of its clients found before they dropped any is computed anew, from its seed.
    """
    members = rows_by_client(len(data.X), clients, owner="the roadmap")
    shards = {name: data.X[rows] for name, rows in members.items()}
    broadcast = Broadcast(round=0, seed=feca.transcript_.seed)
    sent = {summary.client: summary for summary in feca.summaries_}
    unrefined = clone(feca).set_params(refine=False)

    figure = new_figure(13, 4.2)
    grid = figure.add_gridspec(3, 4, width_ratios=(3, 1.25, 3, 3))
    large = [figure.add_subplot(grid[:, column]) for column in (0, 2, 3)]
    small = [figure.add_subplot(grid[row, 1]) for row in range(3)]

    _cloud(large[0], data.X, s=1.5, c=PALE)
    n_dropped = 0
    for axes, (name, rows) in zip(small, shards.items(), strict=False):
        local = Client(name, rows, unrefined).answer(broadcast).centers
        n_dropped += len(local) - len(sent[name].centers)
        _draw_client(axes, rows, local, sent[name], _client_color(list(shards), name))
    for name, summary in sent.items():
        _draw_summary(large[1], summary, _client_color(list(shards), name))
    _cloud(large[2], data.X, s=1.5, c=PALE)
    if data.centers is not None:
        _points(large[2], data.centers, s=90, marker="+", c=INK, label="true center", zorder=3)
    _draw_recovered(large[2], feca.cluster_centers_)
    large[2].legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False)

    n_sent = sum(len(summary.centers) for summary in sent.values())
    large[0].set_title("1  All the data; nobody sees this")
    small[0].set_title(f"2  {min(3, len(shards))} of {len(shards)} clients")
    large[1].set_title(f"3  All that the server gets: {n_sent} centers, radii")
    large[2].set_title(f"4  What it recovers: {feca.n_clusters_} centers")
    small[2].set_xlabel("● sent" + "  ○ dropped" * (n_dropped > 0), fontsize=8, color=INK)
    large[1].set_xlabel("one color per client (colors repeat)", fontsize=8, color=INK)
    _frame([*large, *small], data.X)
    return figure


def comparison(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Methods side by side: objective, what they send and, where classes are known, purity, nmi.

    Parameters
    ----------
    rows : one for each method, with `ratio`, the objective relative to the best one.
    """
    panels = [
        ("objective / best", "ratio"),
        ("bytes per client (log)", "bytes_per_client"),
        *((name, name) for name in ("purity", "nmi") if name in rows[0]),
    ]
    entries = [METHODS[row["method"]] for row in rows]
    figure = new_figure(3.2 * len(panels), 1.1 + 0.42 * len(rows))
    places = np.arange(len(rows))[::-1]
    for place, (title, number) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        values = np.array([row[number] for row in rows])
        base = 1.0 if number == "ratio" else 0.0
        axes.barh(places, values - base, left=base, color=[entry.color for entry in entries])
        form = "{:,.0f}" if number == "bytes_per_client" else "{:.3f}"
        for y, value in zip(places, values, strict=True):
            axes.annotate(
                form.format(value), (value, y), (3, 0), textcoords="offset points",
                va="center", fontsize=8, color=INK,
            )  # fmt: skip
        if number == "bytes_per_client":
            axes.set_xscale("log")
        if number == "ratio":  # near ties should look like ties
            axes.set_xlim(1, max(1.05, 1 + 1.25 * (values.max() - 1)))
        else:
            axes.margins(x=0.25)
        axes.set_yticks(
            places, [entry.label for entry in entries] if place == 0 else [""] * len(rows)
        )
        axes.set_title(title, fontsize=10, color=INK)
        axes.tick_params(labelsize=8, colors=INK)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def k_curve(model: Model) -> Figure:
    """How the number of clusters was chosen: index and objective of every k.

    Parameters
    ----------
    model : of a :class:`~fedjigsaw.Jigsaw` with ``n_clusters="auto"``.
    """
    curve, found = k_curve_of(model), len(model.centers)
    if curve is None:
        advice = 'Only a Jigsaw with n_clusters="auto" keeps one.'
        raise ParameterError(complaint("k_curve", "a model", "there", None, advice))
    second = runner_up(curve)
    color = METHODS[Jigsaw.method].color
    shown = np.isfinite(curve["index"])
    figure = new_figure(8, 3.4)
    for axes, name, title in zip(
        figure.subplots(1, 2),
        ("index", "objective"),
        ("Index: the largest is chosen", "Objective, as the server knows it"),
        strict=True,
    ):
        axes.plot(curve["k"][shown], curve[name][shown], color=PALE, marker=".", markersize=4)
        for k, style in ((found, {"c": color}), (second, {"facecolors": "white"})):
            at = (curve["k"] == k) & shown
            axes.scatter(curve["k"][at], curve[name][at], edgecolors=color, zorder=3, **style)
        axes.set_title(title, fontsize=10, color=INK)
        axes.set_xlabel("number of clusters k", fontsize=9, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors=INK)
    figure.suptitle(f"k = {found} (filled); runner-up {second} (open)", fontsize=10, color=INK)
    return figure


def _draw_client(axes: Axes, rows: Floats, local: Floats, summary: Summary, color: str) -> None:
    _cloud(axes, rows, s=2, c=color, alpha=0.35)
    _points(axes, local, s=16, facecolors="white", edgecolors=INK, linewidths=0.8)
    _points(axes, summary.centers, s=16, c=INK, edgecolors="white", linewidths=0.5)


def _draw_summary(axes: Axes, summary: Summary, color: str) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle

    radii = np.zeros(len(summary.centers)) if summary.radii is None else summary.radii
    circles = [Circle((x, y), r) for (x, y), r in zip(summary.centers, radii, strict=True)]
    axes.add_collection(PatchCollection(circles, facecolor=color, alpha=0.06, linewidths=0))
    _points(axes, summary.centers, s=10, c=color, linewidths=0)


def _draw_recovered(axes: Axes, centers: Floats) -> None:
    entry = METHODS[FeCA.method]
    ring = {"facecolors": "none", "edgecolors": entry.color, "linewidths": 1.8}
    _points(axes, centers, s=60, label=entry.label, zorder=4, **ring)


def _cloud(axes: Axes, rows: Floats, **style: Any) -> None:
    """Very many points: as pixels, also where the rest is drawn in lines."""
    _points(axes, rows, linewidths=0, rasterized=True, **style)


def _points(axes: Axes, positions: Floats, **style: Any) -> None:
    axes.scatter(positions[:, 0], positions[:, 1], **style)


def _frame(panels: list[Axes], X: Floats) -> None:
    """The same square window on all panels, without numbers: only positions matter."""
    middle = (X.min(axis=0) + X.max(axis=0)) / 2
    reach = 0.53 * (X.max(axis=0) - X.min(axis=0)).max()
    for axes in panels:
        axes.set(
            xlim=(middle[0] - reach, middle[0] + reach),
            ylim=(middle[1] - reach, middle[1] + reach),
            xticks=[], yticks=[], aspect="equal",
        )  # fmt: skip
        axes.title.set(fontsize=10, color=INK)
        for spine in axes.spines.values():
            spine.set_color(PALE)


def _client_color(names: list[str], name: str) -> str:
    return CLIENT_COLORS[names.index(name) % len(CLIENT_COLORS)]
