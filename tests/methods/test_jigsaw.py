import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from builders import blobs
from fedjigsaw import (
    Client,
    CountsWarning,
    FewerClustersWarning,
    Jigsaw,
    Summary,
    datasets,
    metrics,
    partition,
)
from fedjigsaw._received import receive
from fedjigsaw.engine import run_rounds
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.kernels import gaussians
from fedjigsaw.kernels.kmeans import kmeans, nearest_centers
from fedjigsaw.messages import Broadcast, Model
from fedjigsaw.methods._support import SUPPORT, k_curve_of, support_of
from fedjigsaw.privacy.guard import Guard

FIRST = Broadcast(0, 0)


def aggregate(method, *summaries):
    return method.aggregate(summaries, FIRST, np.random.default_rng(0))


class TestByHand:
    def test_a_cloud_that_pushes_a_center_away_from_all_others_does_not_soften(self):
        """As points, {3} and {4, 5}. The one at 3 is so wide that, as a cloud, half of it would pull
        the two centers to -5 and 7, and then 3, 4 and 5 are all nearest to 7: nobody's at -5."""
        sent = Summary(32, [[3.0], [5.0], [4.0]], counts=[18, 6, 8], sse=[1494.0, 18.0, 56.0])
        as_gaussians = gaussians.lloyd(sent.centers, sent.counts, sent.sse, [[3.0], [62 / 14]])
        assert as_gaussians.ravel() == pytest.approx([-5.149, 6.642], abs=0.001)
        assert np.unique(nearest_centers(sent.centers, as_gaussians)[0]).tolist() == [1]
        found = aggregate(Jigsaw(2), sent).centers
        assert sorted(found.ravel()) == pytest.approx([3.0, 62 / 14])

    def test_a_cloud_does_not_push_a_center_beyond_what_was_sent(self):
        """As a cloud, the wide local cluster in the middle pulls both centers beyond all that was
        sent; the second column is a share, for which 1.05 is no value."""
        sent = Summary(
            60, [[0.0, 0.0], [1.0, 0.6], [2.0, 1.0]], counts=[20] * 3, sse=[0.4, 100.0, 0.4]
        )
        beyond = gaussians.lloyd(sent.centers, sent.counts, sent.sse, [[0.0, 0.0], [1.5, 0.8]])
        assert beyond == pytest.approx(np.array([[-0.0487, 0.0071], [2.0356, 1.0530]]), abs=1e-3)
        found = aggregate(Jigsaw(2), sent).centers
        assert found == pytest.approx(np.array([[0.0, 0.0071], [2.0, 1.0]]), abs=1e-3)

    def test_summarize(self):
        """Clusters {0, 2} and {10, 14}: means 1 and 12, two rows each, sums 2 and 8."""
        X = np.array([[0.0], [2.0], [10.0], [14.0]])
        sent = Client("a", X, Jigsaw(2)).answer(FIRST)
        assert sent.centers.tolist() == [[1.0], [12.0]]
        assert sent.counts.tolist() == [2, 2]
        assert sent.sse.tolist() == [2.0, 8.0]
        assert sent.radii is None
        assert not sent.tensors

    def test_counts_decide_where_the_centers_go(self):
        """Nine rows at 0 and one at 3 make a mean of 0.3; the far pair that of 21."""
        a = Summary(10, [[0.0], [20.0]], counts=[9, 1], sse=[0.0, 0.0], client="a")
        b = Summary(2, [[3.0], [22.0]], counts=[1, 1], sse=[0.0, 0.0], client="b")
        model = aggregate(Jigsaw(2), a, b)
        assert model.centers.ravel() == pytest.approx([0.3, 21.0])

    def test_objective_and_support(self):
        """Clusters {0, 2} of 3 + 1 rows and {10} of 4 rows that spread by a sum of 1."""
        a = Summary(7, [[0.0], [10.0]], counts=[3, 4], sse=[0.0, 1.0], client="a")
        b = Summary(1, [[2.0]], counts=[1], sse=[0.0], client="b")
        fitted = Jigsaw(2)
        fitted.model_ = aggregate(fitted, a, b)
        assert fitted.model_.centers.ravel() == pytest.approx([0.5, 10.0])
        support = fitted.support_
        assert list(support) == ["clients", "points", "spread", "margin"]
        assert support["clients"].tolist() == [2, 1]
        assert support["points"].tolist() == [4, 4]
        # 3 * 0.25 + 2.25 = 3 over 4 rows; 1 over 4
        squares = np.array([0.75, 0.25])
        assert support["spread"] == pytest.approx(np.sqrt(squares))
        assert support["margin"] == pytest.approx(1 - np.sqrt(squares / (squares + 9.5**2)))
        assert fitted.objective_ == pytest.approx(4.0)

    def test_a_sample_counts_for_all_rows_of_its_client(self):
        """Client a clustered 10 of its 1000 rows."""
        a = Summary(1000, [[0.0]], counts=[10], sse=[5.0], client="a")
        b = Summary(500, [[3.0]], counts=[500], sse=[0.0], client="b")
        received = receive([a, b])
        assert received.counts.tolist() == [1000, 500]
        assert received.sse.tolist() == [500, 0]
        assert aggregate(Jigsaw(1), a, b).centers.tolist() == [[1.0]]

    def test_pieces_of_a_jigsaw(self):
        a, b, c = ([[x - 1.0], [x + 1.0]] for x in (0, 50, 100))
        fitted = Jigsaw(3, random_state=0).fit_clients([a + b, b + c, a + c])
        assert fitted.cluster_centers_.ravel() == pytest.approx([0, 50, 100], abs=1e-9)

    @pytest.mark.parametrize(
        ("params", "n_rows", "expected"),
        [
            ({"n_clusters": 8}, 500, 8),
            ({"n_clusters": 8, "detail": 4}, 500, 32),
            ({"n_clusters": 8, "detail": 4}, 30, 8),
            ({"n_clusters": 8, "detail": 4, "n_local_clusters": 3}, 500, 3),
            ({"n_clusters": "auto"}, 10_000, 200),
            ({"n_clusters": "auto"}, 3, 1),
            ({"n_clusters": "auto", "max_clusters": 10, "detail": 2}, 500, 100),
        ],
    )
    def test_how_many_centers_a_client_looks_for(self, params, n_rows, expected):
        assert Jigsaw(**params).n_local(n_rows) == expected


