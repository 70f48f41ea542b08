"""Lloyd's iterations on a device, in single precision: seeds, nearest centers and means.

Work is queued while a GPU computes, and reading a result back waits for the whole queue, so
convergence is tested only every few iterations. No sum uses atomic additions: two runs on one
device give the same bits.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

LOOK_EVERY = 5  # iterations between two tests of convergence
DRAWS = 64  # seeds whose random numbers are drawn at once
TOGETHER = 2**25  # entries of the tables rows x centers of several sets that move together
_BLOCK = 2**26  # entries of a block of the table rows x centers


def seed(
    rows: Tensor, k: int, weights: Tensor, generator: torch.Generator, *, growth: float = 0.0
) -> Tensor:
    """Draw initial centers by greedy k-means++: of a few draws, keep the one that gains most.

    Seeds are found one after the other, each by a few small operations on the device. A GPU waits
    for the host here, so there are as few of them as possible.

    Parameters
    ----------
    growth : seeds that are drawn at once, as a share of those that there are. Without clusters that
        are far apart, the objective is about the same up to 0.1; with some, two of the seeds may
        fall into one cluster.
    """
    norms, one = rows.square().sum(1, keepdim=True), torch.ones_like(rows[:, :1])
    left, right = torch.cat([rows, norms, one], dim=1), torch.cat([-2 * rows, one, norms], dim=1)
    first = draw(weights, 1, generator)
    distances = (left @ right[first].T).clamp(min=0)
    zero = torch.zeros_like(distances[:1])
    n_trials = min(len(rows), 2 + int(math.log(k)))
    at_once = max(1, min(DRAWS, _BLOCK // len(rows)))
    most = min(len(rows), _BLOCK // len(rows)) // n_trials
    drawn, places, sizes = [], [], _seeds_at_once(k, growth, most)
    for i, n in enumerate(sizes):
        # exponential race: draws rows with probability proportional to weights * distances
        if i % at_once == 0:
            times = torch.empty(min(at_once, len(sizes) - i), len(rows), device=rows.device)
            speeds = weights / times.exponential_(generator=generator)
        drawn.append((speeds[i % at_once] * distances[:, 0]).topk(n_trials * n).indices)
        after = torch.clamp(left @ right.index_select(0, drawn[-1]).T, zero, distances)
        if n == 1:
            places.append((weights @ after).argmin(dim=0, keepdim=True))
            distances = after.index_select(1, places[-1])
        else:  # draws are dealt out to n groups, and the best of each is kept
            best = (weights @ after).view(n_trials, n).argmin(dim=0)
            places.append(best * n + torch.arange(n, device=rows.device))
            distances = after.index_select(1, places[-1]).amin(dim=1, keepdim=True)
    if not drawn:
        return rows[first]
    starts = np.repeat(n_trials * (np.cumsum(sizes) - sizes), sizes)
    others = torch.cat(drawn)[torch.cat(places) + torch.from_numpy(starts).to(rows.device)]
    return rows[torch.cat([first, others])]


def _seeds_at_once(k: int, growth: float, most: int) -> list[int]:
    """Return how many seeds each step draws after the first one, k - 1 in all."""
    sizes: list[int] = []
    found = 1
    while found < k:
        sizes.append(max(1, min(int(growth * found), most, k - found)))
        found += sizes[-1]
    return sizes


def draw(weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Draw different rows by their weights; `torch.multinomial` takes at most 2**24 of them."""
    return (weights / torch.empty_like(weights).exponential_(generator=generator)).topk(n).indices


