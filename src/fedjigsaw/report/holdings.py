"""A picture of a split: how many rows of each class each client holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.errors import DataError, invalid
from fedjigsaw.report.pictures import INK, label_ticks, new_figure
from fedjigsaw.validation import distinct

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR = "#0072B2"  # of the palette of the methods (Okabe and Ito)
MAX_NUMBERS = 400  # cells up to which each has its number written in
MAX_NAMES = 40  # names of clients or classes beside an axis


@dataclass(frozen=True)
class Holdings:
    """How many rows each client (a row of `counts`) has of each class (a column)."""

    clients: Any
    classes: Any
    counts: Ints

    @classmethod
    def of(cls, clients: Any, y: Any = None) -> Holdings:
        """Count rows; without classes, all are of one."""
        names, owners, _ = distinct(clients, "clients", "plot")
        classes, kinds, _ = distinct(np.zeros(len(owners)) if y is None else y, "y", "plot")
        if len(kinds) != len(owners):
            allowed = f"as long as clients ({len(owners)})"
            raise DataError(invalid("y", "plot", allowed, len(kinds)))
        counts = np.zeros((len(names), len(classes)), dtype=np.int64)
        np.add.at(counts, (owners, kinds), 1)
        return cls(names, classes, counts)


def plot(clients: Any, y: Any = None, *, title: str | None = None) -> Figure:
    """Draw who holds what: how many rows of each class each client has. It requires matplotlib.

    Rows of each class are a heat map, and rows of each client are bars.

    Parameters
    ----------
    clients : array of shape (n_samples,)
        The client of each row, as for ``fit(X, clients=clients)``.
    y : array of shape (n_samples,) or None
        The class of each row; None draws only how many rows each client has.
    title : str or None

    Returns
    -------
    figure : matplotlib.figure.Figure
        ``figure.savefig("split.png")`` writes it to a file; a notebook shows it.

    Raises
    ------
    ExtraError
        If matplotlib is not installed.
    DataError
        If `clients` and `y` differ in length, or have missing values.
    """
    held = Holdings.of(clients, y)
    height = 1.2 + 0.28 * min(len(held.clients), MAX_NAMES)
    width = 0.0 if y is None else 1.2 + 0.42 * min(len(held.classes), MAX_NAMES)
    figure = new_figure(max(4.0, width) + 2.2, height)
    if y is None:
        axes = figure.add_subplot()
        draw_sizes(axes, held)
        _name(axes.yaxis, held.clients)
        axes.set_ylabel("client", fontsize=9, color=INK)
    else:
        left, right = figure.subplots(1, 2, width_ratios=[max(4.0, width) - 0.6, 1.6])
        draw_classes(left, held)
        left.set_title("rows of each class", fontsize=10, color=INK)
        draw_sizes(right, held)
    if title:
        figure.suptitle(title, fontsize=11, color=INK, parse_math=False)
    return figure


def draw_classes(axes: Axes, held: Holdings) -> None:
    """Draw a cell for each client and class, darker with more rows; empty ones stay white."""
    counts = held.counts
    axes.pcolormesh(
        np.ma.masked_equal(counts, 0), cmap="Blues", vmin=0, vmax=1.25 * counts.max(),
        edgecolors="white", linewidth=0.5, rasterized=counts.size > 10 * MAX_NUMBERS,
    )  # fmt: skip
    axes.set_ylim(len(counts), 0)  # the first client at the top
    if counts.size <= MAX_NUMBERS:
        for (row, place), number in np.ndenumerate(counts):
            ink = "white" if number > 0.75 * counts.max() else INK
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "color": ink}
            if number:
                axes.text(place + 0.5, row + 0.5, f"{number}", **style)
    _name(axes.xaxis, held.classes)
    _name(axes.yaxis, held.clients)
    axes.set_xlabel("class", fontsize=9, color=INK)
    axes.set_ylabel("client", fontsize=9, color=INK)
    axes.tick_params(labelsize=8, colors=INK, length=0)
    for spine in axes.spines.values():
        spine.set_color("#dddddd")


def draw_sizes(axes: Axes, held: Holdings) -> None:
    """Draw a bar for each client, in the order of the heat map."""
    sizes, places = held.counts.sum(axis=1), np.arange(len(held.clients)) + 0.5
    axes.barh(places, sizes, color=BAR, height=0.7)
    axes.set_ylim(len(sizes), 0)
    if len(sizes) <= MAX_NAMES:
        for place, size in zip(places, sizes, strict=True):
            axes.annotate(
                f"{size:,}", (size, place), (3, 0), textcoords="offset points",
                va="center", fontsize=7, color=INK,
            )  # fmt: skip
    axes.set_xlim(0, 1.35 * sizes.max())
    axes.set_title("rows", fontsize=10, color=INK)
    axes.set(xticks=[], yticks=[])
    axes.tick_params(labelsize=8, colors=INK, length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _name(axis: Any, names: Any) -> None:
    """Write names beside an axis; only some, where they are many."""
    step = -(-len(names) // MAX_NAMES)
    places = np.arange(0, len(names), step)
    label_ticks(axis, places + 0.5, [str(names[place]) for place in places])
