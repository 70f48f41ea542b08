"""At a site: cluster the rows and make the one summary that leaves."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.engine import NO_GUARD, Client
from fedjigsaw.errors import DataWarning, counted, warn
from fedjigsaw.io.contents import describe_rows
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.io.tables import Table
from fedjigsaw.messages import OWN, SHARED, Broadcast
from fedjigsaw.methods import DEFAULT, make
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.privacy.guard import Guard, warn_of_far_row
from fedjigsaw.privacy.summaries import box_of, with_cells
from fedjigsaw.random import stream
from fedjigsaw.sites.charge import Spend, free
from fedjigsaw.sites.compatibility import check_one_round
from fedjigsaw.sites.marks import warn_of_marks
from fedjigsaw.sites.preparation import (
    Progress,
    bounds_in_order,
    prepare,
    quiet,
    scale_bounds,
    site_name,
)
from fedjigsaw.validation import MAX_SAMPLES

GUARD = Guard()
MAX_ROWS = 1_000_000
logger = logging.getLogger(__name__)


def summarize(
    data: Path | str | Table,
    n_clusters: int | str,
    *,
    method: str = DEFAULT,
    params: Mapping[str, Any] | None = None,
    client: str | None = None,
    scaler: Scaler | None = None,
    guard: Guard = GUARD,
    seed: int = 0,
    broadcast: Broadcast | None = None,
    privacy: Privacy | None = None,
    spend: Spend = free,
    max_rows: int = MAX_ROWS,
    columns: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    drop_missing: bool = False,
    progress: Progress = quiet,
    clustering: Progress = quiet,
) -> SummaryFile:
    """Cluster a site's rows and make the one summary that leaves it.

    Parameters
    ----------
    data : the path of a file, or a table that is already open.
    n_clusters : number of clusters in the data of all sites together, or "auto".
    method : name of the method, one of those that need a single round (``fedjigsaw methods``).
    params : parameters of the method by name, such as ``{"n_init": 20}``; others have their
        defaults.
    client : the site's name; by default that of the file, without its ending.
    scaler : from :func:`~fedjigsaw.sites.common_scaler`; its columns are then the ones to read.
    guard : the rule that the summary passes; the default merges centers of fewer than five rows.
    seed : seed of the clustering, an integer >= 0.
    broadcast : the message of the server for this round; None for the only round.
    privacy : differential privacy, in place of the guard
        Its bounds are in the units of the file, for the columns of the scaler, or else `columns`,
        or else those of the file, in that order. All numbers in the result are then noisy.
    spend : called right before noise is drawn, and before an exact summary is made; it may refuse.
    max_rows : if more rows than this have no missing values, cluster a uniform random sample
        Not under privacy: a row that moves others into a sample counts for more than one.
    columns, order, drop_missing : as in :func:`~fedjigsaw.sites.prepare`.
    progress : called with the number of rows of each batch that was read.
    clustering : called once with the number of rows to cluster, when all have been read.

    Returns
    -------
    SummaryFile
        Save it by :func:`fedjigsaw.io.formats.save`, and send that file to the coordinator.

    Raises
    ------
    DataError
        If the file cannot be read, or has missing values, texts, or too few rows for the guard.
    ParameterError
        If the method is unknown or needs several rounds, if a parameter is wrong, or if `columns`
        are not those of the scaler.
    BudgetError
        If `spend` is that of a :class:`Charge`, and a limit does not allow the release.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import summarize
    >>> ages = [[30], [31], [32], [33], [34], [60], [61], [62], [63], [64]]
    >>> file = summarize(from_array(ages, ["age"]), 2, client="bern")
    >>> file.summary.centers.round(1).tolist(), file.summary.counts.tolist()
    ([[32.0], [62.0]], [5, 5])
    >>> file.columns, file.method, file.guard["min_cluster_size"]
    (('age',), 'jigsaw', 5)
    """
    Guard.check(guard, "summarize")
    estimator = make(method, n_clusters, seed, **(params or {}))
    estimator.check_federated() if broadcast else check_one_round(estimator)
    given = prepare(data, scaler=scaler, columns=columns, drop_missing=drop_missing)
    if privacy is not None:
        privacy = with_cells(privacy, None if broadcast is None else broadcast.cells)
    if privacy is not None and order is None and scaler is None and privacy.cells == SHARED:
        order = sorted(given.columns)  # shared cells depend on the order of columns
    table = prepare(given, scaler=scaler, order=order)
    if privacy is not None:
        given.check_named()
        table = table.without_blank_rows()
        estimator.check_privacy(privacy)
        privacy = bounds_in_order(privacy, given.columns, table.columns)
    name = site_name(client, table)
    sampling = stream(seed, 0, f"sample of {name}")
    most = max_rows if privacy is None else MAX_SAMPLES
    rows, n_samples = table.read(max_rows=most, rng=sampling, progress=progress)
    skipped = table.tally.skipped
    if skipped:
        logger.info("%s: %s", table.path, describe_rows(n_samples, skipped))
    enough = len(rows) >= guard.min_cluster_size  # else the guard blocks all of it
    if privacy is None and n_clusters != "auto" and enough and len(rows) < int(n_clusters):
        warn(
            f"{table.path} has {counted(len(rows), 'row')} to cluster, fewer than the {n_clusters} "
            f"clusters requested: it sends at most {counted(len(rows), 'center')}. "
            "This is fine for a small site.",
            DataWarning,
        )
    schema = None if scaler is None or scaler.encoding is None else scaler.encoding.schema
    warn_of_marks(table.path, rows, table.columns, schema)
    rule = replace(guard, scaled_by=scaler) if privacy is None else NO_GUARD
    if privacy is None and rule.min_cluster_size == 1:
        warn_of_far_row(rows)
    rows = rule.ready(rows, name)
    rule.watch(rows)
    if scaler is not None:
        scaler.scale_in_place(rows)
    if privacy is not None and privacy.cells == OWN:  # by the site's own rows: it stays here
        estimator.settle_privacy(replace(privacy, rows=len(rows)), len(table.columns), 1)
    here = Client(name, rows, estimator, rule, _scaled(privacy, scaler))
    spend(privacy, None if privacy is None else privacy.multiplier(estimator.total_rounds))
    clustering(len(rows))
    summary = here.answer(broadcast or Broadcast(0, seed))
    if privacy is None:
        summary, n_used = replace(summary, n_samples=n_samples), len(rows)
    else:
        n_used = summary.n_samples
    return SummaryFile(
        summary=summary,
        method=method,
        params=estimator.configuration(),
        columns=table.columns,
        scaler=scaler,
        guard={
            "min_cluster_size": rule.min_cluster_size,
            "counts": "none" if summary.counts is None else rule.counts or "exact",
        },
        seed=seed,
        n_used=n_used,
        privacy=privacy,
        n_skipped=skipped if privacy is None and broadcast is None else 0,
    )


def _scaled(privacy: Privacy | None, scaler: Scaler | None) -> Privacy | None:
    """Return the promise in scaled units; raise what is wrong with it before it is paid for."""
    if privacy is None:
        return None
    scaled = scale_bounds(privacy, scaler)
    box_of(scaled, len(scaled.bounds[0]))
    return scaled
