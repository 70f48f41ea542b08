r"""Local search for the centers of weighted k-means: Lloyd's iterations, and moves between them.

Local optima of Lloyd's iterations have a known structure (Qian, Zhang and Chen, 2021): one center
lies between several clusters while several centers share another cluster. A *move* removes the
center that is needed least and splits the cluster that gains most. Lloyd's iterations follow, and
the result is kept if the objective has decreased:

- splitting cluster i into parts a and b gains exactly
  :math:`\frac{n_a n_b}{n_a + n_b} \|c_a - c_b\|^2`;
- removing center j loses at most what its rows lose by moving to their second nearest centers, and
  at most :math:`\min_q \frac{n_j n_q}{n_j + n_q} \|c_j - c_q\|^2`, the cost of merging j and q.

All moves with an expected gain are made at once, then half as many, down to one. If none of these
helps, the next best moves and some random ones are tried one at a time. The total work is bounded
by a multiple of the work for the first solution.

Where there are no clusters, Lloyd's iterations take hundreds of steps. After a few, each step is
lengthened by a part of the one before (Nesterov, 1983), which takes a tenth of the steps and ends
lower. Of more than 40,000 rows, and 400 for each center, a sample is clustered: first rows by their
weight and their distance from the mean (Bachem, Lucic and Krause, 2018), then by their distance
from the centers found, and some of each cluster, so that no cluster that matters is missed. All
rows are used at last, for further steps from those centers.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import label_sums, squared_distances
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.kernels.nearest import PAIRS, HostRows, rows_of

Flags = npt.NDArray[np.bool_]

MIN_GAIN = 1e-6  # smallest relative decrease of the objective for which a move is kept
HORIZON = 10  # abandon a trial that at its current rate needs more steps to become the best
WORK = 3.0  # limit of the search, relative to the work for the first solution
PLAIN = 10  # steps of Lloyd's iterations before the others are lengthened
SLOW = 0.5  # gain at which lengthened steps end, relative to `tol`
LAST = 0.05  # the same for all rows of which samples were clustered before: where there are no
# clusters, the last part in a thousand takes as many steps as all before
MANY = 2  # times as many rows as in a sample are clustered by way of one
GROWTH = 4  # of the samples


@dataclass(frozen=True)
class State:
    """A clustering at which Lloyd's iterations have converged."""

    centers: Floats
    labels: Ints
    squared: Floats  # squared distance of each row to its center
    objective: float
    settled: bool  # whether the iterations converged before their end


@dataclass(frozen=True)
class Moves:
    """Possible moves of a state: the gain of splitting each cluster, with the centers of its two
    parts; and the loss of removing each center, with the center that it would be merged with."""

    gains: Floats
    parts: Floats
    losses: Floats
    partners: Ints


