r"""Weighted k-means that escapes poor local optima: the server's solver.

The problem is that of :mod:`fedjigsaw.kernels.kmeans`: rows :math:`x_n` with weights :math:`w_n`
and at most k centers; minimize :math:`\sum_n w_n \min_j \|x_n - c_j\|^2`. The search for them is on
distinct rows of a common scale.

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

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import (
    Solution,
    label_sums,
    means_of,
    partition_of,
    squared_distances,
)
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.kernels.nearest import rows_of

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
SAMPLE, PER_CENTER = 20_000, 200  # rows of a sample, in all and for each center, at least


def solve(
    X: Floats,
    weights: Floats,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    max_iter: int = 300,
    tol: float = 1e-4,
    n_tries: int | None = None,
    backend: Backend | None = None,
    fast: bool | None = None,
) -> Solution:
    """Cluster weighted rows around at most `n_clusters` centers, better than restarts do.

    The result does not depend on the order of the rows, and equal rows act as one row with the sum
    of their weights.

    Parameters
    ----------
    weights : shape (n,), > 0.
    max_iter, tol : stopping rule of Lloyd's iterations. `tol` is relative to the objective: stop
        when moving the centers to their means gains less than that.
    n_tries : number of unsuccessful moves after which the search ends. None chooses it by the
        number of clusters; 0 makes no moves.
    backend : finds the nearest centers of rows, and sums of these, if it is a
        :class:`~fedjigsaw.kernels.backends.HoldingBackend`; otherwise, NumPy or compiled code does.
        None is the one that the environment asks for.
    fast : whether compiled code runs Lloyd's iterations; None decides by the size and the backend.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> solution = solve(X, np.array([1.0, 3.0, 1.0, 1.0]), 2, rng=np.random.default_rng(0))
    >>> solution.centers.ravel().tolist(), solution.counts.tolist(), solution.inertia
    ([0.75, 10.5], [4.0, 2.0], 1.25)
    """
    rows, w, inverse = distinct_rows(X, weights)
    k = min(n_clusters, len(rows))
    n_tries = patience(n_clusters) if n_tries is None else n_tries
    search = Search(_scaled(rows), w, rng, max_iter, tol, k, backend, fast)
    n_sampled = max(SAMPLE, PER_CENTER * k)
    if len(rows) > MANY * n_sampled:
        labels = search.by_samples(k, n_sampled, n_tries).labels
    else:
        labels = search.start(k, n_tries).labels
    return partition_of(X, labels[inverse], weights)


def improve(
    X: Floats,
    weights: Floats,
    centers: Floats,
    *,
    max_iter: int = 300,
    n_tries: int = 10,
    backend: Backend | None = None,
) -> Floats:
    """Improve known centers by Lloyd's iterations and by moves that promise a gain.

    Much faster than :func:`solve` where the rows have changed little since the centers were found.
    `n_tries` and `backend` are as there.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> sorted(improve(X, np.ones(4), np.array([[0.0], [1.0]])).ravel().tolist())
    [0.5, 10.5]
    """
    rows, w, _ = distinct_rows(X, weights)
    middle = rows.mean(axis=0)
    scale = np.abs(rows - middle).max() or 1.0
    rng, k = np.random.default_rng(0), len(centers)
    search = Search((rows - middle) / scale, w, rng, max_iter, 1e-4, k, backend)
    shift = middle + scale * search.middle
    state = search.improve(search.settle((centers - shift) / scale), n_tries)
    found: Floats = state.centers * scale + shift
    return found


def solve_each(
    X: Floats,
    weights: Floats,
    max_clusters: int,
    *,
    rng: np.random.Generator,
    max_iter: int = 300,
    tol: float = 1e-4,
    fast: bool | None = None,
) -> Iterator[Solution]:
    """Yield solutions for every number of clusters, from `max_clusters` down to 1.

    Each starts from the previous one without the center that is needed least. With fewer distinct
    rows than `max_clusters`, the first solution has one center per distinct row. `fast` is as in
    :func:`solve`.
    """
    rows, w, inverse = distinct_rows(X, weights)
    k = min(max_clusters, len(rows))
    search = Search(_scaled(rows), w, rng, max_iter, tol, k, fast=fast)
    state = search.start(k)
    first = search.work
    state = search.improve(state, patience(max_clusters))
    while True:
        yield partition_of(X, state.labels[inverse], weights)
        if len(state.centers) == 1:
            return
        search.limit = search.work + first / 2  # the start is close to a solution
        state = search.improve(search.remove_one(state), patience(len(state.centers)) // 4)


def patience(n_clusters: int) -> int:
    """Return the default number of unsuccessful moves after which the search ends."""
    return 10 + n_clusters // 2


def distinct_rows(X: Floats, weights: Floats) -> tuple[Floats, Floats, Ints]:
    """Return distinct rows sorted by coordinates, their total weights, and the index of each row
    of `X` among them."""
    inverse = np.empty(len(X), dtype=np.int64)
    order = np.argsort(X[:, 0], kind="stable")
    if (np.diff(X[order, 0]) > 0).all():  # no ties: the other columns do not matter
        inverse[order] = np.arange(len(X))
        return X[order], weights[order], inverse
    order = np.lexsort(X.T[3::-1])
    if not (np.diff(X[order, :4], axis=0) != 0).any(axis=1).all():  # compare all columns
        order = np.lexsort((weights, *X.T[::-1]))
    new = np.append(True, (np.diff(X[order], axis=0) != 0).any(axis=1))
    inverse[order] = np.cumsum(new) - 1
    return X[order[new]], np.add.reduceat(weights[order], np.flatnonzero(new)), inverse


def _scaled(X: Floats) -> Floats:
    """Center the rows and scale them to at most 1: squares and their products stay in range.

    In place: there may be a million rows.
    """
    X -= X.mean(axis=0)
    X /= max(X.max(), -X.min()) or 1.0
    return X


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
            means = means_of(sums, counts, at)
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
        for _ in range(n_steps):
            self._reassign(centers, labels, squared, moved)
            counts: Floats = np.bincount(labels, self.w, minlength=k).astype(np.float64)
            means = means_of(label_sums(self.X, labels, self.w, k), counts, centers)
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
        moves = Moves(*self._splits(state), *self._losses(state))
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
            axis = label_sums(offset, labels, self.w * along, k)
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
        sums = label_sums(offset, half, self.w, 2 * k)
        means = sums / np.where(counts > 0, counts, 1)[:, None]
        return means.reshape(k, 2, -1), counts.reshape(k, 2)


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
