import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.cluster import KMeans

from fedjigsaw import Client, FeCA, FewerClustersWarning, Summary, metrics
from fedjigsaw.errors import MessageError
from fedjigsaw.kernels.kmeans import partition_of
from fedjigsaw.messages import Broadcast


def sort_rows(a):
    return a[np.lexsort(np.round(a, 6).T[::-1])]


def separated(rng, n_clients=4, k=5, d=2, per_cluster=6):
    """Clusters so far apart that k-means always finds them: one array per client."""
    true = rng.permutation(k**2)[:k, None] * np.array([100.0] + [0.0] * (d - 1))
    true = true + rng.uniform(-10, 10, size=(k, d))
    return [
        np.concatenate([c + rng.uniform(-1, 1, size=(per_cluster, d)) for c in true])
        for _ in range(n_clients)
    ], true


def centers_of(shards, **params):
    fitted = FeCA(**{"n_clusters": 5, "random_state": 0, **params}).fit_clients(shards)
    return sort_rows(fitted.cluster_centers_)


class TestByHand:
    def test_summarize(self):
        """Clusters {0, 2} and {10, 14}: means 1 and 12; extents 1 and 2; half the distance 5.5."""
        X = np.array([[0.0], [2.0], [10.0], [14.0]])
        summary = FeCA(2).summarize(X, Broadcast(0, 0), np.random.default_rng(0))
        assert summary.n_samples == 4
        assert summary.centers.tolist() == [[1.0], [12.0]]
        assert summary.radii.tolist() == [1.0, 2.0]
        assert summary.counts.tolist() == [2, 2]
        assert summary.sse.tolist() == [2.0, 8.0]

    def test_only_centers_and_radii_leave_a_client(self):
        X = np.array([[0.0], [2.0], [10.0], [14.0]])
        sent = Client("a", X, FeCA(2)).answer(Broadcast(0, 0))
        assert sent.radii.tolist() == [1.0, 2.0]
        assert sent.counts is sent.sse is None
        assert not sent.tensors

    def test_aggregate(self):
        """Radius 3 at 0 takes 0, 2, -1; radius 1 at 10 takes 10, 11; 20 and 30 stay alone."""
        summaries = [
            Summary(9, [[0.0], [10.0], [20.0]], [3.0, 1.0, 0.5], client="a"),
            Summary(9, [[2.0], [11.0]], [0.1, 0.2], client="b"),
            Summary(9, [[-1.0], [30.0]], [0.1, 0.7], client="c"),
        ]

        def aggregate(k):
            model = FeCA(k).aggregate(summaries, Broadcast(0, 0), np.random.default_rng(0))
            return model.centers[:, 0].tolist()

        assert aggregate(1) == [1 / 3]
        assert aggregate(2) == [1 / 3, 10.5]
        assert aggregate(3) == [1 / 3, 10.5, 30.0]  # of two single centers, the larger radius
        assert aggregate(9) == [1 / 3, 10.5, 30.0, 20.0]

    def test_centers_without_a_radius_are_not_chosen_silently_by_their_coordinates(self, rng):
        """Radius 1 at 0 takes 0 and 1; of the others, which are single rows, any would do."""
        summaries = [
            Summary(9, [[0.0], [20.0]], [1.0, 0.0], client="a"),
            Summary(9, [[1.0], [30.0]], [0.0, 0.0], client="b"),
            Summary(1, [[40.0]], [0.0], client="c"),
        ]
        with pytest.warns(FewerClustersWarning, match="1 of 2 clusters is one of 3 centers of ra"):
            model = FeCA(2).aggregate(summaries, Broadcast(0, 0), rng)
        assert model.centers[:, 0].tolist() == [0.5, 20.0]
        with pytest.warns(FewerClustersWarning, match="2 of 3 clusters are 2 of 3 centers of ra"):
            FeCA(3).aggregate(summaries, Broadcast(0, 0), rng)
        FeCA(1).aggregate(summaries, Broadcast(0, 0), rng)  # the largest group: no warning
        FeCA(4).aggregate(summaries, Broadcast(0, 0), rng)  # all groups: nothing was chosen

    def test_a_center_exactly_at_the_radius_belongs(self):
        summaries = [Summary(1, [[0.0, 0.0], [3.0, 4.0]], [5.0, 0.0], client="a")]
        model = FeCA(5).aggregate(summaries, Broadcast(0, 0), np.random.default_rng(0))
        assert model.centers.tolist() == [[1.5, 2.0]]

    def test_summaries_without_radii(self):
        summaries = [Summary(1, [[0.0]], client="b")]
        with pytest.raises(MessageError, match="Client 'b' sent no radii, which FeCA needs"):
            FeCA(1).aggregate(summaries, Broadcast(0, 0), np.random.default_rng(0))

    def test_pieces_of_a_jigsaw(self):
        """Three clients that see two of three clusters each recover all three."""
        a, b, c = ([[x - 1.0], [x + 1.0]] for x in (0, 50, 100))
        fitted = FeCA(3, n_local_clusters=2, random_state=0).fit_clients([a + b, b + c, a + c])
        assert sort_rows(fitted.cluster_centers_).tolist() == [[0.0], [50.0], [100.0]]

    def test_a_client_with_fewer_rows_than_clusters(self):
        fitted = FeCA(3, random_state=0).fit_clients(
            {"tiny": [[0.0]], "big": [[0.0], [5.0], [9.0]]}
        )
        assert sort_rows(fitted.cluster_centers_).tolist() == [[0.0], [5.0], [9.0]]

    def test_radii_belong_to_the_centers_that_stay(self, search_with):
        """The middle one of three is dropped; the third keeps its own extent."""
        labels = np.array([0, 0, 1, 1, 1, 1, 2, 2, 3, 3])
        X = np.array([0, 1, 20, 30, 40, 50, 90, 90.5, 91, 95.0])[:, None]
        search_with(lambda X, *a, **k: partition_of(X, labels, np.ones(len(X))))
        sent = FeCA(4).summarize(X, Broadcast(0, 0), None)
        assert sent.centers[:, 0].tolist() == [0.5, 90.25, 93.0]
        assert sent.radii.tolist() == [0.5, 0.25, 1.375]

    def test_without_refinement_one_fit_many_centers_are_sent(self, search_with):
        bad = KMeans(3, init=np.array([[-0.5], [0.5], [15.0]]), n_init=1)
        X = np.array([-1, -0.5, 0.5, 1, 9, 10, 11, 19, 20, 21.0])[:, None]
        search_with(lambda X, *a, **k: partition_of(X, bad.fit(X).labels_, np.ones(len(X))))
        sent = {
            refine: FeCA(3, refine=refine)
            .summarize(X, Broadcast(0, 0), None)
            .centers[:, 0]
            .tolist()
            for refine in (True, False)
        }
        assert sent == {True: [-0.75, 0.75], False: [-0.75, 0.75, 15.0]}


