"""At a site: cluster the rows and make the one summary that leaves."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedjigsaw._random import stream
from fedjigsaw.engine import Client
from fedjigsaw.errors import FewerRowsWarning
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.io.tables import Table
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import DEFAULT, make
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.sites.compatibility import check_one_round
from fedjigsaw.sites.preparation import Progress, prepare, quiet, scale, site_name

MAX_ROWS = 1_000_000


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
    n_clusters : number of clusters in the data of all sites together, or "auto".
    client : the site's name; by default that of the file, without its ending.
    scaler : from :func:`~fedjigsaw.sites.common_scaler`; its columns are then the ones to read.
    guard : the rule that the summary passes; the default merges centers of fewer than five rows.
    broadcast : the message of the server for this round; None for the only round.
    max_rows : if more rows than this have no missing values, cluster a uniform random sample.
    columns, order, drop_missing : as in :func:`~fedjigsaw.sites.prepare`.
    progress : called with the number of rows of each batch that was read.
    """
    estimator = make(method, n_clusters, seed, **(params or {}))
    estimator.check_federated() if broadcast else check_one_round(estimator)
    table = prepare(data, scaler=scaler, columns=columns, order=order, drop_missing=drop_missing)
    name = site_name(client, table)
    sampling = stream(seed, 0, f"sample of {name}")
    rows, n_samples = table.read(max_rows=max_rows, rng=sampling, progress=progress)
    if n_clusters != "auto" and len(rows) < int(n_clusters):
        _warn_of_fewer_rows(table.path, len(rows), n_clusters)
    guard = guard or Guard()
    asked = broadcast or Broadcast(0, seed)
    summary = Client(name, scale(rows, scaler), estimator, guard).answer(asked)
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


def _warn_of_fewer_rows(path: Path, n_rows: int, n_clusters: int | str) -> None:
    warnings.warn(
        f"{path} has {n_rows} rows to cluster, fewer than the {n_clusters} clusters requested: "
        f"it sends at most {n_rows} centers. This is fine for a small site.",
        FewerRowsWarning,
        stacklevel=3,
    )
