"""What docs/jigsaw.md says about the number of clusters holds for the committed rows."""

from pathlib import Path

import numpy as np
import pytest

from fedjigsaw.bench.hard_sets import GAUSSIAN, NOTHING
from fedjigsaw.bench.hard_tables import HardRuns, score_bins, share_right, unsure_share
from fedjigsaw.bench.runner import missing, result_file
from fedjigsaw.bench.studies import studies
from fedjigsaw.bench.study import tasks_of
from fedjigsaw.io.rows import read_rows

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def hard():
    return HardRuns(read_rows(result_file(RESULTS, "auto-hard")))


@pytest.mark.parametrize("name", ["auto-hard", "auto-k", "k-curve"])
def test_every_cell_has_a_row(name):
    assert missing(tasks_of(studies()[name]), RESULTS) == []


def test_k_is_right_on_most_sets_of_each_kind(hard):
    runs = hard.ten_clients
    assert len(runs) == 64 * 3
    assert share_right(hard.of(runs, kind=GAUSSIAN)) >= 0.9
    assert share_right(hard.of(runs, kind=NOTHING)) >= 0.95
    assert share_right(runs) >= 0.8


def test_k_is_right_more_often_than_that_of_pooled_methods(hard):
    for method in ("silhouette", "BIC", "HDBSCAN"):
        assert share_right(hard.of(hard.pooled, method=method)) < share_right(hard.ten_clients)


def test_wrong_answers_are_unsure(hard):
    assert unsure_share(hard.runs, among_right=False) >= 0.8


def test_ssets_have_15_clusters_in_all_but_one_of_240_runs():
    rows = read_rows(result_file(RESULTS, "auto-k"))
    assert len(rows) == 240
    wrong = [row for row in rows if row["n_found"] != 15]
    assert len(wrong) <= 1
    assert all(row["confidence"] < 0.5 for row in wrong)


def test_nearly_all_clusters_with_a_score_of_09_are_real(hard):
    for runs, least in ((hard.ten_clients, 0.98), (hard.small_clients, 0.9)):
        bins = [one for one in score_bins(runs) if one.low >= 0.9]
        n = sum(one.n for one in bins)
        assert n > 100
        assert sum(one.n * one.share for one in bins) / n >= least


def test_auto_mostly_takes_less_than_twice_the_time_where_there_are_clusters(hard):
    runs = [row for row in hard.ten_clients if row["true_k"] > 1]
    assert np.median([row["seconds"] / row["seconds_given"] for row in runs]) < 2
