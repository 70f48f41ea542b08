import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedjigsaw.kernels import local_solutions
from fedjigsaw.kernels.kmeans import partition_of
from fedjigsaw.kernels.local_solutions import (
    drop_one_fit_many,
    empirical_radii,
    merged_sse,
    refine_many,
    theoretical_radii,
)
from strategies import centers_and_radii, clusters


def describe(parts):
    """Centers, counts, sse and extents of clusters given as arrays of points."""
    centers = np.array([part.mean(axis=0) for part in parts])
    distances = [np.linalg.norm(p - c, axis=1) for p, c in zip(parts, centers, strict=True)]
    counts = np.array([float(len(part)) for part in parts])
    sse = np.array([(d**2).sum() for d in distances])
    return centers, counts, sse, np.array([d.max() for d in distances])


@pytest.mark.slow
@given(clusters())
def test_merge_formula_is_the_direct_sum(parts):
    centers, counts, sse, _ = describe(parts)
    both = np.concatenate(parts)
    direct = ((both - both.mean(axis=0)) ** 2).sum()
    distance = np.linalg.norm(centers[0] - centers[1])
    assert merged_sse(*counts, *sse, distance) == pytest.approx(direct, rel=1e-9, abs=1e-9)


class TestDropOneFitMany:
    def line(self, *groups):
        centers, counts, sse, _ = describe([np.array(g, dtype=float)[:, None] for g in groups])
        return drop_one_fit_many(centers, counts, sse).tolist()

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

    def test_agrees_with_a_literal_reading_of_the_paper(self, rng):
        """Algorithm 2, with every objective summed over the points themselves."""
        dropped = 0
        for _ in range(200):
            true = rng.uniform(0, 20, size=(5, 2))
            X = true[rng.integers(5, size=60)] + 0.3 * rng.normal(size=(60, 2))
            seeds = X[rng.choice(60, size=5, replace=False)]
            labels = np.linalg.norm(X[:, None] - seeds, axis=2).argmin(axis=1)
            parts = [X[labels == i] for i in range(5) if (labels == i).any()]
            centers, counts, sse, _ = describe(parts)
            found = drop_one_fit_many(centers, counts, sse).tolist()
            assert found == literal_client_update(parts)
            dropped += len(parts) - len(found)
        assert dropped > 50


def literal_client_update(parts):
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


class TestRadii:
    def test_empirical_by_hand(self):
        centers = np.array([[0.0, 0.0], [6.0, 8.0], [6.0, 9.0]])
        assert empirical_radii(centers, np.array([3.0, 3.0, 0.2])).tolist() == [3.0, 0.5, 0.2]

    @pytest.mark.parametrize("radii", [empirical_radii, theoretical_radii])
    def test_a_single_center_keeps_its_extent(self, radii):
        assert radii(np.array([[1.0, 2.0]]), np.array([4.0])).tolist() == [4.0]

    def test_theoretical_is_half_the_smallest_distance_of_clusters_that_do_not_overlap(self):
        centers = np.array([[0.0], [1.0], [50.0], [90.0]])
        assert theoretical_radii(centers, np.full(4, 2.0)).tolist() == [20.0] * 4

    def test_theoretical_searches_neighbors_among_the_remaining_centers(self):
        # 0 and 1 overlap and are set aside; then the nearest neighbor of 3 is 10, no longer 1
        centers = np.array([[0.0], [1.0], [3.0], [10.0], [30.0]])
        extents = np.array([1.0, 1.0, 1.5, 1.0, 1.0])
        assert theoretical_radii(centers, extents).tolist() == [3.5] * 5

    def test_theoretical_does_not_depend_on_order_under_ties(self):
        centers, extents = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.2, 0.2, 1.0, 0.2])
        swapped = theoretical_radii(centers[[0, 1, 3, 2]], extents[[0, 1, 3, 2]])
        assert swapped[[0, 1, 3, 2]].tolist() == theoretical_radii(centers, extents).tolist()

    def test_theoretical_without_two_separate_centers_is_empirical(self):
        centers, extents = np.array([[0.0], [1.0], [2.0]]), np.array([5.0, 0.4, 5.0])
        assert theoretical_radii(centers, extents).tolist() == [0.5, 0.4, 0.5]

    @given(centers_and_radii(max_centers=8), st.randoms(use_true_random=False))
    def test_order_of_centers_does_not_matter(self, sent, random):
        centers = sent[0] + np.arange(len(sent[0]))[:, None] * np.sqrt(2)  # no ties
        order = random.sample(range(len(centers)), len(centers))
        for radii in (empirical_radii, theoretical_radii):
            moved = radii(centers[order], sent[1][order])
            assert moved == pytest.approx(radii(centers, sent[1])[order])


class TestMany:
    def solutions(self, rng, n_columns):
        """Clients with 1 to 9 clusters of random rows; many of these clusters are too wide."""
        made = []
        for k in [1, 2, 3, *rng.integers(1, 10, size=40)]:
            X = rng.normal(size=(30, n_columns)) * rng.integers(1, 9, size=(30, 1))
            labels = np.linalg.norm(X[:, None] - X[:k], axis=2).argmin(axis=1)
            made.append(partition_of(X, labels, rng.integers(1, 4, size=30).astype(float)))
        return made

    @pytest.mark.parametrize("n_columns", [1, 2, 17])
    @pytest.mark.parametrize("at_a_time", [1, 200, 2**17])
    def test_each_client_has_the_bits_that_it_has_alone(
        self, rng, monkeypatch, n_columns, at_a_time
    ):
        monkeypatch.setattr(local_solutions, "AT_A_TIME", at_a_time)
        found = self.solutions(rng, n_columns)
        n_dropped = 0
        for before, (after, radii) in zip(found, refine_many(found), strict=True):
            keep = drop_one_fit_many(before.centers, before.counts, before.sse)
            for name in ("centers", "counts", "sse", "extents"):
                assert getattr(after, name).tobytes() == getattr(before, name)[keep].tobytes()
            assert radii.tobytes() == empirical_radii(after.centers, after.extents).tobytes()
            stays = np.isin(before.labels, keep)
            assert (after.labels[~stays] == -1).all()
            assert (keep[after.labels[stays]] == before.labels[stays]).all()
            n_dropped += len(before.centers) - len(keep)
        assert n_dropped > 0
