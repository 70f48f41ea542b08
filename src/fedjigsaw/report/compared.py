"""The picture of a comparison of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.report.pictures import INK, PALE, label_ticks, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# number of a row -> title of its panel; a panel is drawn if some row has the number
PANELS = {
    "objective_ratio": "objective / pooled",
    "ari": "ari",
    "nmi": "nmi",
    "purity": "purity",
    "bytes_per_client": "bytes per client",
}
LOG_FROM = 10  # greatest over least number of bytes from which on their axis is logarithmic


def draw_comparison(rows: Sequence[Mapping[str, Any]], colors: Mapping[str, str]) -> Figure:
    """Draw methods side by side: a bar for the mean of each number.

    Where there are several seeds, a line shows the standard deviation, and dots the seeds.

    Parameters
    ----------
    rows : one for each method and seed.
    colors : color of each method, by its name in the rows, in the order in which they are drawn.
    """
    panels = [name for name in PANELS if any(row.get(name) is not None for row in rows)]
    longest = max(map(len, colors))
    figure = new_figure(0.07 * longest + 2.6 * len(panels), 1.1 + 0.42 * len(colors))
    for place, name in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        known = [row for row in rows if row.get(name) is not None]
        values = [np.array([r[name] for r in known if r["method"] == m]) for m in colors]
        _draw_panel(axes, name, values, list(colors.values()))
        heights = np.arange(len(colors))[::-1]
        label_ticks(axes.yaxis, heights, list(colors) if place == 0 else [""] * len(colors))
        log = " (log)" if axes.get_xscale() == "log" else ""
        axes.set_title(f"{PANELS[name]}{log}", fontsize=10, color=INK)
        axes.tick_params(labelsize=8, colors=INK)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_panel(axes: Axes, name: str, values: Sequence[Floats], colors: Sequence[str]) -> None:
    base = 1.0 if name == "objective_ratio" else 0.0
    ends = [] if name == "bytes_per_client" else [base]
    heights = np.arange(len(values))[::-1]
    for height, own, color in zip(heights, values, colors, strict=True):
        if not len(own):
            _write(axes, "failed", (0.0, height), ("axes fraction", "data"))
            continue
        mean, spread = float(own.mean()), float(own.std(ddof=1)) if len(own) > 1 else 0.0
        axes.barh(height, mean - base, left=base, color=color, alpha=1 if len(own) == 1 else 0.75)
        if spread > 0:
            _draw_seeds(axes, height, own, mean, spread)
        ends += [float(own.min()), float(own.max()), mean + spread]
        ends += [] if name == "bytes_per_client" else [mean - spread]
        text = f"{mean:,.0f}" if name == "bytes_per_client" else f"{mean:.3f}"
        _write(axes, text, (max(mean + spread, float(own.max()), base), height), "data")
    axes.set_ylim(-0.6, len(values) - 0.4)
    _set_window(axes, name, min(ends), max(ends))


def _draw_seeds(axes: Axes, height: float, own: Floats, mean: float, spread: float) -> None:
    axes.errorbar(mean, height, xerr=spread, color=INK, capsize=3, linewidth=1.2, zorder=3)
    places = height + np.linspace(-0.22, 0.22, len(own))
    axes.scatter(own, places, s=9, c="white", edgecolors=INK, linewidths=0.6, zorder=4)


def _set_window(axes: Axes, name: str, low: float, high: float) -> None:
    """Leave room for the numbers at the right; small differences should look small."""
    if name == "bytes_per_client":
        _set_bytes_window(axes, low, high)
    elif name == "objective_ratio":
        axes.axvline(1, color=PALE, linewidth=1, zorder=0)
        axes.set_xlim(min(1.0, 1 - 1.05 * (1 - low)), max(1.05, 1 + 1.35 * (high - 1)))
    else:
        axes.set_xlim(min(0.0, 1.1 * low), max(0.05, 1.35 * high))
        axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= 1.001])


def _set_bytes_window(axes: Axes, low: float, high: float) -> None:
    """Show bytes from 0 on, or from a power of ten below the least if they are very different."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    if low <= 0 or high < LOG_FROM * low:
        axes.set_xlim(0, 1.45 * max(high, 1.0))
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        return
    axes.set_xscale("log")
    start = 10.0 ** (np.ceil(np.log10(low)) - 1)
    axes.set_xlim(start, high * (high / start) ** 0.45)
    axes.xaxis.set_major_locator(LogLocator(numticks=5))
    axes.xaxis.set_minor_locator(NullLocator())


def _write(axes: Axes, text: str, place: tuple[float, float], coordinates: Any) -> None:
    axes.annotate(
        text, place, (5, 0), xycoords=coordinates, textcoords="offset points",
        va="center", fontsize=8, color=INK,
    )  # fmt: skip
