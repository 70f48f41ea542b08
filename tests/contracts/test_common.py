"""One suite over every method, and over the example of a new one: what all of them promise."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedjigsaw import BatchEngine, Broadcast, Client, Guard, ProcessEngine, SerialEngine, Summary
from fedjigsaw.errors import MessageError
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.methods import CLUSTERERS

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from new_method import KMeansOfCenters

CLASSES = [*(entry.cls for entry in CLUSTERERS.values()), KMeansOfCenters]


each_method = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


@pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
@parametrize_with_checks([cls() for cls in CLASSES])
def test_scikit_learn(estimator, check):
    check(estimator)  # its own assertions; a failure raises


@each_method
class TestEveryMethod:
    def test_configuration_is_json_and_rebuilds_the_method(self, cls):
        method = cls(7, random_state=3)
        again = cls(**json.loads(json.dumps(method.configuration())))
        assert again.get_params() == method.get_params()

    def test_every_parameter_has_a_rule_and_a_line_of_documentation(self, cls):
        assert set(cls.rules) == set(cls().get_params())
        documented = (cls.__doc__ or "").partition("Parameters")[2]
        for name in cls.rules:
            assert name in documented, f"{name} needs a line under Parameters"

    @pytest.mark.parametrize(
        ("summaries", "words"),
        [
            ([], "needs the summary of at least one client"),
            (None, "must be a list of Summary"),
            (["a"], "must be a list of Summary"),
            (Summary(1, [[0.0]]), "must be a list of Summary"),
            ([Summary(1, [[0.0]]), Summary(1, [[0.0, 1.0]], client="b")], "features of client 'b'"),
        ],
    )
    def test_the_server_refuses_what_are_no_summaries_of_one_kind(self, cls, summaries, words):
        with pytest.raises(MessageError, match=words):
            cls(2).aggregate(summaries, Broadcast(0, 0), np.random.default_rng(0))
        with pytest.raises(MessageError, match=words):
            cls(2).merge(summaries, 2)

    def test_seed_decides_everything(self, cls, grid):
        data, ids = grid
        first, second, other = (cls(15, random_state=s).fit(data.X, clients=ids) for s in (1, 1, 2))
        assert first.model_ == second.model_ != other.model_

    def test_seed_is_on_record_where_none_was_given(self, cls, grid):
        data, ids = grid
        first = cls(15).fit(data.X, clients=ids)
        again = cls(15, random_state=first.transcript_.seed).fit(data.X, clients=ids)
        assert again.cluster_centers_.tobytes() == first.cluster_centers_.tobytes()

    def test_one_by_one_and_in_batches_give_the_same_bits(self, cls, grid):
        data, ids = grid
        together, apart = (
            cls(15, random_state=1).fit(data.X, clients=ids, engine=engine)
            for engine in (BatchEngine, SerialEngine)
        )
        assert together.model_ == apart.model_
        assert together.summaries_ == apart.summaries_

    @pytest.mark.slow
    def test_processes_give_the_same_bits(self, cls, grid):
        data, ids = grid
        method = cls(15, random_state=1)
        here = clone(method).fit(data.X, clients=ids)
        there = clone(method).fit(data.X, clients=ids, engine=ProcessEngine)
        assert here.model_ == there.model_

    def test_separated_clusters_are_found(self, cls):
        rng = np.random.default_rng(0)
        true = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])
        shards = [np.repeat(true, 8, axis=0) + rng.uniform(-1, 1, (24, 2)) for _ in range(4)]
        found = cls(3, random_state=0).fit_clients(shards)
        assert sorted(np.bincount(found.labels_)) == [32, 32, 32]
        assert found.predict(true).tolist() == found.predict(true + 0.5).tolist()

    def test_no_row_travels(self, cls, grid):
        if cls.pools_data:
            pytest.skip("the benchmark pools data, and says so")
        data, ids = grid
        fitted = cls(15, random_state=0).fit(data.X, clients=ids)
        rows = {tuple(row) for row in data.X}
        for m in range(5):
            summary = Client(str(m), data.X[ids == m], fitted).answer(Broadcast(0, 0))
            assert summary.nbytes < data.X[ids == m].nbytes / 2
            centers = summary.centers
            if summary.radii is not None:
                centers = centers[summary.radii > 0]
            # a cluster of one row is that row: only a guard can prevent that
            alone = (
                np.bincount(nearest_centers(data.X[ids == m], centers)[0], minlength=len(centers))
                == 1
            )
            assert not rows & {tuple(center) for center in centers[~alone]}

    @pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
    def test_a_guard_of_fit_lets_no_small_cluster_leave(self, cls, grid):
        if cls.pools_data:
            pytest.skip("the benchmark pools data, and says so")
        data, ids = grid
        guard = Guard(min_cluster_size=12)
        fitted = cls(15, random_state=0).fit(data.X, clients=ids, guard=guard)
        for summary in fitted.summaries_:
            rows = data.X[ids == int(summary.client)]
            assert 1 <= len(summary.centers) <= len(rows) // 12
        assert any(summary.merged for summary in fitted.summaries_)
