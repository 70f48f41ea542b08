"""What every method promises: those of the table, and the example of a new one."""

import inspect
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from fedjigsaw import Broadcast, Client, FederatedMethod, Guard, Jigsaw, Summary
from fedjigsaw.engine import aggregate_round
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.kernels.backends import SklearnBackend
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.methods import CLUSTERERS, METHODS

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from new_method import KMeansOfCenters

CLASSES = [*(entry.cls for entry in CLUSTERERS.values()), KMeansOfCenters]
MEMBERS = [name for name in vars(FederatedMethod) if not name.startswith("_")] + ["random_state"]
SMOKE = {  # of scikit-learn's checks; two methods pass all of them
    "check_clustering", "check_dict_unchanged", "check_estimators_nan_inf",
    "check_estimators_pickle", "check_fit2d_1sample", "check_get_params_invariance",
    "check_parameters_default_constructible", "check_pipeline_consistency",
}  # fmt: skip
few_clusters = pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")


each_method = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
each_federated = pytest.mark.parametrize(
    "cls", [cls for cls in CLASSES if not cls.pools_data], ids=lambda cls: cls.__name__
)


@pytest.mark.slow
@few_clusters
@parametrize_with_checks([Jigsaw(), KMeansOfCenters()])
def test_scikit_learn(estimator, check):
    check(estimator)  # its own assertions; a failure raises


@pytest.mark.slow
@few_clusters
@each_method
def test_some_of_scikit_learn(cls):
    checks = [(e, c) for e, c in estimator_checks_generator(cls()) if c.func.__name__ in SMOKE]
    assert len(checks) >= len(SMOKE)
    for estimator, check in checks:
        check(estimator)


@pytest.mark.parametrize("name", METHODS)
def test_the_table_and_the_class_agree(name):
    entry = METHODS[name]
    if entry.data_kind == "images":
        pytest.importorskip("torch")
    assert (entry.cls.method, entry.cls.data_kind) == (name, entry.data_kind)
    assert set(entry.cls.server_parameters) <= set(entry.cls.rules) - {"n_clusters", "random_state"}
    method = entry.cls.from_settings({"n_clusters": 3, "random_state": 0})
    for member in MEMBERS:
        assert hasattr(method, member)
        wanted = getattr(FederatedMethod, member, None)
        if inspect.isfunction(wanted):
            theirs = list(inspect.signature(getattr(method, member)).parameters)
            assert theirs == list(inspect.signature(wanted).parameters)[1:]


@each_method
class TestParameters:
    def test_configuration_is_json_and_rebuilds_the_method(self, cls):
        method = cls(np.int64(7), random_state=3)
        again = cls(**json.loads(json.dumps(method.configuration())))
        assert again.get_params() == method.get_params()

    def test_every_one_has_a_rule_and_a_line_of_documentation(self, cls):
        assert set(cls.rules) == set(cls().get_params())
        documented = (cls.__doc__ or "").partition("Parameters")[2]
        assert [name for name in cls.rules if name not in documented] == []

    def test_none_takes_just_any_value(self, cls):
        for name in cls.rules:
            for value in (-1, 0.5j, float("nan"), "nonsense", object(), [[]], np.ones(2)):
                with pytest.raises(ParameterError, match=f"{name} of {cls.__name__}"):
                    cls(**{name: value}).fit([[0.0], [1.0]])

    @few_clusters
    def test_those_of_a_search_reach_it(self, cls):
        seen = []

        class Noting(SklearnBackend):
            def labels(self, X, n_clusters, **options):
                seen.append(options)
                return super().labels(X, n_clusters, **options)

        wanted = {"n_init": 3, "max_iter": 7, "tol": 0.5}
        wanted = {name: value for name, value in wanted.items() if name in cls.rules}
        method = cls(2, **wanted)
        method.backend = Noting()
        method.fit([[0.0], [1.0], [9.0]])
        assert "backend" not in method.get_params()
        if cls.method not in OWN_SEARCH:
            assert wanted.items() <= seen[0].items()


OWN_SEARCH = {"fuzzy", "lloyd", "mufc"}  # iterations of their own, not those of k-means


@each_method
class TestEveryMethod:
    @pytest.mark.parametrize(
        "summaries",
        [[], None, ["a"], Summary(1, [[0.0]]), [Summary(1, [[0.0]]), Summary(1, [[0.0, 1.0]], client="b")]],
        ids=["none", "None", "texts", "a single one", "two kinds"],
    )  # fmt: skip
    def test_the_server_refuses_what_are_no_summaries_of_one_kind(self, cls, summaries):
        with pytest.raises(MessageError):
            aggregate_round(cls(2), summaries, Broadcast(0, 0))

    @pytest.mark.slow
    def test_the_seed_decides_everything_and_is_on_record(self, cls, grid):
        data, ids = grid
        first, second, other = (cls(15, random_state=s).fit(data.X, clients=ids) for s in (1, 1, 2))
        assert first.model_ == second.model_ != other.model_
        drawn = cls(15).fit(data.X, clients=ids)
        again = cls(15, random_state=drawn.transcript_.seed).fit(data.X, clients=ids)
        assert again.cluster_centers_.tobytes() == drawn.cluster_centers_.tobytes()

    def test_separated_clusters_are_found(self, cls):
        rng = np.random.default_rng(0)
        true = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])
        shards = [np.repeat(true, 8, axis=0) + rng.uniform(-1, 1, (24, 2)) for _ in range(4)]
        found = cls(3, random_state=0).fit_clients(shards)
        assert sorted(np.bincount(found.labels_)) == [32, 32, 32]
        assert found.predict(true).tolist() == found.predict(true + 0.5).tolist()


@each_federated
class TestWhatLeaves:
    def test_no_row_travels(self, cls, grid):
        data, ids = grid
        fitted = cls(15, random_state=0).fit(data.X, clients=ids)
        rows = {tuple(row) for row in data.X}
        for m in range(5):
            own = data.X[ids == m]
            summary = Client(str(m), own, fitted).answer(Broadcast(0, 0))
            assert summary.nbytes < own.nbytes / 2
            kept = slice(None) if summary.radii is None else summary.radii > 0
            centers = summary.centers[kept]
            # a cluster of one row is that row: only a guard can prevent that
            sizes = np.bincount(nearest_centers(own, centers)[0], minlength=len(centers))
            assert not rows & {tuple(center) for center in centers[sizes != 1]}

    @pytest.mark.slow
    @few_clusters
    def test_a_guard_of_fit_lets_no_small_cluster_leave(self, cls, grid):
        data, ids = grid
        guard = Guard(min_cluster_size=12)
        fitted = cls(15, random_state=0).fit(data.X, clients=ids, guard=guard)
        for summary in fitted.summaries_:
            n_rows = (ids == int(summary.client)).sum()
            assert 1 <= len(summary.centers) <= n_rows // 12
        assert any(summary.merged for summary in fitted.summaries_)


def test_only_a_benchmark_pools_data_and_no_federation_takes_it():
    (pooling,) = (entry.cls for entry in CLUSTERERS.values() if entry.cls.pools_data)
    with pytest.raises(ValueError, match="'central'"):
        pooling(3).check_federated()
