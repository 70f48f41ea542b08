"""Checks of many sites at once agree with a check of each site on its own."""

from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import Summary
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.trust.plausibility import (
    FEW,
    MANY,
    _of_groups,
    far_centers,
    without_copies,
    without_overlaps,
)
from fedjigsaw.trust.received import receive


@pytest.fixture
def received():
    """Sites of many sizes, on a coarse grid, so that centers repeat and circles overlap."""
    rng = np.random.default_rng(0)
    sizes = [*range(1, 2 * FEW, 3), 2, 5, 7, 3, 3] * 5
    points = [rng.integers(0, 2 + i % 4, (n, 2)).astype(float) for i, n in enumerate(sizes)]
    sent = [
        Summary(len(p), p, counts=np.ones(len(p), int), client=str(i)) for i, p in enumerate(points)
    ]
    radii = rng.choice([0.0, 0.4, 2.0], sum(sizes))
    radii *= np.repeat(rng.integers(0, 2, len(sizes)), sizes)  # some sites have no circles
    return replace(receive(sent), radii=radii)


def each(received):
    for site in range(received.n_sites):
        own = received.clusters_of(site)
        yield own, received.centers[own], received.radii[own]


def test_sites_that_repeat_one_center_are_left_out(received):
    kept = np.ones(len(received.centers), dtype=bool)
    for own, centers, _ in each(received):
        _, counts = np.unique(centers, axis=0, return_counts=True)
        kept[own] = len(centers) < 3 or counts.max() <= len(centers) / 2
    notes = np.zeros(received.n_sites, dtype=np.int64)
    found = without_copies(received, notes)
    assert found.centers.tolist() == received.centers[kept].tolist()
    assert 5 < (notes > 0).sum() < received.n_sites / 2
    assert set(np.flatnonzero(notes)) == set(received.owners[~kept])


def test_centers_within_a_circle_of_their_site_are_left_out(received):
    kept = np.ones(len(received.centers), dtype=bool)
    for own, centers, radii in each(received):
        reach = np.add.outer(radii, radii) / 4
        distances = pairwise_distances(centers, centers)
        repeated = np.tril((distances <= reach) & (distances < reach.max()), -1).any(axis=1)
        kept[own] = ~repeated & (repeated.mean() <= 0.5)
    notes = np.zeros(received.n_sites, dtype=np.int64)
    found = without_overlaps(received, notes)
    assert found.centers.tolist() == received.centers[kept].tolist()
    assert (notes > 0).sum() > 5
    assert kept.sum() > 50


@pytest.mark.parametrize("mean", [2, MANY, 3 * MANY])
def test_extremes_of_groups_are_those_of_reduceat(mean):
    rng = np.random.default_rng(mean)
    for _ in range(20):
        sizes = rng.integers(1, 2 * mean, rng.integers(1, 6))
        X, starts = rng.normal(size=(sizes.sum(), 2)), np.cumsum(sizes) - sizes
        for extreme in (np.minimum, np.maximum):
            wanted = extreme.reduceat(X, starts, axis=0)
            assert np.array_equal(_of_groups(extreme, X, starts), wanted)


@pytest.mark.parametrize("n_centers", [2, MANY - 1, MANY, 3 * MANY])
def test_centers_far_from_the_ranges_of_most_sites(n_centers):
    """However many centers a site has: ranges of sites are found one by one, or all in one step."""
    rng = np.random.default_rng(n_centers)
    points = [rng.uniform(size=(n_centers + (i == 3), 3)) for i in range(10)]
    points[2][0] += [0, 4, 0]  # a few diagonals of the range away: 1.7 each, and the spread
    points[7][1] -= [0, 0, 90]
    sent = [
        Summary(len(p), p, counts=np.ones(len(p), int), client=str(i)) for i, p in enumerate(points)
    ]
    received = receive(sent)
    found = np.flatnonzero(far_centers(received))
    assert found.tolist() == [received.clusters_of(7).start + 1]
