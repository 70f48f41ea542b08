import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.cluster import KMeans

from fedjigsaw import Client, FeCA, FewerClustersWarning, Summary, metrics
from fedjigsaw.errors import MessageError
from fedjigsaw.kernels.kmeans import Solution, partition_of
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import feca
from fedjigsaw.methods.feca import (
    client_update,
    groups_within_radii,
    radius_assign,
    radius_assign_theoretical,
)
from strategies import centers_and_radii


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


def local_of(centers, extents):
    """A local solution of which only centers and extents matter."""
    k = len(centers)
    one = np.ones(k)
    return Solution(np.array(centers), np.arange(k), one, one, np.array(extents))


class TestClientUpdate:
    """Algorithm 2."""

    def line(self, *groups):
        X = np.concatenate([np.array(g, dtype=float) for g in groups])[:, None]
        labels = np.repeat(np.arange(len(groups)), list(map(len, groups)))
        kept = client_update(partition_of(X, labels))
        stays = kept.labels >= 0
        return np.unique(labels[stays]).tolist()

    def test_the_center_between_two_clusters_is_dropped(self):
        # true clusters at 0, 10 and 20; the first has two centers, the others share one
        assert self.line([-1, 0], [0.5, 1], [9, 10, 11, 19, 20, 21]) == [0, 1]

    def test_a_correct_solution_is_kept(self):
        assert self.line([-1, 0, 1], [9, 10, 11], [19, 20, 21]) == [0, 1, 2]

    def test_two_centers_are_dropped(self):
        split = ([-1, 0], [0.5, 1]), ([99, 100], [100.5, 101])
        between = [19, 20, 21, 29, 30, 31], [59, 60, 61, 69, 70, 71]
        assert self.line(*split[0], between[0], *split[1], between[1]) == [0, 1, 3, 4]

    def test_the_candidate_has_the_largest_spread_not_the_largest_sum(self):
        # cluster 3 has the largest spread, and its sum (32) is below that of the merged pair (145):
        # all are kept; by sum, cluster 2 (400) would be the candidate, and would be dropped
        pair = np.repeat([0, 1], 20), np.repeat([2.5, 3.5], 20)
        assert self.line(*pair, np.repeat([30, 31, 32, 33, 34], 40), [60, 68]) == [0, 1, 2, 3]

    @pytest.mark.parametrize("groups", [[[3]], [[0, 50], [200]], [[0], [1]]])
    def test_one_or_two_centers_are_always_kept(self, groups):
        assert self.line(*groups) == list(range(len(groups)))

    def test_the_candidate_is_dropped_in_a_tie(self):
        # the candidate and the merged pair both have sse 8
        assert self.line([0], [4], [20, 24]) == [0, 1]

    def test_single_points_are_kept(self):
        assert self.line([0], [1], [5], [9]) == [0, 1, 2, 3]

    @given(st.floats(-1e3, 1e3), st.sampled_from([0.25, 1.0, 8.0]), st.permutations(range(6)))
    def test_translation_scale_and_order_do_not_matter(self, shift, scale, order):
        groups = [[-1, 0], [0.5, 1], [19, 20, 21, 29, 30, 31], [60, 61], [62, 64], [80, 95]]
        expected = set(self.line(*groups))
        moved = [[shift + scale * x for x in groups[i]] for i in order]
        assert {order[i] for i in self.line(*moved)} == expected

    def test_agrees_with_every_objective_summed_over_the_points_themselves(self, rng):
        dropped = 0
        for _ in range(200):
            true = rng.uniform(0, 20, size=(5, 2))
            X = true[rng.integers(5, size=60)] + 0.3 * rng.normal(size=(60, 2))
            seeds = X[rng.choice(60, size=5, replace=False)]
            local = partition_of(X, np.linalg.norm(X[:, None] - seeds, axis=2).argmin(axis=1))
            parts = [X[local.labels == i] for i in range(len(local.centers))]
            expected = local.centers[by_points(parts)]
            assert client_update(local).centers.tolist() == expected.tolist()
            dropped += len(parts) - len(expected)
        assert dropped > 50


