"""The picture of a comparison."""

import itertools

import pytest

from fedjigsaw.report.compared import draw_comparison

to_hex = pytest.importorskip("matplotlib.colors").to_hex

COLORS = {"FeCA": "#d55e00", "Jigsaw": "#0072b2"}
ROWS = [
    {"method": "FeCA", "objective_ratio": 1.5, "bytes_per_client": 100},
    {"method": "Jigsaw", "objective_ratio": 1.0, "bytes_per_client": 400},
]


def test_each_method_is_shown_in_its_color():
    objective, sent = draw_comparison(ROWS, COLORS).axes
    assert [bar.get_width() for bar in objective.patches] == [0.5, 0.0]
    assert [bar.get_width() for bar in sent.patches] == [100, 400]
    assert [to_hex(bar.get_facecolor()) for bar in sent.patches] == list(COLORS.values())
    known = [{**row, "purity": 0.5, "nmi": 0.4} for row in ROWS]
    assert len(draw_comparison(known, COLORS).axes) == 4


def test_several_seeds_have_error_bars_and_dots():
    again = [{**row, "objective_ratio": row["objective_ratio"] + 0.2} for row in ROWS]
    axes, _ = draw_comparison([*ROWS, *again], COLORS).axes
    dots = [
        part
        for part in axes.collections
        if hasattr(part, "get_sizes") and len(part.get_offsets()) == 2
    ]
    assert [sorted(part.get_offsets()[:, 0].round(3)) for part in dots] == [[1.5, 1.7], [1.0, 1.2]]
    assert len([c for c in axes.collections if hasattr(c, "get_segments")]) == 2


def test_a_method_that_failed_has_no_bar():
    axes, _ = draw_comparison([ROWS[0]], COLORS).axes
    assert [text.get_text() for text in axes.texts] == ["1.500", "failed"]
    assert len(axes.patches) == 1


def test_better_than_pooled_k_means():
    axes, _ = draw_comparison([{**ROWS[0], "objective_ratio": 0.9}, ROWS[1]], COLORS).axes
    low, high = axes.get_xlim()
    assert low < 0.9 < 1 < high


def bytes_panel(least, greatest):
    rows = [{**ROWS[0], "bytes_per_client": least}, {**ROWS[1], "bytes_per_client": greatest}]
    figure = draw_comparison(rows, COLORS)
    figure.canvas.draw()
    axes = figure.axes[-1]
    low, high = axes.get_xlim()
    ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
    labels = [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
    boxes = sorted(
        (label.get_window_extent() for label in labels if label.get_text()), key=lambda box: box.x0
    )
    return axes, boxes


@pytest.mark.parametrize(
    ("least", "greatest"),
    [(5136, 5296), (5136, 40_000), (5136, 92_006), (80, 12_345_678), (5_000_000, 5_000_001)],
)
def test_ticks_of_bytes_are_apart(least, greatest):
    _, boxes = bytes_panel(least, greatest)
    assert 2 <= len(boxes) <= 6
    for left, right in itertools.pairwise(boxes):
        assert left.x1 + 3 < right.x0


def test_bytes_that_are_nearly_the_same_look_so():
    axes, _ = bytes_panel(5136, 5296)
    assert axes.get_xscale() == "linear"
    assert axes.get_xlim()[0] == 0
    assert axes.get_title() == "bytes per client"


def test_very_different_bytes_have_a_log_axis_of_whole_decades_below():
    axes, _ = bytes_panel(5136, 92_006)
    assert axes.get_xscale() == "log"
    assert axes.get_xlim()[0] == 1000
    assert axes.get_title() == "bytes per client (log)"
    axes, _ = bytes_panel(1000, 92_006)
    assert axes.get_xlim()[0] == 100  # the least one has a bar, too


def test_no_bytes_at_all():
    axes, _ = bytes_panel(0, 5)
    assert axes.get_xlim()[0] == 0
