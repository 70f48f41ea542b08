"""Statistics of a site's columns, and the scaler that all sites have in common."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedjigsaw.errors import ConspicuousSiteWarning, DataError, ParameterError
from fedjigsaw.io.tables import Table
from fedjigsaw.kernels import scaling
from fedjigsaw.kernels.scaling import Scaler, Stats
from fedjigsaw.sites.compatibility import check_different
from fedjigsaw.sites.preparation import Progress, open_data, quiet, scaled_rows, site_name
from fedjigsaw.trust.moments import Verdict, judge


def measure(
    data: Path | Table,
    *,
    client: str | None = None,
    columns: Sequence[str] | None = None,
    min_rows: int = 1,
    drop_missing: bool = False,
    progress: Progress = quiet,
) -> Stats:
    """Measure count, mean and sum of squares of each column: what a site sends for a scaler.

    Parameters
    ----------
    min_rows : fewest rows for which statistics may leave; fewer are a DataError.
    """
    table = open_data(data, columns, drop_missing=drop_missing)
    name = site_name(client, table)
    stats = scaling.measure(name, table.columns, scaled_rows(table, None, progress))
    if stats.n_samples < min_rows:  # the mean of one row is that row, of two nearly both
        raise DataError(
            f"{table.path} has {stats.n_samples} rows; statistics of fewer than {min_rows} rows "
            "may not leave (--min-cluster-size)."
        )
    return stats


def common_scaler(
    stats: Mapping[str, Stats], *, without: Sequence[str] = (), robust: bool = True
) -> Scaler:
    """Merge the statistics of all sites into the scaler that their pooled rows would give.

    Statistics that are impossible, judged by those of the other sites, are set aside or limited
    (:mod:`fedjigsaw.trust.moments`), with a warning for each site that is conspicuous.

    Parameters
    ----------
    stats : file name -> its content; the names are for error messages.
    without : sites to leave out, as if they had never sent statistics.
    robust : whether statistics are judged; False believes all sites.
    """
    scaler, verdicts = merge_statistics(stats, without=without, robust=robust)
    for verdict in verdicts:
        if verdict.reason:
            aside = "set aside, since " if verdict.used is None else ""
            text = f"Statistics of client {verdict.stats.client!r}: {aside}{verdict.reason}."
            warnings.warn(text, ConspicuousSiteWarning, stacklevel=2)
    return scaler


def merge_statistics(
    stats: Mapping[str, Stats], *, without: Sequence[str] = (), robust: bool = True
) -> tuple[Scaler, list[Verdict]]:
    """Do the same as :func:`common_scaler`, but return what was found instead of warnings."""
    check_different({name: found.client for name, found in stats.items()})
    known = {found.client for found in stats.values()}
    unknown = sorted(set(without) - known)
    if unknown:
        names, sites = (", ".join(map(repr, some)) for some in (unknown, sorted(known)))
        raise ParameterError(f"No statistics are from {names}. Sites: {sites}.")
    kept = [found for found in stats.values() if found.client not in set(without)]
    if not kept:
        raise ParameterError(f"Without {', '.join(map(repr, without))}, no statistics are left.")
    if not robust:
        return scaling.merge(kept), []
    verdicts = judge(kept)
    return scaling.merge([v.used for v in verdicts if v.used is not None]), verdicts
