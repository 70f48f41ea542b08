"""Measure what the rows of each cluster are like at one site, in one pass over its file."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.columns.shown import Shown, shown_columns, with_shown
from fedjigsaw.errors import ClippedRowsWarning, DataError
from fedjigsaw.io.encoded import EncodedReader
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import Table
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.kernels.profiles import Collector, Profile
from fedjigsaw.privacy.accounting import multiplier_for
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.privacy.noisy_profiles import Sums, release
from fedjigsaw.privacy.profiles import guard_distances, guard_profile
from fedjigsaw.privacy.statistics import count_outside
from fedjigsaw.sites.charge import Spend
from fedjigsaw.sites.preparation import Progress, scale

Measured = tuple[Ints, Floats, Profile]  # sizes, summed squared distances, profile


class Part(NamedTuple):
    """Some rows: as they are clustered, and as profiles show them.

    Attributes
    ----------
    scaled : shape (n, n_features).
    numbers : shape (n, n_numbers), in the units of the file, NaN where there is no value.
    codes : shape (n, n_categories), the place of each row's level, -1 where there is none.
    """

    scaled: Floats
    numbers: Floats
    codes: Ints


def measure(table: Table, file: ModelFile, min_size: int, progress: Progress) -> Measured:
    """Measure sizes and summed squared distances, and a profile that passed the guard."""
    centers = file.model.centers
    k = len(centers)
    counts: Ints = np.zeros(k, dtype=np.int64)
    sse: Floats = np.zeros(k)
    collector = Collector(k, *shown(file))
    for part in _parts(table, file, progress):
        labels, distances = nearest_centers(part.scaled, centers)
        counts += np.bincount(labels, minlength=k)
        sse += np.bincount(labels, distances**2, minlength=k)
        collector.add(labels, part.numbers, part.codes)
    guarded = guard_profile(collector.profile(), counts, min_size)
    return counts, guard_distances(sse, counts, min_size), guarded


def measure_privately(
    table: Table, file: ModelFile, privacy: Privacy, client: str, spend: Spend, progress: Progress
) -> Measured:
    """Measure all of it with noise; the summed squared distances follow from the noisy moments."""
    numbers, levels = shown(file)
    sums = Sums(len(file.model.centers), numbers, levels, privacy)
    n_rows, n_outside = 0, 0
    for part in _parts(table, file, progress, privacy):
        n_rows += len(part.numbers)
        n_outside += count_outside(part.numbers, privacy)
        sums.add(nearest_by_row(part.scaled, file.model.centers), part.numbers, part.codes)
    if not n_rows:
        raise DataError(f"{table.path} has no row without missing values.")
    if n_outside:
        warnings.warn(
            f"{n_outside} of {n_rows} rows of {table.path} are outside the bounds and were "
            "clipped. If there are many, the bounds are too narrow.",
            ClippedRowsWarning,
            stacklevel=3,
        )
    spend(privacy, multiplier_for(privacy.epsilon, privacy.delta))
    sizes, profile = release(sums, client)
    return sizes, _distances(profile, file), profile


def shown(file: ModelFile) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the columns that a profile shows: numbers, and categories with their levels."""
    return (file.columns, {}) if file.encoding is None else shown_columns(file.encoding.schema)


def _parts(
    table: Table, file: ModelFile, progress: Progress, privacy: Privacy | None = None
) -> Iterator[Part]:
    if file.encoding is not None:
        yield from _encoded_parts(table, file, file.encoding, progress)
        return
    for batch in table.batches():
        rows = batch.rows
        clipped = rows if privacy is None else np.clip(rows, *privacy.limits(rows.shape[1]))
        codes = np.zeros((len(rows), 0), dtype=np.int64)
        yield Part(scale(clipped, file.scaler), rows, codes)
        progress(len(batch.kept))


def _encoded_parts(
    table: Table, file: ModelFile, encoding: Encoding, progress: Progress
) -> Iterator[Part]:
    """Read features to cluster by, and beside them the values of all columns to show.

    Under privacy nothing is left to clip: values outside the range of the schema are no values, or
    an error, or clipped already.
    """
    reader = table.reader.reader if isinstance(table.reader, EncodedReader) else table.reader
    both = EncodedReader(table.path, reader, with_shown(encoding))
    described = encoding.schema.described
    names = tuple(Shown(column).features[0] for column in described)
    for batch in replace(table, reader=both, id_columns=names).batches():
        values = {c.name: v[batch.kept] for c, v in zip(described, batch.ids, strict=True)}
        numbers, levels = shown(file)
        n = len(batch.rows)
        rows = np.column_stack([np.zeros((n, 0)), *(values[name] for name in numbers)])
        codes = np.column_stack([np.zeros((n, 0)), *(values[name] for name in levels)])
        whole = np.where(np.isnan(codes), -1, codes).astype(np.int64)
        yield Part(scale(batch.rows, file.scaler), rows, whole)
        progress(len(batch.kept))


def nearest_by_row(rows: Floats, centers: Floats) -> Ints:
    """Return the nearest center of each row, by sums that no other row has an influence on.

    A matrix product may give a row other low-order bits beside other rows, and then one more row
    could move another one into another cluster.
    """
    columns = np.ascontiguousarray(rows.T)
    labels, least = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), np.inf)
    for i, center in enumerate(centers):
        squared = np.zeros(len(rows))
        for column, place in zip(columns, center, strict=True):
            squared += (column - place) ** 2
        nearer = squared < least
        labels[nearer], least[nearer] = i, squared[nearer]
    return labels


def _distances(profile: Profile, file: ModelFile) -> Floats:
    """Return the summed squared distances that belong to noisy moments; 0 where there are none.

    Those of a model with a schema are not known: its features are no columns of the profile.
    """
    centers, scaler = file.model.centers, file.scaler
    if file.encoding is not None:
        return np.zeros(len(centers))
    mean, width = profile.mean, np.ones(len(profile.numbers))
    if scaler is not None:
        mean, width = scaler.scale(mean), scaler.deviation
    within = profile.sum_of_squares / width**2
    sse: Floats = (within + profile.count * (mean - centers) ** 2).sum(axis=1)
    return sse
