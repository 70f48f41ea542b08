"""k-means on a GPU: the backend of ``FEDJIGSAW_BACKEND=torch``, and of DeepFeCA.

Work is queued while a GPU computes, and reading a result back waits for the whole queue, so
convergence is tested only every few iterations. No sum uses atomic additions: two runs on one
device give the same bits.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.threads import one_thread_inside

LEAST = 2**23  # products of coordinates (rows x columns x centers) from where on a GPU is faster
CAREFUL = 64  # up to this many centers are always seeded by k-means++, one after the other
GROWTH = 1 / 16  # of quick seeds, a step draws this share of those that there are
LOOK_EVERY = 5  # iterations between two tests of convergence
DRAWS = 64  # seeds whose random numbers are drawn at once
TOGETHER = 2**25  # entries of the tables rows x centers of several sets that move together
BLOCK = 2**26  # entries of a block of the table rows x centers
_TURNS = RLock()  # held by the thread that queues many operations on a GPU


def turn(device: torch.device) -> AbstractContextManager[object]:
    """Wait for this thread's turn on a GPU: operations from several threads at once are slower.

    Work on the host may go on in other threads meanwhile.
    """
    return nullcontext() if device.type == "cpu" else _TURNS


def exact(array: Floats, device: torch.device) -> Tensor:
    """Bring an array to the device, in double precision; on a CPU they may share memory."""
    found = torch.from_numpy(np.require(array, np.float64, "W"))  # torch warns of read-only arrays
    return found.to(device)


class DeviceBackend:
    """k-means on `device`, in single precision.

    Parameters
    ----------
    device : where to compute; None is a GPU if there is one, else the CPU.
    small : backend of small problems, for which a GPU is slower; None leaves all to the device.
    quick_seeds : draw more than `CAREFUL` first centers faster: uniformly, or with weights several
        at once. In each round of DeepFeCA's training, k-means++ would take longer than all the
        rest.
    """

    def __init__(
        self,
        device: torch.device | None = None,
        *,
        small: Any = None,
        quick_seeds: bool = False,
    ) -> None:
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.small = small
        self.quick_seeds = quick_seeds
        self.name = f"torch+{small.name}" if small else "torch"

    def suits(self, n_rows: int, n_columns: int, n_clusters: int) -> bool:
        """Tell whether a problem belongs on the device: by its size alone."""
        return self.small is None or n_rows * n_columns * n_clusters >= LEAST

    def labels(
        self,
        X: Floats,
        n_clusters: int,
        *,
        weights: Floats | None,
        rng: np.random.Generator,
        init: Floats | None = None,
        **options: Any,
    ) -> Ints:
        """See :meth:`fedjigsaw.kernels.backends.Backend.labels`."""
        starts = None if init is None else [init]
        (found,) = self.labels_many(
            [X], [n_clusters], weights=[weights], rngs=[rng], starts=starts, **options
        )
        return found

    def labels_many(
        self,
        rows: Sequence[Floats],
        n_clusters: Sequence[int],
        *,
        weights: Sequence[Floats | None],
        rngs: Sequence[np.random.Generator],
        starts: Sequence[Floats] | None = None,
        **options: Any,
    ) -> list[Ints]:
        """See :meth:`fedjigsaw.kernels.backends.NumbaBackend.labels_many`."""
        inits = [None] * len(rows) if starts is None else starts
        labels: dict[int, Ints] = {}

        def problem(i: int) -> tuple[object, ...]:
            return id(rows[i]), n_clusters[i], id(weights[i])

        # the heads of a network cluster the same rows, each with its own random numbers
        own = [i for i, X in enumerate(rows) if self.suits(len(X), X.shape[1], n_clusters[i])]
        for _, members in groupby(own, problem):
            group = list(members)
            X, k, w = rows[group[0]], n_clusters[group[0]], weights[group[0]]
            alone = one_thread_inside() if self.device.type == "cpu" else turn(self.device)
            with alone:  # on a CPU, the number of threads would change bits
                found = self._search(
                    exact(X, self.device),
                    k,
                    None if w is None else exact(w, self.device),
                    [rngs[i] for i in group],
                    [inits[i] for i in group],
                    **options,
                )
                labels |= {i: one.cpu().numpy() for i, one in zip(group, found, strict=True)}
        others = [i for i in range(len(rows)) if i not in labels]
        if others and hasattr(self.small, "labels_many"):
            on_host = self.small.labels_many(
                [rows[i] for i in others],
                [n_clusters[i] for i in others],
                weights=[weights[i] for i in others],
                rngs=[rngs[i] for i in others],
                starts=None if starts is None else [starts[i] for i in others],
                **options,
            )
            labels |= dict(zip(others, on_host, strict=True))
            others = []
        for i in others:
            k = min(n_clusters[i], len(np.unique(rows[i], axis=0)))
            labels[i] = self.small.labels(
                rows[i], k, weights=weights[i], rng=rngs[i], init=inits[i], **options
            )
        return [labels[i] for i in range(len(rows))]

    def hold(self, X: Floats, weights: Floats | None, n_centers: int) -> "DeviceRows | None":
        """See :meth:`fedjigsaw.kernels.backends.HoldingBackend.hold`."""
        return DeviceRows(X, weights, self.device) if X.size * n_centers >= LEAST else None

    def _search(
        self,
        exact_rows: Tensor,
        k: int,
        weights: Tensor | None,
        rngs: Sequence[np.random.Generator],
        inits: Sequence[Floats | None],
        *,
        n_init: int,
        max_iter: int,
        tol: float,
    ) -> list[Tensor]:
        """Return the labels of the best of `n_init` restarts, for each source of random numbers."""
        if len(torch.unique(exact_rows[:, 0])) < k:  # quickly counted, and usually enough
            k = min(k, len(torch.unique(exact_rows, dim=0)))
        middle = exact_rows.mean(dim=0)
        rows = (exact_rows - middle).float()
        w = rows.new_ones(len(rows)) if weights is None else weights.float()
        stop = tol * rows.var(dim=0, unbiased=False).mean()
        starts: list[tuple[int, Tensor]] = []
        for search, (rng, init) in enumerate(zip(rngs, inits, strict=True)):
            generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**63)))
            if init is not None:
                starts.append((search, (exact(init, self.device) - middle).float()))
                continue
            for _ in range(n_init):
                quick = self.quick_seeds and k > CAREFUL
                if quick and weights is None:
                    centers = rows[draw(w, k, generator)]
                else:  # weighted rows are clients' centers: uniform draws would miss some clusters
                    centers = seed(rows, k, w, generator, growth=GROWTH if quick else 0.0)
                starts.append((search, centers))
        best: dict[int, tuple[float, Tensor]] = {}
        at_once = max(1, TOGETHER // (len(rows) * k))
        for part in (starts[i : i + at_once] for i in range(0, len(starts), at_once)):
            _, labels, squared = lloyd(rows, torch.stack([s for _, s in part]), w, max_iter, stop)
            inertias = [0.0] * len(part) if len(starts) == len(rngs) else (squared @ w).tolist()
            for (search, _), found, inertia in zip(part, labels, inertias, strict=True):
                if search not in best or inertia < best[search][0]:
                    best[search] = inertia, found
        return [best[search][1] for search in range(len(rngs))]


# --------------------------------------------------------------------------- many sets of centers


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
    at_once = max(1, min(DRAWS, BLOCK // len(rows)))
    most = min(len(rows), BLOCK // len(rows)) // n_trials
    sizes: list[int] = []
    while (found := 1 + sum(sizes)) < k:
        sizes.append(max(1, min(int(growth * found), most, k - found)))
    chosen = [first]
    for i, n in enumerate(sizes):
        # exponential race: draws rows with probability proportional to weights * distances
        if i % at_once == 0:
            times = torch.empty(min(at_once, len(sizes) - i), len(rows), device=rows.device)
            speeds = weights / times.exponential_(generator=generator)
        drawn = (speeds[i % at_once] * distances[:, 0]).topk(n_trials * n).indices
        after = torch.clamp(left @ right.index_select(0, drawn).T, zero, distances)
        # draws are dealt out to n groups, and the best of each is kept
        best = (weights @ after).view(n_trials, n).argmin(dim=0)
        places = best * n + torch.arange(n, device=rows.device)
        distances = after.index_select(1, places).amin(dim=1, keepdim=True)
        chosen.append(drawn[places])
    return rows[torch.cat(chosen)]


def draw(weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Draw different rows by their weights; `torch.multinomial` takes at most 2**24 of them."""
    return (weights / torch.empty_like(weights).exponential_(generator=generator)).topk(n).indices