class TestLaws:
    @pytest.mark.slow
    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=10, deadline=None)
    def test_order_of_clients_and_rows(self, seed):
        rng = np.random.default_rng(seed)
        shards, true = blobs(rng)
        first = Jigsaw(5, random_state=0).fit_clients(shards)
        shuffled = [rng.permutation(shards[i]) for i in rng.permutation(len(shards))]
        second = Jigsaw(5, random_state=0).fit_clients(shuffled)
        assert second.cluster_centers_ == pytest.approx(first.cluster_centers_)
        assert metrics.center_l2(first.cluster_centers_, true) < 3

    @pytest.mark.slow
    @given(seed=st.integers(0, 10**6), scale=st.floats(1e-3, 1e3), shift=st.floats(-1e4, 1e4))
    @settings(max_examples=10, deadline=None)
    def test_scale_and_place(self, seed, scale, shift):
        shards, _ = blobs(np.random.default_rng(seed))
        first = Jigsaw(5, random_state=0).fit_clients(shards)
        moved = Jigsaw(5, random_state=0).fit_clients([scale * rows + shift for rows in shards])
        expected = scale * first.cluster_centers_ + shift
        assert moved.cluster_centers_ == pytest.approx(expected, rel=1e-6, abs=1e-6 * scale)
        assert moved.support_["margin"] == pytest.approx(first.support_["margin"], rel=1e-4)

    def test_a_client_is_as_good_as_its_copies(self, rng):
        """A summary whose counts are doubled says what two clients with the same rows say."""
        one = [
            Summary(30, rng.normal(size=(6, 2)), counts=[5] * 6, sse=[0.1] * 6, client=str(i))
            for i in range(3)
        ]
        two = [
            Summary(60, s.centers, counts=s.counts * 2, sse=s.sse * 2, client=s.client) for s in one
        ]
        copies = [
            Summary(30, s.centers, counts=s.counts, sse=s.sse, client=s.client + end)
            for s in one for end in "ab"
        ]  # fmt: skip
        assert aggregate(Jigsaw(3), *copies).centers == pytest.approx(
            aggregate(Jigsaw(3), *two).centers
        )

    @pytest.mark.parametrize("params", [{}, {"detail": 3}, {"n_clusters": "auto"}])
    def test_the_server_knows_the_objective_of_its_clustering(self, params, grid):
        """Summed squared distance of all rows to the centers that their local clusters went to."""
        data, ids = grid
        fitted = Jigsaw(**{"n_clusters": 15, **params}, assign="local", random_state=2)
        fitted.fit(data.X, clients=ids)
        true = ((data.X - fitted.cluster_centers_[fitted.labels_]) ** 2).sum()
        assert fitted.objective_ == pytest.approx(true)
        assert fitted.objective_ >= fitted.inertia_
        counts = np.bincount(fitted.labels_, minlength=fitted.n_clusters_)
        assert fitted.support_["points"].tolist() == counts.tolist()
        for j in range(fitted.n_clusters_):
            held = fitted.labels_ == j
            spread = np.sqrt(((data.X[held] - fitted.cluster_centers_[j]) ** 2).sum(axis=1).mean())
            assert fitted.support_["spread"][j] == pytest.approx(spread)
            assert fitted.support_["clients"][j] == len(np.unique(ids[held]))

    @pytest.mark.parametrize("n_rounds", [2, 3])
    def test_further_rounds_are_lloyd_steps_on_all_rows(self, n_rounds, grid):
        data, ids = grid
        before = Jigsaw(15, n_rounds=n_rounds - 1, random_state=4).fit(data.X, clients=ids)
        after = Jigsaw(15, n_rounds=n_rounds, random_state=4).fit(data.X, clients=ids)
        labels = nearest_centers(data.X, before.cluster_centers_)[0]
        means = np.stack([data.X[labels == j].mean(axis=0) for j in range(15)])
        assert after.cluster_centers_ == pytest.approx(means, rel=1e-12)
        assert after.inertia_ <= before.inertia_
        assert after.n_iter_ == n_rounds
        assert after.objective_ == pytest.approx(((data.X - means[labels]) ** 2).sum())

    def test_a_cluster_without_rows_keeps_its_center(self):
        model = Model([[0.0], [50.0], [9.0]])
        answer = Summary(4, [[1.0], [8.0]], counts=[3, 1], sse=[0.0, 0.0], client="a")
        after = Jigsaw(3).aggregate([answer], Broadcast(1, 0, model), np.random.default_rng(0))
        assert after.centers.tolist() == [[1.0], [50.0], [8.0]]
        assert after.tensors["support_points"].tolist() == [3, 0, 1]

    def test_one_client_with_all_rows_is_k_means(self, rng):
        """Local centers are the answer already: nothing is left to put together."""
        X = rng.normal(size=(300, 2))
        fitted = Jigsaw(6, random_state=0).fit(X)
        assert fitted.inertia_ <= kmeans(X, 6, rng=rng).inertia * 1.02
        assert fitted.skew_ == 0


