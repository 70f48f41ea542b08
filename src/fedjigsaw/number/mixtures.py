r"""Gaussian mixtures fitted to cells, each component with as many long axes as the data pay for.

A cell i stands for :math:`n_i` rows with mean :math:`c_i` and summed squares :math:`s_i`. All rows
of a cell share their memberships (Verbeek, Vlassis and Nunnink, 2003), which bounds the
log-likelihood of the rows from below:

.. math:: \sum_i n_i \log \sum_j \pi_j \exp \overline{\log p_j(x)} ,

with the mean over the rows of the cell. That needs only :math:`n_i, c_i, s_i` where a component is
round; otherwise the scatter within a cell counts as round.

The covariance of component j has :math:`q_j` free axes, and one variance for all others
(probabilistic PCA, Tipping and Bishop, 1999): q = 0 is round, q = d - 1 is full. The BIC decides
about q. Rows that fit no component belong to a uniform background.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.number.cells import Cells

PRIOR_ROWS = 1.0  # rows of average scatter that each component has in advance: no variance is zero
MIN_ROWS = 10.0  # a component stands for at least two cells of five rows
START_BACKGROUND = 0.01  # share of the rows that the background starts with; EM finds its own
TOL = 1e-3  # an EM step must gain this share of a parameter's penalty
FEW_COLUMNS = 8  # up to which compiled moments are faster than matrix products
TINY = 1e-300
LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Moments:
    """What is known of the rows of each component.

    Attributes
    ----------
    counts : shape (k,), rows.
    means : shape (k, d).
    traces : shape (k,), trace of the scatter matrix.
    scatters : shape (k, r, r), scatter along the axes of the cells' basis.
    """

    counts: Floats
    means: Floats
    traces: Floats
    scatters: Floats

    def __len__(self) -> int:
        return len(self.counts)

    def select(self, components: Ints | npt.NDArray[np.bool_]) -> "Moments":
        return Moments(
            self.counts[components],
            self.means[components],
            self.traces[components],
            self.scatters[components],
        )

    def unions(self, cells: Cells, a: Ints, b: Ints) -> "Moments":
        """Return the moments of components `a` joined with components `b`."""
        counts = self.counts[a] + self.counts[b]
        weight = self.counts[a] * self.counts[b] / np.maximum(counts, 1e-12)
        apart = self.means[a] - self.means[b]
        reduced = apart @ cells.basis
        sums = self.counts[a, None] * self.means[a] + self.counts[b, None] * self.means[b]
        between = weight[:, None, None] * reduced[:, :, None] * reduced[:, None, :]
        return Moments(
            counts,
            sums / np.maximum(counts, 1e-12)[:, None],
            self.traces[a] + self.traces[b] + weight * (apart**2).sum(axis=1),
            self.scatters[a] + self.scatters[b] + between,
        )


@dataclass(frozen=True)
class Shapes:
    r"""Covariances: the inverse of each is :math:`(I - B A B^T) / v`, with the cells' basis B.

    Attributes
    ----------
    pulls : shape (k, r, r), A; zero for a round component.
    variances : shape (k,), v, the variance along all axes that are not free.
    log_dets, inverse_traces : shape (k,), of the covariance and of its inverse.
    n_free : shape (k,), number of free axes.
    longest : shape (k,), variance along the longest axis.
    penalties : shape (k,), BIC's, for mean and covariance.
    """

    pulls: Floats
    variances: Floats
    log_dets: Floats
    inverse_traces: Floats
    n_free: Ints
    longest: Floats
    penalties: Floats


@dataclass(frozen=True)
class Mixture:
    """Components with their shapes.

    Attributes
    ----------
    background : rows that belong to no component.
    bic : half of the usual BIC; infinite before EM.
    shares : shape (n, k), share of each cell's rows that belong to each component.
    """

    moments: Moments
    shapes: Shapes
    background: float = 0.0
    bic: float = np.inf
    shares: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def __len__(self) -> int:
        return len(self.moments)

    @property
    def owners(self) -> Ints:
        """The component that has most of each cell; the number k is the background."""
        owners: Ints = self.shares.argmax(axis=1)
        return owners

    def icl(self, cells: Cells) -> float:
        """Return the BIC plus the entropy of the memberships: overlapping clusters cost."""
        entropy = (self.shares * np.log(np.maximum(self.shares, TINY))).sum(axis=1)
        return self.bic - float(cells.counts @ entropy)


def moments_of(cells: Cells, shares: Floats) -> Moments:
    """Return the moments of components that have these shares of each cell."""
    if cells.fast and cells.n_columns <= FEW_COLUMNS:
        return _with_grain(cells, *_compiled_moments(cells, shares))
    rows = shares * cells.counts[:, None]
    counts = rows.sum(axis=0)
    means = rows.T @ cells.points / np.maximum(counts, 1e-12)[:, None]
    inside = shares.T @ cells.sse
    traces = rows.T @ cells.norms - counts * (means**2).sum(axis=1) + inside
    reduced = means @ cells.basis
    n_axes = cells.basis.shape[1]
    scatters = np.empty((len(counts), n_axes, n_axes))
    for j in range(len(counts)):
        used = np.flatnonzero(rows[:, j] > 1e-9)
        offset = cells.reduced[used] - reduced[j]
        scatters[j] = (offset * rows[used, j, None]).T @ offset
    axes = np.arange(n_axes)
    scatters[:, axes, axes] += (inside / cells.n_columns)[:, None]
    return _with_grain(cells, counts, means, traces, scatters)


def _compiled_moments(cells: Cells, shares: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    from fedjigsaw.kernels.compiled import mixtures as kernels  # lazy: numba

    lines, k, d = np.ascontiguousarray(shares.T), shares.shape[1], cells.n_columns
    counts, means, scatters = np.empty(k), np.empty((k, d)), np.empty((k, d, d))
    kernels.moments(cells.columns, cells.counts, cells.sse, lines, counts, means, scatters)
    return counts, means, scatters.trace(axis1=1, axis2=2), scatters


def _with_grain(
    cells: Cells, counts: Floats, means: Floats, traces: Floats, scatters: Floats
) -> Moments:
    if cells.has_grain:
        traces = traces + counts * cells.grain.sum()
        scatters = scatters + counts[:, None, None] * cells.reduced_grain
    return Moments(counts, means, np.maximum(traces, 0), scatters)


def shapes_of(cells: Cells, moments: Moments) -> Shapes:
    """Choose how many free axes each component has: as many as lower its BIC."""
    d, r, k = cells.n_columns, cells.basis.shape[1], len(moments)
    prior = PRIOR_ROWS * cells.floor
    rows = (np.maximum(moments.counts, 1e-9) + PRIOR_ROWS)[:, None]
    traces = (moments.traces[:, None] + d * prior) / rows
    values, vectors = np.linalg.eigh((moments.scatters + prior * np.eye(r)) / rows[:, :, None])
    if cells.fast:
        return _compiled_shapes(cells, values, vectors, traces[:, 0], moments.counts)
    values, vectors = np.maximum(values[:, ::-1], 1e-12), vectors[:, :, ::-1]
    n_free = np.arange(min(r, d - 1) + 1)
    none = np.zeros((k, 1))
    taken = np.concatenate([none, np.cumsum(values, axis=1)], axis=1)[:, n_free]
    logs = np.concatenate([none, np.cumsum(np.log(values), axis=1)], axis=1)[:, n_free]
    rest = np.maximum((traces - taken) / (d - n_free), 1e-12)
    log_dets = logs + (d - n_free) * np.log(rest)
    n_parameters = d * n_free - n_free * (n_free + 1) / 2 + n_free + 1
    costs = moments.counts[:, None] / 2 * log_dets + cells.log_rows / 2 * n_parameters
    # a free axis that is no longer than the others is none
    costs[:, 1:][values[:, : len(n_free) - 1] <= rest[:, 1:]] = np.inf
    best, at = costs.argmin(axis=1), np.arange(k)
    variances = rest[at, best]
    free = np.arange(r) < best[:, None]
    shrink = np.where(free, 1 - variances[:, None] / values, 0.0)
    return Shapes(
        pulls=np.einsum("kab,kb,kcb->kac", vectors, shrink, vectors),
        variances=variances,
        log_dets=log_dets[at, best],
        inverse_traces=(d - shrink.sum(axis=1)) / variances,
        n_free=best,
        longest=np.where(best > 0, values[:, 0], variances),
        penalties=cells.log_rows / 2 * (n_parameters[best] + d),
    )


def _compiled_shapes(
    cells: Cells, values: Floats, vectors: Floats, traces: Floats, counts: Floats
) -> Shapes:
    from fedjigsaw.kernels.compiled import mixtures as kernels  # lazy: numba

    k = len(counts)
    variances, log_dets, inverse_traces, longest, penalties = np.empty((5, k))
    shapes = Shapes(
        pulls=np.empty_like(vectors),
        variances=variances,
        log_dets=log_dets,
        inverse_traces=inverse_traces,
        n_free=np.empty(k, np.int64),
        longest=longest,
        penalties=penalties,
    )
    kernels.free_axes(
        values, vectors, traces, counts, cells.n_columns, cells.log_rows, *vars(shapes).values()
    )
    return shapes


def hard_costs(cells: Cells, moments: Moments) -> Floats:
    """Return the classification cost of components: minus their rows' log-likelihood, plus BIC's
    penalty."""
    shapes, counts = shapes_of(cells, moments), moments.counts
    traces = moments.traces - np.einsum("kab,kba->k", shapes.pulls, moments.scatters)
    shares = np.maximum(counts, 1e-9) / cells.n_rows
    costs: Floats = (
        counts / 2 * (shapes.log_dets + cells.n_columns * LOG_2PI)
        + traces / shapes.variances / 2
        - counts * np.log(shares)
        + shapes.penalties
        + cells.log_rows / 2
    )
    return costs


def mixture_of(cells: Cells, moments: Moments, background: float = 0.0) -> Mixture:
    return Mixture(moments, shapes_of(cells, moments), background)


def from_labels(cells: Cells, labels: Ints, background: float = 0.0) -> Mixture:
    """Return the mixture in which each cell belongs to one component, or to none (-1)."""
    inside = np.flatnonzero(labels >= 0)
    shares = np.zeros((len(labels), int(labels.max()) + 1))
    shares[inside, labels[inside]] = 1
    moments = moments_of(cells, shares)
    return Mixture(moments, shapes_of(cells, moments), background, shares=shares)


def log_densities(cells: Cells, mixture: Mixture) -> Floats:
    """Return the mean log density of each cell's rows under each component, shape (n, k)."""
    shapes, means = mixture.shapes, mixture.moments.means
    squared = cells.norms[:, None] - 2 * cells.points @ means.T + (means**2).sum(axis=1)
    reduced = means @ cells.basis
    for j in np.flatnonzero(shapes.n_free):
        offset = cells.reduced - reduced[j]
        squared[:, j] -= ((offset @ shapes.pulls[j]) * offset).sum(axis=1)
    squared = np.maximum(squared, 0) / shapes.variances
    squared += cells.variances[:, None] * shapes.inverse_traces
    if cells.has_grain:
        pulled = np.einsum("kab,ba->k", shapes.pulls, cells.reduced_grain)
        squared += (cells.grain.sum() - pulled) / shapes.variances
    densities: Floats = -(squared + shapes.log_dets + cells.n_columns * LOG_2PI) / 2
    return densities


