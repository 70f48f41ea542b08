"""Fed-HIRE (Cai et al., 2026), to compare with: competing clusterlets, fused at the server.

It is here and not in the table of methods: a client has half as many seeds as rows, so that its
time grows with the square of the number of rows, and its kernel needs data of unit range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.base import FederatedClusterer
from fedjigsaw.kernels.kmeans import cluster_means, label_sums
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.parameters import Rule, integer, real, seed_source

SHARE = 0.5  # seeds per row, at clients and at the server
MAX_PASSES = 31  # as in the authors' code
MAX_TRIES = 20  # of the server to find as many different groupings as clusters


class FedHIRE(FederatedClusterer):
    """One round: clients send the centers of clusterlets, which the server groups at many scales.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters.
    rate : float, default 0.05
        How fast winners are rewarded and rivals penalized.
    unit : float, default 1.0
        Length that counts as one: rows are divided by it.
    random_state : int, RandomState, Generator or None
        Seed of the run.

    References
    ----------
    S. Cai et al.: One-Shot Hierarchical Federated Clustering. 2026.
    """

    method: ClassVar[str] = "fedhire"
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": integer(1),
        "rate": real(0),
        "unit": real(0, inclusive=False),
        "random_state": seed_source(),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        rate: float = 0.05,
        unit: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.rate = rate
        self.unit = unit
        self.random_state = random_state

    def summarize(self, X: Floats, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Return the centers of the clusterlets that survive the competition."""
        labels = compete(X / self.unit, _n_seeds(len(X)), self.rate, rng)
        counts = np.bincount(labels)
        return Summary(len(X), cluster_means(X, labels), counts=counts, tensors={"labels": labels})

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Group clusterlets at several scales, and cluster these groupings by their modes."""
        received = np.concatenate([summary.centers for summary in summaries])
        levels = np.zeros((len(received), 1), dtype=np.int64)
        for _ in range(MAX_TRIES):
            levels = np.stack(granularities(received / self.unit, self.rate, rng), axis=1)
            if len(np.unique(levels, axis=0)) >= self.n_clusters:
                break
        groups = weighted_modes(levels, int(self.n_clusters), rng)
        return self.make_model(cluster_means(received, groups))


def _n_seeds(n_rows: int) -> int:
    return max(1, round(SHARE * n_rows))


def compete(X: Floats, k: int, rate: float, rng: np.random.Generator) -> Ints:
    """Return the clusterlet of each row after competition among `k` seeds; losers have no rows.

    Each row goes to the seed with the largest similarity, which is rewarded, and the second is
    penalized by how close it came. Similarities weigh the columns of each clusterlet.
    """
    n, d = X.shape
    seeds = rng.choice(n, k, replace=False)
    sums, sizes = X[seeds].copy(), np.ones(k)
    weights, wins, vigor = np.full((k, d), 1 / d), np.ones(k), np.ones(k)
    labels = np.full(n, -1)
    labels[seeds] = np.arange(k)
    for _ in range(MAX_PASSES):
        changed = False
        for i, x in enumerate(X):
            scores = _scores(x, sums, sizes, weights, wins, vigor)
            first = int(scores.argmax())
            if k > 1:
                second = int(np.argpartition(scores, -2)[-2])
                vigor[second] -= rate * np.exp(scores[second] - scores[first])
            vigor[first] += rate
            wins[first] += 1
            before = labels[i]
            if before != first:
                changed = True
                labels[i] = first
                sums[first] += x
                sizes[first] += 1
                if before >= 0:
                    sums[before] -= x
                    sizes[before] -= 1
        if not changed:
            break
        weights = column_weights(X, labels, k)
    compact: Ints = np.unique(labels, return_inverse=True)[1]
    return compact


def _scores(
    x: Floats, sums: Floats, sizes: Floats, weights: Floats, wins: Floats, vigor: Floats
) -> Floats:
    """Return the logarithm of each clusterlet's similarity, slowed by its wins and its vigor.

    A clusterlet without rows, or of one row after the first pass, has none.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        far = (weights * (x - sums / sizes[:, None]) ** 2).sum(axis=1)
        slowed: Floats = np.log(1 - wins / wins.sum()) - np.logaddexp(0, 5 - 10 * vigor) - far / 2
    slowed[~np.isfinite(slowed)] = -1e300
    return slowed