@pytest.mark.slow
class TestHeterogeneity:
    """What the method is for: skewed clients cost next to nothing."""

    @pytest.mark.parametrize(("detail", "most"), [(1, 1.02), (4, 1.005)])
    def test_skewed_clients_reach_the_pooled_objective(self, detail, most):
        data = datasets.gaussian_grid(4000, overlap=0.1, rng=7)
        best = kmeans(data.X, 15, rng=np.random.default_rng(0), n_init=20).inertia
        ratios = []
        for seed in range(3):
            ids = partition.dirichlet(data.y, 10, alpha=0.1, rng=seed, min_size=15)
            fitted = Jigsaw(15, detail=detail, random_state=seed).fit(data.X, clients=ids)
            ratios.append(fitted.inertia_ / best)
        assert np.mean(ratios) < most

    def test_very_unequal_clusters(self):
        rng = np.random.default_rng(5)
        true = rng.uniform(0, 100, (10, 3))
        y = np.repeat(np.arange(10), [2000] * 5 + [100] * 5)
        X = true[y] + rng.normal(size=(len(y), 3))
        ids = partition.dirichlet(y, 8, alpha=0.3, rng=0, min_size=15)
        fitted = Jigsaw(10, random_state=0).fit(X, clients=ids)
        assert np.linalg.norm(fitted.cluster_centers_[:, None] - true, axis=2).min(axis=0).max() < 2

    def test_many_tiny_clients(self):
        """Five rows each, fifteen clusters."""
        data = datasets.gaussian_grid(2000, overlap=0.0, rng=1)
        ids = partition.iid(2000, 400, rng=0)
        fitted = Jigsaw(15, random_state=0).fit(data.X, clients=ids)
        assert metrics.inertia_ratio(data.X, fitted.cluster_centers_, data.centers) < 1.05


