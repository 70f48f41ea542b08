"""Tables and the picture about auto-hard, from made-up rows."""

import numpy as np
import pytest

from fedjigsaw.bench import figures, hard_tables
from fedjigsaw.bench.hard_sets import HARD_SETS
from fedjigsaw.bench.hard_tables import HardRuns
from fedjigsaw.report.pictures import render


def run(dataset, split, found, confidence=0.95, real=(), false=(), **others):
    hard = HARD_SETS[dataset]
    return {
        "dataset": dataset, "split": split, "kind": hard.kind, "true_k": hard.n_clusters,
        "n_found": found, "confidence": confidence, "ari": 0.5, "seconds": 3.0,
        "seconds_given": 2.0, "scores_real": list(real), "scores_false": list(false), **others,
    }  # fmt: skip


def peer(dataset, method, found):
    hard = HARD_SETS[dataset]
    known = {"kind": hard.kind, "true_k": hard.n_clusters}
    return {"dataset": dataset, "method": method, **known, "n_found": found}


ROWS = [
    run("eq8-5d", "iid", 8, real=[0.95] * 8),
    run("eq8-5d", "iid", 9, 0.3, real=[0.9] * 7, false=[0.2, 0.95]),
    run("eq8-5d", "dirichlet(0.3)", 7, 0.8, ari=0.1),
    run("eq8-5d", "dirichlet(0.3)", 9, 0.1, ari=0.1),
    run("eq8-5d", "dirichlet(0.1)", 8, 0.4, seconds=20.0),
    run("eq8-5d", "12 rows", 8, 0.6, real=[0.6]),
    run("eq8-5d", "5-25 rows", 2, 0.1, false=[0.1]),
    run("unif-2d", "iid", 1, 1.0, seconds=8.0),
    run("over6-4d", "iid", 6),
    peer("eq8-5d", "silhouette", 8),
    peer("eq8-5d", "silhouette", 8),
    peer("eq8-5d", "BIC", 8),
    peer("eq8-5d", "BIC", 10),
    peer("unif-2d", "HDBSCAN", 12),
]


@pytest.fixture
def hard():
    return HardRuns(ROWS)


def line(table, start):
    (found,) = [text for text in table.splitlines() if text.startswith(f"| {start} | ")]
    return found.strip("| ").split(" | ")


def test_each_set_has_a_line_with_answers_and_those_of_peers(hard):
    table = hard_tables.sets_table(hard, "Gaussian")
    assert len(table.splitlines()) == 2 + 32
    assert line(table, "equal sizes") == [
        "equal sizes", "5", "8", "8, 9", "7, 9", "8", "0.40", "0.50", "8", "8, 10"
    ]  # fmt: skip
    assert line(table, "4 deviations apart*")[:4] == ["4 deviations apart*", "4", "6", "6"]
    nothing = hard_tables.sets_table(hard, "no structure")
    assert "| uniform | 2 | 1 | 1 |  |  | 1.00 | 0.50 |  |  | 12 |" in nothing


def test_totals_count_ten_clients_only(hard):
    table = hard_tables.totals_table(hard)
    assert line(table, "Gaussian") == [
        "Gaussian", "32", "2 of 3", "0 of 2", "1 of 1", "3 of 6", "50 %",
        "2 of 2", "1 of 2", "0 of 0", "1.5", "1.5",
    ]  # fmt: skip
    assert line(table, "all")[5:] == [
        "4 of 7", "57 %", "2 of 2", "1 of 2", "0 of 1", "1.5", "4.0"
    ]  # fmt: skip
    assert line(table, "of which held out (*)")[1:6] == [
        "15", "1 of 1", "0 of 0", "0 of 0", "1 of 1"
    ]  # fmt: skip


def test_small_clients_have_their_own_table(hard):
    table = hard_tables.small_table(hard)
    assert line(table, "Gaussian: equal sizes")[3:] == [
        "8", "", "2", "", "0.35"
    ]  # fmt: skip
    assert line(table, "right")[3:7] == ["1 of 1", "0 of 0", "0 of 1", "0 of 0"]


def test_confidences_are_compared_with_what_is_right(hard):
    table = hard_tables.confidence_table(hard)
    assert [line(table, bin_) for bin_ in ("0 to 0.25", "0.25 to 0.5", "0.9 and more")] == [
        ["0 to 0.25", "1", "0 %", "1", "0 %"],
        ["0.25 to 0.5", "2", "50 %", "0"],
        ["0.9 and more", "3", "100 %", "0"],
    ]
    assert hard_tables.unsure_share(ROWS[:9], among_right=False) == 0.75
    text = hard_tables.doubt(hard)
    assert "Of all 9 runs, 4 were wrong." in text
    assert "below 0.5 in 3 of these (75 %), and in 20 % of the right ones" in text


def test_scores_are_compared_with_what_is_real(hard):
    table = hard_tables.score_table(hard)
    assert line(table, "0.9 to 0.99") == ["0.9 to 0.99", "16", "94 %", "0"]  # 15 of 16
    assert line(table, "0 to 0.7") == ["0 to 0.7", "1", "0 %", "2", "50 %"]


@pytest.mark.parametrize(("value", "title"), [
    (0.0, "0 to 0.25"), (0.25, "0.25 to 0.5"), (0.8999, "0.7 to 0.9"), (0.9, "0.9 and more"),
    (1.0, "0.9 and more"),
])  # fmt: skip
def test_a_bin_begins_at_its_lower_edge(value, title):
    (found,) = hard_tables.binned([value], [True])
    assert (found.title, found.n, found.mean, found.share) == (title, 1, value, 1.0)


def test_only_what_is_whole_is_written_as_100_percent():
    assert hard_tables._percent(1.0) == "100 %"
    assert hard_tables._percent(0.9981) == "99.8 %"
    assert hard_tables._percent(0.126) == "13 %"


def test_without_rows_there_are_tables_all_the_same():
    hard = HardRuns([])
    assert "0 of 0" in hard_tables.totals_table(hard)
    assert "| 0.9 and more | 0 |  | 0 |  |" in hard_tables.confidence_table(hard)
    assert "Of all 0 runs, 0 were wrong." in hard_tables.doubt(hard)


def test_the_picture_says_how_many_runs_are_behind_each_share():
    figure = figures.confidences(ROWS)
    (axes,) = figure.axes
    assert sorted(text.get_text() for text in axes.texts) == ["1", "1", "1", "1", "2", "3"]
    points = axes.containers[0].lines[0]
    assert points.get_ydata().tolist() == [0, 0.5, 0, 1]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "share = confidence", "ten clients", "clients of 5 to 25 rows"
    ]  # fmt: skip
    assert render(figure, ".svg").startswith(b"<?xml")


def test_an_interval_is_wider_where_less_is_known():
    low, high = figures._wilson(np.array([1.0, 1.0, 0.5]), np.array([5, 100, 100]))
    assert high[:2] == pytest.approx([1, 1])
    assert low[0] < low[1] < 1
    assert low[2] == pytest.approx(0.404, abs=0.001)  # by hand
    assert high[2] == pytest.approx(0.596, abs=0.001)
