import tracemalloc
from typing import ClassVar

import numpy as np
import pytest
from sklearn.cluster import KMeans

from doubles import OneByOne
from fedjigsaw import (
    Broadcast,
    Client,
    FewerClustersWarning,
    KFed,
    SerialEngine,
    Summary,
)
from fedjigsaw.errors import ParameterError
from fedjigsaw.kernels.kmeans import Problem, partition_of
from fedjigsaw.methods.kfed import cluster_many, core_means, farthest_first, project
from fedjigsaw.number.shapes import local_labels


def aggregate(*sets, k=2, seed=0):
    summaries = [Summary(n_samples=9, centers=c, client=str(i)) for i, c in enumerate(sets)]
    return KFed(k).aggregate(summaries, Broadcast(0, 0), np.random.default_rng(seed))


class TestServer:
    def test_by_hand(self):
        """From any client: one each of (0, 2), (50, 52) and 100 is chosen, and draws its like."""
        for seed in range(6):
            model = aggregate([[0.0], [50.0]], [[2.0], [52.0]], [[100.0]], k=3, seed=seed)
            assert sorted(model.centers.ravel()) == [1.0, 51.0, 100.0]

    def test_groups_go_by_the_chosen_centers_not_by_the_means(self):
        """Chosen 0 and 10; 4 and 4.5 join 0, whose mean is then 2.83. A local center at 5.1 went to
        10, though that mean is nearer."""
        model = aggregate([[4.0], [4.5]], [[0.0], [10.0]])  # this seed starts with the second
        assert model.tensors["chosen"].ravel().tolist() == [0.0, 10.0]
        assert model.centers.ravel().tolist() == pytest.approx([8.5 / 3, 10.0])
        rows = np.array([[5.1], [4.9]])
        assert local_labels(model, rows, rows)[0].tolist() == [1, 0]

    def test_any_client_may_be_the_first(self):
        starts = {tuple(aggregate([[0.0], [1.0]], [[5.0], [6.0]], seed=s).tensors["chosen"].ravel()) for s in range(20)}  # fmt: skip
        assert starts == {(0.0, 1.0), (5.0, 6.0)}

    def test_different_numbers_of_centers(self):
        model = aggregate([[0.0]], [[10.0], [20.0], [30.0]], [[1.0], [31.0]], k=4)
        assert sorted(model.centers.ravel()) == [0.5, 10.0, 20.0, 30.5]

    def test_a_client_with_more_than_k(self):
        model = aggregate([[0.0], [1.0], [50.0], [100.0]], k=3)
        assert sorted(model.tensors["chosen"].ravel()) == [0.0, 50.0, 100.0]

    def test_fewer_different_centers_than_k(self):
        assert aggregate([[3.0]], [[3.0]], k=2).centers.tolist() == [[3.0]]

    def test_farthest_first_takes_each_once(self):
        taken = farthest_first(np.array([[1.0], [1.0], [2.0]]), np.array([[1.0]]), 3)
        assert taken.ravel().tolist() == [1.0, 2.0]


class TestClient:
    def test_noise_outside_the_subspace_is_projected_away(self):
        """Two clusters along one axis, a thousand times weaker noise along 40 others."""
        rng = np.random.default_rng(0)
        X = rng.normal(scale=0.1, size=(60, 41))
        X[:, 0] += np.repeat([-50.0, 50.0], 30)
        (found,) = cluster_many([Problem(X, 2, np.random.default_rng(0))], n_init=1)
        assert found.labels.tolist() in ([0] * 30 + [1] * 30, [1] * 30 + [0] * 30)
        assert np.allclose(found.centers[:, 0], [-50, 50], atol=0.2)

    @pytest.mark.parametrize("shape", [(40, 12), (12, 12), (12, 40), (3, 40), (50, 40)])
    def test_projection_equals_the_singular_value_decomposition(self, rng, shape):
        X = rng.normal(size=shape)
        left, sizes, _ = np.linalg.svd(X, full_matrices=False)
        expected = (left * sizes)[:, :3][:, ::-1]
        assert np.allclose(abs(project(X, 3)), abs(expected))

    def test_rows_in_fewer_dimensions_than_are_asked_for(self, rng):
        """Rounding leaves some eigenvalues of zero slightly below it."""
        for _ in range(20):
            X = np.outer(rng.normal(size=9), rng.normal(size=50))
            projected = project(X, 4)
            assert np.isfinite(projected).all()
            assert np.allclose(np.linalg.norm(projected, axis=1), np.linalg.norm(X, axis=1))

    def test_many_columns_need_no_matrix_of_columns_times_columns(self, rng):
        X = rng.normal(size=(20, 4000))  # 4000 x 4000 would be 128 MB, the rows are 0.64
        tracemalloc.start()
        cluster_many([Problem(X, 3, rng)], n_init=1)
        assert tracemalloc.get_traced_memory()[1] < 20e6
        tracemalloc.stop()

    def test_rows_between_two_clusters_do_not_start(self):
        """The start is the mean of the core; Lloyd's iterations then take all rows in."""
        X = np.array([[0.0], [1.0], [4.6], [10.0], [11.0]])
        (found,) = cluster_many([Problem(X, 2, np.random.default_rng(0))], n_init=5)
        assert found.centers.ravel().tolist() == pytest.approx([5.6 / 3, 10.5])

    def test_cores_are_those_of_a_literal_reading(self, rng):
        """Clients of unequal sizes, one of them with clusters that have no core."""
        rows = [rng.normal(size=(n, 3)) * spread for n, spread in ((40, 1), (1, 1), (25, 9))]
        labels = [rng.integers(k, size=len(X)) for X, k in zip(rows, (4, 1, 2), strict=True)]
        rows[2][:, 0] += 40 * labels[2]
        found = [partition_of(X, own) for X, own in zip(rows, labels, strict=True)]
        n_cores = 0
        for X, local in zip(rows, found, strict=True):
            for j, mean in enumerate(core_means(X, X, local)):
                members = X[local.labels == j]
                distances = np.linalg.norm(members[:, None] - local.centers, axis=2)
                others = np.delete(distances, j, axis=1).min(axis=1, initial=np.inf)
                core = members[3 * distances[:, j] <= others]
                n_cores += 0 < len(core) < len(members)
                assert np.allclose(mean, (core if len(core) else members).mean(axis=0))
        assert n_cores

    @pytest.mark.parametrize("k", [2, 5, 12])
    def test_ends_at_a_fixed_point_of_lloyd(self, k):
        X = np.random.default_rng(k).normal(size=(200, 4))  # k > d, too
        (found,) = cluster_many([Problem(X, k, np.random.default_rng(0))], n_init=3, tol=0.0)
        again = KMeans(k, init=found.centers, n_init=1, max_iter=1).fit(X)
        assert found.inertia == pytest.approx(again.inertia_, rel=1e-3)

    def test_more_clusters_than_columns_and_than_rows(self):
        with pytest.warns(FewerClustersWarning):
            found = KFed(3, n_local_clusters=7, random_state=0).fit_clients([[[0.0], [1.0]]] * 2)
        assert found.n_clusters_ == 2


