"""Lloyd's iterations on a device, in single precision: seeds, nearest centers and means.

Work is queued while a GPU computes, and reading a result back waits for the whole queue, so
convergence is tested only every few iterations. No sum uses atomic additions: two runs on one
device give the same bits.

Large problems run in fused kernels (:mod:`fedjigsaw.kernels.device.fused`), whose products of
matrices have two precisions. Products of TensorFloat-32 decide between centers up to about a
thousandth of the squared norm of a row. They are used while the centers move far, if rows are not
much closer to their centers than that. The last iterations and the labels are in full single
precision, so a run that converges ends in an optimum of full precision. On the way a few rows in
ten thousand are given to a center that is about as near, so it may be another optimum, as with
other seeds: ``benchmarks/gpu_speed.py`` compares the objectives.
"""

import math
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

CAREFUL_SEEDS = 64  # up to this many centers are always seeded by k-means++, one after the other
LOOK_EVERY = 5  # iterations between two tests of convergence
DRAWS = 64  # seeds whose random numbers are drawn at once
FUSED = 2**25  # entries of the table rows x centers from where on fused kernels are faster
FAR = 100.0  # times the shift at which iterations end: closer to it, products are exact
CLEAR = 1 / 32  # squared distance to the centers, of the rows' squared norms, for quick products
LAST = 2  # iterations at the end of a limited number of them that have exact products
_BLOCK = 2**26  # entries of a block of the table rows x centers


def seed(
    rows: Tensor, k: int, weights: Tensor, generator: torch.Generator, *, careful: bool = True
) -> Tensor:
    """Draw initial centers: by greedy k-means++, or as distinct rows.

    Seeds are found one after the other, each by a few small operations on the device. A GPU waits
    for the host here, so there are as few of them as possible.
    """
    if not careful:
        return rows[_draw(weights, k, generator)]
    norms, one = rows.square().sum(1, keepdim=True), torch.ones_like(rows[:, :1])
    left, right = torch.cat([rows, norms, one], dim=1), torch.cat([-2 * rows, one, norms], dim=1)
    first = _draw(weights, 1, generator)
    distances = (left @ right[first].T).clamp(min=0)
    zero = torch.zeros_like(distances[:1])
    n_trials = min(len(rows), 2 + int(math.log(k)))
    at_once = max(1, min(DRAWS, _BLOCK // len(rows)))
    drawn, best = [], []
    for i in range(k - 1):
        # exponential race: draws rows with probability proportional to weights * distances
        if i % at_once == 0:
            times = torch.empty(min(at_once, k - 1 - i), len(rows), device=rows.device)
            speeds = weights / times.exponential_(generator=generator)
        drawn.append((speeds[i % at_once] * distances[:, 0]).topk(n_trials).indices)
        after = torch.clamp(left @ right.index_select(0, drawn[-1]).T, zero, distances)
        best.append((weights @ after).argmin(dim=0, keepdim=True))
        distances = after.index_select(1, best[-1])
    if not drawn:
        return rows[first]
    others = torch.stack(drawn).gather(1, torch.stack(best))[:, 0]
    return rows[torch.cat([first, others])]


def _draw(weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Draw different rows by their weights; `torch.multinomial` takes at most 2**24 of them."""
    return (weights / torch.empty_like(weights).exponential_(generator=generator)).topk(n).indices


def nearest(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest center of each row and the squared distance to it, in bounded memory."""
    norms = rows.square().sum(1)
    if _is_fused(rows, centers):
        from fedjigsaw.kernels.device import fused

        labels, scores = fused.nearest(rows, centers)
        return labels.long(), (norms - 2 * scores).clamp_(min=0)
    parts = [scores_of(part, centers).min(dim=1) for (part,) in _blocks(len(centers), rows)]
    squared = torch.cat([p.values for p in parts]) + norms
    return torch.cat([p.indices for p in parts]), squared.clamp_(min=0)


def lloyd(
    rows: Tensor, centers: Tensor, weights: Tensor, max_iter: int, stop: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Run Lloyd's iterations until the centers' summed squared shift is at most `stop`.

    A center without rows moves to one of the rows that are farthest from their centers, whenever
    convergence is tested.

    Returns
    -------
    The centers, the nearest one of each row, and the squared distance to it.
    """
    is_fused = quick = _is_fused(rows, centers)
    for i in range(max_iter):
        before = centers
        if is_fused:
            from fedjigsaw.kernels.device import fused

            exact = not quick or i >= max_iter - LAST
            centers, counts, scores = fused.step(rows, before, weights, exact=exact)
        else:
            exact = True
            centers, counts = _step(rows, before, weights)
        if (i + 1) % LOOK_EVERY and i + 1 < max_iter and (i or not is_fused):
            continue
        empty, shift = counts <= 0, (centers - before).square().sum()
        seen = [shift <= stop, shift <= FAR * stop, empty.sum()]
        if is_fused:
            norms = rows.square().sum()
            seen.append(norms - 2 * scores.sum() >= CLEAR * norms)
        is_settled, is_close, n_empty, *is_clear = torch.stack([s.long() for s in seen]).tolist()
        if n_empty:
            n_empty = min(n_empty, len(rows))
            worst = (nearest(rows, centers)[1] * weights).topk(n_empty).indices
            centers[empty.nonzero()[:n_empty, 0]] = rows[worst]
        elif is_settled and exact:
            break
        quick = any(is_clear) and not is_close
    return centers, *nearest(rows, centers)


def _step(rows: Tensor, centers: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Move each center to the mean of its rows; return the weight of these rows, too."""
    sums, counts = torch.zeros_like(centers), centers.new_zeros(len(centers))
    for part, w in _blocks(len(centers), rows, weights):
        table = scores_of(part, centers)
        labels = table.argmin(dim=1, keepdim=True)
        _add(sums, counts, table.zero_(), labels, part, w)
    means = sums / counts.clamp(min=1e-30)[:, None]
    return torch.where((counts > 0)[:, None], means, centers), counts


def label_sums(rows: Tensor, labels: Tensor, weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the weighted sum of the rows of each cluster, and its weight."""
    sums, counts = rows.new_zeros(k, rows.shape[1]), rows.new_zeros(k)
    for part, at, w in _blocks(k, rows, labels[:, None], weights):
        _add(sums, counts, rows.new_zeros(len(part), k), at, part, w)
    return sums, counts


def _add(
    sums: Tensor, counts: Tensor, table: Tensor, labels: Tensor, rows: Tensor, weights: Tensor
) -> None:
    """Add rows up at their labels, by a product with a table of zeros: without atomics."""
    table.scatter_(1, labels, weights[:, None])
    sums.addmm_(table.T, rows)
    counts += table.sum(dim=0)


def scores_of(rows: Tensor, centers: Tensor) -> Tensor:
    """Compute squared distances minus the squared norms of the rows."""
    return torch.addmm(centers.square().sum(1), rows, centers.T, alpha=-2)


def _blocks(k: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield blocks of rows whose tables with k centers have a bounded size."""
    size = max(1, _BLOCK // k)
    return zip(*(torch.split(tensor, size) for tensor in tensors), strict=True)


def _is_fused(rows: Tensor, centers: Tensor) -> bool:
    """Tell whether fused kernels are there, and faster at this size."""
    return rows.is_cuda and len(rows) * len(centers) >= FUSED and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