class TestAutoK:
    @pytest.mark.slow
    @pytest.mark.parametrize("k", [2, 5, 9])
    @pytest.mark.parametrize("d", [1, 2, 10])
    def test_separated_clusters_are_counted(self, k, d):
        shards, true = blobs(np.random.default_rng(k * d), k=k, d=d, per_cluster=30)
        fitted = Jigsaw("auto", random_state=0).fit_clients(shards)
        assert fitted.n_clusters_ == k
        assert metrics.center_l2(fitted.cluster_centers_, true) < 3

    @pytest.mark.slow
    def test_skewed_clients(self):
        for seed in range(3):
            data = datasets.gaussian_grid(3000, overlap=0.02, rng=seed)
            ids = partition.dirichlet(data.y, 10, alpha=0.3, rng=seed, min_size=15)
            fitted = Jigsaw("auto", max_clusters=30, random_state=seed).fit(data.X, clients=ids)
            assert fitted.n_clusters_ == 15
            assert 13 <= fitted.k_runner_up_ <= 17

    def test_the_curve(self):
        shards, _ = blobs(np.random.default_rng(0))
        fitted = Jigsaw("auto", random_state=0).fit_clients(shards)
        curve = fitted.k_curve_
        assert curve["k"][0] == 1
        assert (np.diff(curve["k"]) > 0).all()
        X = np.concatenate(shards)
        # some rows belong to the background
        assert curve["objective"][0] == pytest.approx(((X - X.mean(axis=0)) ** 2).sum(), rel=0.01)
        assert curve["k"][curve["index"].argmax()] == fitted.n_clusters_ == 5
        assert curve["index"].max() == 0
        assert fitted.k_runner_up_ in curve["k"]
        assert fitted.k_runner_up_ != 5

    def test_one_column_outweighs_the_other(self):
        """Four clusters along a line, and a second column of a thousandth of the size."""
        rng = np.random.default_rng(0)
        X = np.repeat([0.0, 10.0, 20.0, 30.0], 100)[:, None] + rng.normal(size=(400, 1))
        X = np.hstack([X, 1e-3 * rng.normal(size=(400, 1))])
        found = Jigsaw("auto", random_state=0).fit(X, clients=np.arange(400) % 4)
        assert found.n_clusters_ == 4
        assert found.k_confidence_ > 0.9

    @pytest.mark.parametrize("X", [[[3.0, 1.0]] * 12, [[3.0, 1.0]]])
    def test_one_distinct_row_is_one_cluster(self, X):
        fitted = Jigsaw("auto", random_state=0).fit(X)
        assert fitted.cluster_centers_.tolist() == [[3.0, 1.0]]
        assert fitted.k_runner_up_ is None
        assert fitted.support_["margin"].tolist() == [1.0]

    def test_repeated_points_are_counted(self):
        """Nothing is left within clusters: the fewest for which that is so."""
        X = np.repeat([[0.0, 0], [5, 5], [9, 0]], 20, axis=0)
        assert Jigsaw("auto", random_state=0).fit(X).n_clusters_ == 3

    def test_no_curve_where_k_was_given(self, grid):
        data, ids = grid
        fitted = Jigsaw(15, random_state=0).fit(data.X, clients=ids)
        assert not hasattr(fitted, "k_curve_")
        assert not hasattr(fitted, "k_runner_up_")

    def test_needs_sums(self):
        bare = Summary(10, [[0.0], [9.0]], counts=[5, 5], client="a")
        with pytest.raises(MessageError, match="summed squared distances of every client"):
            aggregate(Jigsaw("auto"), bare)


