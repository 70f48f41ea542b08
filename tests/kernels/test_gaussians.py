import numpy as np
import pytest
from scipy.special import ndtr

from fedjigsaw.kernels.gaussians import lloyd
from fedjigsaw.kernels.kmeans import kmeans
from fedjigsaw.metrics import inertia


def test_gaussians_without_spread_are_k_means(rng):
    """A fixed point of Lloyd's iterations stays where it is."""
    X, counts = rng.normal(size=(200, 3)), rng.integers(1, 9, 200).astype(float)
    solution = kmeans(X, 6, weights=counts, rng=rng, tol=0)
    found = lloyd(X, counts, np.zeros(200), solution.centers)
    assert found == pytest.approx(solution.centers)


def test_a_divided_gaussian_is_two_truncated_gaussians():
    """One step agrees with many rows drawn from the Gaussian and divided by the same plane."""
    rng = np.random.default_rng(0)
    start = np.array([[-1.0, 0.0], [2.0, 1.0]])
    center, width = np.array([[0.3, -0.2]]), 1.3
    rows = center + width * rng.normal(size=(2_000_000, 2))
    nearer = ((rows - start[0]) ** 2).sum(axis=1) < ((rows - start[1]) ** 2).sum(axis=1)
    expected = np.stack([rows[nearer].mean(axis=0), rows[~nearer].mean(axis=0)])
    n = np.array([7.0])
    found = lloyd(center, n, 2 * n * width**2, start, max_iter=1)
    assert found == pytest.approx(expected, abs=0.005)


def test_a_single_center_is_the_mean(rng):
    X, counts = rng.normal(size=(40, 2)), np.full(40, 2.0)
    sse = rng.uniform(0.1, 3, 40)
    found = lloyd(X, counts, sse, X[:1])
    assert found == pytest.approx(X.mean(axis=0, keepdims=True))


def test_the_mean_of_all_gaussians_is_kept(rng):
    """After one step, the mean of the centers, weighted by mass, is that of the Gaussians."""
    X, counts, sse = rng.normal(size=(40, 1)), rng.integers(1, 9, 40) * 1.0, rng.uniform(1, 3, 40)
    start = np.array([[-0.4], [0.3]])
    found = lloyd(X, counts, sse, start, max_iter=1).ravel()
    widths = np.sqrt(sse / counts)
    below = counts @ ndtr((start.mean() - X[:, 0]) / widths)  # mass of the first center
    mean = (below * found[0] + (counts.sum() - below) * found[1]) / counts.sum()
    assert mean == pytest.approx(counts @ X[:, 0] / counts.sum())


@pytest.mark.slow
def test_gaussians_lower_the_objective_of_the_rows(rng):
    """The final boundaries divide local clusters of uniform data."""
    plain, soft = [], []
    for _ in range(8):
        X = rng.uniform(size=(3000, 2))
        parts = [kmeans(part, 8, rng=rng) for part in np.split(X, 6)]
        centers, counts, sse = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("centers", "counts", "sse")
        )
        start = kmeans(centers, 8, weights=counts, rng=rng).centers
        plain.append(inertia(X, start))
        soft.append(inertia(X, lloyd(centers, counts, sse, start)))
    assert np.mean(soft) < np.mean(plain) * 0.998


def test_scaling_and_translation(rng):
    X, counts, sse = rng.normal(size=(60, 2)), np.ones(60), rng.uniform(0, 1, 60)
    found = lloyd(X, counts, sse, X[:5])
    moved = lloyd(1e6 + 8 * X, counts, 64 * sse, 1e6 + 8 * X[:5])
    assert moved == pytest.approx(1e6 + 8 * found)


def test_equal_centers_stay_finite():
    X = np.array([[0.0], [1.0]])
    found = lloyd(X, np.ones(2), np.ones(2), np.array([[0.5], [0.5], [9.0]]))
    assert np.isfinite(found).all()