def lloyd(
    rows: Tensor, centers: Tensor, weights: Tensor, max_iter: int, stop: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Run Lloyd's iterations until the centers' summed squared shift is at most `stop`.

    They start from one or several sets of centers, of shape (sets, k, d). With few rows, a GPU
    waits for the host, and needs hardly longer for several sets than for one. A set that has
    converged stays as it is: up to rounding, others do not matter to it.

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
        if (i + 1) % LOOK_EVERY and i + 1 < max_iter:
            continue
        shifts = (centers - before).square().sum(dim=(1, 2))
        seen = torch.stack([(shifts <= stop).long(), (counts <= 0).sum(dim=1)]).T.tolist()
        for one, (_, n_empty) in enumerate(seen):
            if n_empty:
                squared = _nearest_of_sets(rows, centers[one : one + 1])[1][0]
                empty = (counts[one] <= 0).nonzero()[: len(rows), 0]
                centers[one, empty] = rows[(squared * weights).topk(len(empty)).indices]
        moving = [one for one, (converged, n_empty) in enumerate(seen) if n_empty or not converged]
        if len(moving) < len(places):
            found[places] = centers
            centers, places = centers[moving], [places[one] for one in moving]
        if not places:
            break
    else:
        found[places] = centers
    return found, *_nearest_of_sets(rows, found)


def _step(rows: Tensor, centers: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Move each center of each set to the mean of its rows; return the weight of these, too."""
    n_sets, k, _ = centers.shape
    flat = centers.flatten(0, 1)
    sums, counts = torch.zeros_like(flat), flat.new_zeros(len(flat))
    for part in _parts(len(rows), len(flat)):
        table = _scores(rows[part], flat).view(-1, n_sets, k)
        labels = table.argmin(dim=2, keepdim=True)
        # a product with a table of zeros and weights: without atomics
        table.zero_().scatter_(2, labels, weights[part, None, None].expand_as(labels))
        sums.addmm_(table.flatten(1).T, rows[part])
        counts += table.flatten(1).sum(dim=0)
    means = sums / counts.clamp(min=1e-30)[:, None]
    moved = torch.where((counts > 0)[:, None], means, flat)
    return moved.view_as(centers), counts.view(n_sets, k)


def nearest(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest center of each row and the squared distance to it, in bounded memory."""
    labels, squared = _nearest_of_sets(rows, centers[None])
    return labels[0], squared[0]


def _nearest_of_sets(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Do as :func:`nearest` for several sets of centers; both results are of shape (sets, n)."""
    n_sets, k, _ = centers.shape
    flat = centers.flatten(0, 1)
    found = [
        _scores(rows[part], flat).view(-1, n_sets, k).min(dim=2)
        for part in _parts(len(rows), len(flat))
    ]
    squared = torch.cat([part.values for part in found]).T + rows.square().sum(1)
    return torch.cat([part.indices for part in found]).T, squared.clamp_(min=0)


def _scores(rows: Tensor, centers: Tensor) -> Tensor:
    """Compute squared distances minus the squared norms of the rows."""
    return torch.addmm(centers.square().sum(1), rows, centers.T, alpha=-2)


def _parts(n_rows: int, n_centers: int) -> Iterator[slice]:
    """Yield slices of rows, in bounded memory; one empty slice if there are no rows."""
    step = max(1, BLOCK // n_centers)
    return (slice(i, i + step) for i in range(0, max(1, n_rows), step))


# ------------------------------------------------------------------------------------ held rows


class DeviceRows:
    """See :class:`fedjigsaw.kernels.backends.HeldRows`: in double precision, up to rounding."""

    def __init__(self, X: Floats, weights: Floats | None, device: torch.device) -> None:
        self.host, self.device = X, device
        self.X = exact(X, device)
        self.w = self.X.new_ones(len(X)) if weights is None else exact(weights, device)
        self.norms = self.X.square().sum(1)

    def nearest(self, centers: Floats, among: Ints | None = None) -> tuple[Ints, Floats]:
        """Return the nearest center of each row, or of some, and the squared distance to it."""
        rows = self.X if among is None else self.X[torch.from_numpy(among).to(self.device)]
        labels, squared = nearest(rows, exact(centers, self.device))
        return labels.cpu().numpy(), squared.cpu().numpy()

    def nearest_two(self, centers: Floats) -> tuple[Ints, Ints, Floats, Floats]:
        """Return the two nearest centers of each row, and both squared distances."""
        found = exact(centers, self.device)
        parts = [_nearest_two(self.X[p], found)[:2] for p in _parts(len(self.X), len(found))]
        own, other = torch.cat([part[0] for part in parts]).T.contiguous().cpu().numpy()
        squared = torch.cat([part[1] for part in parts]) + self.norms[:, None]
        first, second = squared.clamp_(min=0).T.contiguous().cpu().numpy()
        return own, other, first, second

    def lloyd(self, centers: Floats) -> tuple[Floats, Floats, float]:
        """Return the sums and the weights of the rows nearest to each center, and the objective."""
        found, objective = exact(centers, self.device), self.X.new_zeros(())
        sums, counts = torch.zeros_like(found), found.new_zeros(len(found))
        for p in _parts(len(self.X), len(found)):
            table = _scores(self.X[p], found)
            least = table.min(dim=1, keepdim=True)
            table.zero_().scatter_(1, least.indices, self.w[p, None])
            sums.addmm_(table.T, self.X[p])
            counts += table.sum(dim=0)
            objective += self.w[p] @ (least.values[:, 0] + self.norms[p]).clamp(min=0)
        return sums.cpu().numpy(), counts.cpu().numpy(), float(objective)

    def label(self, centers: Floats) -> tuple[Ints, Floats]:
        """Do as :func:`fedjigsaw.kernels.kmeans.nearest_centers`, with the same labels."""
        found, middle = exact(centers, self.device), exact(centers.mean(axis=0), self.device)
        largest = (found - middle).square().sum(1).max()
        rounding = 4 * (centers.shape[1] + 4) * np.finfo(np.float64).eps
        labels, distances, close = [], [], []
        for part in _parts(len(self.X), len(found)):
            rows = self.X[part] - middle
            scores = _scores(rows, found - middle)
            least = scores.min(dim=1)
            limits = least.values + rounding * (rows.square().sum(1) + largest)
            close.append((scores <= limits[:, None]).sum(dim=1) > 1)
            labels.append(least.indices)
            distances.append((self.X[part] - found[least.indices]).norm(dim=1))
        nearest_ones, lengths = torch.cat(labels).cpu().numpy(), torch.cat(distances).cpu().numpy()
        unclear = torch.cat(close).nonzero()[:, 0].cpu().numpy()
        if len(unclear):  # rounding could decide: compare exact distances instead
            table = pairwise_distances(self.host[unclear], centers)
            nearest_ones[unclear], lengths[unclear] = table.argmin(axis=1), table.min(axis=1)
        return nearest_ones, lengths

    def divide(self, widths: Floats, centers: Floats) -> tuple[Floats, Floats, float]:
        """Do as :meth:`fedjigsaw.kernels.nearest.HostRows.divide`.

        The two shares of a Gaussian are two entries in its line of a table Gaussians x centers.
        """
        X, n, found = self.X, self.w, exact(centers, self.device)
        width, sides = exact(widths, self.device), X.new_tensor([[-1.0, 1.0]])
        mass, sums = found.new_zeros(len(found)), torch.zeros_like(found)
        objective = X.new_zeros(())
        with turn(self.device):
            for p in _parts(len(X), len(found)):
                pair, values, table = _nearest_two(X[p], found)
                normal = found[pair[:, 1]] - found[pair[:, 0]]
                apart = normal.norm(dim=1).clamp(min=1e-300)
                z = (values[:, 1] - values[:, 0]) / (2 * apart * width[p])
                z = z.nan_to_num(nan=math.inf, posinf=math.inf)  # without spread, it is not cut
                given = n[p] * torch.special.ndtr(-z)
                cut = n[p] * width[p] * (-z.square() / 2).exp() / math.sqrt(2 * math.pi)
                table.zero_().scatter_(1, pair, torch.stack([n[p] - given, given], dim=1))
                mass += table.sum(dim=0)
                sums.addmm_(table.T, X[p])
                table.scatter_(1, pair, sides.expand(len(pair), 2))
                sums.addmm_(table.T, normal * (cut / apart)[:, None])
                objective += n[p] @ (values[:, 0] + self.norms[p]).clamp(min=0)
            return sums.cpu().numpy(), mass.cpu().numpy(), float(objective)


def _nearest_two(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the two nearest centers of each row, their scores, and a scratch table."""
    scores = _scores(rows, centers)
    first = scores.min(dim=1, keepdim=True)
    scores.scatter_(1, first.indices, math.inf)
    second = scores.min(dim=1, keepdim=True)
    pair = torch.cat([first.indices, second.indices], dim=1)
    return pair, torch.cat([first.values, second.values], dim=1), scores
