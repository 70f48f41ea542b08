"""The picture of docs/deepfeca.md: what DeepFeCA's features are worth over epochs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from fedjigsaw.bench.deep_runs import (
    BEST,
    TITLES,
    Run,
    configuration,
    epochs_of,
    evaluated,
    length_of,
    long_runs,
    published_cells,
    split_of,
    title_of,
    unlike_best,
)
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.report.pictures import INK, PALE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_EPOCHS = 750
PANELS = 2  # beside each other; more are too small to read on a page
AGAIN = "the same"  # another run with the same configuration
WIDTH = 48  # of a line of the legend
PAPER: dict[str, Any] = {"color": INK, "linewidth": 0.8, "linestyle": ":"}


class Line(NamedTuple):
    """What one or more runs have in common; they look alike in all panels."""

    configuration: str
    again: str  # what tells a further run in one panel apart


def accuracy_over_epochs(runs: Mapping[str, Run], dataset: str = "cifar10") -> Figure:
    """Draw the linear probe over epochs of DeepFeCA, one panel per split, one line per run.

    Parameters
    ----------
    runs : rows of each run by name.
    """
    from matplotlib.lines import Line2D

    by_split = _lines(runs, dataset)
    published = published_cells(dataset)
    theirs = {**published["DeepFeCA"], "central": published["Centralized"]["any"]}
    last = {line: run[-1] for panel in by_split.values() for line, run in panel.items()}
    styles = _styles(last)
    labels = [f"the paper, {PAPER_EPOCHS} epochs"]
    labels += [_label(line, is_best=_is_best(runs, last[line])) for line in styles]
    n_beside = min(PANELS, len(by_split))
    n_below = -(-len(by_split) // n_beside)
    n_words = sum(label.count("\n") + 1.3 for label in labels) / n_beside
    figure = new_figure(3.4 * n_beside, 2.8 * n_below + 0.13 * n_words)
    panels = figure.subplots(n_below, n_beside, sharey=True, squeeze=False)
    for axes, (split, panel) in zip(panels.flat, by_split.items(), strict=False):
        if split in theirs:
            axes.axhline(theirs[split], **PAPER)
        for line, run in panel.items():
            percent = {epochs_of(row): 100 * row["linear_accuracy"] for row in run}  # the latest
            axes.plot(*zip(*percent.items(), strict=True), **styles[line])
        axes.set_title(title_of(next(iter(panel.values()))[-1]))
        axes.set_xlabel("epochs")
        axes.set_xlim(left=0)
        axes.grid(color=PALE, linewidth=0.5)
    for axes in panels[:, 0]:
        axes.set_ylabel("linear probe, %")
    for axes in panels.flat[len(by_split) :]:
        axes.remove()
    figure.legend(
        [Line2D([], [], **style) for style in (PAPER, *styles.values())],
        labels,
        loc="outside lower left",
        ncols=n_beside,
        fontsize=7,
        frameon=False,
    )
    return figure


def _lines(runs: Mapping[str, Run], dataset: str) -> dict[str, dict[Line, Run]]:
    """Return the evaluated rows of the runs of each panel."""
    found: dict[str, dict[Line, Run]] = {split: {} for split in TITLES}
    for run in map(evaluated, long_runs(runs, dataset).values()):
        panel, text = found.setdefault(split_of(run[-1]), {}), configuration(run[-1])
        is_known = any(line.configuration == text for line in panel)
        again = f"{AGAIN}, {length_of(run[-1], 'epochs')} epochs" if is_known else ""
        panel[Line(text, again)] = run
    return {split: panel for split, panel in found.items() if panel}


def _styles(last: Mapping[Line, Mapping[str, Any]]) -> dict[Line, dict[str, Any]]:
    """Return how each line is drawn, by the last row of a run: colors are those of methods."""
    unused: dict[str, Iterator[str]] = defaultdict(lambda: iter("osD^vP*"))
    markers: dict[str, str] = {}
    for line, row in last.items():
        color = CLUSTERERS[row["method"]].color
        if line.configuration not in markers:
            markers[line.configuration] = next(unused[color], "X")
    first = list(markers)
    styles = {}
    for line in sorted(last, key=lambda line: (first.index(line.configuration), line.again)):
        soft = last[line]["config"].get("targets", "stored") != "stored"
        styles[line] = {
            "color": CLUSTERERS[last[line]["method"]].color,
            "marker": markers[line.configuration],
            "markersize": 4,
            "linestyle": "--" if line.again else "-." if soft else "-",
        }
    return styles


def _is_best(runs: Mapping[str, Run], row: Mapping[str, Any]) -> bool:
    """Tell whether a run has the settings of the recipe `best`."""
    return BEST in runs and not unlike_best(runs, row)


def _label(line: Line, *, is_best: bool) -> str:
    text = line.again or ("best: " if is_best else "") + line.configuration
    return fill(text, WIDTH)
