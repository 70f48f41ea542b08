"""Pictures of a page, as static SVG whose colors follow the light or dark theme of the reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.report.pictures import INK, PALE, new_figure, render

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
# colors of sites (Okabe and Ito), in the order of the palette of the style sheet; the last is for
# all others
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f8f8f")
OTHERS = len(PALETTE) - 1
FRAME = "#d8dde2"
FONT = 11  # points, of numbers on a map
NARROW_FONT = 19  # on a narrow screen, where the map is smaller; as in the style sheet
WIDE = "label-wide"  # start of the ids of numbers that a narrow screen does not show, as there
# colors of pictures -> variables of the style sheet
THEME = {
    INK: "var(--ink)",
    PALE: "var(--faint)",
    FRAME: "var(--rule)",
    "#ffffff": "var(--paper)",
    "#000000": "var(--ink)",
} | {color: f"var(--site-{i})" for i, color in enumerate(PALETTE)}


def to_svg(figure: Figure, name: str, title: str, description: str) -> Markup:
    """Return a figure as markup for a page, with a title and a description for screen readers.

    Parameters
    ----------
    name : put before all ids, which must be unique on the page.
    """
    from markupsafe import Markup
    from matplotlib import rc_context

    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    with rc_context({"svg.fonttype": "none"}):
        drawn = render(figure, ".svg")
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(drawn)
    for tag in ("metadata", "title"):
        for element in root.findall(f"{{{SVG}}}{tag}"):
            root.remove(element)
    for element in root.iter():
        for key, value in element.attrib.items():
            element.set(key, _themed(key, value, name))
    for kind, text in (("desc", description), ("title", title)):
        element = ElementTree.Element(f"{{{SVG}}}{kind}", {"id": f"{name}-{kind}"})
        element.text = text
        root.insert(0, element)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    width = float(root.attrib["viewBox"].split()[2])
    root.set("style", f"max-width: {width * 4 / 3:.0f}px")  # points -> pixels
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # escaped by ElementTree


def _themed(key: str, value: str, name: str) -> str:
    """Return an attribute with variables for colors, and ids that are unique on the page."""
    if key == "id":
        return f"{name}-{value}"
    if key.endswith("href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    value = value.replace("url(#", f"url(#{name}-")
    for color, variable in THEME.items():
        value = value.replace(color, variable)
    return value


def cluster_map(
    places: Floats,
    sizes: Floats,
    shares: Floats | None,
    colors: list[int],
    ids: Sequence[int],
    reach: float = 0.16,
) -> Figure:
    """Draw clusters as bubbles: their area is their size, their slices the shares of sites.

    Where numbers would overlap, that of the larger cluster is written. On narrow screens, where
    numbers are larger, fewer are shown.

    Parameters
    ----------
    places : shape (k, 2).
    shares : shape (k, n), rows of each color in each cluster; None draws whole bubbles.
    colors : places in the palette of the n shares.
    ids : the number that is written on each bubble, if there is room.
    reach : area of all bubbles together, of that of the picture.
    """
    width, height = 7.0, 4.4
    figure = new_figure(width, height)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0.004, 0.006, 0.992, 0.988))
    areas = sizes / sizes.sum() * reach * width * height * 72**2  # in square points
    largest = 0.075 * width * height * 72**2
    areas *= min(1.0, largest / areas.max())
    _set_window(axes, places, np.sqrt(areas / np.pi) / 72, width, height)
    _bubbles(axes, places, areas, np.ones((len(areas), 1)) if shares is None else shares, colors)
    points = 72 * width / np.ptp(axes.get_xlim()) * places  # of both axes: their scale is the same
    labels = [f"{number}" for number in ids]
    first = np.argsort(-areas, kind="stable").tolist()
    shown = _with_room(points, labels, first, FONT)
    everywhere = _with_room(points, labels, shown, NARROW_FONT)
    for i in sorted(shown):
        axes.annotate(
            labels[i], places[i].tolist(), ha="center", va="center", fontsize=FONT, color=INK,
            parse_math=False, zorder=len(places) + 5,
            gid=f"label{i}" if i in everywhere else f"{WIDE}{i}",
        )  # fmt: skip
    return figure


def _with_room(
    places: Floats, labels: Sequence[str], order: Sequence[int], font: float
) -> list[int]:
    """Return which labels to write so that no two overlap; in this order, the first are kept."""
    halves = np.array([[0.33 * font * len(label) + 1, 0.45 * font + 1] for label in labels])
    chosen: list[int] = []
    for i in order:
        apart = np.abs(places[chosen] - places[i]) >= halves[chosen] + halves[i]
        if apart.any(axis=1).all():
            chosen.append(i)
    return chosen


def _set_window(axes: Axes, places: Floats, radii: Floats, width: float, height: float) -> None:
    """Show all bubbles whole, with the same scale in both directions."""
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 2 * radii.max() + 0.3  # inches on both sides together
    span = np.maximum(high - low, 1e-9)
    unit = max(span[0] / (width - margin), span[1] / (height - margin))  # data per inch
    middle = (low + high) / 2
    axes.set_xlim(middle[0] - unit * width / 2, middle[0] + unit * width / 2)
    axes.set_ylim(middle[1] - unit * height / 2, middle[1] + unit * height / 2)
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color(FRAME)


def _bubbles(axes: Axes, places: Floats, areas: Floats, shares: Floats, colors: list[int]) -> None:
    """Draw all bubbles, small ones in front, with a slice for each share."""
    from matplotlib.collections import PolyCollection
    from matplotlib.transforms import Affine2D

    outlines, where, fills = [], [], []
    for i in np.argsort(-areas, kind="stable"):
        parts = shares[i] if shares[i].sum() > 0 else np.eye(shares.shape[1])[0]
        ends = np.concatenate([[0.0], np.cumsum(parts / parts.sum())])
        for start, end, color in zip(ends[:-1], ends[1:], colors, strict=True):
            if end > start:
                outlines.append(_slice(start, end) * np.sqrt(areas[i] / np.pi))
                where.append(places[i])
                fills.append(PALETTE[color])
    slices = PolyCollection(
        outlines, facecolors=fills, edgecolors="#ffffff", linewidths=0.8,
        offsets=np.array(where), offset_transform=axes.transData,
    )  # fmt: skip
    points = Affine2D().scale(1 / 72)
    slices.set_transform(points + axes.figure.dpi_scale_trans)
    axes.add_collection(slices, autolim=False)


def _slice(start: float, end: float) -> Floats:
    """Return the outline of a part of the unit disc, clockwise from the top."""
    angles = 2 * np.pi * (0.25 - np.linspace(start, end, 2 + int(60 * (end - start))))
    arc: Floats = np.column_stack([np.cos(angles), np.sin(angles)])
    return arc if end - start > 0.9999 else np.concatenate([[[0.0, 0.0]], arc])