class Search:
    """Local search over states of one set of rows. `work` counts distances, `limit` bounds it."""

    def __init__(
        self,
        X: Floats,
        w: Floats,
        rng: np.random.Generator,
        max_iter: int,
        tol: float,
        k: int = 1,
        backend: Backend | None = None,
        fast: bool | None = None,
    ) -> None:
        """Take rows, which are changed in place: rounding is smallest around the mean."""
        self.rng, self.max_iter, self.tol = rng, max_iter, tol
        self.w = w
        self.middle = w @ X / w.sum()
        X -= self.middle
        self.X = X
        self.backend = backend
        self.rows = rows_of(X, w, k, backend, fast)
        # a few thousand rows: to look at all of them again takes less time than to select some
        fast = isinstance(self.rows, HostRows) and self.rows.fast
        self.in_tiles = InTiles(X, w) if fast and len(X) * k < PAIRS else None
        self.work, self.limit = 0.0, np.inf

    # ----------------------------------------------------------------------------- samples

    def by_samples(self, k: int, n: int, n_tries: int) -> State:
        """Cluster a sample, one that is chosen by what the first solution left, larger ones, all.

        Moves are made in the first two. Each of the others needs a few steps only. What a sample
        gives is used if it is better for all rows.
        """
        part = self._part(n, k, np.einsum("ij,ij->i", self.X, self.X))
        state = part.start(k, n_tries)
        limit = part.work / 4
        centers = state.centers + part.middle
        labels, squared = self._nearest(centers)
        while MANY * n < len(self.X):
            part = self._part(n, k, squared, labels)
            state = part.converge(centers - part.middle, n_plain=0)
            if limit:
                part.limit = part.work + limit
                state = part.improve(state, n_tries)
            found = state.centers + part.middle
            after = self._nearest(found)
            if self.w @ after[1] < self.w @ squared:
                centers, (labels, squared) = found, after
            limit, n = 0.0, GROWTH * n
        return self.settle(self._lengthened(centers, LAST))

    def _part(self, n: int, k: int, squared: Floats, labels: Ints | None = None) -> "Search":
        """Return a search in a sample; see :meth:`_sample`."""
        rows, w = self._sample(n, squared, labels)
        return Search(self.X[rows], w, self.rng, self.max_iter, self.tol, k, self.backend)

    def _sample(self, n: int, squared: Floats, labels: Ints | None) -> tuple[Ints, Floats]:
        """Choose about `n` rows, and the weight of each.

        Equally many by their weights, by their weights times the given squares and, with labels,
        from each cluster: one that is a single row far from all others has no distance left, and
        would be missed. In the order of the rows, every one is taken whose share passes the next
        of `n` equal steps.
        """
        kinds = [self.w, self.w * squared]
        if labels is not None:
            kinds.append(self.w / np.bincount(labels, self.w)[labels])
        kinds = [kind / kind.sum() for kind in kinds if kind.any()]
        shares: Floats = np.mean(kinds, axis=0)
        steps = np.cumsum(shares)
        taken = np.searchsorted(steps, steps[-1] * (np.arange(n) + self.rng.random()) / n)
        rows, times = np.unique(np.minimum(taken, len(steps) - 1), return_counts=True)
        return rows, self.w[rows] * times / (n * shares[rows])

    # ------------------------------------------------------------------------------- Lloyd

    def start(self, k: int, n_tries: int = 0) -> State:
        """Find the first solution by k-means++ and Lloyd's iterations, set `limit`, and improve."""
        from sklearn.cluster import kmeans_plusplus  # lazy: `import fedjigsaw` stays fast

        centers, _ = kmeans_plusplus(
            self.X, k, sample_weight=self.w, random_state=int(self.rng.integers(2**31))
        )
        self.work = len(self.X) * k * (2 + np.log(k))
        state = self.converge(centers)
        self.limit = WORK * self.work
        return self.improve(state, n_tries)

    def converge(self, centers: Floats, n_plain: int = PLAIN) -> State:
        """Run Lloyd's iterations, and lengthen the steps after the first ones."""
        if n_plain:
            state = self.settle(centers, n_steps=n_plain)
            if state.settled:
                return state
            centers = state.centers
        return self.settle(self._lengthened(centers))

    def _lengthened(self, centers: Floats, slow: float = SLOW) -> Floats:
        """Run Lloyd's iterations with momentum, which ends where a step would go back.

        They end at the third step in a row that gains less than `slow` times `tol`.
        """
        means, last, n_slow, speed = centers, np.inf, 0, 1.0
        for _ in range(self.max_iter):
            before, at = means, centers
            sums, counts, objective = self.rows.lloyd(at)
            self.work += len(self.X) * len(at)
            filled = counts > 0
            means = np.where(filled[:, None], sums / np.where(filled, counts, 1)[:, None], at)
            gain = last - objective
            n_slow = n_slow + 1 if gain < slow * self.tol * objective else 0
            if n_slow > 2:
                break
            if gain < 0 or (counts[:, None] * (at - means) * (means - before)).sum() > 0:
                speed = 1.0  # uphill: start again without momentum
            faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
            centers = means + (speed - 1) / faster * (means - before)
            last, speed = objective, faster
        return means

    def settle(
        self, centers: Floats, before: State | None = None, n_steps: int | None = None
    ) -> State:
        """Run Lloyd's iterations. With `before`, update only what has changed since that state."""
        k = len(centers)
        if before is None:
            labels = np.zeros(len(self.X), dtype=np.int64)
            squared = np.full(len(self.X), np.inf)
            moved = np.ones(k, dtype=bool)
        else:
            labels, squared = before.labels.copy(), before.squared.copy()
            moved = (centers != before.centers).any(axis=1)
        goal, objective = before.objective if before else np.inf, np.inf
        settled = False
        n_steps = self.max_iter if n_steps is None else min(n_steps, self.max_iter)
        if self.in_tiles is not None:
            state, work = self.in_tiles.settle(centers, moved, goal, n_steps, self.tol, labels)
            self.work += work
            return state
        for _ in range(n_steps):
            self._reassign(centers, labels, squared, moved)
            means, counts = self._means(labels, k)
            means[counts == 0] = centers[counts == 0]
            last, objective = objective, float(self.w @ squared)
            gains = counts * ((means - centers) ** 2).sum(axis=1)
            moved = gains > self.tol * objective / k
            settled = not moved.any()
            if settled or objective - goal > HORIZON * (last - objective):
                break
            centers = np.where(moved[:, None], means, centers)
        centers, squared = means, squared_distances(self.X, means, labels)
        return State(centers, labels, squared, float(self.w @ squared), settled)

    def _reassign(self, centers: Floats, labels: Ints, squared: Floats, moved: Flags) -> None:
        """Update nearest centers in place.

        A row whose own center has not moved is compared with the centers that have.
        """
        candidates = np.flatnonzero(moved)
        if not len(candidates):  # rounding: a split of nearly equal rows changed nothing
            return
        if 2 * len(candidates) >= len(centers):
            labels[:], squared[:] = self._nearest(centers)
            return
        stale = np.flatnonzero(moved[labels])
        found, distances = self._nearest(centers[candidates])
        better = distances < squared
        better[stale] = False
        labels[better], squared[better] = candidates[found[better]], distances[better]
        labels[stale], squared[stale] = self._nearest(centers, stale)

    def _nearest(self, centers: Floats, among: Ints | None = None) -> tuple[Ints, Floats]:
        self.work += len(self.X if among is None else among) * len(centers)
        return self.rows.nearest(centers, among)

    def _means(self, labels: Ints, k: int) -> tuple[Floats, Floats]:
        counts: Floats = np.bincount(labels, self.w, minlength=k).astype(np.float64)
        sums = self._sums(self.X, labels, self.w, k)
        return sums / np.where(counts > 0, counts, 1)[:, None], counts

    def _sums(self, X: Floats, labels: Ints, w: Floats, k: int) -> Floats:
        if self.in_tiles is None:
            return label_sums(X, labels, w, k)
        return self.in_tiles.sums(X, labels, w, k)

    # ------------------------------------------------------------------------------- moves

    def improve(self, state: State, n_tries: int) -> State:
        """Make moves until `n_tries` of them in a row were unsuccessful; with 0, make none."""
        while n_tries and len(state.centers) > 1 and self.work < self.limit:
            better = self._step(state, n_tries)
            if better is None:
                break
            state = better
        return state

    def remove_one(self, state: State) -> State:
        """Remove the center that is needed least."""
        losses, _ = self._losses(state)
        rest = np.delete(np.arange(len(losses)), int(losses.argmin()))
        return self.settle(state.centers[rest])

    def _step(self, state: State, n_tries: int) -> State | None:
        moves = self._moves(state)
        pairs = _pairs(moves)
        n_good = sum(moves.gains[i] > moves.losses[j] for i, j in pairs)
        tried = 0
        while n_good:
            after = self._try(state, moves, pairs[:n_good])
            if after is not None:
                return after
            tried += 1
            n_good //= 2
        done = pairs[:1] if tried else []  # alone, the last that was tried
        for pair in self._candidates(moves, done, max(0, n_tries - tried)):
            if self.work >= self.limit:
                break
            after = self._try(state, moves, [pair])
            if after is not None:
                return after
        return None

    def _try(self, state: State, moves: Moves, pairs: list[tuple[int, int]]) -> State | None:
        centers = state.centers.copy()
        for i, j in pairs:
            centers[i], centers[j] = moves.parts[i]
        after = self.settle(centers, state)
        return after if after.objective < state.objective * (1 - MIN_GAIN) else None

    def _candidates(
        self, moves: Moves, done: list[tuple[int, int]], n: int
    ) -> list[tuple[int, int]]:
        """Choose single moves: half of them by expected gain, half at random with a preference.

        Those of `done` have been tried.
        """
        net = moves.gains[:, None] - moves.losses
        np.fill_diagonal(net, -np.inf)
        net[moves.partners, np.arange(len(net))] = -np.inf
        for pair in done:
            net[pair] = -np.inf
        best = np.argsort(net, axis=None, kind="stable")[::-1][: (n + 1) // 2]
        pairs = [divmod(int(place), len(net)) for place in best if np.isfinite(net.flat[place])]
        share = moves.gains / moves.gains.sum() if moves.gains.any() else None
        cheap = np.argsort(moves.losses, kind="stable")
        for _ in range(n // 2):
            i = int(self.rng.choice(len(net), p=share))
            j = int(cheap[int(len(net) * self.rng.random() ** 2)])
            if i != j:
                pairs.append((i, j))
        return pairs

    def _moves(self, state: State) -> Moves:
        gains, parts = self._splits(state)
        losses, partners = self._losses(state)
        return Moves(gains, parts, losses, partners)

    def _losses(self, state: State) -> tuple[Floats, Ints]:
        k = len(state.centers)
        self.work += len(self.X) * k
        own, _, first, second = self.rows.nearest_two(state.centers)
        # the nearest other center; labels may lag behind by what has not converged
        elsewhere = np.where(own == state.labels, second, first)
        extra = self.w * np.maximum(elsewhere - state.squared, 0)
        leaving = np.bincount(state.labels, extra, minlength=k)
        counts = np.bincount(state.labels, self.w, minlength=k)
        merging = pairwise_distances(state.centers, state.centers) ** 2
        total = np.add.outer(counts, counts)
        merging *= np.multiply.outer(counts, counts) / np.where(total > 0, total, 1)
        np.fill_diagonal(merging, np.inf)
        return np.minimum(leaving, merging.min(axis=1)), merging.argmin(axis=1)

    def _splits(self, state: State) -> tuple[Floats, Floats]:
        """Split every cluster in two, along its longest axis and then by steps of 2-means."""
        k, labels = len(state.centers), state.labels
        offset = self.X - state.centers[labels]
        mass = self.w * state.squared
        far = np.lexsort((mass, labels))[np.cumsum(np.bincount(labels, minlength=k)) - 1]
        axis = offset[far]
        for _ in range(3):
            axis /= np.maximum(np.linalg.norm(axis, axis=1, keepdims=True), 1e-300)
            along = np.einsum("ij,ij->i", offset, axis[labels])
            axis = self._sums(offset, labels, self.w * along, k)
        side = along > 0
        for _ in range(4):
            means, counts = self._halves(offset, labels, side, k)
            difference = means[:, 1] - means[:, 0]
            middle = (means[:, 1] + means[:, 0]) / 2
            threshold = np.einsum("ij,ij->i", difference, middle)
            side = np.einsum("ij,ij->i", offset, difference[labels]) > threshold[labels]
        means, counts = self._halves(offset, labels, side, k)
        total = counts.sum(axis=1)
        gains = counts.prod(axis=1) / np.where(total > 0, total, 1)
        gains = gains * ((means[:, 1] - means[:, 0]) ** 2).sum(axis=1)
        return gains, state.centers[:, None] + means

    def _halves(self, offset: Floats, labels: Ints, side: Flags, k: int) -> tuple[Floats, Floats]:
        half = 2 * labels + side
        counts: Floats = np.bincount(half, self.w, minlength=2 * k).astype(np.float64)
        sums = self._sums(offset, half, self.w, 2 * k)
        means = sums / np.where(counts > 0, counts, 1)[:, None]
        return means.reshape(k, 2, -1), counts.reshape(k, 2)


class InTiles:
    """Rows as compiled code takes them."""

    def __init__(self, X: Floats, w: Floats) -> None:
        from fedjigsaw.kernels.compiled import settling  # lazy: numba

        self.kernels = settling
        self.X, self.w = np.ascontiguousarray(X), w
        self.tiles, self.norms = settling.in_tiles(self.X)

    def settle(
        self, centers: Floats, moved: Flags, goal: float, n_steps: int, tol: float, labels: Ints
    ) -> tuple[State, float]:
        """Run Lloyd's iterations. Return where they end, and the work that this was."""
        means, squared = np.array(centers), np.empty(len(labels))
        rows = (self.X, self.w, self.tiles, self.norms)
        objective, settled, work = self.kernels.settle(
            *rows, means, moved, goal, n_steps, tol, HORIZON, labels, squared
        )
        return State(means, labels, squared, objective, settled), work

    def sums(self, X: Floats, labels: Ints, w: Floats, k: int) -> Floats:
        """Return the weighted sum of the rows of each label."""
        sums = np.zeros((k, X.shape[1]))
        self.kernels.sums_of(X, labels, w, sums)
        return sums


def _pairs(moves: Moves) -> list[tuple[int, int]]:
    """Pair clusters to split, by decreasing gain, with centers to remove, by increasing loss.

    Each is used once, and a center is not removed to split the cluster it would be merged with.
    """
    used = np.zeros(len(moves.gains), dtype=bool)
    losers = np.argsort(moves.losses, kind="stable")
    pairs = []
    for i in np.argsort(-moves.gains, kind="stable"):
        if used[i]:
            continue
        j = next((j for j in losers if not used[j] and j != i and moves.partners[j] != i), None)
        if j is None:
            break
        used[[i, j, moves.partners[j]]] = True
        pairs.append((int(i), int(j)))
    return pairs