def fit(cells: Cells, mixture: Mixture, max_iter: int = 20) -> Mixture:
    """Run EM, until a step gains less than a thousandth of a parameter's penalty.

    A component that loses its rows is left out, the smallest one first.
    """
    last = -np.inf
    for step in range(max_iter + 1):
        shares, likelihood = _memberships(cells, mixture)
        gain = likelihood - last
        if step == max_iter or gain < max(TOL * cells.log_rows, 1e-9 * abs(likelihood)):
            break
        last = likelihood
        background = max(float(cells.counts @ shares[:, -1]), 1e-3)
        moments = moments_of(cells, shares[:, :-1])
        smallest = int(moments.counts.argmin())
        if moments.counts[smallest] <= MIN_ROWS and len(moments) > 1:
            # one at a time: others may grow by its rows
            moments = moments.select(np.arange(len(moments)) != smallest)
        mixture = mixture_of(cells, moments, background)
    penalty = float(mixture.shapes.penalties.sum()) + cells.log_rows / 2 * len(mixture)
    return Mixture(
        mixture.moments, mixture.shapes, mixture.background, penalty - likelihood, shares
    )


def _memberships(cells: Cells, mixture: Mixture) -> tuple[Floats, float]:
    """Return the shares of components and background in each cell, and the log-likelihood."""
    rows = np.append(np.maximum(mixture.moments.counts, TINY), max(mixture.background, 1e-9))
    if cells.fast:
        return _compiled_memberships(cells, mixture, np.log(rows / cells.n_rows))
    logs = np.full((len(cells.counts), len(rows)), cells.log_uniform)
    logs[:, :-1] = log_densities(cells, mixture)
    logs += np.log(rows / cells.n_rows)
    top = logs.max(axis=1)
    shares = np.exp(logs - top[:, None])
    sums = shares.sum(axis=1)
    return shares / sums[:, None], float(cells.counts @ (top + np.log(sums)))


