"""Pictures that commands show: the demo, what privacy costs, the choice of k.

They are drawn without pyplot, so that no window is opened and no global setting of the user is
changed. matplotlib is imported when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.datasets import Dataset
from fedjigsaw.errors import ExtraError, ParameterError, requires_extra
from fedjigsaw.messages import Model, Summary
from fedjigsaw.methods import CLUSTERERS, DEFAULT, find, find_for_rows
from fedjigsaw.methods._support import k_curve_of
from fedjigsaw.number.confidence import KFindings
from fedjigsaw.validation import rows_by_client

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedjigsaw.estimator import FederatedClusterer

INK = "#333333"
PALE = "#c9c9c9"
# metadata of each format, without dates: the same figure gives the same bytes
FORMATS: dict[str, Any] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "ModDate": None},
}
# one color per client, of the palette of the methods (Okabe and Ito)
CLIENT_COLORS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure; raise an ExtraError if matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ExtraError(requires_extra("Drawing", "matplotlib", "plots")) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def label_ticks(axis: Any, places: Any, names: Sequence[str]) -> None:
    """Write names beside an axis as they are: matplotlib reads what is between dollars as TeX."""
    axis.set_ticks(places, list(names))
    for text in axis.get_ticklabels():
        text.set_parse_math(False)


def render(figure: Figure, suffix: str) -> bytes:
    """Return the bytes of a figure, in the format of a file name's ending such as ".svg"."""
    suffix = suffix.lower()
    check_format(suffix)
    from matplotlib import rc_context

    content = BytesIO()
    with rc_context({"svg.hashsalt": "fedjigsaw"}):  # otherwise, names inside an SVG are random
        figure.savefig(content, format=suffix[1:], dpi=150, metadata=FORMATS[suffix])
    return content.getvalue()


def check_format(suffix: str) -> None:
    """Check, before the work starts, that a picture can be written in this format."""
    if suffix.lower() not in FORMATS:
        formats = ", ".join(FORMATS)
        raise ParameterError(f"The name of a picture must end in one of {formats}; got {suffix!r}.")
    new_figure(1, 1)


def roadmap(fitted: Mapping[str, FederatedClusterer], data: Dataset, clients: Ints) -> Figure:
    """Draw all steps from data to centers by the default method, and what the others recover.

    Parameters
    ----------
    fitted : methods by name, each fitted on `data` split over `clients`: the default method and at
        least one other.
    """
    members = rows_by_client(len(data.X), clients, owner="the roadmap")
    names = list(members)
    main = fitted[DEFAULT]
    others = {name: method for name, method in fitted.items() if name != DEFAULT}
    figure = new_figure(13, 7)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(4.3, 2.7))[:, 0]
    grid = upper.add_gridspec(3, 4, width_ratios=(3, 1.25, 3, 3))
    large = [upper.add_subplot(grid[:, column]) for column in (0, 2, 3)]
    small = [upper.add_subplot(grid[row, 1]) for row in range(3)]

    _cloud(large[0], data.X, s=1.5, c=PALE)
    for axes, (name, summary) in zip(small, _sent(main).items(), strict=False):
        _cloud(axes, data.X[members[name]], s=2, c=_client_color(names, name), alpha=0.35)
        _points(axes, summary.centers, s=16, c=INK, edgecolors="white", linewidths=0.5)
    for name, summary in _sent(main).items():
        _draw_summary(large[1], summary, _client_color(names, name))
    _draw_recovered(large[2], main, data)

    n_sent = sum(len(summary.centers) for summary in main.summaries_)
    large[0].set_title("1  All the data; nobody sees this")
    small[0].set_title(f"2  {min(3, len(names))} of {len(names)} clients")
    large[1].set_title(f"3  All that the server gets: {n_sent} centers, sizes, spreads")
    large[2].set_title(f"4  What {CLUSTERERS[DEFAULT].label} recovers: {main.n_clusters_} centers")
    small[2].set_xlabel("● sent", fontsize=8, color=INK)
    text = "● center, larger for more rows, in a disc of their spread"
    large[1].set_xlabel(f"{text}\none color per client (colors repeat)", fontsize=8, color=INK)
    large[2].set_xlabel("+ true center    ○ recovered center", fontsize=8, color=INK)
    _frame([*large, *small], data.X)
    lower.suptitle("5  What other methods recover from the same clients", fontsize=10, color=INK)
    panels = lower.subplots(1, len(others), squeeze=False)[0]
    for axes, (name, method) in zip(panels, others.items(), strict=True):
        _draw_recovered(axes, method, data)
        axes.set_title(find(name).label)
    _frame(list(panels), data.X)
    return figure


NEARLY = 10.0  # index: differences up to this are drawn in proportion, larger ones by magnitude
K_TITLE = "Index: minus BIC; the best has 0"


