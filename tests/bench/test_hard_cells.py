"""Cells of the study auto-hard: splits, rows, peers, and which clusters count as real."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fedjigsaw.bench import hard_peers
from fedjigsaw.bench.hard_cells import SMALL_SETS, SPLITS, HardCell, dealt, plans
from fedjigsaw.bench.hard_peers import PooledCell, candidates
from fedjigsaw.bench.hard_sets import HARD_SETS
from fedjigsaw.bench.measures import k_doubt
from fedjigsaw.bench.studies import studies
from fedjigsaw.bench.study import tasks_of
from fedjigsaw.datasets import Dataset


def sizes_of(clients):
    return np.unique(clients, return_counts=True)[1]


class TestSplits:
    @pytest.mark.parametrize("name", ["iid", "dirichlet(0.3)", "dirichlet(0.1)"])
    @pytest.mark.parametrize("dataset", ["eq8-5d", "two-3d", "unif-2d", "noise5-2d"])
    def test_ten_clients_hold_all_rows(self, name, dataset):
        drawn = HARD_SETS[dataset].draw(1)
        data, clients = dealt(drawn, SPLITS[name], seed=1)
        assert data is drawn
        assert len(sizes_of(clients)) == 10
        assert sizes_of(clients).min() >= 25

    def test_small_clients_have_few_rows(self):
        data, clients = dealt(HARD_SETS["b45-2d"].draw(1), SPLITS["12 rows"], seed=1)
        assert len(data.X) == len(clients) == 3000
        assert set(sizes_of(clients)) == {12}
        for seed in range(8):
            _, clients = dealt(HARD_SETS["eq8-5d"].draw(1), SPLITS["5-25 rows"], seed=seed)
            assert (sizes_of(clients).min(), sizes_of(clients)[:-1].max()) == (5, 25)
            assert sizes_of(clients)[-1] < 30  # the last client takes a rest that is too small
            assert sizes_of(clients).mean() == pytest.approx(15, abs=2)

    def test_clients_by_class_have_fewer_classes(self):
        drawn = HARD_SETS["eq8-5d"].draw(1)
        even, uneven = (
            np.mean([len(set(data.y[clients == one])) for one in np.unique(clients)])
            for data, clients in (
                dealt(drawn, SPLITS[name], seed=1) for name in ("12 rows", "12 rows by class")
            )
        )
        assert uneven < even - 1

    def test_uneven_clients_see_parts_of_data_without_structure(self):
        data, clients = dealt(HARD_SETS["unif-2d"].draw(1), SPLITS["dirichlet(0.1)"], seed=1)
        means = np.array([data.X[clients == one].mean(axis=0) for one in range(10)])
        assert np.ptp(means[:, 0]) > 0.5
        assert np.ptp(means[:, 1]) < 0.3


def test_a_row_says_what_was_found_and_counts_as_made():
    task = next(t for t in tasks_of(studies()["auto-hard"], 1) if t.name == "over3-2d/iid")
    row = json.loads(json.dumps({**task.cell.compute(), "cell": task.name}))
    assert task.made(row)
    assert not task.made({**row, "split": "12 rows"})
    assert (row["kind"], row["true_k"]) == ("Gaussian", 3)
    assert row["n_found"] >= 1
    assert row["seconds"] > 0 < row["seconds_given"]
    assert len(row["scores_real"]) + len(row["scores_false"]) in (0, row["n_found"])
    assert {"version", "commit", "backend", "confidence", "ari", "bytes_per_client"} <= set(row)


def test_every_set_has_three_splits_and_three_peers():
    cells = [plan.cell for plan in plans()]
    for name in HARD_SETS:
        mine = [cell for cell in cells if cell.dataset == name]
        assert sum(isinstance(cell, PooledCell) for cell in mine) == 3
        small = 4 * (name in SMALL_SETS)
        assert sum(isinstance(cell, HardCell) for cell in mine) == 3 + small


class TestPeers:
    @pytest.mark.parametrize("name", hard_peers.PEERS)
    def test_all_find_three_clusters_that_are_far_apart(self, name):
        centers = np.repeat([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]], 60, axis=0)
        rows = centers + np.random.default_rng(0).normal(size=centers.shape)
        assert hard_peers.PEERS[name](rows, 3) == 3

    def test_rows_without_a_cluster_are_one(self):
        rows = np.random.default_rng(1).normal(size=(100, 5))
        assert hard_peers.hdbscan(rows, 1) == 1
        assert hard_peers.bic(rows, 1) == 1

    @pytest.mark.parametrize("true", sorted({hard.n_clusters for hard in HARD_SETS.values()}))
    def test_the_true_number_is_among_the_candidates(self, true):
        assert {true - 1, true, true + 1} <= {0, *candidates(true)}
        assert candidates(true)[:12] == list(range(1, 13))

    def test_a_row(self):
        row = PooledCell("over3-2d", "HDBSCAN").compute()
        assert (row["true_k"], row["method"], row["kind"]) == (3, "HDBSCAN", "Gaussian")
        assert "split" not in row


class TestRealClusters:
    def doubt(self, true, found, scores):
        method = SimpleNamespace(
            labels_=np.array(found), n_clusters_=len(scores), k_confidence_=0.6789,
            k_runner_up_=4, support_={"separation": np.array(scores)},
        )  # fmt: skip
        data = Dataset(np.zeros((len(true), 1)), np.array(true), None, "toy")
        return k_doubt(method, data, np.zeros(len(true)))

    def test_a_cluster_is_real_if_it_shares_half_with_a_true_one(self):
        # cluster 0 is the first true one; 1 and 2 are pieces of the second: 3 of 4 and 1 of 4 rows
        found = self.doubt([0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 2], [0.987, 0.5, 0.2])
        assert found["scores_real"] == [0.5, 0.99]
        assert found["scores_false"] == [0.2]
        assert (found["confidence"], found["runner_up"]) == (0.679, 4)

    def test_a_mixture_of_two_true_clusters_is_not_real(self):
        assert self.doubt([0, 0, 0, 1, 1], [0] * 5, [0.7])["scores_real"] == [0.7]  # 3 of 5
        assert self.doubt([0, 0, 1, 1, 2], [0] * 5, [0.7])["scores_false"] == [0.7]  # 2 of 5

    def test_without_structure_only_one_cluster_is_real(self):
        assert self.doubt([0] * 6, [0] * 6, [0.9])["scores_real"] == [0.9]
        assert self.doubt([0] * 6, [0, 0, 0, 0, 0, 1], [0.9, 0.8])["scores_false"] == [0.8, 0.9]

    def test_rows_of_the_background_do_not_count(self):
        found = self.doubt([0, 0, 1, 1, -1, -1, -1], [0, 0, 1, 1, 1, 1, -1], [0.3, 0.4])
        assert found["scores_real"] == [0.3, 0.4]

    def test_a_method_without_scores_has_none(self):
        method = SimpleNamespace(labels_=np.array([0, 1]), n_clusters_=2)
        found = k_doubt(method, Dataset(np.zeros((2, 1)), np.array([0, 1]), None, "toy"), None)
        assert found["confidence"] is None
        assert found["scores_real"] == found["scores_false"] == []
