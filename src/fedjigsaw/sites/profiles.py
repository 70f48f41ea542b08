"""Measure what the rows of each cluster are like at one site, in one pass over its file."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.columns.profiles import Collector, Profile, check_describable
from fedjigsaw.columns.schema import BOOLEAN, ORDERED, Schema
from fedjigsaw.columns.shown import Shown, shown_columns, with_shown
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.io.encoded import EncodedReader
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import Table
from fedjigsaw.number.shapes import NOISE, ClusterShapes, knows_noise, label_rows
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.privacy.statistics import (
    Sums,
    count_outside,
    guard_distances,
    guard_profile,
    release_profile,
    with_noise,
)
from fedjigsaw.sites.charge import Spend
from fedjigsaw.sites.preparation import Progress, check_clipped, scale

EQUAL = 1e-9  # rounding of means, relative to the range


class Measured(NamedTuple):
    """Sizes, summed squared distances and profile of clusters, and the rows of none of them."""

    counts: Ints
    sse: Floats
    profile: Profile
    n_noise: int = 0


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
    k = len(file.model.centers)
    check_describable(k, *shown(file))
    n_sets = k + 1 if knows_noise(file.model) else k  # the last set is of no cluster
    counts: Ints = np.zeros(n_sets, dtype=np.int64)
    sse: Floats = np.zeros(n_sets)
    collector = Collector(n_sets, *shown(file))
    for part in _parts(table, file, progress):
        labels, distances, _ = label_rows(file.model, part.scaled)
        labels = with_noise(labels, k)[0]
        counts += np.bincount(labels, minlength=n_sets)
        sse += np.bincount(labels, distances**2, minlength=n_sets)
        collector.add(labels, part.numbers, part.codes)
    guarded = guard_profile(collector.profile(), counts, min_size, k)
    distances = guard_distances(sse[:k], counts[:k], min_size)
    return Measured(counts[:k], distances, _within_ranges(guarded, file), int(counts[k:].sum()))


def measure_privately(
    table: Table, file: ModelFile, privacy: Privacy, client: str, spend: Spend, progress: Progress
) -> Measured:
    """Measure all of it with noise; the summed squared distances follow from the noisy moments."""
    numbers, levels = shown(file)
    check_describable(len(file.model.centers), numbers, levels)
    sums, shapes = (
        Sums(len(file.model.centers), numbers, levels, privacy),
        ClusterShapes.from_model(file.model),
    )
    n_rows, n_outside = 0, 0
    for part in _parts(table, file, progress, privacy):
        n_rows += len(part.numbers)
        n_outside += count_outside(part.numbers, privacy)
        labels = nearest_by_row(part.scaled, file.model.centers)
        if shapes is not None:
            labels = shapes.label(part.scaled, labels, by_row=True)
        inside = labels != NOISE
        sums.add(labels[inside], part.numbers[inside], part.codes[inside])
    check_clipped(table, n_rows, n_outside)
    spend(privacy, privacy.multiplier())
    sizes, profile = release_profile(sums, client)
    return Measured(sizes, _distances(profile, file), profile)


def shown(file: ModelFile) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the columns that a profile shows: numbers, and categories with their levels."""
    return (file.columns, {}) if file.encoding is None else shown_columns(file.encoding.schema)


def check_profile(name: str, profile: Profile | None, file: ModelFile) -> None:
    """Raise a MessageError if a profile of others cannot be one of tables of the model's schema.

    Parameters
    ----------
    name : of the file, for the error message.
    """
    if profile is None or file.encoding is None:
        return
    numbers, levels = shown(file)
    if set(profile.numbers) != set(numbers) or profile.levels.keys() != levels.keys():
        raise MessageError(f"The profile of {name} has other columns than the schema of the model.")
    for column, names in profile.levels.items():
        for level in sorted(set(names) - set(levels[column])):
            allowed = "categories of the model's schema"
            raise MessageError(invalid(f"levels of column {column!r}", name, allowed, repr(level)))
    low, high = _ranges(profile.numbers, file.encoding.schema)
    there, width = profile.count > 0, high - low
    slack = EQUAL * np.maximum(np.abs(low), np.abs(high))
    far = (profile.mean < low - slack) | (profile.mean > high + slack)
    limit = np.where(there, profile.count, 1) * width**2  # a cluster without rows is not judged
    wide = profile.sum_of_squares > limit
    for c, j in np.argwhere(there & np.isfinite(width) & (far | wide)):
        what = "mean" if far[c, j] else "spread"
        value = (
            profile.mean[c, j]
            if far[c, j]
            else np.sqrt(profile.sum_of_squares[c, j] / profile.count[c, j])
        )
        allowed = f"within the range of the model's schema, {low[j]:g} to {high[j]:g}"
        whose = f"{what} of column {profile.numbers[j]!r} in cluster {file.cluster_ids[c]}"
        raise MessageError(invalid(whose, name, allowed, f"{value:g}"))


def _within_ranges(profile: Profile, file: ModelFile) -> Profile:
    """Return the profile with means that rounding moved out of the schema's ranges moved back."""
    if file.encoding is None:
        return profile
    inside = np.clip(profile.mean, *_ranges(profile.numbers, file.encoding.schema))
    return replace(profile, mean=np.where(profile.count > 0, inside, 0.0))


def _ranges(numbers: tuple[str, ...], schema: Schema) -> tuple[Floats, Floats]:
    """Return least and greatest values of columns of numbers; infinite if there is no range."""
    found = []
    for column in (schema[name] for name in numbers):
        if column.kind == BOOLEAN:
            found.append((0.0, 1.0))
        elif column.kind == ORDERED:
            found.append((0.0, len(column.categories) - 1.0))
        else:
            found.append(column.range or (-np.inf, np.inf))
    low, high = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return low, high


def _parts(
    table: Table, file: ModelFile, progress: Progress, privacy: Privacy | None = None
) -> Iterator[Part]:
    if file.encoding is not None:
        skip_blank = privacy is not None
        yield from _encoded_parts(table, file, file.encoding, progress, skip_blank=skip_blank)
        return
    for batch in table.batches():
        rows = batch.rows
        clipped = rows if privacy is None else np.clip(rows, *privacy.limits(rows.shape[1]))
        codes = np.zeros((len(rows), 0), dtype=np.int64)
        yield Part(scale(clipped, file.scaler), rows, codes)
        progress(len(batch.kept))


def _encoded_parts(
    table: Table, file: ModelFile, encoding: Encoding, progress: Progress, *, skip_blank: bool
) -> Iterator[Part]:
    """Read features to cluster by, and beside them the values of all columns to show.

    Under privacy nothing is left to clip: values outside the range of the schema are no values, or
    an error, or clipped already.
    """
    reader = table.reader.reader if isinstance(table.reader, EncodedReader) else table.reader
    both = EncodedReader(table.path, reader, with_shown(encoding), skip_blank=skip_blank)
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
