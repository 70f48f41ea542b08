"""Cells: small groups of rows that clients send, and what the server sees of all rows by them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fedjigsaw._rows import is_sparse
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import Problem, Solution, kmeans_many, nearest_centers, partition_of
from fedjigsaw.kernels.nearest import compiles, nearest

CELLS_PER_CLIENT = 200  # at most: what a default policy lets a site send
ROWS_PER_CELL = 5  # as in the default guard
PAIRS = 20  # a client of few rows makes up to so many cells of two rows, else clusters mix
SAMPLED_ROWS = 20  # per cell, from which the cells of many rows are found
MAX_ITER = 8  # steps of k-means, after which cells are about 1 % larger than at its end

FEW_VALUES = 20  # up to so many distinct rows may well be all the values that there are
DUPLICATED = 0.5  # most rows are duplicates if the share of distinct ones is below this
ENOUGH_ROWS = CELLS_PER_CLIENT * ROWS_PER_CELL  # distinct rows for the largest number of cells
SEARCHED_ROWS = 20 * ENOUGH_ROWS  # show nearly all distinct rows, if these are not enough

UNKNOWN = -1.0  # quantization variance of a column in which too few rows share a value to tell
SHARED_BY = 5  # rows that share a value before it may influence anything that is sent
MAX_VALUES = 1000  # of more distinct values, the steps are too small to matter
FIRST_ROWS, DISTINCT = 256, 0.95  # a column is continuous if of its first rows so many differ
FEW_ROWS = 64  # a client of at most so many rows usually shares no value, which is quickly seen
NEARLY_ALL = 0.9  # share of the rows that have common values, in a column of steps
MANY_STEPS, DENSE = 10, 0.5  # of so many common values half of the steps suffice: others are rarer
MISSING = 0.25  # share of the rows that one value beside the steps may have: a mean, for missing
MANY = 20  # times as many rows are enough to tell that a column has no common values

MAX_AXES = 20  # long axes of a cluster are looked for among so many principal axes of all cells
FEW_CELLS = 20  # per client, below which a cell may well hold rows of several clusters
MERGED_CELLS = 3000  # the server merges more cells to so many: 20 for each of 150 clusters
COMPILED_CELLS = 300  # from so many on, compiled code saves more than it takes to load
TREE_COLUMNS = 8  # up to so many, a tree finds nearest cells faster than all distances
LEAST_VARIANCE = 1e-9  # of a column, relative to that of an average one: less is rounding
MOST_ROWS = 0.9  # their spread is the unit if the others are so far away that it seems rounding
ROUNDING = 1e-13  # of numbers, relative to the largest


def n_cells(n_rows: int) -> int:
    """Return the number of cells of a client with so many rows.

    Examples
    --------
    >>> [n_cells(n) for n in (1, 12, 50, 500, 10_000)]
    [1, 6, 20, 100, 200]
    """
    wanted = max(n_rows // ROWS_PER_CELL, min(n_rows // 2, PAIRS))
    return max(1, min(CELLS_PER_CLIENT, wanted))


def sends_cells(params: Mapping[str, Any]) -> bool:
    """Tell whether clients send cells: to find the number of clusters, or their shapes.

    Examples
    --------
    >>> sends_cells({"n_clusters": 8, "shape": "round"}), sends_cells({"n_clusters": "auto"})
    (False, True)
    """
    shaped = params.get("shape", "round") != "round" or bool(params.get("noise"))
    return shaped or params.get("n_clusters") == "auto"


def find_cells(problems: Sequence[Problem], *, backend: Backend | None = None) -> list[Solution]:
    """Divide the rows of clients into cells: one start of k-means, on a sample of many rows.

    Cells need not be clusters, only small: more starts or steps would cost time and change nothing.
    """
    samples = [_sample(problem) for problem in problems]
    found = kmeans_many(samples, n_init=1, max_iter=MAX_ITER, backend=backend)
    return [
        cells
        if sample is problem
        else partition_of(problem.X, nearest_centers(problem.X, cells.centers)[0], problem.weights)
        for problem, sample, cells in zip(problems, samples, found, strict=True)
    ]


def _sample(problem: Problem) -> Problem:
    """Draw rows, if there are many; a row with a weight may be drawn several times."""
    X, n, rng, weights = problem
    n_rows, n_drawn = X.shape[0], SAMPLED_ROWS * n
    if n_rows <= 2 * n_drawn:
        return problem
    if weights is None:
        return problem._replace(X=X[np.sort(rng.choice(n_rows, n_drawn, replace=False))])
    times = rng.multinomial(n_drawn, weights / weights.sum())
    drawn = np.flatnonzero(times)
    return problem._replace(X=X[drawn], weights=times[drawn].astype(np.float64))


def without_duplicates(problem: Problem) -> Problem:
    """Look for as many cells as the distinct rows of a client are worth, if most are duplicates.

    A cell of duplicates would look like a cluster of its own. Rows that are equal in quantized
    columns are no duplicates: different things have the same value there.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(50, 2))
    >>> client = Problem(rows, n_cells(500), np.random.default_rng(0))
    >>> clients = [client._replace(X=X) for X in (rows.repeat(10, axis=0), rows)]
    >>> [without_duplicates(client).n_clusters for client in clients]
    [20, 100]
    """
    X, n, _, weights = problem
    n_distinct = X.shape[0]
    n_rows = n_distinct if weights is None else weights.sum()
    if not is_sparse(X):  # where a search would cost more than it is worth
        if len(np.unique(X[: 2 * ENOUGH_ROWS, 0])) > ENOUGH_ROWS:
            return problem
        some: Ints | slice = slice(None)
        if len(X) > SEARCHED_ROWS:
            some = np.random.default_rng(0).choice(len(X), SEARCHED_ROWS, replace=False)
        n_distinct = len(np.unique(X[some], axis=0))
    if not FEW_VALUES < n_distinct <= min(DUPLICATED * n_rows, ENOUGH_ROWS):
        return problem
    if (quantization_variance(X, weights=weights) > 0).any():
        return problem
    return problem._replace(n_clusters=min(n, n_cells(n_distinct)))


def quantization_variance(
    X: Any, min_rows: int = SHARED_BY, weights: Floats | None = None
) -> Floats:
    r"""Return the variance that hides the steps of each column, 0 if it has none, or `UNKNOWN`.

    Columns of few values, such as yes and no, seem to have clusters: their values. Noise of the
    right size hides them, and leaves real clusters, which differ in several columns. A column of
    two values h apart gets :math:`h^2 / 6`: the least with which splitting rows by the categories
    of one column never pays (the worst case is three equally frequent ones, in three columns of
    two values). Values in steps of h get :math:`h^2 / 12`, the variance of rounding.

    Only values that at least `min_rows` rows share have a say, so that nothing about a single row
    leaves; that a value reaches this number is seen. A row of weight w counts as w rows.

    Examples
    --------
    >>> n = np.arange(120)
    >>> quantization_variance(np.column_stack([n % 2, n % 5, n**0.5, 0 * n])).round(3).tolist()
    [0.167, 0.083, 0.0, -1.0]
    """
    columns: Iterable[Floats] = X.T
    if is_sparse(X):
        by_column = X.tocsc()
        columns = (by_column[:, [j]].toarray().ravel() for j in range(X.shape[1]))
    elif weights is None and min_rows <= len(X) <= FEW_ROWS:
        # small clients: in no column do enough rows share a value, usually
        ordered = np.sort(X, axis=0)
        if not (ordered[min_rows - 1 :] == ordered[: len(X) - min_rows + 1]).any():
            return np.full(X.shape[1], 0.0 if len(X) >= MANY * min_rows else UNKNOWN)
    return np.array([_step_variance(column, min_rows, weights) for column in columns])


def _step_variance(column: Floats, min_rows: int, weights: Floats | None) -> float:
    """Return the quantization variance of a column."""
    first = column[:FIRST_ROWS]
    if len(first) > FEW_ROWS and len(np.unique(first)) > DISTINCT * len(first):  # usually enough
        return 0.0
    if weights is None:
        values, counts = np.unique(column, return_counts=True)
    else:
        values, inverse = np.unique(column, return_inverse=True)
        counts = np.bincount(inverse, weights).astype(np.int64)
    n_rows, common = counts.sum(), values[counts >= min_rows]
    counts = counts[counts >= min_rows]
    if len(common) > MAX_VALUES:
        return 0.0
    if counts.sum() < n_rows / 2:  # few rows cannot tell whether more would share
        return 0.0 if n_rows >= MANY * min_rows else UNKNOWN
    if len(common) < 2:
        return UNKNOWN
    step = _step(common)
    if counts.sum() < NEARLY_ALL * n_rows:  # some values are common, and many rows lie between them
        n_steps = (common[-1] - common[0]) / step if step else np.inf
        if len(common) < MANY_STEPS or len(common) <= DENSE * n_steps:
            return 0.0
    rarest = int(counts.argmin())
    if not step and counts[rarest] <= MISSING * n_rows:  # perhaps a mean for missing values
        common = np.delete(common, rarest)
        step = _step(common)
    return step**2 / (6 if len(common) == 2 else 12)


def _step(values: Floats) -> float:
    """Return the distance of equally spaced values, of which some may not occur; 0 for others."""
    step = float(np.diff(values).min())
    steps = (values - values[0]) / step
    return step if (np.abs(steps - np.rint(steps)) <= 1e-6).all() else 0.0


class Cells:
    """Received cells, in units in which an average column has variance 1.

    A few absurd numbers have no part in the units.

    Attributes
    ----------
    points, counts, sse : shapes (n, d), (n,) and (n,), center, rows and summed squares of each.
    quantization : shape (d,), variance that is added to each column, since its values have steps.
    middle, scale : the shift and the unit of the data's own numbers.
    seen : shape (d,), the columns of the data that cells have. A column that is the same in all
        cells is left out: it shows no clusters, but each column counts in penalties and averages.
    backend : tells whether compiled code may be used; None leaves that to the environment.
    variances : shape (n,), variance of a column within each cell, on average over columns.
    floor : the same on average over all rows: no cluster is narrower.
    resolved : share of all variance that lies between cells, so that it can be seen.
    fast : whether mixtures are fitted by compiled code: for many cells, where it is installed.
    axes : shape (d, d), the principal axes of all cells, the longest first.
    basis : shape (d, r), the axes along which clusters may be long.
    reduced, reduced_columns : shapes (n, r) and (r, n), the points along the axes of the basis.
    """

    def __init__(
        self,
        centers: Floats,
        counts: Floats,
        sse: Floats,
        quantization: Floats | None = None,
        backend: Backend | None = None,
    ) -> None:
        """Center and scale what was received; cells without rows are left out."""
        used = counts > 0
        centers, counts, sse = centers[used], counts[used], sse[used]
        self.counts, self.n_rows, self.backend = counts, float(counts.sum()), backend
        self.middle = counts @ centers / self.n_rows
        points = centers - self.middle
        total = counts @ (points**2).sum(axis=1) + sse.sum()
        # the squared distance from the middle that most rows do not exceed
        squared = ((centers - np.median(centers, axis=0)) ** 2).sum(axis=1) + sse / counts
        order = np.argsort(squared)
        last = np.searchsorted(np.cumsum(counts[order]), MOST_ROWS * self.n_rows)
        usual = self.n_rows * squared[order[last]]
        rounding = self.n_rows * (ROUNDING * np.abs(centers).max()) ** 2
        if rounding < usual < 10 * LEAST_VARIANCE * total:
            total = usual  # a few absurd numbers would make all clusters seem rounding
        self.seen = np.flatnonzero(counts @ points**2 > LEAST_VARIANCE * total / len(points.T))
        if not len(self.seen):  # all cells are at one place, or there is one only
            self.seen = np.arange(len(points.T))
        self.n_columns = d = len(self.seen)
        variance = total / (self.n_rows * d)
        self.scale = float(np.sqrt(variance)) if variance > 0 else 1.0
        quantization = np.zeros(len(points.T)) if quantization is None else quantization
        self.quantization = quantization[self.seen] / self.scale**2
        self.points = points.take(self.seen, axis=1) / self.scale
        self.sse = sse / self.scale**2
        self.variances = self.sse / (counts * d)
        within = float(self.sse.sum()) / (self.n_rows * d)
        self.resolved, self.floor = 1 - within, max(within, LEAST_VARIANCE)
        self.log_rows, self.norms = float(np.log(self.n_rows)), (self.points**2).sum(axis=1)
        self.fast = compiles(len(counts), 1, COMPILED_CELLS, backend)
        covariance = (self.points * counts[:, None]).T @ self.points / self.n_rows
        self.axes = np.linalg.eigh(covariance)[1][:, ::-1]
        self.basis = np.eye(d) if d <= MAX_AXES else self.axes[:, :MAX_AXES]
        self.reduced = self.points if d <= MAX_AXES else self.points @ self.basis
        self.reduced_columns = np.ascontiguousarray(self.reduced.T)
        self.reduced_quantization = (self.basis * self.quantization[:, None]).T @ self.basis

    def in_units(self, points: Floats) -> Floats:
        """Return points of these columns in the units of the data, with all its columns."""
        found = np.tile(self.middle, (len(points), 1))
        found[:, self.seen] += points * self.scale
        return found

    @cached_property
    def log_uniform(self) -> float:
        """Log density of the background: uniform in the smaller of two boxes around all rows."""
        # as dense as a Gaussian with the variance of the cell, on average: otherwise, in columns
        # that hardly differ between cells, the background would fit better than any cluster
        half = np.sqrt(np.pi * np.e / 2 * (self.variances + self.quantization.mean()))[:, None]
        rows = self.points, self.points @ self.axes
        widths = ((points + half).max(axis=0) - (points - half).min(axis=0) for points in rows)
        return -min(float(np.log(np.maximum(box, 1e-6)).sum()) for box in widths)


def condense(
    centers: Floats, counts: Floats, sse: Floats, most: int, backend: Backend | None = None
) -> tuple[Floats, Floats, Floats]:
    """Merge cells to at most `most`: each joins the nearest of a random sample.

    Sums of rows and of squares stay exact.
    """
    if len(counts) <= most:
        return centers, counts, sse
    merged = partition_of(centers, sampled_labels(centers, most, backend), counts)
    inside = np.bincount(merged.labels, sse, minlength=len(merged.counts))
    return merged.centers, merged.counts, merged.sse + inside


def sampled_labels(centers: Floats, most: int, backend: Backend | None = None) -> Ints:
    """Return the group of each cell: that of the nearest of `most` cells, drawn at random."""
    chosen = np.random.default_rng(0).choice(len(centers), most, replace=False)
    if centers.shape[1] <= TREE_COLUMNS:
        from scipy.spatial import KDTree  # lazy: `import fedjigsaw` stays fast

        found: Ints = KDTree(centers[chosen]).query(centers)[1]
        return found
    shifted = centers - centers.mean(axis=0)
    return nearest(shifted, shifted[chosen], fast=compiles(len(centers), most, backend=backend))[0]
