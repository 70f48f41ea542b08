"""Statistics of a site's columns, and the scaler that all sites have in common."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedjigsaw.errors import DataError
from fedjigsaw.io.tables import Table
from fedjigsaw.kernels import scaling
from fedjigsaw.kernels.scaling import Scaler, Stats
from fedjigsaw.sites.compatibility import check_different
from fedjigsaw.sites.preparation import Progress, open_data, quiet, scaled_rows, site_name


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


def common_scaler(stats: Mapping[str, Stats]) -> Scaler:
    """Merge the statistics of all sites into the scaler that their pooled rows would give.

    Parameters
    ----------
    stats : file name -> its content; the names are for error messages.
    """
    check_different({name: found.client for name, found in stats.items()})
    return scaling.merge(list(stats.values()))
