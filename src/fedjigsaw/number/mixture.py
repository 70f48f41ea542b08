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

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.number.cells import Cells

PRIOR_ROWS = 1.0  # rows of average scatter that each component has in advance: no variance is zero
MIN_ROWS = 10.0  # a component stands for at least two cells of five rows
START_BACKGROUND = 0.01  # share of the rows that the background starts with; EM finds its own
TOL = 1e-3  # an EM step must gain this share of a parameter's penalty
COMPILED_COLUMNS = 8  # up to so many, compiled moments are faster than matrix products
LONG = 3.0  # times as long as wide, from where on nearest centers cut a cluster visibly
NO_ROWS = 1e-9  # rows of an empty component, whose logarithm is finite
NO_VARIANCE = 1e-12  # likewise
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
        return Moments(*(values[components] for values in vars(self).values()))

    def apart(self) -> Floats:
        """Return the squared distances between all means."""
        norms = (self.means**2).sum(axis=1)
        squared: Floats = np.maximum(norms[:, None] - 2 * self.means @ self.means.T + norms, 0)
        return squared

    def merge(self, cells: Cells, a: int, b: int) -> None:
        """Let component `a` take `b` in, which stays, too."""
        union = self.unions(cells, np.array([a]), np.array([b]))
        for name, values in vars(self).items():
            values[a] = getattr(union, name)[0]

    def unions(self, cells: Cells, a: Ints, b: Ints) -> "Moments":
        """Return the moments of components `a` joined with components `b`."""
        counts = np.maximum(self.counts[a] + self.counts[b], NO_VARIANCE)
        share, apart = self.counts[b] / counts, self.means[b] - self.means[a]
        reduced, weight = apart @ cells.basis, self.counts[a] * share
        between = weight[:, None, None] * reduced[:, :, None] * reduced[:, None, :]
        return Moments(
            self.counts[a] + self.counts[b],
            self.means[a] + share[:, None] * apart,
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

    def log_peaks(self, cells: Cells) -> Floats:
        """Return the log density of each component at its mean."""
        pulled = np.einsum("kab,ba->k", self.pulls, cells.reduced_quantization)
        hidden = (cells.quantization.sum() - pulled) / self.variances
        peaks: Floats = -(hidden + self.log_dets + cells.n_columns * LOG_2PI) / 2
        return peaks


@dataclass(frozen=True)
class Mixture:
    """Components with their shapes.

    Attributes
    ----------
    background : rows that belong to no component.
    bic : half of the usual BIC; infinite before EM.
    shares : shape (n, k), share of each cell's rows that belong to each component.
    depths : the valleys between pairs of components that were measured so far.
    """

    moments: Moments
    shapes: Shapes
    background: float = 0.0
    bic: float = np.inf
    shares: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    depths: dict[tuple[int, int], float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.moments)

    @cached_property
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
    k, (d, r) = shares.shape[1], cells.basis.shape
    if cells.fast and d <= COMPILED_COLUMNS:
        from fedjigsaw.kernels.compiled import mixtures as kernels  # lazy: numba

        counts, means, scatters = np.empty(k), np.empty((k, d)), np.empty((k, d, d))
        lines = np.ascontiguousarray(shares.T)
        data = cells.reduced_columns, cells.counts, cells.sse
        kernels.moments(*data, lines, counts, means, scatters)
        traces = scatters.trace(axis1=1, axis2=2)
    else:
        rows = shares * cells.counts[:, None]
        counts = rows.sum(axis=0)
        means = rows.T @ cells.points / np.maximum(counts, NO_VARIANCE)[:, None]
        inside = shares.T @ cells.sse
        traces = rows.T @ cells.norms - counts * (means**2).sum(axis=1) + inside
        reduced = means @ cells.basis
        scatters = np.empty((k, r, r))
        for j in range(k):
            used = np.flatnonzero(rows[:, j] > NO_ROWS)
            offset = cells.reduced[used] - reduced[j]
            scatters[j] = (offset * rows[used, j, None]).T @ offset
        scatters[:, range(r), range(r)] += (inside / d)[:, None]
    traces = np.maximum(traces + counts * cells.quantization.sum(), 0)
    return Moments(
        counts, means, traces, scatters + counts[:, None, None] * cells.reduced_quantization
    )


def shapes_of(cells: Cells, moments: Moments) -> Shapes:
    """Choose how many free axes each component has: as many as lower its BIC."""
    return _shapes(cells, moments, *np.linalg.eigh(moments.scatters))[0]


def hard_costs(cells: Cells, moments: Moments) -> Floats:
    """Return the classification cost of components: minus their rows' log-likelihood, plus BIC's
    penalty."""
    scatters = np.linalg.eigvalsh(moments.scatters)  # without axes: several times faster
    shapes, shrink = _shapes(cells, moments, scatters, np.zeros_like(moments.scatters))
    squared = moments.traces - (shrink * scatters).sum(axis=1)
    logs = shapes.log_dets + cells.n_columns * LOG_2PI
    logs -= 2 * np.log(np.maximum(moments.counts, NO_ROWS) / cells.n_rows)
    costs: Floats = (moments.counts * logs + squared / shapes.variances + cells.log_rows) / 2
    return costs + shapes.penalties


def _shapes(
    cells: Cells, moments: Moments, values: npt.NDArray[np.floating[Any]], vectors: Floats
) -> tuple[Shapes, Floats]:
    """Choose free axes by the eigenvalues of scatters, the smallest first.

    Return the shapes, and by how much each axis shrinks.
    """
    d, (k, r), counts = cells.n_columns, values.shape, moments.counts
    rows, prior = np.maximum(counts, NO_ROWS) + PRIOR_ROWS, PRIOR_ROWS * cells.floor
    values = np.maximum((values + prior) / rows[:, None], NO_VARIANCE)
    traces = (moments.traces + d * prior) / rows
    variances, log_dets, inverse_traces, longest, penalties = np.empty((5, k))
    pulls, n_free = np.empty_like(vectors), np.empty(k, np.int64)
    shapes = Shapes(pulls, variances, log_dets, inverse_traces, n_free, longest, penalties)
    if cells.fast:
        from fedjigsaw.kernels.compiled import mixtures as kernels  # lazy: numba

        given = values, vectors, traces, counts, d, cells.log_rows
        kernels.free_axes(*given, *vars(shapes).values())
    else:
        q = np.arange(min(r, d - 1) + 1)
        longer = np.zeros((k, r + 1))
        longer[:, 1:] = values[:, ::-1]
        taken = np.cumsum(longer, axis=1)[:, q]
        rest = np.maximum((traces[:, None] - taken) / (d - q), NO_VARIANCE)
        longer[:, 0] = 1
        dets = np.cumsum(np.log(longer), axis=1)[:, q] + (d - q) * np.log(rest)
        n_parameters = d * q - q * (q + 1) / 2 + q + 1
        costs = counts[:, None] / 2 * dets + cells.log_rows / 2 * n_parameters
        # a free axis that is no longer than the others is none
        costs[:, 1:][longer[:, 1 : len(q)] <= rest[:, 1:]] = np.inf
        n_free[:], at = costs.argmin(axis=1), np.arange(k)
        variances[:], log_dets[:] = rest[at, n_free], dets[at, n_free]
        longest[:] = np.where(n_free > 0, values[:, -1], variances)
        penalties[:] = cells.log_rows / 2 * (n_parameters[n_free] + d)
    free = np.arange(r)[::-1] < n_free[:, None]
    shrink = np.where(free, 1 - variances[:, None] / values, 0.0)
    if not cells.fast:
        pulls[:] = (vectors * shrink[:, None]) @ vectors.transpose(0, 2, 1)
        inverse_traces[:] = (d - shrink.sum(axis=1)) / variances
    return shapes, shrink


def mixture_of(cells: Cells, moments: Moments, background: float = 0.0) -> Mixture:
    return Mixture(moments, shapes_of(cells, moments), background)


def from_labels(cells: Cells, labels: Ints, background: float = 0.0) -> Mixture:
    """Return the mixture in which each cell belongs to one component, or to none (-1)."""
    inside = np.flatnonzero(labels >= 0)
    shares = np.zeros((len(labels), int(labels.max()) + 1))
    shares[inside, labels[inside]] = 1
    return replace(mixture_of(cells, moments_of(cells, shares), background), shares=shares)


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
    densities: Floats = shapes.log_peaks(cells) - squared / 2
    return densities


def fit(cells: Cells, mixture: Mixture, max_iter: int = 20) -> Mixture:
    """Run EM, until a step gains less than a thousandth of a parameter's penalty.

    A component that loses its rows is left out, the smallest one first.
    """
    mixture = replace(mixture, background=mixture.background or START_BACKGROUND * cells.n_rows)
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
    return replace(mixture, bic=penalty - likelihood, shares=shares, depths={})


def _memberships(cells: Cells, mixture: Mixture) -> tuple[Floats, float]:
    """Return the shares of components and background in each cell, and the log-likelihood."""
    rows = np.append(np.maximum(mixture.moments.counts, TINY), max(mixture.background, NO_ROWS))
    prior = np.log(rows / cells.n_rows)
    if not cells.fast:
        logs = np.full((len(cells.counts), len(rows)), cells.log_uniform)
        logs[:, :-1] = log_densities(cells, mixture)
        logs += prior
        top = logs.max(axis=1)
        shares = np.exp(logs - top[:, None])
        sums = shares.sum(axis=1)
        return shares / sums[:, None], float(cells.counts @ (top + np.log(sums)))

    from fedjigsaw.kernels.compiled import mixtures as kernels  # lazy: numba

    shapes, means, k = mixture.shapes, mixture.moments.means, len(mixture)
    d, r = cells.basis.shape
    forms, across = -shapes.pulls, np.empty((k, 0))
    if d == r:
        forms.reshape(k, -1)[:, :: r + 1] += 1
    else:
        across = (means**2).sum(axis=1)[:, None] + cells.norms - 2 * means @ cells.points.T
    shares = np.empty((k + 1, len(cells.counts)))
    data = cells.reduced_columns, across, cells.counts, cells.variances
    components = means @ cells.basis, forms, 0.5 / shapes.variances, 0.5 * shapes.inverse_traces
    logs = prior + np.append(shapes.log_peaks(cells), cells.log_uniform)
    likelihood = kernels.memberships(*data, *components, logs, shares)
    return shares.T, likelihood