def column_weights(X: Floats, labels: Ints, k: int) -> Floats:
    """Return how much each column tells a clusterlet apart; not a number for those of one row.

    It is the mean closeness to the center, times the Hellinger distance between the clusterlet and
    all other rows, both taken as Gaussian in each column.
    """
    n, d = X.shape
    ones = np.ones(n)
    inside = np.bincount(labels, minlength=k)[:, None].astype(np.float64)
    sums, squares = label_sums(X, labels, ones, k), label_sums(X**2, labels, ones, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sums / inside
        close = label_sums(np.exp(-((X - mean[labels]) ** 2) / 2), labels, ones, k) / inside
        other = (X.sum(axis=0) - sums) / (n - inside)
        var = np.maximum(squares - inside * mean**2, 0) / (inside - 1)
        rest = (X**2).sum(axis=0) - squares - (n - inside) * other**2
        var_other = np.maximum(rest, 0) / (n - inside - 1)
        total = var + var_other
        overlap = np.sqrt(2 * np.sqrt(var * var_other) / total)
        overlap *= np.exp(-((mean - other) ** 2) / (4 * total))
        told = close * np.sqrt(np.maximum(1 - overlap, 0))
        told = np.where(inside > 1, np.nan_to_num(told), np.nan)
        even = told.sum(axis=1, keepdims=True) == 0
        weights: Floats = np.where(even, 1 / d, told / told.sum(axis=1, keepdims=True))
    return weights


def granularities(X: Floats, rate: float, rng: np.random.Generator) -> list[Ints]:
    """Return ever coarser clusterlets: each competition has as many seeds as the last has left."""
    k = _n_seeds(len(X))
    found: list[Ints] = []
    while True:
        labels = compete(X, k, rate, rng)
        left = int(labels.max()) + 1
        if left < k or not found:
            found.append(labels)
        if left >= k or left < 2:
            return found
        k = left


def weighted_modes(levels: Ints, k: int, rng: np.random.Generator) -> Ints:
    """Cluster rows of labels by k-modes, with weights of the columns in each cluster."""
    different = np.unique(levels, axis=0)
    modes = different[rng.choice(len(different), min(k, len(different)), replace=False)]
    weights = np.full(modes.shape, 1 / levels.shape[1])
    groups = _nearest_modes(levels, modes, weights)
    for _ in range(MAX_PASSES):
        before = groups
        for j in range(len(modes)):
            own, others = levels[before == j], levels[before != j]
            modes[j] = [_mode(column) for column in own.T] if len(own) else -1
            weights[j] = _level_weights(own, others)
        groups = _nearest_modes(levels, modes, weights)
        if (groups == before).all():
            break
    compact: Ints = np.unique(groups, return_inverse=True)[1]
    return compact


def _nearest_modes(levels: Ints, modes: Ints, weights: Floats) -> Ints:
    same = levels[:, None, :] == modes
    nearest: Ints = (same * weights).sum(axis=2).argmax(axis=1)
    return nearest


def _mode(column: Ints) -> int:
    return int(np.bincount(column).argmax())


def _level_weights(own: Ints, others: Ints) -> Floats:
    """Return how much each level tells a group apart; nothing is like an empty group."""
    told = np.zeros(own.shape[1])
    if not len(own) or not len(others):
        return told
    for r in range(own.shape[1]):
        n = 1 + max(int(own[:, r].max()), int(others[:, r].max()))
        inside = np.bincount(own[:, r], minlength=n) / len(own)
        outside = np.bincount(others[:, r], minlength=n) / len(others)
        told[r] = np.sqrt(((inside - outside) ** 2).sum() / 2) * (inside**2).sum()
    weights: Floats = told / (told.sum() + 1e-10)
    return weights
