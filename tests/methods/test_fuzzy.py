import warnings
from itertools import pairwise

import numpy as np
import pytest
from skfuzzy.cluster import cmeans
from sklearn.cluster import KMeans

from fedjigsaw import Broadcast, Client, FuzzyCMeans, Summary, metrics
from fedjigsaw.datasets import load
from fedjigsaw.engine import SerialEngine, run_rounds
from fedjigsaw.errors import FewerClustersWarning, MessageError
from fedjigsaw.messages import Model
from fedjigsaw.methods.fuzzy import average_by_support, count_apart, fuzzy_cmeans
from fedjigsaw.privacy.guard import Guard


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 1.0, (50, 3)) for c in (0.0, 4.0, 9.0)])


def objective(X, centers, m):
    squared = ((X[:, None] - centers) ** 2).sum(axis=2)
    u = squared ** (-1 / (m - 1)) / (squared ** (-1 / (m - 1))).sum(axis=1, keepdims=True)
    return (u**m * squared).sum()


class TestOneClient:
    @pytest.mark.parametrize("m", [1.3, 2.0, 2.7])
    def test_parity_with_scikit_fuzzy(self, blobs, m):
        start = blobs[[0, 60, 120]] + 0.5
        squared = ((blobs[:, None] - start) ** 2).sum(axis=2) ** (-1 / (m - 1))
        u = (squared / squared.sum(axis=1, keepdims=True)).T
        theirs, memberships, *_ = cmeans(blobs.T, 3, m, error=1e-12, maxiter=2000, init=u)
        ours, support = fuzzy_cmeans(blobs, start, m=m, max_iter=2000, tol=1e-16)
        assert np.allclose(ours, theirs, atol=1e-6)
        assert np.allclose(support, (memberships**m).sum(axis=1), atol=1e-4)

    def test_hard_limit_is_k_means(self, blobs):
        start = blobs[[0, 60, 120]]
        hard = KMeans(3, init=start, n_init=1, tol=0).fit(blobs)
        ours, support = fuzzy_cmeans(blobs, start, m=1.001, tol=1e-12)
        assert np.allclose(ours, hard.cluster_centers_, atol=1e-6)
        assert np.allclose(support, np.bincount(hard.labels_), atol=1e-6)

    def test_each_iteration_lowers_the_objective(self, blobs):
        start = blobs[[0, 1, 60]] + 0.1
        steps = [fuzzy_cmeans(blobs, start, max_iter=n, tol=0.0)[0] for n in range(1, 12)]
        values = [objective(blobs, centers, 2.0) for centers in steps]
        assert all(after < before for before, after in pairwise(values))

    def test_shift_and_scale(self, blobs):
        start = blobs[[0, 60, 120]] + 0.5
        plain, support = fuzzy_cmeans(blobs, start, tol=0.0, max_iter=20)
        moved, same = fuzzy_cmeans(3e4 * blobs + 1e8, 3e4 * start + 1e8, tol=0.0, max_iter=20)
        assert np.allclose((moved - 1e8) / 3e4, plain, atol=1e-6)
        assert np.allclose(support, same)

    def test_a_center_without_support_stays(self):
        """Both rows lie exactly on centers; the third center gets nothing."""
        start = np.array([[0.0], [1.0], [7.0]])
        centers, support = fuzzy_cmeans(np.array([[0.0], [1.0]]), start)
        assert np.allclose(centers, start)
        assert np.allclose(support, [1, 1, 0])

    def test_rows_far_from_all_centers(self):
        centers, support = fuzzy_cmeans(np.array([[1e90], [1.1e90]]), np.array([[0.0], [1.0]]))
        assert np.isfinite(centers).all()
        assert np.isfinite(support).all()


def summary(centers, support, n=10, client="a"):
    return Summary(
        n_samples=n, centers=centers, tensors={"support": np.array(support)}, client=client
    )


class TestServer:
    def test_averages_by_support(self):
        """Center 0: (1 * 0 + 3 * 4) / 4. Center 1: one client has no support for it."""
        a, b = summary([[0.0], [10.0]], [1.0, 5.0]), summary([[4.0], [99.0]], [3.0, 0.0])
        found = average_by_support([a, b], np.array([[2.0], [9.0]]))
        assert found.ravel().tolist() == [3.0, 10.0]

    def test_nobody_supports_a_center(self):
        found = average_by_support([summary([[1.0], [8.0]], [2.0, 0.0])], np.array([[0.0], [5.0]]))
        assert found.ravel().tolist() == [1.0, 5.0]

    def test_a_guarded_client_with_merged_centers(self):
        """The one center left, 9, is paired with 10, and has the support of both, 6."""
        a, b = summary([[0.0], [12.0]], [4.0, 3.0]), summary([[9.0]], [6.0], n=6)
        found = average_by_support([a, b], np.array([[1.0], [10.0]]))
        assert found.ravel().tolist() == [0.0, 10.0]

    def test_the_start_has_the_mean_and_spread_of_the_data(self):
        rng = np.random.default_rng(0)
        shards = {"a": rng.normal(5, 1, (40, 2)), "b": rng.normal(-5, 3, (60, 2))}
        method = FuzzyCMeans(20_000, n_rounds=1)
        sent = [Client(name, rows, method).answer(Broadcast(0, 0)) for name, rows in shards.items()]
        assert [s.centers.shape for s in sent] == [(1, 2), (1, 2)]
        start = method.aggregate(sent, Broadcast(0, 0), rng).centers
        pooled = np.concatenate(list(shards.values()))
        assert np.allclose(start.mean(axis=0), pooled.mean(axis=0), atol=0.15)
        assert np.allclose(start.std(axis=0), pooled.std(axis=0), rtol=0.02)