@pytest.mark.usefixtures("backend")
class TestLaws:
    """On separated clusters: what must not change the result, and what must carry over to it."""

    @pytest.mark.slow
    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=15, deadline=None)
    def test_finds_the_clusters(self, seed):
        shards, true = separated(np.random.default_rng(seed))
        assert metrics.center_l2(centers_of(shards), true) < 2.5

    @pytest.mark.slow
    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=15, deadline=None)
    def test_order_of_clients_and_points(self, seed):
        rng = np.random.default_rng(seed)
        shards, _ = separated(rng)
        shuffled = [rng.permutation(shards[i]) for i in rng.permutation(len(shards))]
        assert centers_of(shuffled) == pytest.approx(centers_of(shards))

    @pytest.mark.slow
    @given(
        seed=st.integers(0, 10**6),
        shift=st.floats(-1e4, 1e4),
        scale=st.floats(1e-3, 1e3),
        d=st.integers(2, 4),
    )
    @settings(max_examples=15, deadline=None)
    def test_translation_scaling_and_rotation(self, seed, shift, scale, d):
        shards, _ = separated(np.random.default_rng(seed), d=d)
        turn = ortho_group.rvs(d, random_state=seed)
        moved = [scale * (rows @ turn) + shift for rows in shards]
        expected = scale * (centers_of(shards) @ turn) + shift
        # matched, not sorted: rotation may bring two coordinates close to each other
        assert metrics.center_l2(centers_of(moved), expected) < 1e-6 * scale * 1e3

    @pytest.mark.slow
    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=15, deadline=None)
    def test_all_clients_twice(self, seed):
        """Without the checks: a site that is there twice confirms itself."""
        shards, _ = separated(np.random.default_rng(seed))
        twice, once = (centers_of(found) for found in (shards * 2, shards))
        assert twice == pytest.approx(once)

    def test_both_radii_agree_on_separated_clusters(self):
        shards, _ = separated(np.random.default_rng(0))
        assert centers_of(shards, radius="theoretical") == pytest.approx(centers_of(shards))


