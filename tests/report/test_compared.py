"""The picture of a comparison."""

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


def test_better_than_pooled_k_means():
    axes, _ = draw_comparison([{**ROWS[0], "objective_ratio": 0.9}, ROWS[1]], COLORS).axes
    low, high = axes.get_xlim()
    assert low < 0.9 < 1 < high
