r"""Label rows by the shapes of clusters, as a model carries them: by its likeliest component.

Component j has the log density, up to a constant,

.. math:: o_j - (|x - m_j|^2 - |B^T (x - m_j)|_{A_j}^2) / (2 v_j) ,

with mean m, variance v, and a matrix A that pulls the long axes in, along the axes of a basis B. A
row that is likelier in the background than in every component belongs to no cluster: its label is
-1. This module is the only place that labels rows by a model.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from fedjigsaw import messages
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.kernels.kmeans import blocks, coordinate_order, nearest_centers, squared_distances
from fedjigsaw.messages import Model
from fedjigsaw.number.cells import MAX_AXES, Cells
from fedjigsaw.validation import MAX_MAGNITUDE

if TYPE_CHECKING:  # nearest centers need no mixtures
    from fedjigsaw.number.decide import Choice
    from fedjigsaw.number.mixture import Mixture

ROUND, ELONGATED, ANY = SHAPES = ("round", "elongated", "any")
NOISE = -1  # label of rows that belong to no cluster, as in scikit-learn
BLOCK = 2**20  # floats of a block of rows, 8 MB


class Labeled(NamedTuple):
    """Labels of rows, with distances to the center of the row's cluster and to the nearest one.

    A row of no cluster (:data:`NOISE`) has the distance to the nearest center.
    """

    labels: Ints
    distances: Floats
    nearest: Floats


def label_rows(model: Model, rows: Floats, *, n_threads: int = 1) -> Labeled:
    """Label rows by the shapes of a model's clusters, or by its nearest center if it has none.

    Examples
    --------
    >>> label_rows(Model([[0.0], [9.0]]), np.array([[1.0], [7.0]])).labels.tolist()
    [0, 1]
    """
    labels, nearest = nearest_centers(rows, model.centers, n_threads=n_threads)
    shapes = ClusterShapes.from_model(model)
    if shapes is None:
        return Labeled(labels, nearest, nearest)
    labels = shapes.label(rows, labels)
    inside, distances = labels != NOISE, nearest.copy()
    squared = squared_distances(rows[inside], model.centers, labels[inside])
    distances[inside] = np.sqrt(squared)
    return Labeled(labels, distances, nearest)


def knows_noise(model: Model) -> bool:
    """Tell whether a model may label rows as noise."""
    return messages.SHAPE_MEANS in model.tensors and messages.SHAPE_BACKGROUND in model.tensors


def describe_shapes(model: Model) -> Iterator[str]:
    """Say how a model labels rows, if not by their nearest center."""
    if messages.SHAPE_CLUSTERS in model.tensors:
        pieces = f"{len(model.tensors[messages.SHAPE_CLUSTERS])} components of a mixture"
        yield f"Labels follow the shapes of clusters: each row goes to the likeliest of {pieces}."
    if knows_noise(model):
        yield "Rows that are in no cluster get the label -1."


def local_labels(model: Model, centers: Floats, rows: Floats) -> tuple[Ints, Ints]:
    """Label a client's rows by its own local centers. Return the labels, and the local centers.

    A row gets the label of its nearest local center. On skewed data this uses what the server
    cannot know: a client that holds few of the clusters separates them without the others in the
    way. A local center gets the label of the nearest center of the model or, if the model has a
    tensor ``chosen`` (k-FED), that of the nearest chosen center.

    Parameters
    ----------
    centers : array of shape (k_m, d)
        Local centers that the client sent.
    rows : array of shape (n, d)
        The client's rows.

    Examples
    --------
    >>> model = Model([[0.0], [10.0]])
    >>> labels, own = local_labels(model, np.array([[1.0], [6.0]]), np.array([[2.0], [4.0]]))
    >>> labels.tolist(), own.tolist()
    ([0, 1], [0, 1])
    """
    own, _ = nearest_centers(rows, centers)
    return labels_of_local_centers(model, centers)[own], own


def labels_of_local_centers(model: Model, centers: Floats) -> Ints:
    """Label local centers, of one client or of many; see :func:`local_labels`."""
    if "chosen" in model.tensors:
        shape, most = model.centers.shape, MAX_MAGNITUDE
        model = replace(model, centers=take_tensor(model, "chosen", shape, -most, most))
    return label_rows(model, centers).labels


@dataclass(frozen=True)
class ClusterShapes:
    """Components of a mixture, in the units of the data.

    Attributes
    ----------
    means, basis : shapes (m, d) and (d, r).
    pulls : shape (m, r, r), zero for a round component.
    variances : shape (m,).
    offsets : shape (m,), log density at the mean, with the component's share of the rows.
    clusters : shape (m,), the cluster of each component; None for that of the nearest center.
    background : log density of rows that belong to no cluster; None if each belongs to one.
    """

    means: Floats
    basis: Floats
    pulls: Floats
    variances: Floats
    offsets: Floats
    clusters: Ints | None
    background: float | None

    @classmethod
    def of(cls, cells: Cells, mixture: "Mixture", clusters: Ints | None, *, noise: bool) -> Self:
        """Take the components of a mixture.

        Parameters
        ----------
        clusters : shape (m,), the cluster of each component; None for that of the nearest center.
        noise : whether rows may belong to no cluster.
        """
        shapes, moments = mixture.shapes, mixture.moments
        unit = cells.n_columns * np.log(cells.scale)
        shares = np.maximum(np.append(moments.counts, mixture.background), 1e-9) / cells.n_rows
        offsets = np.log(shares[:-1]) + shapes.log_peaks(cells) - unit
        background = float(np.log(shares[-1]) + cells.log_uniform - unit)
        if background >= offsets.max():  # all rows are equal, or nearly so
            noise = False
        basis = np.zeros((len(cells.middle), cells.basis.shape[1]))
        basis[cells.seen] = cells.basis
        return cls(
            means=cells.in_units(moments.means),
            basis=basis,
            pulls=shapes.pulls,
            variances=shapes.variances * cells.scale**2,
            offsets=offsets,
            clusters=clusters,
            background=background if noise else None,
        )

    @classmethod
    def of_choice(cls, choice: "Choice", shape: str, *, noise: bool) -> tuple[Floats, Ints, Self]:
        """Return the centers of a choice in the order of a model, that order, and the shapes."""
        order = coordinate_order(choice.means)
        clusters = None if shape == ROUND else np.argsort(order)[choice.groups]
        shapes = cls.of(choice.cells, choice.components, clusters, noise=noise)
        return choice.means[order], order, shapes

    @classmethod
    def from_model(cls, model: Model) -> Self | None:
        """Read the shapes of a model, which may come from others; None if it has none."""
        if messages.SHAPE_MEANS not in model.tensors:
            return None
        (k, d), most, known = model.centers.shape, MAX_MAGNITUDE, model.tensors
        m = len(np.atleast_1d(known[messages.SHAPE_MEANS]))
        r = np.atleast_1d(known.get(messages.SHAPE_BASIS, np.zeros(0))).shape[-1]
        if r > MAX_AXES or not m:
            allowed = f"at least one component and at most {MAX_AXES} axes"
            raise MessageError(invalid("shape", "a model", allowed, f"{m} and {r}"))
        take, clusters, noise = partial(take_tensor, model), None, None
        if (name := messages.SHAPE_CLUSTERS) in known:
            clusters = take(name, (m,), 0, k - 1).astype(np.int64)
            if (clusters != known[name]).any():
                raise MessageError(invalid(name, "a model", "whole numbers", "fractions"))
        if messages.SHAPE_BACKGROUND in known:
            noise = float(take(messages.SHAPE_BACKGROUND, (1,), -most, most)[0])
        return cls(
            means=take(messages.SHAPE_MEANS, (m, d), -most, most),
            basis=take(messages.SHAPE_BASIS, (d, r), -2, 2),  # of length 1 each
            pulls=take(messages.SHAPE_PULLS, (m, r, r), -2, 2),  # eigenvalues from 0 to 1
            variances=take(messages.SHAPE_VARIANCES, (m,), 1 / most**2, most**2),
            offsets=take(messages.SHAPE_OFFSETS, (m,), -most, most),
            clusters=clusters,
            background=noise,
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the shapes as tensors of a model."""
        named = zip(messages.SHAPE_TENSORS, vars(self).values(), strict=True)
        return {name: np.atleast_1d(value) for name, value in named if value is not None}

    def log_densities(self, rows: Floats, *, by_row: bool = False) -> Floats:
        """Return the log density of rows in each component, with its share; shape (n, m).

        Parameters
        ----------
        by_row : compute each row without an influence of the other rows, not even on rounding.
        """
        product = _by_column if by_row else np.matmul
        d, r = self.basis.shape
        logs = np.empty((len(rows), len(self.means)))
        for j, mean in enumerate(self.means):
            offset = rows - mean
            squared = product(offset**2, np.ones((d, 1)))[:, 0]
            if self.pulls[j].any():
                reduced = product(offset, self.basis)
                pulled = product(reduced, self.pulls[j]) * reduced
                squared -= product(pulled, np.ones((r, 1)))[:, 0]
            logs[:, j] = self.offsets[j] - np.maximum(squared, 0) / (2 * self.variances[j])
        return logs

    def label(self, rows: Floats, nearest: Ints, *, by_row: bool = False) -> Ints:
        """Return the cluster of each row, :data:`NOISE` for none, in bounded memory.

        Parameters
        ----------
        nearest : shape (n,), the nearest center of each row.
        by_row : as in :meth:`log_densities`.
        """
        labels: Ints = nearest.copy()
        for part in blocks(len(rows), 3 * rows.shape[1] + len(self.means), BLOCK):
            logs = self.log_densities(rows[part], by_row=by_row)
            if self.clusters is not None:
                labels[part] = self.clusters[logs.argmax(axis=1)]
            if self.background is not None:
                labels[part][logs.max(axis=1) < self.background] = NOISE
        return labels


def take_tensor(model: Model, name: str, shape: tuple[int, ...], low: float, high: float) -> Floats:
    """Return a tensor of a model; raise a MessageError if its shape or a number is not allowed."""
    tensor = model.tensors.get(name, np.zeros(0)).astype(np.float64)
    if tensor.shape != shape or not ((tensor >= low) & (tensor <= high)).all():
        allowed = f"of shape {shape}, from {low:g} to {high:g}"
        raise MessageError(invalid(name, "a model", allowed, f"shape {tensor.shape}"))
    return tensor


def _by_column(a: Floats, b: Floats) -> Floats:
    """Return the matrix product, each row by the same sums whatever the other rows are."""
    found = np.zeros((len(a), b.shape[1]))
    for i in range(a.shape[1]):
        found += a[:, i, None] * b[i]
    return found
