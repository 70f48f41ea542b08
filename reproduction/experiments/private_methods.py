"""Other ways to cluster with differential privacy, to compare with.

Two are libraries, run as they are: diffprivlib (IBM) and Google's. Both need all rows in one place.
The others are our own implementations of published methods; each says what it follows. The extra
`reproduction` has diffprivlib and what FedDP-KMeans needs; Google's library is not on PyPI:

    pip install --no-deps 'git+https://github.com/google/differential-privacy\
@b5b0286e313b64a692abfc8c528d54ef47d960a0#subdirectory=learning'
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, default_rng

from fedjigsaw.kernels.kmeans import kmeans, nearest_centers
from fedjigsaw.kernels.solver import solve
from fedjigsaw.privacy.dp import multiplier_for
from reproduction.studies import Floats

GAUSSIAN_STEPS = 3
MORE_CENTERS = 4  # per cluster, at a site
COUNT_WEIGHT = 0.5  # of a count beside the coordinates of a sum, of length 1 at most
FLOOR = 3.0  # standard deviations of a count that a center needs


@dataclass(frozen=True)
class Problem:
    """Rows at sites, and what is asked about them.

    Parameters
    ----------
    sites : rows of each site, within the bounds.
    low, high : public bounds of all columns.
    server_rows : rows that a server needs of its own, for methods that ask for some.
    """

    sites: tuple[Floats, ...]
    n_clusters: int
    epsilon: float
    delta: float
    seed: int
    low: float = -1.0
    high: float = 1.0
    server_rows: Floats | None = None

    @property
    def n_columns(self) -> int:
        return int(self.sites[0].shape[1])

    @property
    def pooled(self) -> Floats:
        """All rows in one place, for methods that trust the server with them."""
        return np.concatenate(self.sites)

    def unit(self, X: Floats) -> Floats:
        """Map rows from the bounds to (-1, 1); rows outside are clipped."""
        return np.clip(2 * (X - self.low) / (self.high - self.low) - 1, -1, 1)

    def from_unit(self, X: Floats) -> Floats:
        """Map points back from (-1, 1)."""
        return self.low + (X + 1) * (self.high - self.low) / 2


def gaussian_per_site(problem: Problem) -> Floats:
    """Take three noisy Lloyd steps with Gaussian noise and 4 k centers at each site.

    The straightforward form of what Jigsaw does: the start does not depend on the rows, sums are
    noised for the whole width of the bounds, and the server solves what is above the noise.
    """
    rng, d = default_rng(problem.seed), problem.n_columns
    multiplier = multiplier_for(problem.epsilon, problem.delta) * np.sqrt(GAUSSIAN_STEPS)
    std = multiplier * np.sqrt(COUNT_WEIGHT**2 + 1)  # of a weighted count and a sum of x / sqrt(d)
    factors = np.r_[std / COUNT_WEIGHT, np.full(d, std * np.sqrt(d))]

    def noise(shape: tuple[int, int]) -> Floats:
        drawn: Floats = rng.standard_normal(shape) * factors
        return drawn

    n_centers, floor = MORE_CENTERS * problem.n_clusters, FLOOR * factors[0]
    sent = [
        _lloyd(problem.unit(X), n_centers, GAUSSIAN_STEPS, noise, rng, floor) for X in problem.sites
    ]
    points, counts = (np.concatenate(part) for part in zip(*sent, strict=True))
    kept = counts > floor if (counts > floor).any() else counts >= counts.max()
    solution = solve(points[kept], np.maximum(counts[kept], 1.0), problem.n_clusters, rng=rng)
    return problem.from_unit(solution.centers)


def diffprivlib_kmeans(problem: Problem) -> Floats:
    """Run diffprivlib's KMeans on the pooled rows: DPLloyd with Laplace noise, delta = 0."""
    _mend_tree()
    from diffprivlib.models import KMeans

    bounds = (problem.low, problem.high)
    model = KMeans(
        problem.n_clusters, epsilon=problem.epsilon, bounds=bounds, random_state=problem.seed
    )
    return np.asarray(model.fit(problem.pooled).cluster_centers_, dtype=np.float64)


def google_clustering(problem: Problem) -> Floats:
    """Run Google's private clustering on the pooled rows, with its own settings.

    The rows are moved so that the middle of the bounds is the origin, as its page recommends.
    """
    from clustering import clustering_algorithm, clustering_params

    X = problem.unit(problem.pooled)
    data = clustering_params.Data(X, radius=float(np.sqrt(problem.n_columns)))
    promise = clustering_params.DifferentialPrivacyParam(problem.epsilon, problem.delta)
    with _global_seed(problem.seed):
        found = clustering_algorithm.private_lsh_clustering(problem.n_clusters, data, promise)
    return problem.from_unit(np.clip(found.centers, -1, 1))


def _feddp(problem: Problem) -> Floats:
    from reproduction.experiments.feddp import feddp_kmeans

    return feddp_kmeans(problem)


METHODS: Mapping[str, Callable[[Problem], Floats]] = {
    "gaussian": gaussian_per_site,
    "feddp": _feddp,
    "diffprivlib": diffprivlib_kmeans,
    "google": google_clustering,
}


def _lloyd(
    X: Floats,
    n_centers: int,
    n_steps: int,
    noise: Callable[[tuple[int, int]], Floats],
    rng: Generator,
    floor: float = 1.0,
) -> tuple[Floats, Floats]:
    """Take noisy Lloyd steps on rows in (-1, 1); return centers and their noisy counts.

    Parameters
    ----------
    noise : draws noise for a table with a count and a sum in each line.
    floor : a center with a smaller count stays where it is.
    """
    centers, counts = _start(X.shape[1], n_centers, rng), np.empty(0)
    for _ in range(n_steps):
        labels, _ = nearest_centers(X, centers)
        table = np.zeros((n_centers, 1 + X.shape[1]))
        np.add.at(table, labels, np.column_stack([np.ones(len(X)), X]))
        table += noise(table.shape)
        counts = table[:, 0]
        moved = counts > floor
        centers[moved] = np.clip(table[moved, 1:] / counts[moved, None], -1, 1)
    return centers, counts


def _start(n_columns: int, n_centers: int, rng: Generator) -> Floats:
    """Spread centers evenly over (-1, 1), without looking at any row."""
    points = rng.uniform(-1, 1, size=(4096, n_columns))
    return kmeans(points, n_centers, rng=rng, n_init=1, max_iter=10).centers


def _mend_tree() -> None:
    """Put back two names that scikit-learn 1.9 removed, and diffprivlib 0.6.6 imports."""
    import sklearn.tree._tree as tree

    for name, dtype in (("DTYPE", np.float32), ("DOUBLE", np.float64)):
        if not hasattr(tree, name):
            setattr(tree, name, dtype)


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator for a library that knows no other, and put it back."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
