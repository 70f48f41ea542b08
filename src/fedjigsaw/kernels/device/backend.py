"""The backend that clusters on a device: that of ``FEDJIGSAW_BACKEND=torch``, and of DeepFeCA."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from itertools import groupby, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend, BatchBackend, Found, name_of
from fedjigsaw.kernels.device.lloyd import draw, label_sums, lloyd, seed, sets_at_once
from fedjigsaw.kernels.device.rows import DeviceRows, exact, turn
from fedjigsaw.kernels.kmeans import coordinate_order, count_distinct
from fedjigsaw.threads import one_thread_inside

LEAST = 2**23  # products of coordinates (rows x columns x centers) from where on a GPU is faster
CAREFUL = 64  # up to this many centers are always seeded by k-means++, one after the other
GROWTH = 1 / 16  # of quick seeds, a step draws this share of those that there are
_BLOCK = 2**24  # coordinates of a block of rows


@cache
def best_device() -> torch.device:
    """Return the GPU, or the CPU if there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class DeviceBackend:
    """k-means on `device`: labels in single precision, statistics in double precision.

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
        small: Backend | None = None,
        quick_seeds: bool = False,
    ) -> None:
        self.device = device or best_device()
        self.small = small
        self.quick_seeds = quick_seeds
        self.name = f"torch+{name_of(small)}" if small else "torch"

    def suits(self, n_rows: int, n_columns: int, n_clusters: int) -> bool:
        """Tell whether a problem belongs on the device: by its size alone."""
        return self.small is None or n_rows * n_columns * n_clusters >= LEAST

    def takes(self, n_rows: int, n_columns: int, n_clusters: int) -> bool:
        """See :meth:`fedjigsaw.kernels.backends.BatchBackend.takes`."""
        small = self.small
        return self.suits(n_rows, n_columns, n_clusters) or (
            isinstance(small, BatchBackend) and small.takes(n_rows, n_columns, n_clusters)
        )

    def find_many(
        self,
        rows: Sequence[Floats],
        n_clusters: Sequence[int],
        *,
        weights: Sequence[Floats | None],
        rngs: Sequence[np.random.Generator],
        **options: Any,
    ) -> Iterator[Found]:
        """See :meth:`fedjigsaw.kernels.backends.BatchBackend.find_many`."""
        rows = list(rows)  # keeps them alive: they are told apart by their ids
        own = [self.suits(len(X), X.shape[1], k) for X, k in zip(rows, n_clusters, strict=True)]
        others: Iterator[Found] = iter(())
        few = [i for i, is_own in enumerate(own) if not is_own]
        if few:
            assert isinstance(self.small, BatchBackend)  # see `takes`
            others = iter(
                self.small.find_many(
                    [rows[i] for i in few],
                    [n_clusters[i] for i in few],
                    weights=[weights[i] for i in few],
                    rngs=[rngs[i] for i in few],
                    **options,
                )
            )

        def problem(i: int) -> tuple[object, ...]:
            return own[i], id(rows[i]), n_clusters[i], id(weights[i])

        # the heads of a network cluster the same rows, each with its own random numbers
        for (is_own, *_), members in groupby(range(len(rows)), problem):
            first, *more = members
            if not is_own:
                yield from islice(others, 1 + len(more))
                continue
            streams = [rngs[i] for i in (first, *more)]
            with self._alone():
                found = self._find(
                    rows[first], n_clusters[first], weights[first], streams, **options
                )
            yield from found

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
        if not self.suits(len(X), X.shape[1], n_clusters):
            assert self.small is not None  # see `suits`
            return self.small.labels(X, n_clusters, weights=weights, rng=rng, init=init, **options)
        with self._alone():
            rows, w = exact(X, self.device), self._weights(weights)
            (found,) = self._search(rows, n_clusters, w, [rng], init=init, **options)
            labels: Ints = found.cpu().numpy()
        return labels

    def hold(self, X: Floats, weights: Floats, n_centers: int) -> DeviceRows | None:
        """See :meth:`fedjigsaw.kernels.backends.HoldingBackend.hold`."""
        if X.size * n_centers < LEAST:
            return None
        return DeviceRows(X, weights, self.device)

    def _alone(self) -> AbstractContextManager[object]:
        """On a CPU, the number of threads would change bits; on a GPU, wait for others."""
        return one_thread_inside() if self.device.type == "cpu" else turn(self.device)

    def _weights(self, weights: Floats | None) -> Tensor | None:
        return None if weights is None else exact(weights, self.device)

    def _search(
        self,
        exact_rows: Tensor,
        k: int,
        weights: Tensor | None,
        rngs: Sequence[np.random.Generator],
        *,
        n_init: int,
        max_iter: int,
        tol: float,
        init: Floats | None = None,
    ) -> list[Tensor]:
        """Return the labels of the best of `n_init` restarts, for each source of random numbers."""
        middle = exact_rows.mean(dim=0)
        rows = (exact_rows - middle).float()
        w = rows.new_ones(len(rows)) if weights is None else weights.float()
        stop = tol * rows.var(dim=0, unbiased=False).mean()
        starts: list[tuple[int, Tensor]] = []
        for search, rng in enumerate(rngs):
            generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**63)))
            if init is None:
                drawn = [self._seed(rows, k, weights, generator) for _ in range(n_init)]
            else:
                drawn = [(exact(init, self.device) - middle).float()]
            starts.extend((search, centers) for centers in drawn)
        best: dict[int, tuple[float, Tensor]] = {}
        at_once = sets_at_once(len(rows), k)
        for part in (starts[i : i + at_once] for i in range(0, len(starts), at_once)):
            centers = torch.stack([start for _, start in part])
            _, labels, squared = lloyd(rows, centers, w, max_iter, stop)
            inertias = [0.0] * len(part) if len(starts) == len(rngs) else (squared @ w).tolist()
            for (search, _), found, inertia in zip(part, labels, inertias, strict=True):
                if search not in best or inertia < best[search][0]:
                    best[search] = inertia, found
        return [best[search][1] for search in range(len(rngs))]

    def _seed(
        self, rows: Tensor, k: int, weights: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        is_quick = self.quick_seeds and k > CAREFUL
        if is_quick and weights is None:
            return rows[draw(rows.new_ones(len(rows)), k, generator)]
        # weighted rows are clients' centers: uniform draws would miss some clusters
        w = rows.new_ones(len(rows)) if weights is None else weights.float()
        return seed(rows, k, w, generator, growth=GROWTH if is_quick else 0.0)

    def _find(
        self,
        X: Floats,
        k: int,
        weights: Floats | None,
        rngs: Sequence[np.random.Generator],
        **options: Any,
    ) -> list[Found]:
        """Return labels and statistics of rows, which go to the device once, for each source.

        As those of :mod:`fedjigsaw.kernels.kmeans`: clusters have rows, and the order of their
        centers' coordinates.
        """
        rows, given, k = exact(X, self.device), self._weights(weights), count_distinct(X, at_most=k)
        searches = self._search(rows, k, given, rngs, **options)
        w = rows.new_ones(len(rows)) if given is None else given
        middle = rows.mean(dim=0)  # rounding errors are smallest around it
        rows = rows - middle  # a new tensor: on a CPU, the old one is the caller's array
        return [_described(rows, labels, w, k, middle) for labels in searches]


def _described(rows: Tensor, labels: Tensor, weights: Tensor, k: int, middle: Tensor) -> Found:
    """Return labels and statistics of clusters; `middle` was subtracted from the rows."""
    sums, counts = label_sums(rows, labels, weights, k)
    filled = counts > 0
    centers = sums / torch.where(filled, counts, 1)[:, None]
    size = max(1, _BLOCK // rows.shape[1])
    blocks = zip(torch.split(rows, size), torch.split(labels, size), strict=True)
    squared = torch.cat([(part - centers[at]).square().sum(dim=1) for part, at in blocks])
    sse, _ = label_sums(squared[:, None], labels, weights, k)
    extents = rows.new_zeros(k).scatter_reduce_(0, labels, squared, "amax").sqrt()
    means, used = (centers + middle).cpu().numpy(), filled.cpu().numpy()
    order = np.flatnonzero(used)
    order = order[coordinate_order(means[order])]
    places = np.empty(k, dtype=np.int64)
    places[order] = np.arange(len(order))
    statistics = torch.stack([counts, sse[:, 0], extents]).cpu().numpy()[:, order]
    return Found(means[order], places[labels.cpu().numpy()], *statistics)