class TestTheorem:
    """Theorem 4.1: on stochastic balls, every output lies within 4 / (5 eta) of the smallest
    separation of a true center, if the separations are as large as the theorem asks."""

    ETA, LAMBDA, R = 5.0, 3.0, 1.0

    def balls(self, rng, k, n):
        """k true centers as the corners of a simplex, all one distance apart, in R^k."""
        separation = (10 * self.ETA * self.LAMBDA * k**2) ** 2 * self.R * 1.01
        assert separation >= 4 * self.LAMBDA**2 * k**4 * self.R
        true = np.eye(k) * separation / np.sqrt(2)
        directions = rng.normal(size=(n, k))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        inside = directions * self.R * rng.uniform(size=(n, 1)) ** (1 / k)
        return true[rng.integers(k, size=n)] + inside, true, separation

    @pytest.mark.slow
    @pytest.mark.parametrize("k", [3, 5])
    @pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
    def test_every_output_is_near_a_true_center(self, search_with, k):
        """Clients start from random rows, so that many of them end in bad local solutions."""

        def poor_kmeans(X, n_clusters, *, rng, **options):
            state = int(rng.integers(2**31))
            labels = KMeans(n_clusters, init="random", n_init=1, random_state=state).fit(X).labels_
            return partition_of(X, labels, np.ones(len(X)))

        search_with(poor_kmeans)
        n_bad = 0
        for seed in range(25):
            X, true, separation = self.balls(np.random.default_rng(seed), k, n=600)
            bound = 4 / (5 * self.ETA) * separation
            method = FeCA(k, radius="theoretical", random_state=seed)
            method.fit(X, clients=np.arange(600) % 6)
            assert self.worst(method.cluster_centers_, true) <= bound
            for refine in (True, False):
                method.refine = refine
                for m in range(6):
                    client = Client(str(m), X[m::6], method)
                    sent = client.answer(Broadcast(0, seed)).centers
                    if refine:
                        assert self.worst(sent, true) <= bound
                    else:
                        n_bad += self.worst(sent, true) > bound
        assert n_bad > 5  # without refinement the bound does not hold for what is sent

    def worst(self, centers, true):
        """Largest distance of a center to the true center nearest to it."""
        return np.linalg.norm(centers[:, None] - true, axis=2).min(axis=1).max()

    def test_fewer_than_k_groups_are_never_padded(self):
        """All clients share one bad solution: the lost clusters stay lost, with a warning."""
        X = np.concatenate(
            [np.full((4, 1), x) + np.arange(4)[:, None] for x in (0.0, 100.0, 200.0)]
        )
        with pytest.warns(FewerClustersWarning, match="found 2 of 3"):
            found = FeCA(3, n_local_clusters=2, refine=False, random_state=0).fit_clients([X, X])
        assert len(found.cluster_centers_) == found.n_clusters_ == 2


def test_reports_say_which_clusters_a_client_takes_part_in():
    a, b, c = ([[x - 1.0], [x + 1.0]] for x in (0, 50, 100))
    shards = {"Bern": a + b, "Lyon": b + c, "Oslo": b}
    fitted = FeCA(3, n_local_clusters=2, random_state=0).fit_clients(shards)
    found = {site.client: (site.rows, site.clusters, site.alone) for site in fitted.sites_}
    assert found == {"Bern": (4, 2, 1), "Lyon": (4, 2, 1), "Oslo": (2, 1, 0)}
