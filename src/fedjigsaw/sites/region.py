"""At the server of a region: make one summary of many, for the next level.

A region is a server that is a site of another federation. Levels may be as many as needed: the
summary of a region is a summary, and can be aggregated with others, into a model or into the
summary of a larger region.

>>> import numpy as np
>>> from fedjigsaw import sites
>>> from fedjigsaw.io.tables import from_array
>>> rows = {"bern": np.repeat([[0.0], [9.0]], 5, axis=0), "oslo": np.repeat([[9.0]], 5, axis=0)}
>>> files = {s: sites.summarize(from_array(X), 2, client=s) for s, X in rows.items()}
>>> north, _ = sites.aggregate_region(files, 2, client="north")
>>> sites.aggregate({"north": north}, 2).model == sites.aggregate(files, 2).model
True
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fedjigsaw.errors import ParameterError, invalid
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.io.regions import pack_as_they_are, pack_merged
from fedjigsaw.messages import COUNTS, Summary
from fedjigsaw.parameters import integer
from fedjigsaw.sites.admission import Loaded
from fedjigsaw.sites.aggregate import Together, solve_together
from fedjigsaw.validation import check_name

CENTERS_PER_CLUSTER = 4  # that a region sends: with one, it would lose up to a percent
MOST_CELLS = 400  # of a region, where the number of clusters is to be found: twice those of a site


def aggregate_region(
    files: Mapping[str, Loaded],
    n_clusters: int | str,
    *,
    client: str,
    n_centers: int | None = None,
    without: Sequence[str] = (),
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    min_sites: int | None = None,
) -> tuple[SummaryFile, ModelFile | None]:
    """Make the summary of a region, and its own model, from the summaries of its sites.

    If the sites have no more centers than a region may send, their summaries pass as they are.
    Otherwise they are merged, and the region's own model goes with them: it is the model of the
    next level where no other region takes part. Noisy tables of cells that all sites share may be
    too few for a model of the region, which is None then; they add up all the same.

    Parameters
    ----------
    client : name of the region at the next level.
    n_centers : most centers that it sends
        None is four for each cluster, and 400 where the number of clusters is to be found.
    files, n_clusters, without, seed, params, min_sites : as in :func:`~fedjigsaw.sites.aggregate`

    Returns
    -------
    summary : SummaryFile
        For :func:`~fedjigsaw.sites.aggregate`, beside those of other regions and sites.
    model : ModelFile or None

    Raises
    ------
    ParameterError
        If `n_centers` is smaller than `n_clusters`.
    DataError
        If `client` cannot be a name.
    MessageError, QuorumError
        As in :func:`~fedjigsaw.sites.aggregate`.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import aggregate_region, summarize
    >>> ages = [[30], [31], [32], [33], [34], [60], [61], [62], [63], [64]]
    >>> files = {s: summarize(from_array(ages, ["age"]), 2, client=s) for s in ("bern", "basel")}
    >>> summary, model = aggregate_region(files, 2, client="switzerland", n_centers=2)
    >>> summary.summary.client, summary.summary.n_samples, len(summary.summary.centers)
    ('switzerland', 20, 2)
    """
    check_name(client)
    most = most_centers(n_clusters, n_centers)
    together = solve_together(
        files,
        n_clusters,
        without=without,
        seed=seed,
        params=params,
        min_sites=min_sites,
        in_parts=True,
    )
    model = None if together.model is None else together.model_file()
    return region_summary(together, client, most), model


def region_summary(together: Together, client: str, n_centers: int) -> SummaryFile:
    """Make the summary of a region from summaries that were aggregated."""
    members = together.members
    if sum(len(member.centers) for member in members) <= n_centers:
        summary = pack_as_they_are(client, members)
    else:
        merged = together.method.merge(members, n_centers)
        summary = pack_merged(client, merged, members, together.model, together.clients)
    return _file(together, summary)


def most_centers(n_clusters: int | str, n_centers: int | None) -> int:
    """Return the most centers that a region sends."""
    if n_clusters == "auto":
        integer(1, or_none=True).check("n_centers", "a region", n_centers)
        return n_centers or MOST_CELLS
    if n_centers is not None and n_centers < int(n_clusters):
        allowed = f"at least the number of clusters, {n_clusters}"
        raise ParameterError(invalid("n_centers", "a region", allowed, n_centers))
    return n_centers or CENTERS_PER_CLUSTER * int(n_clusters)


def _file(together: Together, summary: Summary) -> SummaryFile:
    """Compose what the sites promise and say about their rows.

    Every row is at one site, so differential privacy is that of the site that promises least. So is
    the guard: a merged center stands for at least as many rows as the smallest of its parts.
    """
    first, files = together.files[0], together.files
    n_used = sum(file.n_used for file in files)
    return SummaryFile(
        summary=summary,
        method=first.method,
        params=first.params,
        columns=first.columns,
        scaler=first.scaler,
        guard={
            "min_cluster_size": min(file.guard["min_cluster_size"] for file in files),
            "counts": min((file.guard["counts"] for file in files), key=COUNTS.index),
        },
        seed=int(together.method.random_state),
        n_used=min(n_used, summary.n_samples),
        privacy=together.privacy,
        n_skipped=together.n_skipped,
    )
