"""At a site: label the rows by a model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import MessageError, SiteWarning, warn
from fedjigsaw.io.cluster_ids import to_ids
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.io.regular import stem
from fedjigsaw.io.tables import Names, Table
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.messages import Model
from fedjigsaw.number.shapes import NOISE, label_rows, local_labels
from fedjigsaw.sites.compatibility import check_has_centers, check_own
from fedjigsaw.sites.preparation import Progress, open_data, quiet, scale
from fedjigsaw.threads import available_threads


@dataclass(frozen=True)
class Assigned:
    """Labels of some rows of a file, in its order; null for a row with missing values.

    Attributes
    ----------
    labels : the id of each row's cluster, as an Arrow array; -1 for a row of no cluster.
    distances : the distance of each row to the center of its cluster, in units of the clustering
        (scaled, if the model has a scaler); of a row of no cluster, to the nearest center.
    ids : the id columns of these rows, in the order in which they were asked for.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fedjigsaw.sites import Assigned
    >>> part = Assigned(pa.array([0, None, -1]), pa.array([3.0, None, 40.0]))
    >>> part.labels.null_count
    1
    """

    labels: pa.Array
    distances: pa.Array
    ids: tuple[pa.Array, ...] = ()


def assign(
    data: Path | str | Table,
    file: ModelFile,
    *,
    local: SummaryFile | None = None,
    id_column: Names = None,
    drop_missing: bool = False,
    progress: Progress = quiet,
) -> Iterator[Assigned]:
    """Label every row, batch by batch, so that a file may be larger than memory.

    Parameters
    ----------
    data : the path of a file, or a table that is already open.
    file : the model, from :func:`~fedjigsaw.sites.aggregate` or :func:`fedjigsaw.io.formats.load`.
    local : the summary that this site sent
        A row then gets the cluster of its nearest local center, instead of that of the nearest
        center of the model. A SiteWarning tells if it does not fit the rows.
    id_column : one or more columns to copy to the result; None copies none.
    drop_missing : give rows with missing values no label; False makes them a DataError.
    progress : called with the number of rows of each batch that was labeled.

    Yields
    ------
    Assigned
        Labels, distances and ids of some rows, for :func:`~fedjigsaw.sites.write_labels`.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column of the model, or has missing values. All errors
        are raised when the first batch is asked for, or a later one.
    MessageError
        If the model has no centers, or was not made from the summary `local`.

    Examples
    --------
    >>> from fedjigsaw import Model
    >>> from fedjigsaw.io.formats import ModelFile
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import assign
    >>> file = ModelFile(Model([[32.0], [62.0]], feature_names=("age",)), None, ("bern",), 10)
    >>> rows = from_array([[35.0], [float("nan")], [60.0]], ["age"])
    >>> for part in assign(rows, file, drop_missing=True):
    ...     part.labels.to_pylist(), part.distances.to_pylist()
    ([0, None, 1], [3.0, None, 2.0])
    """
    check_has_centers(file)
    if local is not None:
        local = check_own(local, file)
    counts: Ints = np.zeros(0 if local is None else len(local.summary.centers), dtype=np.int64)
    table = open_data(
        data, file.columns, id_column=id_column, drop_missing=drop_missing, encoding=file.encoding
    )
    for batch in table.batches():
        labels = np.full(len(batch.kept), -1, dtype=np.int64)
        distances = np.full(len(batch.kept), np.nan)
        if len(batch.rows):
            rows = scale(batch.rows, file.scaler)
            places, measured = _label(rows, file.model, local, counts)
            kept = slice(None) if len(rows) == len(batch.kept) else batch.kept  # faster
            labels[kept], distances[kept] = to_ids(places, file.cluster_ids), measured
        missing = None if len(batch.rows) == len(batch.kept) else ~batch.kept
        yield Assigned(
            pa.array(labels, pa.int64(), mask=missing),
            pa.array(distances, pa.float64(), mask=missing),
            tuple(pa.array(ids) if isinstance(ids, np.ndarray) else ids for ids in batch.ids),
        )
        progress(len(batch.kept))
    if local is not None:
        _check_rows(local, counts, table.path, file.clients)


def _label(
    rows: Floats, model: Model, local: SummaryFile | None, counts: Ints
) -> tuple[Ints, Floats]:
    """Label rows and measure their distance to the center; add up rows per local center."""
    if local is None:
        return label_rows(model, rows, n_threads=available_threads())[:2]
    labels, own = local_labels(model, local.summary.centers, rows)
    counts += np.bincount(own, minlength=len(counts))
    inside = labels != NOISE
    distances: Floats = np.linalg.norm(rows - model.centers[labels], axis=1)
    distances[~inside] = nearest_centers(rows[~inside], model.centers)[1]
    return labels, distances


def _check_rows(local: SummaryFile, counts: Ints, path: Path, clients: Sequence[str]) -> None:
    """Check that the rows match the summary, by their counts per local center.

    New rows of the same site are a good reason for another number of them, so this only warns;
    unless the file also has the name of another site.
    """
    misfit = _misfit(local, counts)
    if not misfit:
        return
    client = local.summary.client
    text = f"The summary of {client!r} does not fit the rows of {path}: {misfit}."
    if stem(path) != client and stem(path) in clients:
        raise MessageError(f"{text} Use the summary of {stem(path)!r}.")
    advice = (
        f"If these are not rows of {client!r}, the labels are wrong: use the site's own summary."
    )
    warn(f"{text} {advice}", SiteWarning)


def _misfit(local: SummaryFile, counts: Ints) -> str:
    """Return why the counts do not match the summary, or an empty string."""
    summary, n_rows = local.summary, int(counts.sum())
    if local.privacy is not None:  # its numbers are noisy
        return ""
    if n_rows != summary.n_samples:
        return f"it was made from {summary.n_samples:,} rows, and the file has {n_rows:,}"
    if not counts.all():
        return f"{(counts == 0).sum()} of its {len(counts)} centers are nearest to no row"
    if summary.counts is not None:
        moved = np.abs(counts / n_rows - summary.counts / summary.counts.sum()).sum() / 2
        # merging and rounding by a guard, or sampling, move some rows: up to half of this limit
        # on the data that we measured
        if moved > 0.1 + np.sqrt(len(counts) / local.n_used):
            return f"{moved:.0%} of the rows would belong to other centers than it says"
    return ""
