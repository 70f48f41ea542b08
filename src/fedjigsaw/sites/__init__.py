"""One round by file: each site writes a summary, a coordinator makes a model, sites assign.

The functions behind the commands ``stats``, ``scaler``, ``summarize``, ``aggregate``, ``assign``
and ``score``. Rows are read from files in batches and never leave the function that reads them.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedjigsaw._random import stream
from fedjigsaw._threads import one_thread
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.engine import Client
from fedjigsaw.errors import (
    DataError,
    FewerClustersWarning,
    FewerRowsWarning,
    ForeignSummaryWarning,
    MessageError,
    ParameterError,
    invalid,
)
from fedjigsaw.io.formats import ModelFile, Score, SummaryFile, encode, fingerprint
from fedjigsaw.io.tables import Table, open_table
from fedjigsaw.kernels import scaling
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.kernels.scaling import Scaler, Stats
from fedjigsaw.messages import Broadcast, Model
from fedjigsaw.methods import DEFAULT, METHODS, make
from fedjigsaw.privacy.guard import Guard

MAX_ROWS = 1_000_000
Progress = Callable[[int], object]


def quiet(n_rows: int) -> None:
    """The progress that nobody watches."""


def measure(
    path: Path,
    *,
    client: str | None = None,
    min_rows: int = 1,
    progress: Progress = quiet,
    **options: Any,
) -> Stats:
    """Count, mean and sum of squares of each column: what a site sends for a common scaler."""
    table = open_table(path, **options)
    stats = scaling.measure(client or path.stem, table.columns, _rows(table, None, progress))
    if stats.n_samples < min_rows:  # the mean of one row is that row, of two nearly both
        allowed = f"at least {min_rows}, the guard's size"
        raise DataError(invalid("rows", str(path), allowed, stats.n_samples))
    return stats


def summarize(
    data: Path | Table,
    n_clusters: int | str,
    *,
    method: str = DEFAULT,
    params: Mapping[str, Any] | None = None,
    client: str | None = None,
    scaler: Scaler | None = None,
    guard: Guard | None = None,
    seed: int = 0,
    broadcast: Broadcast | None = None,
    max_rows: int = MAX_ROWS,
    columns: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    drop_missing: bool = False,
    progress: Progress = quiet,
) -> SummaryFile:
    """Cluster a site's rows and make the one summary that leaves it.

    Parameters
    ----------
    data : a file, or a table that is already open.
    client : the site's name; by default that of the file, without its ending.
    scaler : from :func:`fedjigsaw.kernels.scaling.merge`; its columns are then the ones to read.
    guard : what may leave; the default merges centers of fewer than five rows.
    broadcast : what the server says in this round; by default there is only one.
    max_rows : with more complete rows than this, a uniform random sample of so many is clustered.
    order : the same columns in the order that the server wants.
    """
    path = data if isinstance(data, Path) else data.path
    estimator = make(method, n_clusters, seed, **(params or {}))
    estimator.check()
    if estimator.pools_data:
        allowed = "one that keeps rows at the sites"
        raise ParameterError(invalid("method", "summarize", allowed, repr(method)))
    if broadcast is None and estimator.total_rounds > 1:
        allowed = "one that needs a single round"
        got = f"{method!r}, which needs {estimator.total_rounds}"
        advice = "For several rounds there is `fedjigsaw federation`."
        raise ParameterError(invalid("method", "summarize", allowed, got, advice))
    if scaler is not None:
        columns = scaler.columns if columns is None else columns
        if set(columns) != set(scaler.columns):
            allowed = f"those of the scaler, {', '.join(scaler.columns)}"
            raise ParameterError(invalid("columns", str(path), allowed, ", ".join(columns)))
        columns = scaler.columns
    table = _open(data, columns, drop_missing)
    if order is not None:
        table = _in_order(table, tuple(order), scaler)
    name = client or path.stem
    sampling = stream(seed, 0, f"sample of {name}")
    rows, n_samples = table.read(max_rows=max_rows, rng=sampling, progress=progress)
    if n_clusters != "auto" and len(rows) < int(n_clusters):
        warnings.warn(
            f"{path} has {len(rows)} rows to cluster, fewer than the {n_clusters} clusters asked "
            f"for: it sends {len(rows)} centers at most. That is in order for a small site.",
            FewerRowsWarning,
            stacklevel=2,
        )
    rows = rows if scaler is None else scaler.scale(rows)
    guard = guard or Guard()
    own = estimator.at_client(name)
    summary = Client(name, rows, own, guard).answer(broadcast or Broadcast(0, seed))
    return SummaryFile(
        summary=replace(summary, n_samples=n_samples),
        method=method,
        params=estimator.configuration(),
        columns=table.columns,
        scaler=scaler,
        guard={
            "min_cluster_size": guard.min_cluster_size,
            "counts": "none" if summary.counts is None else guard.counts or "exact",
        },
        seed=seed,
        n_used=len(rows),
    )


def aggregate(
    files: Mapping[str, SummaryFile],
    n_clusters: int | str,
    *,
    without: Sequence[str] = (),
    seed: int = 0,
) -> ModelFile:
    """Put summaries together. Sites in `without` are forgotten, as if they had never sent one.

    Parameters
    ----------
    files : file name -> its content; the names are for error messages.
    """
    clients = {file.summary.client for file in files.values()}
    unknown = sorted(set(without) - clients)
    if unknown:
        allowed = "among " + ", ".join(map(repr, sorted(clients)))
        raise ParameterError(invalid("--without", "aggregate", allowed, unknown))
    kept = {name: file for name, file in files.items() if file.summary.client not in without}
    if not kept:
        raise ParameterError(f"Without {', '.join(map(repr, without))}, no summary is left.")
    check_fit_together(kept)
    ordered = sorted(kept.values(), key=lambda file: file.summary.client)
    first = ordered[0]
    ordered = [reorder(file, first.columns) for file in ordered]
    params = {k: v for k, v in first.params.items() if k not in ("n_clusters", "random_state")}
    estimator = make(first.method, n_clusters, seed, **params)
    estimator.check()
    with one_thread():
        summaries = [file.summary for file in ordered]
        model = estimator.aggregate(summaries, Broadcast(0, seed), stream(seed, 0))
    if n_clusters != "auto" and len(model.centers) < int(n_clusters):
        warnings.warn(
            f"{len(model.centers)} of {n_clusters} clusters: the summaries held no more groups.",
            FewerClustersWarning,
            stacklevel=2,
        )
    return ModelFile(
        replace(model, feature_names=first.columns),
        first.scaler,
        tuple(file.summary.client for file in ordered),
        sum(file.summary.n_samples for file in ordered),
    )


def reorder(file: SummaryFile, columns: tuple[str, ...]) -> SummaryFile:
    """The same summary with its columns in another order."""
    if file.columns == columns:
        return file
    where = [file.columns.index(name) for name in columns]
    summary = replace(file.summary, centers=file.summary.centers[:, where])
    return replace(file, summary=summary, columns=columns)


def check_fit_together(files: Mapping[str, SummaryFile]) -> None:
    """All summaries must come from different sites, by one method, from the same scaled columns."""
    check_different({name: file.summary.client for name, file in files.items()})
    (first_name, first), *others = files.items()
    for name, file in others:
        for what, theirs, ours in (
            ("columns", sorted(first.columns), sorted(file.columns)),
            ("scaler", _scaler_name(first), _scaler_name(file)),
            ("method", first.method, file.method),
            ("parameters", _shared(first), _shared(file)),
        ):
            if theirs != ours:
                raise MessageError(invalid(what, name, f"those of {first_name}, {theirs}", ours))


def check_different(clients: Mapping[str, str]) -> None:
    """File name -> client: no client may come twice."""
    seen: dict[str, str] = {}
    for name, client in clients.items():
        if client in seen:
            allowed = f"different from that of {seen[client]}"
            raise MessageError(invalid("client", name, allowed, repr(client)))
        seen[client] = name


@dataclass(frozen=True)
class Assigned:
    """Labels of some rows of a file, in its order; None stands for a row with missing values."""

    labels: pa.Array
    distances: pa.Array
    ids: pa.Array | None


def assign(
    path: Path,
    file: ModelFile,
    *,
    local: SummaryFile | None = None,
    id_column: str | None = None,
    drop_missing: bool = False,
    progress: Progress = quiet,
) -> Iterator[Assigned]:
    """Cluster of every row, batch by batch: a file larger than memory is fine.

    Parameters
    ----------
    local : the summary that this site had sent
        Then a row goes where its nearest center in there goes, instead of to the nearest center of
        the model.
    """
    if local is not None:
        local = _own_summary(local, file)
    counts: Ints = np.zeros(0 if local is None else len(local.summary.centers), dtype=np.int64)
    table = open_table(path, columns=file.columns, id_column=id_column, drop_missing=drop_missing)
    for batch in table.batches():
        labels = np.full(len(batch.kept), -1, dtype=np.int64)
        distances = np.full(len(batch.kept), np.nan)
        if len(batch.rows):
            rows = batch.rows if file.scaler is None else file.scaler.scale(batch.rows)
            labels[batch.kept], distances[batch.kept] = _label(rows, file.model, local, counts)
        missing = ~batch.kept
        ids = batch.ids
        yield Assigned(
            pa.array(labels, pa.int64(), mask=missing),
            pa.array(distances, pa.float64(), mask=missing),
            pa.array(ids) if isinstance(ids, np.ndarray) else ids,
        )
        progress(len(batch.kept))
    if local is not None:
        _check_own(local, counts, path, file.clients)


def _own_summary(local: SummaryFile, file: ModelFile) -> SummaryFile:
    """The summary with the model's columns; it must be one that the model was made from."""
    client = local.summary.client
    if client not in file.clients:
        allowed = "among those of the model, " + ", ".join(map(repr, file.clients))
        raise MessageError(invalid("client", "a summary", allowed, repr(client)))
    for what, theirs, ours in (
        ("columns", sorted(file.columns), sorted(local.columns)),
        ("scaler", _scaler_name(file), _scaler_name(local)),
        ("method", file.model.method, local.method),
    ):
        if ours != theirs:
            owner = f"the summary of client {client!r}"
            raise MessageError(invalid(what, owner, f"that of the model, {theirs}", ours))
    return reorder(local, file.columns)


