"""FedDP-KMeans with privacy of rows: our implementation, to compare with.

It follows Scott, Lampert and Saulpic, "Differentially Private Federated k-Means Clustering with
Server-Side Data" (ICML 2025, arXiv 2506.05408), Algorithms 1 and 2, with the numbers of the
authors' file ``configs/gaussians_data_privacy.yaml`` (github.com/jonnyascott/fed-dp-kmeans):
four rounds, sums over all sites noised once (the sites trust whoever adds them up), and rows at the
server, 20 of each cluster and 100 spread over the space.

What differs: their epsilons (1 for each round) add up to more than the epsilon that is asked for,
so all are scaled by one factor. Their bound on the length of a row is replaced by that of the
public bounds. The noise of the outer product covers that length squared, which one row can change
it by; theirs covers the length. With at most as many columns as clusters, the projection changes
nothing, so the first round and its noise are left out. k-means at the server, which costs no
privacy, has ten starts instead of one.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator, default_rng
from scipy.optimize import brentq
from scipy.stats import norm

from fedjigsaw.errors import ParameterError
from fedjigsaw.kernels.kmeans import kmeans, nearest_centers
from reproduction.experiments.private_methods import Problem
from reproduction.studies import Floats

PROJECTION, WEIGHTS, CENTERS, LLOYD = 1.0, 1.0, 1.0, 1.0  # epsilons of the rounds, before scaling
SUMS = 0.5  # share of an epsilon that sums get; counts get the rest
MIN_WEIGHT = 5.0  # of a server's row
LLOYD_STEPS = 1
GRID = 1e-3  # of the privacy loss, as in the authors' accounting


@dataclass(frozen=True)
class Budget:
    """Noise of each release: multipliers of Gaussian, epsilons of Laplace noise.

    Parameters
    ----------
    outer : multiplier of the outer product; None without that round.
    sums : multiplier of the sums, in each of the last two rounds.
    weights, counts : epsilon of the weights, and of the counts in each of the last two rounds.
    """

    outer: float | None
    sums: float
    weights: float
    counts: float

    @property
    def gaussians(self) -> list[float]:
        outer = [] if self.outer is None else [self.outer]
        return [*outer, *[self.sums] * (1 + LLOYD_STEPS)]

    @property
    def laplaces(self) -> list[float]:
        return [self.weights, *[self.counts] * (1 + LLOYD_STEPS)]


def feddp_kmeans(problem: Problem) -> Floats:
    """Return the centers that four rounds give."""
    if problem.server_rows is None:
        raise ParameterError("FedDP-KMeans requires rows at the server.")
    rng, k, d = default_rng(problem.seed), problem.n_clusters, problem.n_columns
    X, server = problem.unit(problem.pooled), problem.unit(problem.server_rows)
    budget = budget_for(problem.epsilon, problem.delta, projects=d > k)
    length = np.sqrt(d)  # of a row, at most
    V = np.eye(d) if budget.outer is None else _directions(X, k, budget.outer * length**2, rng)
    projected = server @ V
    weights = _counted(X @ V, projected, budget.weights, rng)
    kept = weights >= MIN_WEIGHT
    if kept.sum() < k:  # too much noise: what is left is the largest weights
        kept = weights >= np.sort(weights)[-k]
    rows, heavy = projected[kept], np.maximum(weights[kept], 1.0)
    start = kmeans(rows, k, rng=rng, weights=heavy).centers
    centers = _means(X, X @ V, start, budget, length, rng)
    for _ in range(LLOYD_STEPS):
        centers = _means(X, X, centers, budget, length, rng)
    return problem.from_unit(np.clip(centers, -1, 1))


@lru_cache(64)
def budget_for(epsilon: float, delta: float, *, projects: bool) -> Budget:
    """Scale the published epsilons so that all rounds together promise (epsilon, delta)."""

    def budget(factor: float) -> Budget:
        outer = gaussian_multiplier(factor * PROJECTION, delta) if projects else None
        sums = gaussian_multiplier(factor * SUMS * CENTERS, delta)
        return Budget(outer, sums, factor * WEIGHTS, factor * (1 - SUMS) * CENTERS)

    # the sum of all epsilons is too cautious, so the factor for it is a lower end
    low = epsilon / (PROJECTION + WEIGHTS + CENTERS + LLOYD)
    factor = brentq(lambda x: epsilon_of(budget(x), delta) - epsilon, low / 2, epsilon, xtol=1e-4)
    while epsilon_of(budget(factor), delta) > epsilon:
        factor *= 0.9999
    return budget(factor)


def epsilon_of(budget: Budget, delta: float) -> float:
    """Return what all rounds together promise, by composing their privacy losses."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    multiplier = 1 / np.sqrt(sum(1 / m**2 for m in budget.gaussians))
    loss = pld.from_gaussian_mechanism(multiplier, value_discretization_interval=GRID)
    for value in budget.laplaces:
        laplace = pld.from_laplace_mechanism(1 / value, value_discretization_interval=GRID)
        loss = loss.compose(laplace)
    return float(loss.get_epsilon_for_delta(delta))


def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Return the least multiplier of continuous Gaussian noise (Balle and Wang, 2018).

    Examples
    --------
    >>> round(gaussian_multiplier(1.0, 1e-6), 3)
    4.225
    """

    def excess(m: float) -> float:
        first = norm.cdf(0.5 / m - epsilon * m)
        second = np.exp(epsilon + norm.logcdf(-0.5 / m - epsilon * m))
        return float(first - second - delta)

    return float(brentq(excess, 1e-2, 1e5, xtol=1e-9))


def _directions(X: Floats, k: int, std: float, rng: Generator) -> Floats:
    """Return the k main directions of the noisy outer product, as columns."""
    upper = np.triu(rng.normal(scale=std, size=(X.shape[1], X.shape[1])))
    noisy = X.T @ X + upper + np.triu(upper, 1).T
    return np.asarray(np.linalg.eigh(noisy)[1][:, -k:], dtype=np.float64)


def _counted(X: Floats, points: Floats, epsilon: float, rng: Generator) -> Floats:
    """Count the rows that are nearest to each point, with Laplace noise."""
    labels, _ = nearest_centers(X, points)
    return np.bincount(labels, minlength=len(points)) + rng.laplace(
        scale=1 / epsilon, size=len(points)
    )


def _means(
    X: Floats, at: Floats, centers: Floats, budget: Budget, length: float, rng: Generator
) -> Floats:
    """Return noisy means of the rows `X`, grouped by the center nearest to each line of `at`."""
    labels, _ = nearest_centers(at, centers)
    sums = np.zeros((len(centers), X.shape[1]))
    np.add.at(sums, labels, X)
    sums += rng.normal(scale=budget.sums * length, size=sums.shape)
    counts = np.bincount(labels, minlength=len(centers))
    noisy = counts + rng.laplace(scale=1 / budget.counts, size=len(centers))
    return np.asarray(sums / np.maximum(noisy, 1.0)[:, None], dtype=np.float64)