def by_points(parts):
    def objective(points):
        return ((points - points.mean(axis=0)) ** 2).sum()

    keep = list(range(len(parts)))
    while len(keep) > 1:
        i = max(keep, key=lambda j: np.sqrt(objective(parts[j]) / len(parts[j])))
        pairs = [(a, b) for a in keep for b in keep if a < b]
        means = [part.mean(axis=0) for part in parts]
        p, q = min(pairs, key=lambda ab: np.linalg.norm(means[ab[0]] - means[ab[1]]))
        if objective(parts[i]) < objective(np.concatenate([parts[p], parts[q]])):
            break
        keep.remove(i)
    return keep


class TestRadiusAssign:
    """Algorithms 3 and 4."""

    def test_empirical_by_hand(self):
        centers = [[0.0, 0.0], [6.0, 8.0], [6.0, 9.0]]
        assert radius_assign(local_of(centers, [3.0, 3.0, 0.2])).tolist() == [3.0, 0.5, 0.2]

    @pytest.mark.parametrize("rule", [radius_assign, radius_assign_theoretical])
    def test_a_single_center_keeps_its_extent(self, rule):
        assert rule(local_of([[1.0, 2.0]], [4.0])).tolist() == [4.0]

    @pytest.mark.parametrize(
        ("centers", "extents", "radius"),
        [
            ([0.0, 1.0, 50.0, 90.0], [2.0] * 4, 20.0),
            # 0 and 1 overlap and are discarded; then the nearest one to 3 is 10, no longer 1
            ([0.0, 1.0, 3.0, 10.0, 30.0], [1.0, 1.0, 1.5, 1.0, 1.0], 3.5),
        ],
    )
    def test_theoretical_by_hand(self, centers, extents, radius):
        local = local_of(np.array(centers)[:, None], extents)
        assert radius_assign_theoretical(local).tolist() == [radius] * len(centers)

    def test_theoretical_does_not_depend_on_order_under_ties(self):
        centers, extents = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.2, 0.2, 1.0, 0.2])
        order = [0, 1, 3, 2]
        swapped = radius_assign_theoretical(local_of(centers[order], extents[order]))
        straight = radius_assign_theoretical(local_of(centers, extents))
        assert swapped[order].tolist() == straight.tolist()

    def test_theoretical_without_two_separate_centers_is_empirical(self):
        local = local_of([[0.0], [1.0], [2.0]], [5.0, 0.4, 5.0])
        assert radius_assign_theoretical(local).tolist() == [0.5, 0.4, 0.5]

    @given(centers_and_radii(max_centers=8), st.randoms(use_true_random=False))
    def test_order_of_centers_does_not_matter(self, sent, random):
        centers = sent[0] + np.arange(len(sent[0]))[:, None] * np.sqrt(2)  # no ties
        order = random.sample(range(len(centers)), len(centers))
        for rule in (radius_assign, radius_assign_theoretical):
            moved = rule(local_of(centers[order], sent[1][order]))
            assert moved == pytest.approx(rule(local_of(centers, sent[1]))[order])


class TestServerAggregation:
    """Algorithm 5."""

    @given(centers_and_radii(), st.randoms(use_true_random=False))
    def test_order_of_arrival_does_not_matter(self, sent, random):
        centers, radii = sent
        order = random.sample(range(len(centers)), len(centers))
        moved, groups = (
            groups_within_radii(centers[order], radii[order]),
            groups_within_radii(*sent),
        )
        assert [sorted(centers[order][S].tolist()) for S in moved] == [
            sorted(centers[S].tolist()) for S in groups
        ]

    @given(centers_and_radii())
    def test_every_center_is_in_one_group(self, sent):
        groups = groups_within_radii(*sent)
        assert sorted(np.concatenate(groups).tolist()) == list(range(len(sent[0])))


@pytest.mark.parametrize("params", [{}, {"refine": False}, {"radius": "theoretical"}])
def test_the_fast_twins_give_the_same_bits(monkeypatch, rng, params):
    X = rng.normal(size=(900, 2)) * rng.integers(1, 9, size=(900, 1))
    fits = []
    for many in (10_000, 0):
        monkeypatch.setattr(feca, "MANY", many)
        method = FeCA(5, n_init=1, random_state=0, **params)
        fits.append(method.fit(X, clients=np.arange(900) % 30))
    assert fits[0].summaries_ == fits[1].summaries_
    assert fits[0].model_ == fits[1].model_


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