def _label(
    rows: Floats, model: Model, local: SummaryFile | None, counts: Ints
) -> tuple[Ints, Floats]:
    """Cluster of each row, and its distance to that cluster's center; counts local clusters."""
    if local is None:
        return nearest_centers(rows, model.centers)
    method = METHODS[model.method].cls
    labels, own = method.label_locally(model, local.summary.centers, rows)
    counts += np.bincount(own, minlength=len(counts))
    distances: Floats = np.linalg.norm(rows - model.centers[labels], axis=1)
    return labels, distances


def _check_own(local: SummaryFile, counts: Ints, path: Path, clients: Sequence[str]) -> None:
    """Do these rows, counted by the nearest local center, look like those that were summarized?

    New rows of the same site are a good reason for another number of them, so this only warns;
    unless the file also bears another site's name.
    """
    misfit = _misfit(local, counts)
    if not misfit:
        return
    client = local.summary.client
    told = f"The summary of {client!r} does not look like one of {path}: {misfit}."
    if path.stem != client and path.stem in clients:
        raise MessageError(f"{told} Give --local the summary of {path.stem!r}.")
    advice = (
        f"Unless these are rows of {client!r}, the labels are wrong: --local takes a site's own."
    )
    warnings.warn(f"{told} {advice}", ForeignSummaryWarning, stacklevel=3)