class TestFederation:
    @pytest.mark.parametrize("version", [1, 2])
    def test_finds_separated_clusters(self, version, blobs):
        method = FuzzyCMeans(3, version=version, random_state=0)
        method.fit(blobs, clients=np.arange(len(blobs)) % 4)
        classes = np.repeat([0, 1, 2], 50)
        assert metrics.purity(labels_true=classes, labels_pred=method.labels_) > 0.97
        assert method.n_iter_ == 11  # one message of statistics, ten rounds

    def test_one_client_and_version_1_is_plain_fuzzy_c_means(self, blobs):
        method = FuzzyCMeans(3, n_rounds=1, max_iter=1, random_state=4).fit(blobs)
        start = FuzzyCMeans(3, random_state=4)
        broadcast = Broadcast(0, 4)
        sent = Client("0", blobs, start).answer(broadcast)
        from fedjigsaw.random import stream

        first = start.aggregate([sent], broadcast, stream(4, 0)).centers
        assert np.allclose(method.cluster_centers_, fuzzy_cmeans(blobs, first, max_iter=1)[0])

    def test_more_rounds_from_where_the_last_ended(self, blobs):
        """With one client, r rounds of one iteration are r iterations."""
        rounds = FuzzyCMeans(3, n_rounds=5, max_iter=1, tol=0.0, random_state=0).fit(blobs)
        alone = FuzzyCMeans(3, n_rounds=1, max_iter=5, tol=0.0, random_state=0).fit(blobs)
        assert np.allclose(rounds.cluster_centers_, alone.cluster_centers_)

    def test_a_guard_merges_and_the_run_goes_on(self, blobs):
        method = FuzzyCMeans(3, n_rounds=1, random_state=0)
        rows = blobs[:103]  # of the third group, too few
        start = method.make_model(np.array([[0.0] * 3, [4.0] * 3, [9.0] * 3]))
        sent = Client("a", rows, method, Guard(5)).answer(Broadcast(1, 0, start))
        assert sent.merged == 1
        assert sent.counts is None
        again = method.aggregate([sent], Broadcast(1, 0, start), np.random.default_rng(0))
        assert again.centers.shape == (3, 3)

    @pytest.mark.parametrize("version", [1, 2])
    def test_a_guard_at_centers_without_rows(self, version, rng):
        """In many dimensions centers fall together, and most of them have no rows of their own."""
        method = FuzzyCMeans(10, version=version, n_rounds=2)
        clients = [Client(name, rng.normal(size=(20, 50)), method, Guard(5)) for name in "abc"]
        model = run_rounds(method, SerialEngine(clients), seed=0, n_rounds=3).model
        assert np.isfinite(model.centers).all()

    @pytest.mark.parametrize(
        ("sent", "words"),
        [
            ({"centers": [[0.0], [1.0]]}, "Client 'a' sent no support, which FuzzyCMeans needs"),
            ({"centers": [[0.0], [1.0]], "tensors": {"support": [1.0]}}, "got 2, with a support"),
            ({"centers": [[0.0], [1.0]], "tensors": {"support": [-1.0, 1]}}, "a support >= 0 of"),
            ({"centers": [[0.0]] * 3, "tensors": {"support": [1.0, 1, 1]}}, "at most 2,"),
        ],
    )
    def test_bad_answers(self, sent, words):
        start = Model([[0.0], [5.0]])
        with pytest.raises(MessageError, match=words):
            FuzzyCMeans(2).aggregate(
                [Summary(3, client="a", **sent)], Broadcast(1, 0, start), np.random.default_rng(0)
            )

    def test_the_first_answer_must_hold_sums_of_squares(self):
        with pytest.raises(MessageError, match="Client 'a' sent no sum of squares"):
            FuzzyCMeans(2).aggregate(
                [Summary(3, [[0.0]], client="a")], Broadcast(0, 0), np.random.default_rng(0)
            )


@pytest.mark.slow
def test_centers_that_coincide_are_told():
    X = load("digits").X
    ids = np.arange(len(X)) % 5
    with pytest.warns(FewerClustersWarning, match=r"found 1 of 10 clusters: .* A smaller m"):
        FuzzyCMeans(10, random_state=0).fit(X, clients=ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FuzzyCMeans(10, m=1.1, random_state=0).fit(X, clients=ids)


def test_small_clusters_beside_a_wide_one_are_apart():
    centers = np.array([[0.0], [0.002], [5000.0]])
    rows = np.array([0.0, 0.001, 0.002, 0.003, 3000.0, 7000.0])
    labels = np.array([0, 0, 1, 1, 2, 2])
    assert count_apart(centers, labels, np.abs(rows - centers[labels, 0])) == 3