class TestLabels:
    @pytest.mark.parametrize(("alpha", "expected"), [(0.05, "local"), (100.0, "nearest")])
    def test_auto_goes_by_skew(self, alpha, expected):
        data = datasets.gaussian_grid(3000, overlap=0.2, rng=3)
        ids = partition.dirichlet(data.y, 10, alpha=alpha, rng=3, min_size=15)
        auto = Jigsaw(15, assign="auto", random_state=0).fit(data.X, clients=ids)
        asked = Jigsaw(15, assign=expected, random_state=0).fit(data.X, clients=ids)
        assert auto.assign_ == asked.assign_ == expected
        assert (auto.labels_ == asked.labels_).all()
        assert asked.assign_reason_ == "asked for"
        word = "at least 1" if expected == "local" else "less than 1"
        assert f"{auto.skew_:.2f} bits" in auto.assign_reason_
        assert auto.assign_reason_.endswith(word)

    def test_clients_with_one_cluster_each(self):
        """Four clients, four clusters, no overlap: who holds a row tells two bits."""
        shards = [[[100.0 * m + i] for i in range(9)] for m in range(4)]
        assert Jigsaw(4, random_state=0).fit_clients(shards).skew_ == pytest.approx(2.0)

    def test_after_a_refinement_labels_go_by_the_nearest(self):
        shards = [[[100.0 * m + i] for i in range(9)] for m in range(4)]
        fitted = Jigsaw(4, assign="auto", n_rounds=2, random_state=0).fit_clients(shards)
        assert fitted.assign_ == "nearest"
        assert fitted.assign_reason_ == "the last round sent no local clusters"
        with pytest.raises(ParameterError, match="require one round"):
            Jigsaw(4, assign="local", n_rounds=2).fit_clients(shards)

    @pytest.mark.parametrize("asked", ["auto", "local", "nearest"])
    def test_parameters_that_are_set_after_the_fit_change_nothing(self, asked):
        rows = np.array([[0.0], [1.0], [8.0], [9.0]])
        fitted = Jigsaw(2, assign=asked, random_state=0).fit(rows, clients=[0, 0, 1, 1])
        before = fitted.assign_, fitted.assign_reason_
        for assign in ("auto", "local", "nearest"):
            fitted.set_params(assign=assign, n_rounds=2)
            assert (fitted.assign_, fitted.assign_reason_) == before