def _compiled_memberships(cells: Cells, mixture: Mixture, logs: Floats) -> tuple[Floats, float]:
    from fedjigsaw.kernels.compiled import mixtures as kernels  # lazy: numba

    shapes, means, k = mixture.shapes, mixture.moments.means, len(mixture)
    d, r = cells.basis.shape
    forms, across = -shapes.pulls, np.empty((k, 0))
    if d == r:
        forms.reshape(k, -1)[:, :: r + 1] += 1
    else:
        across = (means**2).sum(axis=1)[:, None] + cells.norms - 2 * means @ cells.points.T
    constant = shapes.log_dets + d * LOG_2PI
    if cells.has_grain:
        pulled = np.einsum("kab,ba->k", shapes.pulls, cells.reduced_grain)
        constant = constant + (cells.grain.sum() - pulled) / shapes.variances
    logs[:-1] -= constant / 2
    logs[-1] += cells.log_uniform
    shares = np.empty((k + 1, len(cells.counts)))
    likelihood = kernels.memberships(
        cells.reduced_columns,
        across,
        cells.counts,
        cells.variances,
        means @ cells.basis,
        forms,
        0.5 / shapes.variances,
        0.5 * shapes.inverse_traces,
        logs,
        shares,
    )
    return shares.T, likelihood
