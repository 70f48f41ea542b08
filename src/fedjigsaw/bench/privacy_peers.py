"""Other ways to cluster with differential privacy, to compare with.

Two are libraries, run as they are: diffprivlib (IBM) and Google's. Both need all rows in one place.
The others are our own implementations of published methods; each says what it follows.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.random import Generator, default_rng

from fedjigsaw._typing import Floats
from fedjigsaw.bench.feddp_kmeans import feddp_kmeans
from fedjigsaw.bench.private_problem import Problem
from fedjigsaw.kernels.kmeans import kmeans, nearest_centers
from fedjigsaw.kernels.solver import solve
from fedjigsaw.privacy.accounting import multiplier_for

LAPLACE_STEPS, GAUSSIAN_STEPS = 5, 3
MORE_CENTERS = 4  # per cluster, at a site
COUNT_WEIGHT = 0.5  # of a count beside the coordinates of a sum, of length 1 at most
FLOOR = 3.0  # standard deviations of a count that a center needs
GOOGLE = (
    "pip install --no-deps 'git+https://github.com/google/differential-privacy"
    "@b5b0286e313b64a692abfc8c528d54ef47d960a0#subdirectory=learning'"
)


@dataclass(frozen=True)
class Peer:
    """A method to compare with.

    Parameters
    ----------
    label : its name in tables.
    trust : who sees rows, or sums without noise.
    fit : from a problem to centers.
    module, install : the package that it needs, and how to install it.
    """

    label: str
    trust: str
    fit: Callable[[Problem], Floats]
    module: str = ""
    install: str = ""

    def lacks(self) -> str:
        """Say what is missing and how to install it; empty if the method can run."""
        if not self.module or _found(self.module):
            return ""
        return f"{self.label} requires the module {self.module}: {self.install}"


def laplace_per_site(problem: Problem) -> Floats:
    """Run DPLloyd (Su et al., 2016) at each site, and k-means on what the sites send.

    Each site takes five noisy Lloyd steps from centers that do not depend on its rows, with a fifth
    of epsilon each, and sends its k centers and their counts. A row adds 1 to a count and at most 1
    to each coordinate of a sum: 1 + d in all, which is what the Laplace noise must cover.
    """
    rng, d = default_rng(problem.seed), problem.n_columns
    scale = laplace_scale(d, problem.epsilon)
    sent = [
        _lloyd(problem.unit(X), problem.n_clusters, LAPLACE_STEPS, _laplace(scale, rng), rng)
        for X in problem.sites
    ]
    points, counts = (np.concatenate(part) for part in zip(*sent, strict=True))
    kept = counts > 0 if (counts > 0).any() else np.ones(len(counts), dtype=bool)
    weights = np.maximum(counts[kept], 1.0)
    solution = kmeans(points[kept], problem.n_clusters, rng=rng, weights=weights)
    return problem.from_unit(solution.centers)


def laplace_scale(n_columns: int, epsilon: float) -> float:
    """Return the scale of the noise in each of the steps.

    Examples
    --------
    >>> laplace_scale(n_columns=9, epsilon=1.0)  # five steps of (1 + 9) / 50 = 0.2 each
    50.0
    """
    return (1 + n_columns) * LAPLACE_STEPS / epsilon


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


PEERS: Mapping[str, Peer] = {
    "laplace": Peer("Laplace noise at each site", "nobody", laplace_per_site),
    "gaussian": Peer("Gaussian noise at each site", "nobody", gaussian_per_site),
    "feddp": Peer(
        "FedDP-KMeans", "the sum over sites", feddp_kmeans,
        "dp_accounting", "pip install 'fedjigsaw[peers]'",
    ),
    "diffprivlib": Peer(
        "diffprivlib, pooled", "the server", diffprivlib_kmeans,
        "diffprivlib", "pip install 'fedjigsaw[peers]'",
    ),
    "google": Peer(
        "Google, pooled", "the server", google_clustering,
        "clustering.clustering_algorithm", GOOGLE,
    ),
}  # fmt: skip


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


def _laplace(scale: float, rng: Generator) -> Callable[[tuple[int, int]], Floats]:
    return lambda shape: rng.laplace(scale=scale, size=shape)


def _found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # the package around it is missing
        return False


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
