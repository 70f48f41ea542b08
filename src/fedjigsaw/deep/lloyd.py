"""k-means on the device: Lloyd's iterations as products of matrices.

It plugs into :func:`fedjigsaw.kmeans.searching_with`, so that every method of the package clusters
on the GPU without knowing of it.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedjigsaw._inputs import Floats, Ints

CAREFUL_SEEDS = 64  # up to so many centers are seeded by k-means++, one after the other
_BLOCK = 2**26  # numbers of a block of the table rows x centers


class DeviceSearch:
    """A search for clusters that runs on `device` in single precision."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(
        self,
        X: Floats,
        k: int,
        w: Floats | None,
        n_init: int,
        max_iter: int,
        tol: float,
        rng: np.random.Generator,
        init: Floats | None,
        /,
        *,
        spherical: bool,
    ) -> Ints:
        """The label of each row in the best of `n_init` restarts."""
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**63)))
        middle = np.zeros(X.shape[1]) if spherical else X.mean(axis=0)
        rows = torch.as_tensor((X - middle).astype(np.float32), device=self.device)
        weights = torch.ones(len(X), device=self.device)
        if w is not None:
            weights = torch.as_tensor(w.astype(np.float32), device=self.device)
        stop = tol * float(rows.var(dim=0, unbiased=False).mean())
        best, least = torch.zeros(len(X), dtype=torch.long, device=self.device), float("inf")
        for _ in range(n_init if init is None else 1):
            centers = seed(rows, k, weights, generator)
            if init is not None:
                centers = torch.as_tensor((init - middle).astype(np.float32), device=self.device)
            labels, inertia = _lloyd(rows, centers, weights, max_iter, stop, spherical)
            if inertia < least:
                best, least = labels, inertia
        found: Ints = best.cpu().numpy()
        return found


def seed(rows: Tensor, k: int, weights: Tensor, generator: torch.Generator) -> Tensor:
    """Rows to start from: spread out by k-means++ where they are few, else just different ones."""
    if k > CAREFUL_SEEDS:
        return rows[torch.multinomial(weights, k, generator=generator)]
    chosen = torch.multinomial(weights, 1, generator=generator)
    distances = _squared(rows, rows[chosen])[:, 0]
    for _ in range(1, k):
        further = torch.multinomial(weights * distances + 1e-30, 1, generator=generator)
        distances = torch.minimum(distances, _squared(rows, rows[further])[:, 0])
        chosen = torch.cat([chosen, further])
    return rows[chosen]


def nearest(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest center of each row, and the squared distance to it; memory stays bounded."""
    step = max(1, _BLOCK // len(centers))
    parts = [_squared(rows[i : i + step], centers).min(dim=1) for i in range(0, len(rows), step)]
    return torch.cat([p.indices for p in parts]), torch.cat([p.values for p in parts])


def _lloyd(
    rows: Tensor, centers: Tensor, weights: Tensor, max_iter: int, stop: float, spherical: bool
) -> tuple[Tensor, float]:
    for _ in range(max_iter):
        labels, distances = nearest(rows, centers)
        sums, counts = _sums(rows, labels, weights, len(centers))
        means = sums / counts.clamp(min=1e-30)[:, None]
        if spherical:
            means = F.normalize(means, dim=1)
        # an empty cluster moves to the row that is worst off, the next empty one to the next row
        order = torch.argsort(counts <= 0, descending=True, stable=True)
        worst = rows[torch.topk(distances * weights, min(len(centers), len(rows))).indices]
        filled = means.clone()
        filled[order[: len(worst)]] = worst
        means = torch.where((counts <= 0)[:, None], filled, means)
        moved = float((means - centers).square().sum())
        centers = means
        if moved <= stop:
            break
    labels, distances = nearest(rows, centers)
    return labels, float((distances * weights).sum())


def _sums(rows: Tensor, labels: Tensor, weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Weighted sum and weight of each cluster, as a product with a table of ones: no atomics."""
    sums = torch.zeros(k, rows.shape[1], device=rows.device)
    counts = torch.zeros(k, device=rows.device)
    step = max(1, _BLOCK // k)
    for i in range(0, len(rows), step):
        part = slice(i, i + step)
        table = torch.zeros(len(rows[part]), k, device=rows.device)
        table.scatter_(1, labels[part, None], weights[part, None])
        sums += table.T @ rows[part]
        counts += table.sum(dim=0)
    return sums, counts


def _squared(rows: Tensor, centers: Tensor) -> Tensor:
    products = torch.addmm(centers.square().sum(1)[None], rows, centers.T, alpha=-2)
    return (products + rows.square().sum(1)[:, None]).clamp_(min=0)
