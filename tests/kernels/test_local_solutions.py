"""The fast twins of FeCA's algorithms have the bits of the plain ones."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings

from fedjigsaw.kernels import local_solutions
from fedjigsaw.kernels.kmeans import partition_of
from fedjigsaw.kernels.local_solutions import group_by_radius, merged_sse, refine_many
from fedjigsaw.methods.feca import client_update, groups_within_radii, radius_assign
from strategies import centers_and_radii, clusters


@pytest.mark.slow
@given(clusters())
def test_merge_formula_is_the_direct_sum(parts):
    both = np.concatenate(parts)
    labels = np.repeat([0, 1], list(map(len, parts)))
    local = partition_of(both, labels)
    direct = ((both - both.mean(axis=0)) ** 2).sum()
    if len(local.centers) == 2:
        distance = np.linalg.norm(local.centers[0] - local.centers[1])
        found = merged_sse(*local.counts, *local.sse, distance)
        assert found == pytest.approx(direct, rel=1e-9, abs=1e-9)


class TestManyClients:
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
            alone = client_update(before)
            for name in ("centers", "counts", "sse", "extents", "labels"):
                assert getattr(after, name).tobytes() == getattr(alone, name).tobytes()
            assert radii.tobytes() == radius_assign(alone).tobytes()
            n_dropped += len(before.centers) - len(alone.centers)
        assert n_dropped > 0

    def test_nothing_is_dropped_if_that_is_asked_for(self, rng):
        found = self.solutions(rng, 2)
        for before, (after, radii) in zip(found, refine_many(found, drop=False), strict=True):
            assert after is before
            assert radii.tobytes() == radius_assign(before).tobytes()


class TestManyCenters:
    @pytest.mark.slow
    @given(centers_and_radii())
    @settings(max_examples=300, deadline=None)  # the first example loads scipy
    def test_agrees_with_the_plain_loop(self, sent):
        self.check(*sent)

    def check(self, centers, radii):
        expected = [group.tolist() for group in groups_within_radii(centers, radii)]
        assert [group.tolist() for group in group_by_radius(centers, radii)] == expected
        return len(expected)

    @pytest.mark.parametrize("offset", [0.0, 1e8])
    @pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
    def test_agrees_on_many_centers_at_any_place_and_scale(self, rng, scale, offset, monkeypatch):
        monkeypatch.setattr(local_solutions, "LOOK_AHEAD", 2000)  # several matrix products
        centers = rng.integers(0, 12, size=(700, 2)) + rng.normal(0, 0.1, (700, 2)) + offset
        assert 50 < self.check(centers * scale, rng.uniform(0, 1.2, 700) * scale) < 500

    def test_tight_clusters_far_apart(self, rng):
        """Only exact distances, not single precision, can separate these."""
        centers = np.concatenate([rng.normal(0, 1e-6, (50, 3)), rng.normal(0, 1e-6, (50, 3)) + 1e3])
        assert self.check(centers, np.full(100, 1e-6)) > 20

    @pytest.mark.parametrize(
        "centers", [[[-1.0], [6.09e-23], [1.0]], [[1e99], [1e99], [3.0]], [[0.0], [1e-160], [1.0]]]
    )
    def test_agrees_on_extreme_numbers(self, centers):
        self.check(np.array(centers), np.array([0.0, 1e-22, 1e-30]))

    @pytest.mark.parametrize("d", [1, 3, 8])
    def test_a_tree_finds_the_same_groups(self, monkeypatch, d):
        rng = np.random.default_rng(d)
        centers = rng.integers(0, 40, (3000, d)) / 4 + 1e6  # a grid: many distances equal a radius
        radii = rng.choice([0.0, 0.25, 0.5, 1.0], 3000) * (2 if d == 8 else 0.5)
        used = []
        tree = local_solutions._by_tree
        monkeypatch.setattr(local_solutions, "_by_tree", lambda *a: used.append(1) or tree(*a))
        monkeypatch.setattr(local_solutions, "MANY", 0)
        monkeypatch.setattr(local_solutions, "_are_sparse", lambda *args: True)
        assert 100 < self.check(centers, radii) < 3000 or d == 1
        assert used

    def test_memory_is_bounded(self, rng):
        centers, radii = rng.normal(size=(20_000, 8)), np.full(20_000, 100.0)
        tracemalloc.start()
        groups = group_by_radius(centers, radii)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(groups) == 1
        assert peak < 300e6  # all pairs would be 3.2 GB
