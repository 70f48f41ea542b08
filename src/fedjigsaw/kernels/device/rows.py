"""Rows that stay on a device while code on the host asks about centers, in double precision."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from threading import RLock

import numpy as np
import torch
from torch import Tensor

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.clouds import TOL
from fedjigsaw.kernels.device.lloyd import LOOK_EVERY, label_sums, scores_of
from fedjigsaw.kernels.matching import pairwise_distances

_BLOCK = 2**26  # entries of a block of the table rows x centers
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


class DeviceRows:
    """See :class:`fedjigsaw.kernels.backends.HeldRows`: the same as NumPy does, up to rounding."""

    def __init__(self, X: Floats, weights: Floats | None, device: torch.device) -> None:
        self.host, self.device = X, device
        self.X = exact(X, device)
        self.w = self.X.new_ones(len(X)) if weights is None else exact(weights, device)
        self.norms = self.X.square().sum(1)

    def nearest(self, centers: Floats, among: Ints | None = None) -> tuple[Ints, Floats]:
        """See :meth:`fedjigsaw.kernels.backends.HeldRows.nearest`."""
        labels, squared = self._nearest(exact(centers, self.device), among)
        return labels.cpu().numpy(), squared.cpu().numpy()

    def nearest_two(self, centers: Floats) -> tuple[Ints, Ints, Floats, Floats]:
        """See :meth:`fedjigsaw.kernels.backends.HeldRows.nearest_two`."""
        found = exact(centers, self.device)
        parts = [_nearest_two(self.X[part], found)[:2] for part in self._parts(len(found))]
        pair = torch.cat([part[0] for part in parts]).T.contiguous().cpu().numpy()
        squared = torch.cat([part[1] for part in parts]) + self.norms[:, None]
        first, second = squared.clamp_(min=0).T.contiguous().cpu().numpy()
        return pair[0], pair[1], first, second

    def lloyd(self, centers: Floats) -> tuple[Floats, Floats, float]:
        """See :meth:`fedjigsaw.kernels.backends.HeldRows.lloyd`."""
        labels, squared = self._nearest(exact(centers, self.device))
        sums, counts = label_sums(self.X, labels, self.w, len(centers))
        table = torch.cat([sums, counts[:, None]], dim=1).cpu().numpy()
        return table[:, :-1], table[:, -1], float(self.w @ squared)

    def label(self, centers: Floats) -> tuple[Ints, Floats]:
        """See :meth:`fedjigsaw.kernels.backends.HeldRows.label`."""
        middle = centers.mean(axis=0)
        found, around = exact(centers, self.device), exact(middle, self.device)
        shifted = found - around
        largest = shifted.square().sum(1).max()
        rounding = 4 * (centers.shape[1] + 4) * np.finfo(np.float64).eps
        labels, distances, close = [], [], []
        for part in self._parts(len(found)):
            rows = self.X[part] - around
            scores = scores_of(rows, shifted)
            least = scores.min(dim=1)
            limits = least.values + rounding * (rows.square().sum(1) + largest)
            close.append((scores <= limits[:, None]).sum(dim=1) > 1)
            labels.append(least.indices)
            distances.append((self.X[part] - found[least.indices]).norm(dim=1))
        all_labels, all_distances = (
            torch.cat(labels).cpu().numpy(),
            torch.cat(distances).cpu().numpy(),
        )
        unclear = torch.cat(close).nonzero()[:, 0].cpu().numpy()
        if len(unclear):  # rounding could decide: compare exact distances instead
            table = pairwise_distances(self.host[unclear], centers)
            all_labels[unclear], all_distances[unclear] = table.argmin(axis=1), table.min(axis=1)
        return all_labels, all_distances

    def settle_clouds(self, sse: Floats, start: Floats, *, max_iter: int) -> Floats:
        """As :func:`fedjigsaw.kernels.clouds.settle_clouds`, for two or more centers.

        There every line has its reason; here the two shares of a cloud are two entries in its line
        of a table clouds x centers.
        """
        with turn(self.device):
            return self._settle_clouds(sse, start, max_iter)

    def _settle_clouds(self, sse: Floats, start: Floats, max_iter: int) -> Floats:
        X, n, norms = self.X, self.w, self.norms
        spread, found = exact(sse, self.device), exact(start, self.device)
        widths = (spread / (n * X.shape[1])).sqrt()
        sides = X.new_tensor([[-1.0, 1.0]])
        for i in range(max_iter):
            mass, sums = found.new_zeros(len(found)), torch.zeros_like(found)
            objective = spread.sum()
            for p in self._parts(len(found)):
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

    def _nearest(self, centers: Tensor, among: Ints | None = None) -> tuple[Tensor, Tensor]:
        X, norms = self.X, self.norms
        if among is not None:
            chosen = torch.from_numpy(among).to(self.device)
            X, norms = X[chosen], norms[chosen]
        found = [scores_of(X[p], centers).min(dim=1) for p in self._parts(len(centers), len(X))]
        squared = torch.cat([part.values for part in found]) + norms
        return torch.cat([part.indices for part in found]), squared.clamp_(min=0)

    def _parts(self, n_centers: int, n_rows: int | None = None) -> Iterator[slice]:
        """Yield slices of rows, in bounded memory; one empty slice if there are no rows."""
        step = max(1, _BLOCK // n_centers)
        n = len(self.X) if n_rows is None else n_rows
        return (slice(i, i + step) for i in range(0, max(1, n), step))


def _nearest_two(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the two nearest centers of each row, their scores, and a scratch table."""
    scores = scores_of(rows, centers)
    first = scores.min(dim=1, keepdim=True)
    scores.scatter_(1, first.indices, math.inf)
    second = scores.min(dim=1, keepdim=True)
    pair = torch.cat([first.indices, second.indices], dim=1)
    return pair, torch.cat([first.values, second.values], dim=1), scores