class TestLocalNumbers:
    SHARDS: ClassVar = {"a": [[0.0], [1.0], [50.0]], "b": [[100.0], [101.0]]}

    def test_one_for_each_client(self):
        method = KFed(3, n_local_clusters={"a": 2, "b": 1}, random_state=0)
        method.fit_clients(self.SHARDS)
        assert [len(s.centers) for s in method.summaries_] == [2, 1]
        assert sorted(method.cluster_centers_.ravel()) == [0.5, 50.0, 100.5]
        assert method.model_.params["n_local_clusters"] == {"a": 2, "b": 1}

    @pytest.mark.parametrize("backend", ["auto", "sklearn"])
    def test_unequal_clients_have_the_bits_that_they_have_alone(self, rng, monkeypatch, backend):
        """Some are projected, to unequal numbers of columns, and one has hardly any rows."""
        monkeypatch.setenv("FEDJIGSAW_BACKEND", backend)
        numbers = {"a": 2, "b": 3, "c": 3, "d": 7, "e": 9}
        rows = {name: rng.normal(size=(3 if name == "c" else 40, 5)) for name in numbers}
        rows["b"] = np.repeat(rows["b"][:2], 20, axis=0)  # two distinct rows
        method = KFed(9, n_local_clusters=numbers)
        people = [Client(name, X, method) for name, X in rows.items()]
        together, apart = (engine(people) for engine in (SerialEngine, OneByOne))
        assert together.ask(Broadcast(0, 0)) == apart.ask(Broadcast(0, 0))

    def test_rows_follow_the_local_centers_of_their_own_client(self, rng):
        """All local centers are labeled in one call, of clients with unequal numbers of them."""
        numbers = {"a": 1, "b": 4, "c": 2}
        rows = {name: rng.normal(size=(30, 2)) for name in numbers}
        method = KFed(4, n_local_clusters=numbers, random_state=0).fit_clients(rows)
        sent = {summary.client: summary.centers for summary in method.summaries_}
        alone = [local_labels(method.model_, sent[name], X)[0] for name, X in rows.items()]
        assert method.labels_.tolist() == np.concatenate(alone).tolist()

    def test_a_client_without_a_number(self):
        with pytest.raises(ParameterError, match="has no entry for client 'b'"):
            KFed(3, n_local_clusters={"a": 2}).fit_clients(self.SHARDS)

    @pytest.mark.parametrize("value", [0, {"a": 0, "b": 1}, {"a": 1.5}, "2", 2.0, True])
    def test_bad_numbers(self, value):
        with pytest.raises(ParameterError, match="n_local_clusters of KFed"):
            KFed(3, n_local_clusters=value).fit_clients(self.SHARDS)


def test_labels_are_local_by_default():
    """The row 40 of client "b" lies nearer to the cluster of "a"."""
    shards = {"a": [[0.0], [2.0]], "b": [[40.0], [98.0], [102.0], [160.0]]}
    local, near = (
        KFed(2, n_local_clusters=1, random_state=0, **options).fit_clients(shards)
        for options in ({}, {"assign": "nearest"})
    )
    assert local.labels_[2] == local.labels_[3] != local.labels_[0]
    assert near.labels_[2] == near.labels_[0]


def test_a_row_far_from_all_others_is_no_error():
    """Its distance hides the others, so that k-means finds fewer clusters than it was asked for."""
    rows = np.random.default_rng(0).normal(size=(59, 2))
    X = np.vstack([rows, [1e9, -1e9]]) * [1, 1e-7]
    for k in (17, 18, 19):
        (found,) = cluster_many([Problem(X, k, np.random.default_rng(0))], n_init=3)
        assert 1 < len(found.centers) <= k