def k_marks(model: Model) -> list[str]:
    """Say which number of clusters is which mark of :func:`k_curve`."""
    curve, findings, k = k_curve_of(model), KFindings.from_model(model), len(model.centers)
    assert curve is not None
    assert findings is not None
    told = [f"k = {k} (filled), confidence {findings.confidence:.2f}"]
    if (second := findings.runner_up) is not None:
        told.append(f"runner-up {second}{' (open)' * (second in curve['k'])}")
    if (best := _best_index(curve)) != k:
        told.append(
            f"best index: {best} (cross), but not all its clusters have valleys between them"
        )
    return told


def k_curve(model: Model, *, told: bool = True) -> Figure:
    """Draw how the number of clusters was chosen: the index of every k.

    The chosen k need not be the one with the best index: that one may have clusters without valleys
    between them. It is then marked by a cross.

    Parameters
    ----------
    model : of a :class:`~fedjigsaw.Jigsaw` with ``n_clusters="auto"``.
    told : whether a title says which number is which mark.
    """
    curve, findings = k_curve_of(model), KFindings.from_model(model)
    if curve is None or findings is None:
        raise ParameterError(
            'The model has no curve over k: only Jigsaw with n_clusters="auto" records one.'
        )
    color = CLUSTERERS["jigsaw"].color
    known = np.isfinite(curve["index"])
    k, index = curve["k"][known], curve["index"][known]
    marks: dict[int | None, dict[str, Any]] = {_best_index(curve): {"c": INK, "marker": "x"}}
    marks |= {findings.runner_up: {"facecolors": "white", "edgecolors": color}}
    marks |= {len(model.centers): {"c": color}}
    figure = new_figure(6, 3.6)
    axes = figure.subplots()
    axes.plot(k, index, color=PALE, marker=".", markersize=4)
    for number, style in marks.items():
        axes.scatter(k[k == number], index[k == number], zorder=3, **style)
    _scale_index(axes, index)
    axes.set_title(K_TITLE, fontsize=10, color=INK)
    axes.set_xlabel("number of clusters k", fontsize=9, color=INK)
    axes.locator_params(axis="x", integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
    if told:
        first, *others = k_marks(model)
        title = "; ".join([first, *others[:1]]) + "".join(f"\n{text}" for text in others[1:])
        figure.suptitle(title, fontsize=10, color=INK)
    return figure


def _best_index(curve: Mapping[str, np.ndarray]) -> int:
    """Return the k with the best index."""
    return int(curve["k"][curve["index"].argmax()])


def _scale_index(axes: Axes, index: Floats) -> None:
    """Show small differences from the best, and large ones by their magnitude."""
    axes.set_yscale("symlog", linthresh=NEARLY, linscale=1.0)
    lowest = min(float(index.min()), -NEARLY)
    powers = range(1, int(np.log10(-lowest)) + 2)
    ticks = [0.0, *(-(10.0**power) for power in powers)]
    axes.set_yticks(ticks, [f"{tick:,.0f}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(2 * lowest, NEARLY / 2)


def _sent(method: FederatedClusterer) -> dict[str, Summary]:
    return {summary.client: summary for summary in method.summaries_}


def _draw_summary(axes: Axes, summary: Summary, color: str) -> None:
    """Draw each center as a dot, larger for more rows, in a disc of the rows' spread."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle

    assert summary.counts is not None
    assert summary.sse is not None
    spreads = np.sqrt(summary.sse / summary.counts)
    discs = [Circle((x, y), r) for (x, y), r in zip(summary.centers, spreads, strict=True)]
    axes.add_collection(PatchCollection(discs, facecolor=color, alpha=0.12, linewidths=0))
    _points(axes, summary.centers, s=4 + summary.counts / 2, c=color, linewidths=0)


def _draw_recovered(axes: Axes, method: FederatedClusterer, data: Dataset) -> None:
    """Draw all rows in gray, true centers as crosses, recovered ones as rings."""
    _cloud(axes, data.X, s=1.5, c=PALE)
    if data.centers is not None:
        _points(axes, data.centers, s=90, marker="+", c=INK, zorder=3)
    ring = {"facecolors": "none", "edgecolors": find_for_rows(method).color, "linewidths": 1.8}
    _points(axes, method.cluster_centers_, s=60, zorder=4, **ring)


def _cloud(axes: Axes, rows: Floats, **style: Any) -> None:
    """Draw very many points, as pixels even in a vector format."""
    _points(axes, rows, linewidths=0, rasterized=True, **style)


def _points(axes: Axes, positions: Floats, **style: Any) -> None:
    axes.scatter(positions[:, 0], positions[:, 1], **style)


def _frame(panels: list[Axes], X: Floats) -> None:
    """Give all panels the same square window, without numbers: only positions matter."""
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