def _misfit(local: SummaryFile, counts: Ints) -> str:
    """What contradicts that these counts are of the rows that were summarized; "" if nothing."""
    summary, n_rows = local.summary, int(counts.sum())
    if n_rows != summary.n_samples:
        return f"it was made from {summary.n_samples:,} rows, and here are {n_rows:,}"
    if not counts.all():
        return f"{(counts == 0).sum()} of its {len(counts)} centers are nearest to no row"
    if summary.counts is not None:
        moved = np.abs(counts / n_rows - summary.counts / summary.counts.sum()).sum() / 2
        # a guard's merging and rounding, or a sample, move some: on measured data half of this
        if moved > 0.1 + np.sqrt(len(counts) / local.n_used):
            return f"{moved:.0%} of the rows would belong to other centers than it says"
    return ""


def score(
    path: Path,
    file: ModelFile,
    *,
    client: str | None = None,
    drop_missing: bool = False,
    progress: Progress = quiet,
) -> Score:
    """Size and summed squared distance of every cluster on one site's rows."""
    table = open_table(path, columns=file.columns, drop_missing=drop_missing)
    k = len(file.model.centers)
    counts: Ints = np.zeros(k, dtype=np.int64)
    sse: Floats = np.zeros(k)
    for rows in _rows(table, file.scaler, progress):
        labels, distances = nearest_centers(rows, file.model.centers)
        counts += np.bincount(labels, minlength=k)
        sse += np.bincount(labels, distances**2, minlength=k)
    return Score(client or path.stem, fingerprint(encode(file)), counts, sse)