def nearest(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest center of each row and the squared distance to it, in bounded memory."""
    labels, squared = _nearest_of_sets(rows, centers[None])
    return labels[0], squared[0]


def lloyd(
    rows: Tensor, centers: Tensor, weights: Tensor, max_iter: int, stop: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Run Lloyd's iterations until the centers' summed squared shift is at most `stop`.

    They start from one or several sets of centers, of shape (sets, k, d). With few rows, a GPU
    waits for the host, and needs hardly longer for several sets than for one. A set that has
    settled stays as it is: up to rounding, others do not matter to it.

    A center without rows moves to one of the rows that are farthest from their centers, whenever
    convergence is tested.

    Returns
    -------
    The centers; the nearest one of each row and the squared distance to it, of shape (sets, n).
    """
    found = torch.empty_like(centers)
    places = list(range(len(centers)))  # of the sets that still move
    for i in range(max_iter):
        before = centers
        centers, counts = _step(rows, before, weights)
        if not _looks(i, max_iter):
            continue
        shifts = (centers - before).square().sum(dim=(1, 2))
        seen = torch.stack([(shifts <= stop).long(), (counts <= 0).sum(dim=1)]).T.tolist()
        for one, (_, n_empty) in enumerate(seen):
            if n_empty:
                squared = _nearest_of_sets(rows, centers[one : one + 1])[1][0]
                _refill(centers[one], counts[one], squared * weights, rows)
        moving = [one for one, (settled, n_empty) in enumerate(seen) if n_empty or not settled]
        if len(moving) < len(places):
            found[places] = centers
            centers, places = centers[moving], [places[one] for one in moving]
        if not places:
            break
    else:
        found[places] = centers
    return found, *_nearest_of_sets(rows, found)


def sets_at_once(n_rows: int, k: int) -> int:
    """Return the number of sets of k centers that are best moved together."""
    return max(1, TOGETHER // (n_rows * k))


def _looks(i: int, max_iter: int) -> bool:
    """Tell whether convergence is tested after the iteration `i`, counted from 0."""
    return (i + 1) % LOOK_EVERY == 0 or i + 1 == max_iter


def _refill(centers: Tensor, counts: Tensor, squared: Tensor, rows: Tensor) -> None:
    """Move centers without rows, in place, to the rows that are farthest from their centers."""
    places = (counts <= 0).nonzero()[: len(rows), 0]
    centers[places] = rows[squared.topk(len(places)).indices]


def _step(rows: Tensor, centers: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Move each center of each set to the mean of its rows; return the weight of these, too."""
    n_sets, k, _ = centers.shape
    flat = centers.flatten(0, 1)
    sums, counts = torch.zeros_like(flat), flat.new_zeros(len(flat))
    for part, w in _blocks(len(flat), rows, weights):
        table = scores_of(part, flat).view(-1, n_sets, k)
        labels = table.argmin(dim=2, keepdim=True)
        _add(sums, counts, table.zero_(), labels, part, w)
    means = sums / counts.clamp(min=1e-30)[:, None]
    moved = torch.where((counts > 0)[:, None], means, flat)
    return moved.view_as(centers), counts.view(n_sets, k)


def _nearest_of_sets(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Do as :func:`nearest` for several sets of centers; both results are of shape (sets, n)."""
    n_sets, k, _ = centers.shape
    flat = centers.flatten(0, 1)
    tables = (scores_of(part, flat).view(-1, n_sets, k) for (part,) in _blocks(len(flat), rows))
    parts = [table.min(dim=2) for table in tables]
    squared = torch.cat([p.values for p in parts]).T + rows.square().sum(1)
    return torch.cat([p.indices for p in parts]).T, squared.clamp_(min=0)


def label_sums(rows: Tensor, labels: Tensor, weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the weighted sum of the rows of each cluster, and its weight."""
    sums, counts = rows.new_zeros(k, rows.shape[1]), rows.new_zeros(k)
    for part, at, w in _blocks(k, rows, labels[:, None, None], weights):
        _add(sums, counts, rows.new_zeros(len(part), 1, k), at, part, w)
    return sums, counts


def _add(
    sums: Tensor, counts: Tensor, table: Tensor, labels: Tensor, rows: Tensor, weights: Tensor
) -> None:
    """Add rows up at their labels, by a product with a table of zeros: without atomics.

    The table is of shape (n, sets, k), labels are of shape (n, sets, 1), and sums and counts have
    all clusters of the first set, then those of the second one.
    """
    table.scatter_(2, labels, weights[:, None, None].expand_as(labels))
    flat = table.flatten(1)
    sums.addmm_(flat.T, rows)
    counts += flat.sum(dim=0)


def scores_of(rows: Tensor, centers: Tensor) -> Tensor:
    """Compute squared distances minus the squared norms of the rows."""
    return torch.addmm(centers.square().sum(1), rows, centers.T, alpha=-2)


def _blocks(k: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield blocks of rows whose tables with k centers have a bounded size."""
    size = max(1, _BLOCK // k)
    return zip(*(torch.split(tensor, size) for tensor in tensors), strict=True)
