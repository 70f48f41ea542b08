import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedjigsaw.kernels import grouping
from fedjigsaw.kernels.grouping import group_by_radius
from strategies import centers_and_radii


def double_loop(centers, radii):
    """Algorithm 5 as written in the paper, one distance at a time."""
    order = sorted(range(len(centers)), key=lambda i: (-radii[i], centers[i].tolist()))
    groups = []
    while order:
        first = order[0]
        group = [
            j for j in order if np.sqrt(((centers[j] - centers[first]) ** 2).sum()) <= radii[first]
        ]
        order = [j for j in order if j not in group]
        groups.append(group)
    return groups


def as_points(groups, centers):
    return [sorted(centers[group].tolist()) for group in groups]


class TestGroupByRadius:
    @pytest.mark.slow
    @given(centers_and_radii())
    @settings(max_examples=300, deadline=None)  # the first example loads scipy
    def test_agrees_with_the_double_loop(self, sent):
        centers, radii = sent
        expected = [centers[group].tolist() for group in double_loop(centers, radii)]
        assert [centers[group].tolist() for group in group_by_radius(centers, radii)] == expected

    @pytest.mark.parametrize("offset", [0.0, 1e8])
    @pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
    def test_agrees_on_many_centers_at_any_place_and_scale(self, rng, scale, offset, monkeypatch):
        monkeypatch.setattr(grouping, "_LOOK_AHEAD", 2000)  # several matrix products
        centers = (
            rng.integers(0, 12, size=(700, 2)) + rng.normal(0, 0.1, (700, 2)) + offset
        ) * scale
        radii = rng.uniform(0, 1.2, 700) * scale
        found = group_by_radius(centers, radii)
        assert [group.tolist() for group in found] == double_loop(centers, radii)
        assert 50 < len(found) < 500

    @given(centers_and_radii(), st.randoms(use_true_random=False))
    def test_order_of_arrival_does_not_matter(self, sent, random):
        centers, radii = sent
        order = random.sample(range(len(centers)), len(centers))
        moved = group_by_radius(centers[order], radii[order])
        assert as_points(moved, centers[order]) == as_points(
            group_by_radius(centers, radii), centers
        )

    @given(centers_and_radii())
    def test_every_center_is_in_one_group(self, sent):
        groups = group_by_radius(*sent)
        assert sorted(np.concatenate(groups).tolist()) == list(range(len(sent[0])))

    def test_tight_clusters_far_apart(self, rng):
        """Only exact distances, not single precision, can separate these."""
        centers = np.concatenate([rng.normal(0, 1e-6, (50, 3)), rng.normal(0, 1e-6, (50, 3)) + 1e3])
        radii = np.full(100, 1e-6)
        found = [group.tolist() for group in group_by_radius(centers, radii)]
        assert found == double_loop(centers, radii)
        assert len(found) > 20

    @pytest.mark.parametrize(
        "centers", [[[-1.0], [6.09e-23], [1.0]], [[1e99], [1e99], [3.0]], [[0.0], [1e-160], [1.0]]]
    )
    def test_agrees_on_extreme_numbers(self, centers):
        centers, radii = np.array(centers), np.array([0.0, 1e-22, 1e-30])
        assert [g.tolist() for g in group_by_radius(centers, radii)] == double_loop(centers, radii)

    def test_memory_is_bounded(self, rng):
        import tracemalloc

        centers, radii = rng.normal(size=(20_000, 8)), np.full(20_000, 100.0)
        tracemalloc.start()
        groups = group_by_radius(centers, radii)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(groups) == 1
        assert peak < 300e6  # all pairs would be 3.2 GB


@pytest.mark.parametrize("d", [1, 3, 8])
def test_a_tree_finds_the_same_groups(monkeypatch, d):
    rng = np.random.default_rng(d)
    centers = rng.integers(0, 40, (3000, d)) / 4 + 1e6  # a grid: many distances equal a radius
    radii = rng.choice([0.0, 0.25, 0.5, 1.0], 3000) * (2 if d == 8 else 0.5)
    expected = group_by_radius(centers, radii)
    assert 100 < len(expected) < 3000 or d == 1
    used = []
    tree = grouping._by_tree
    monkeypatch.setattr(grouping, "_by_tree", lambda *args: used.append(1) or tree(*args))
    monkeypatch.setattr(grouping, "MANY", 0)
    monkeypatch.setattr(grouping, "_are_sparse", lambda *args: True)
    found = group_by_radius(centers, radii)
    assert used
    assert [group.tolist() for group in found] == [group.tolist() for group in expected]
