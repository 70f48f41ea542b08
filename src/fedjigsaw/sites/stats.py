"""Statistics of a site's columns, and the scaler that all sites have in common."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns import scaling
from fedjigsaw.columns.encoding import Encoding, provisional
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.columns.schema import Schema
from fedjigsaw.columns.units import Conspicuous, conspicuous_columns
from fedjigsaw.errors import (
    ConspicuousSiteWarning,
    DataError,
    ParameterError,
    SiteWarning,
    counted,
    warn,
)
from fedjigsaw.io.formats import NoisyStats
from fedjigsaw.io.tables import Table
from fedjigsaw.privacy import statistics
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.sites.charge import Spend, free
from fedjigsaw.sites.compatibility import check_contents, check_different, warn_of_copies
from fedjigsaw.sites.marks import Marks
from fedjigsaw.sites.moments import Verdict, judge
from fedjigsaw.sites.preparation import (
    Progress,
    check_clipped,
    open_data,
    quiet,
    scaled_rows,
    site_name,
)
from fedjigsaw.sites.prepared import (
    Quantiles,
    check_schema,
    fit_preparation,
    guard_features,
)


def measure(
    data: Path | str | Table,
    *,
    client: str | None = None,
    columns: Sequence[str] | None = None,
    schema: Schema | None = None,
    min_rows: int = 5,
    drop_missing: bool = False,
    privacy: Privacy | None = None,
    spend: Spend = free,
    progress: Progress = quiet,
) -> Stats:
    """Measure count, mean and sum of squares of each column: what a site sends for a scaler.

    Parameters
    ----------
    data : the path of a file, or a table that is already open.
    client : name of the site; None is that of the file, without its ending.
    columns : names of the columns to measure
        None takes all but those that look like identifiers, with a DataWarning.
    schema : what the columns mean, instead of `columns`
        The statistics are then those of the features from which a preparation can be fitted.
    min_rows : fewest rows for which statistics may leave; fewer are a DataError
        Not under privacy, where the number of rows is noisy.
    drop_missing : skip rows with missing values; False makes them a DataError.
    privacy : differential privacy, or None for exact numbers
        Its bounds are for the columns in the order of `columns`, or of the file; with a schema,
        they are those of the schema instead (:func:`schema_bounds`).
    spend : called right before noise is drawn, and before exact statistics are made
        It writes the release down, or refuses it with an error; see :class:`Charge`.
    progress : called with the number of rows of each batch that was read.

    Returns
    -------
    Stats
        The statistics, for :func:`common_scaler` and :func:`fedjigsaw.io.formats.save`. Its
        `sum_of_squares` is that of the differences from the mean.

    Raises
    ------
    DataError
        If the file cannot be read, or has missing values, texts, or fewer than `min_rows` rows.
    BudgetError
        If `spend` is that of a :class:`Charge`, and a limit does not allow the release.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import measure
    >>> stats = measure(from_array([[30.0], [50.0]] * 4, ["age"]), client="bern")
    >>> stats.n_samples, stats.mean.tolist(), stats.sum_of_squares.tolist()
    (8, [40.0], [800.0])
    """
    encoding = None if schema is None else provisional(schema)
    table = open_data(data, columns, drop_missing=drop_missing, encoding=encoding)
    name = site_name(client, table)
    if privacy is not None:
        if encoding is not None:
            privacy = replace(privacy, bounds=encoding.bounds())
        return _measure_privately(name, table, privacy, spend, progress, encoding)
    spend(None, None)
    quantiles, marks = Quantiles(schema), Marks(schema)
    even = scaling.even_blocks(scaled_rows(table, None, progress))
    blocks = quantiles.watch(marks.watch(even, table.columns), table.columns)
    stats = scaling.measure(name, table.columns, blocks)
    if stats.n_samples < min_rows:  # the mean of one row is that row, of two nearly both
        raise DataError(
            f"{table.path} has {counted(stats.n_samples, 'row')}; statistics of fewer than "
            f"{min_rows} rows may not leave (min_rows={min_rows}).",
            file=table.path,
        )
    marks.warn(table.path)
    if schema is None:
        return stats
    guarded = guard_features(stats, schema, min_rows)
    sketches = quantiles.sketches(min_rows)
    return replace(guarded, made_by=schema, sketches=sketches)


def _measure_privately(
    name: str,
    table: Table,
    privacy: Privacy,
    spend: Spend,
    progress: Progress,
    encoding: Encoding | None,
) -> NoisyStats:
    statistics.check_unit(privacy)
    table.check_named()
    table = table.without_blank_rows()
    n_rows, n_outside = 0, 0
    schema = None if encoding is None else encoding.schema
    marks = Marks(schema)

    def counted() -> Iterator[Floats]:
        nonlocal n_rows, n_outside
        for rows in marks.watch(scaled_rows(table, None, progress), table.columns):
            n_rows += len(rows)
            n_outside += statistics.count_outside(rows, privacy)
            yield rows

    encoders = statistics.plain(table.columns, privacy) if encoding is None else encoding.encoders
    sums = statistics.exact_table(counted(), encoders)
    check_clipped(table, n_rows, n_outside)
    marks.warn(table.path)
    spend(privacy, privacy.multiplier())
    found = statistics.release(sums, privacy, name, encoders, schema)
    return NoisyStats(**vars(found), privacy=privacy)


def scaler_of_bounds(columns: Sequence[str], low: Sequence[float], high: Sequence[float]) -> Scaler:
    """Make a scaler from public bounds alone, as if values were spread evenly between them.

    It tells nothing about rows, so it costs no privacy.

    Parameters
    ----------
    columns : names of the columns.
    low, high : least and greatest value of each column, in their order, in the units of the file.

    Returns
    -------
    Scaler

    Raises
    ------
    MessageError
        If a column is named twice, there is not one bound for each, or `low` is not below `high`.

    Examples
    --------
    >>> from fedjigsaw.sites import scaler_of_bounds
    >>> scaler_of_bounds(["age"], [0.0], [120.0]).deviation.round(2).tolist()
    [34.64]
    """
    least, greatest = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    deviation = (greatest / 2 - least / 2) / np.sqrt(3)
    return Scaler(tuple(columns), least / 2 + greatest / 2, deviation)


def common_scaler(
    stats: Mapping[str, Stats],
    *,
    schema: Schema | None = None,
    without: Sequence[str] = (),
    robust: bool = True,
) -> Scaler:
    """Merge the statistics of all sites into the scaler that their pooled rows would give.

    Statistics that are impossible, judged by those of the other sites, are set aside or limited
    (:mod:`fedjigsaw.sites.moments`), with a ConspicuousSiteWarning for each such site. A
    SiteWarning tells of columns in which some site seems to use another unit, and changes nothing.

    Parameters
    ----------
    stats : file name -> its content; the names are for error messages.
    schema : the schema that all statistics were made by, if they were.
    without : names of sites to leave out, as if they had never sent statistics.
    robust : whether statistics are judged; False believes all sites.

    Returns
    -------
    Scaler
        The same for all sites: give it to :func:`summarize` there.

    Raises
    ------
    ParameterError
        If no statistics are given or left, or none are from a site in `without`.
    MessageError
        If two files are from one site, or if columns or schemas differ.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import common_scaler, measure
    >>> rows = {"bern": [[30.0], [40.0]] * 3, "oslo": [[50.0], [60.0]] * 3}
    >>> stats = {site: measure(from_array(X), client=site) for site, X in rows.items()}
    >>> scaler = common_scaler(stats)
    >>> scaler.mean.tolist(), scaler.deviation.round(2).tolist()
    ([45.0], [11.18])
    """
    scaler, verdicts = merge_statistics(stats, schema=schema, without=without, robust=robust)
    units = unlike_units(stats, verdicts, without=without)
    for column in units:
        warn(str(column), SiteWarning)
    for verdict in untold(verdicts, units):
        if verdict.reason:
            aside = "set aside, since " if verdict.used is None else ""
            text = f"Statistics of client {verdict.stats.client!r}: {aside}{verdict.reason}."
            warn(text, ConspicuousSiteWarning)
    return scaler


def unlike_units(
    stats: Mapping[str, Stats], verdicts: Sequence[Verdict], *, without: Sequence[str] = ()
) -> list[Conspicuous]:
    """Return the columns in which one of the sites that count seems to use another unit.

    Parameters
    ----------
    stats, without : as in :func:`common_scaler`.
    verdicts : what :func:`merge_statistics` found; sites that it set aside do not count.

    Returns
    -------
    list of Conspicuous
        Each has the name of the `column`; ``str`` says what is conspicuous, and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import measure, merge_statistics, unlike_units
    >>> meters = np.array([[1.6], [1.7], [1.8], [1.9]] * 5)
    >>> heights = {"bern": meters, "oslo": meters, "rome": meters * 100}
    >>> stats = {s: measure(from_array(X, ["height"]), client=s) for s, X in heights.items()}
    >>> _, verdicts = merge_statistics(stats)
    >>> print(*str(unlike_units(stats, verdicts)[0]).splitlines()[:4], sep="\\n")
    Do all sites use the same unit in column 'height'?
      bern: 20 rows, mean 1.75, deviation 0.112
      oslo: 20 rows, mean 1.75, deviation 0.112
      rome: 20 rows, mean 175, deviation 11.2 (about 100 times the others)
    """
    aside = {verdict.stats.client for verdict in verdicts if verdict.used is None}
    return conspicuous_columns(
        [found for found in stats.values() if found.client not in {*aside, *without}]
    )


def untold(verdicts: Sequence[Verdict], units: Sequence[Conspicuous]) -> list[Verdict]:
    """Return the verdicts without reasons that a warning of other units has told already.

    Parameters
    ----------
    verdicts : what :func:`merge_statistics` found.
    units : what :func:`unlike_units` found.

    Returns
    -------
    list of Verdict
    """
    told = {column.column for column in units}
    return [
        replace(v, column="", reason="")
        if v.column in told and v.used is v.stats and not v.many_rows
        else v
        for v in verdicts
    ]


def merge_statistics(
    stats: Mapping[str, Stats],
    *,
    schema: Schema | None = None,
    without: Sequence[str] = (),
    robust: bool = True,
) -> tuple[Scaler, list[Verdict]]:
    """Do the same as :func:`common_scaler`, but return what was found instead of warnings.

    Parameters
    ----------
    stats, schema, without, robust : as in :func:`common_scaler`.

    Returns
    -------
    scaler : Scaler
    verdicts : list of Verdict
        One for each site: its `stats`, what is `used` of them (None if they were set aside), and
        the `reason` (empty if there is nothing to say). The list is empty if not `robust`.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import measure, merge_statistics
    >>> rows = {"bern": [[30.0], [40.0]] * 3, "oslo": [[50.0], [60.0]] * 3}
    >>> stats = {site: measure(from_array(X), client=site) for site, X in rows.items()}
    >>> scaler, verdicts = merge_statistics(stats)
    >>> [verdict.reason for verdict in verdicts]
    ['', '']
    """
    check_contents(stats, "statistics", Stats)
    check_different({name: found.client for name, found in stats.items()})
    known = {found.client for found in stats.values()}
    unknown = sorted(set(without) - known)
    if unknown:
        names, sites = (", ".join(map(repr, some)) for some in (unknown, sorted(known)))
        raise ParameterError(f"No statistics are from {names}. Sites: {sites}.")
    kept = [found for found in stats.values() if found.client not in set(without)]
    if not kept:
        raise ParameterError(f"Without {', '.join(map(repr, without))}, no statistics are left.")
    check_schema(stats, schema)
    verdicts = judge(kept) if robust else []
    used = [v.used for v in verdicts if v.used is not None] if robust else kept
    scaler = scaling.merge(used) if schema is None else fit_preparation(used, schema)
    warn_of_copies(
        {s.client: (s.n_samples, np.concatenate([s.mean, s.sum_of_squares])) for s in kept}
    )
    return scaler, verdicts
