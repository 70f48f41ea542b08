"""k-means on the device: Lloyd's iterations as products of matrices.

A :class:`DeviceBackend` implements :class:`fedjigsaw.kernels.backends.CloudBackend`: a method whose
attribute `backend` is set to one clusters on the GPU. Work is queued while the GPU computes, and
reading a result back waits for the whole queue, so convergence is tested only every few iterations.
"""

import math

import numpy as np
import torch
from torch import Tensor

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.clouds import TOL

CAREFUL_SEEDS = 64  # up to this many centers are seeded by k-means++, one after the other
LOOK_EVERY = 5  # iterations between two tests of convergence
DRAWS = 64  # seeds whose random numbers are drawn at once
_BLOCK = 2**26  # entries of a block of the table rows x centers


class DeviceBackend:
    """k-means on `device`, in single precision."""

    name = "device"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def labels(
        self,
        X: Floats,
        n_clusters: int,
        *,
        weights: Floats | None,
        n_init: int,
        max_iter: int,
        tol: float,
        rng: np.random.Generator,
        init: Floats | None = None,
    ) -> Ints:
        """See :meth:`fedjigsaw.kernels.backends.Backend.labels`."""
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**63)))
        exact = self._exact(X)
        middle = exact.mean(dim=0)
        rows = (exact - middle).float()
        if weights is None:
            w = torch.ones(len(X), device=self.device)
        else:
            w = self._exact(weights).float()
        # weighted rows are clients' centers: uniform draws would miss some clusters
        careful = n_clusters <= CAREFUL_SEEDS or weights is not None
        stop = tol * rows.var(dim=0, unbiased=False).mean()
        best, least = torch.zeros(len(X), dtype=torch.long, device=self.device), math.inf
        for _ in range(n_init if init is None else 1):
            if init is None:
                centers = seed(rows, n_clusters, w, generator, careful=careful)
            else:
                centers = (self._exact(init) - middle).float()
            centers = _lloyd(rows, centers, w, max_iter, stop)
            labels, distances = nearest(rows, centers)
            inertia = float(distances @ w)
            if inertia < least:
                best, least = labels, inertia
        found: Ints = best.cpu().numpy()
        return found

    def settle_clouds(
        self, centers: Floats, counts: Floats, sse: Floats, start: Floats, *, max_iter: int
    ) -> Floats:
        """As :func:`fedjigsaw.kernels.clouds.settle_clouds`, for two or more
        centers, in double precision.

        There every line has its reason; here the two shares of a cloud are two entries in its line
        of a table clouds x centers.
        """
        X, n, spread, found = map(self._exact, (centers, counts, sse, start))
        widths, norms = (spread / (n * X.shape[1])).sqrt(), X.square().sum(1)
        sides = self._exact(np.array([[-1.0, 1.0]]))
        step = max(1, _BLOCK // len(found))
        parts = [slice(i, i + step) for i in range(0, len(X), step)]
        for i in range(max_iter):
            mass, sums = found.new_zeros(len(found)), torch.zeros_like(found)
            objective = spread.sum()
            for p in parts:
                pair, values, table = _nearest_two(X[p], found)
                normal = found[pair[:, 1]] - found[pair[:, 0]]
                apart = normal.norm(dim=1).clamp(min=1e-300)
                z = (values[:, 1] - values[:, 0]) / (2 * apart * widths[p])
                z = z.nan_to_num(nan=math.inf, posinf=math.inf)  # a cloud without spread is not cut
                given = n[p] * torch.special.ndtr(-z)
                cut = n[p] * widths[p] * (-z.square() / 2).exp() / math.sqrt(2 * math.pi)
                table.zero_().scatter_(1, pair, torch.stack([n[p] - given, given], dim=1))
                mass += table.sum(dim=0)
                sums.addmm_(table.T, X[p])
                table.scatter_(1, pair, sides.expand(len(pair), 2))
                sums.addmm_(table.T, normal * (cut / apart)[:, None])
                objective += n[p] @ (values[:, 0] + norms[p]).clamp(min=0)
            means = torch.where((mass > 0)[:, None], sums / mass.clamp(min=1e-300)[:, None], found)
            gain = mass @ (means - found).square().sum(1)
            found = means
            if (i + 1) % LOOK_EVERY == 0 and bool(gain <= TOL * objective):
                break
        settled: Floats = found.cpu().numpy()
        return settled

    def _exact(self, array: Floats) -> Tensor:
        # torch warns of read-only arrays
        return torch.from_numpy(np.require(array, np.float64, "W")).to(self.device)


def seed(
    rows: Tensor, k: int, weights: Tensor, generator: torch.Generator, *, careful: bool = True
) -> Tensor:
    """Draw initial centers: by greedy k-means++, or as distinct rows.

    Seeds are found one after the other, each by a few small operations on the device. A GPU waits
    for the host here, so there are as few of them as possible.
    """
    if not careful:
        return rows[torch.multinomial(weights, k, generator=generator)]
    norms, one = rows.square().sum(1, keepdim=True), torch.ones_like(rows[:, :1])
    left, right = torch.cat([rows, norms, one], dim=1), torch.cat([-2 * rows, one, norms], dim=1)
    first = torch.multinomial(weights, 1, generator=generator)
    distances = (left @ right[first].T).clamp(min=0)
    zero = torch.zeros_like(distances[:1])
    n_trials = min(len(rows), 2 + int(math.log(k)))
    drawn, best = [], []
    for i in range(k - 1):
        # exponential race: draws rows with probability proportional to weights * distances
        if i % DRAWS == 0:
            times = torch.empty(min(DRAWS, k - 1 - i), len(rows), device=rows.device)
            speeds = weights / times.exponential_(generator=generator)
        drawn.append((speeds[i % DRAWS] * distances[:, 0]).topk(n_trials).indices)
        after = torch.clamp(left @ right.index_select(0, drawn[-1]).T, zero, distances)
        best.append((weights @ after).argmin(dim=0, keepdim=True))
        distances = after.index_select(1, best[-1])
    if not drawn:
        return rows[first]
    others = torch.stack(drawn).gather(1, torch.stack(best))[:, 0]
    return rows[torch.cat([first, others])]


def nearest(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest center of each row and the squared distance to it, in bounded memory."""
    step = max(1, _BLOCK // len(centers))
    parts = [_scores(rows[i : i + step], centers).min(dim=1) for i in range(0, len(rows), step)]
    squared = torch.cat([p.values for p in parts]) + rows.square().sum(1)
    return torch.cat([p.indices for p in parts]), squared.clamp_(min=0)


def _lloyd(rows: Tensor, centers: Tensor, weights: Tensor, max_iter: int, stop: Tensor) -> Tensor:
    for i in range(max_iter):
        before = centers
        sums, counts = _sums(rows, before, weights)
        means = sums / counts.clamp(min=1e-30)[:, None]
        empty = counts <= 0
        centers = torch.where(empty[:, None], before, means)
        if (i + 1) % LOOK_EVERY and i + 1 < max_iter:
            continue
        settled = (centers - before).square().sum() <= stop
        is_settled, n_empty = torch.stack([settled.long(), empty.sum()]).tolist()
        if n_empty:  # move each to one of the rows farthest from its center
            n_empty = min(n_empty, len(rows))
            worst = (nearest(rows, centers)[1] * weights).topk(n_empty).indices
            centers[empty.nonzero()[:n_empty, 0]] = rows[worst]
        elif is_settled:
            break
    return centers


def _sums(rows: Tensor, centers: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the weighted rows and the weights of each center, by a matrix product without atomics."""
    sums, counts = torch.zeros_like(centers), centers.new_zeros(len(centers))
    step = max(1, _BLOCK // len(centers))
    for i in range(0, len(rows), step):
        part = slice(i, i + step)
        scores = _scores(rows[part], centers)
        labels = scores.argmin(dim=1, keepdim=True)
        table = scores.zero_().scatter_(1, labels, weights[part, None])
        sums.addmm_(table.T, rows[part])
        counts += table.sum(dim=0)
    return sums, counts


def _scores(rows: Tensor, centers: Tensor) -> Tensor:
    """Compute squared distances minus the squared norms of the rows."""
    return torch.addmm(centers.square().sum(1), rows, centers.T, alpha=-2)


def _nearest_two(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the two nearest centers of each row, their scores, and a scratch table."""
    scores = _scores(rows, centers)
    first = scores.min(dim=1, keepdim=True)
    scores.scatter_(1, first.indices, math.inf)
    second = scores.min(dim=1, keepdim=True)
    pair = torch.cat([first.indices, second.indices], dim=1)
    return pair, torch.cat([first.values, second.values], dim=1), scores