class TestMissingCounts:
    def summaries(self, *with_counts, radii=None):
        return [
            Summary(
                20, [[0.0], [10.0]], radii=radii, sse=[1.0, 1.0],
                counts=[15, 5] if given else None, client=str(i),
            )
            for i, given in enumerate(with_counts)
        ]  # fmt: skip

    def test_some_are_spread_evenly_and_it_is_said(self):
        with pytest.warns(
            CountsWarning, match=r"1 of 2 clients sent no counts \('1'\); each center"
        ):
            aggregate(Jigsaw(2), *self.summaries(True, False))
        received = receive(self.summaries(True, False))
        assert received.counts.tolist() == [15, 5, 10, 10]
        assert received.sse.tolist() == [1, 1, 1, 1]

    def test_none_without_radii(self):
        with pytest.warns(CountsWarning, match="2 of 2 clients .* equal share of"):
            model = aggregate(Jigsaw(2), *self.summaries(False, False))
        assert model.centers.ravel() == pytest.approx([0, 10], abs=0.1)

    def test_none_but_radii_is_fecas_rule(self):
        """Radius 3 at 0 takes -1 and 2 as well; 10 and 11 are the second group."""
        summaries = [
            Summary(9, [[0.0], [10.0], [20.0]], [3.0, 1.0, 0.5], client="a"),
            Summary(9, [[2.0], [11.0]], [0.1, 0.2], client="b"),
            Summary(9, [[-1.0]], [0.1], client="c"),
        ]
        with pytest.warns(CountsWarning, match="3 of 3 clients.*grouped by their radii, as FeCA"):
            model = aggregate(Jigsaw(2), *summaries)
        assert model.centers.ravel().tolist() == [1 / 3, 10.5]

    def test_the_guard_may_withhold_counts(self, grid):
        data, ids = grid
        guard = Guard(min_cluster_size=5, counts="none")
        clients = [Client(str(m), data.X[ids == m], Jigsaw(15), guard) for m in range(5)]

        class Guarded:
            def ask(self, broadcast):
                return [client.answer(broadcast) for client in clients]

        with pytest.warns(CountsWarning, match="5 of 5"):
            model, _, sent = run_rounds(Jigsaw(15), Guarded(), seed=0)
        assert all(summary.counts is None for summary in sent)
        assert metrics.inertia_ratio(data.X, model.centers, data.centers) < 1.5

    def test_rounded_counts_are_as_good(self, grid):
        data, ids = grid
        guard = Guard(min_cluster_size=5, counts="rounded")
        sent = [Client(str(m), data.X[ids == m], Jigsaw(15), guard).answer(FIRST) for m in range(5)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = aggregate(Jigsaw(15), *sent)
        assert model.tensors["support_points"].sum() == pytest.approx(900, abs=8)
        assert metrics.inertia_ratio(data.X, model.centers, data.centers) < 1.3

    def test_a_refinement_needs_them(self):
        answer = self.summaries(False)
        with pytest.raises(MessageError, match="counts from every client"):
            Jigsaw(1).aggregate(answer, Broadcast(1, 0, Model([[0.0]])), np.random.default_rng(0))


def with_curve(curve):
    return Model([[0.0]], tensors={"k_curve": curve, "k_confidence": np.ones(1)})


class TestBadInput:
    @pytest.mark.parametrize(
        ("counts", "message"),
        [
            ([0, 5], "counts of client 'a'"),
            ([2**53, 1], "Client 'a' has 10 rows, but its counts sum to 9007"),
            ([15, 6], "Client 'a' has 10 rows, but its counts sum to 21"),
        ],
    )
    def test_zero_or_absurd_counts(self, counts, message):
        bad = Summary(10, [[0.0], [1.0]], counts=counts, sse=[0.0, 0.0], client="a")
        with pytest.raises(MessageError, match=message):
            aggregate(Jigsaw(2), bad)

    def test_counts_whose_sum_is_beyond_whole_numbers(self):
        n = 1024
        bad = Summary(10, np.arange(n)[:, None], counts=[2**53] * n, sse=np.zeros(n), client="a")
        with pytest.raises(MessageError, match="its counts sum to 9223372036854775808"):
            aggregate(Jigsaw(2), bad)

    @pytest.mark.parametrize("k", [2, "auto"])
    def test_absurd_sums(self, k):
        bad = Summary(10, [[0.0], [1.0]], counts=[5, 5], sse=[1e308, 1e308], client="a")
        with pytest.raises(MessageError, match="Client 'a' sent a summed squared distance that is"):
            aggregate(Jigsaw(k), bad)

    def test_more_clusters_than_rows(self):
        with pytest.raises(ParameterError, match="at most the number of rows"):
            Jigsaw(3).fit([[0.0], [1.0]])

    def test_fewer_than_asked_for_is_said(self):
        with pytest.warns(FewerClustersWarning, match="found 2 of 3"):
            Jigsaw(3, random_state=0).fit([[0.0], [0.0], [1.0]])

    @pytest.mark.parametrize(
        "name", ["support_", "k_curve_", "skew_", "objective_", "assign_reason_"]
    )
    def test_before_a_fit(self, name):
        with pytest.raises(NotFittedError):
            getattr(Jigsaw(), name)

    @pytest.mark.parametrize(
        "tensors",
        [
            {"support_clients": np.ones(2)},
            {f"support_{name}": np.ones(3) for name in SUPPORT},
        ],
    )
    def test_support_of_a_foreign_model(self, tensors):
        with pytest.raises(MessageError, match="support of a model"):
            support_of(Model([[0.0], [1.0]], tensors=tensors))

    def test_curve_of_a_foreign_model(self):
        with pytest.raises(MessageError, match="k_curve of a model"):
            k_curve_of(with_curve(np.ones(3)))

    @pytest.mark.parametrize("index", [np.nan, np.inf, 1e300, -1e300])
    def test_index_of_a_foreign_model(self, index):
        """A picture of these could not be drawn."""
        with pytest.raises(MessageError, match="index of the k_curve of a model"):
            k_curve_of(with_curve(np.array([[1.0, 1.0, index]])))

    def test_a_curve_that_is_too_long(self):
        with pytest.raises(MessageError, match="with n from 1 to 10000"):
            k_curve_of(with_curve(np.ones((10_001, 3))))


class TestMerge:
    SENT = (Summary(9, [[0.0], [1.0], [7.0], [9.0]], counts=[2, 2, 2, 3], sse=[0.0] * 4),)

    def test_few_centers_stay_as_they_are(self):
        assert Jigsaw(8).merge(self.SENT, 4).centers.ravel().tolist() == [0.0, 1.0, 7.0, 9.0]
        assert len(Jigsaw(2).merge(self.SENT, 3).centers) == 3

    @pytest.mark.parametrize(
        ("n_centers", "words"),
        [(3, "at least the number of clusters, 4; got 3"), (0, ">= 1; got 0"), (None, "got None")],
    )
    def test_bad_number_of_centers(self, n_centers, words):
        with pytest.raises(ParameterError, match=f"n_centers of Jigsaw.merge must be .*{words}"):
            Jigsaw(4).merge(self.SENT, n_centers)