def merge_scores(scores: Mapping[str, Score]) -> Score:
    """The score of one model over all sites."""
    check_different({name: score.client for name, score in scores.items()})
    (first_name, first), *others = scores.items()
    for name, other in others:
        if other.model != first.model:
            allowed = f"that of {first_name}, {first.model}"
            raise MessageError(invalid("model", name, allowed, other.model))
    ordered = sorted(scores.values(), key=lambda score: score.client)
    counts, sse = (sum(getattr(s, n) for s in ordered) for n in ("counts", "sse"))
    return Score(f"{len(ordered)} sites", first.model, np.asarray(counts), np.asarray(sse))


def _open(data: Path | Table, columns: Sequence[str] | None, drop_missing: bool) -> Table:
    if isinstance(data, Path):
        return open_table(data, columns=columns, drop_missing=drop_missing)
    unknown = set(columns or ()) - set(data.columns)
    if unknown:
        allowed = "among " + ", ".join(map(repr, data.columns[:20]))
        raise DataError(invalid("columns", str(data.path), allowed, sorted(unknown)))
    return replace(data, columns=tuple(columns or data.columns), drop_missing=drop_missing)


def _in_order(table: Table, order: tuple[str, ...], scaler: Scaler | None) -> Table:
    """The same table with its columns in another order; a scaler has only one."""
    if sorted(order) != sorted(table.columns) or (scaler is not None and scaler.columns != order):
        allowed = f"those that the server wants, {', '.join(order)}"
        raise DataError(invalid("columns", str(table.path), allowed, ", ".join(table.columns)))
    return replace(table, columns=order)


def _rows(table: Table, scaler: Scaler | None, progress: Progress) -> Iterator[Floats]:
    for batch in table.batches():
        yield batch.rows if scaler is None else scaler.scale(batch.rows)
        progress(len(batch.kept))


def _scaler_name(file: SummaryFile | ModelFile) -> str | None:
    return None if file.scaler is None else file.scaler.fingerprint


def _shared(file: SummaryFile) -> dict[str, Any]:
    """Parameters that all sites must agree on; how hard each searches is its own affair."""
    own = {"n_clusters", "n_local_clusters", "detail", "n_init", "max_iter", "tol", "patience"}
    own |= {"assign", "random_state"}
    return {name: value for name, value in file.params.items() if name not in own}
