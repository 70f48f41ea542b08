"""Say how columns are prepared, and what statistics made by a schema tell."""

import math
from collections.abc import Iterator
from itertools import islice

from fedjigsaw.columns.encoding import Encoder, feature
from fedjigsaw.columns.fitting import known_mean, known_variance
from fedjigsaw.columns.in_words import all_digits, day, features_of, level, moments, value_of
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.columns.schema import (
    ABSENT,
    BOOLEAN,
    CATEGORY,
    DATE,
    IGNORE,
    MEAN,
    ORDERED,
    OTHER,
    REFUSE,
    Schema,
)
from fedjigsaw.errors import counted, quote_names
from fedjigsaw.io.formats import NoisyStats
from fedjigsaw.report.units import percent

Lines = Iterator[str]


def describe_preparation(scaler: Scaler, most: int) -> Lines:
    """Say how each column is prepared: by which formula, and with an encoding as which features."""
    if scaler.encoding is None:
        columns = zip(scaler.columns, scaler.mean, scaler.deviation, strict=True)
        for name, mean, deviation in islice(columns, most):
            yield f"  {_formula(name, mean, deviation)}"
        return
    means, widths = map(scaler.encoding.by_column, (scaler.mean, scaler.deviation))
    for encoder in scaler.encoding.encoders[:most]:
        name = encoder.column.name
        yield f"  {name}: {_prepared(encoder, means[name].tolist(), widths[name].tolist())}"
    n_more = len(scaler.encoding.encoders) - most
    if n_more > 0:
        yield f"  ... and {n_more} more; --all shows them"
    yield from _left_out(scaler.encoding.schema)


def _left_out(schema: Schema) -> Lines:
    shown = [c.name for c in schema.described if not c.is_clustered]
    if shown:
        yield f"  Not clustered, but shown in profiles: {', '.join(shown)}."
    ignored = [column.name for column in schema.columns if column.kind == IGNORE]
    if ignored:
        yield f"  Ignored: {', '.join(ignored)}."


def _formula(name: str, mean: float, deviation: float) -> str:
    return f"({name} {'-' if mean >= 0 else '+'} {abs(mean):.6g}) / {deviation:.6g}"


def _prepared(encoder: Encoder, means: list[float], widths: list[float]) -> str:
    column = encoder.column
    weight = "" if column.weight == 1 else f", weight {column.weight:g}"
    if column.kind == CATEGORY:
        shares = zip(encoder.parts, means, strict=True)
        parts = ", ".join(f"{percent(share)} {part}" for part, share in shares)
        pooled = [c for c in column.categories if c not in encoder.parts]
        rare = f"; pooled as {OTHER}, since rare: {', '.join(pooled)}" if pooled else ""
        return f"category of {len(means)} features ({parts}){weight}{rare}{_missing(encoder)}"
    center, width = means[0], widths[0] * column.weight
    if column.kind == BOOLEAN:
        scaled = f"({column.name} - {center:.6g}), 1 for yes and 0 for no"
    elif column.kind == DATE:
        scaled = f"({column.name} - {day(center)}) / {width:.6g} days"
    elif column.kind == ORDERED:
        ranks = " < ".join(column.categories)
        scaled = f"{_formula('rank', center, width)}, with {ranks}"
    else:
        name = f"log(1 + {column.name})" if column.scale == "log" else column.name
        scaled = _formula(name, center, width)
    unit = f" in {column.unit}" if column.unit else ""
    return f"{column.kind}{unit}, {scaled}{weight}{_missing(encoder)}"


def _missing(encoder: Encoder) -> str:
    column = encoder.column
    if column.missing == REFUSE:
        return "; missing values are an error"
    if column.kind == CATEGORY:
        return ""
    told = ", and an indicator tells where" if encoder.parts else ""
    which = "mean" if column.missing == MEAN else "median"
    return f"; {_fill(encoder)} (common {which}) for missing values{told}"


def _fill(encoder: Encoder) -> str:
    column, fill = encoder.column, encoder.fill
    if column.kind == DATE:
        return day(fill)
    if column.kind == ORDERED:
        return f"{fill:.3g}, around {level(fill, column.categories)},"
    return f"{value_of(column, fill):.6g}"


# ------------------------------------------------------------------------------------ statistics


def describe_features(stats: Stats, schema: Schema) -> Lines:
    """Show statistics that were made by a schema: rows of categories, means of numbers."""
    n, shares, columns = stats.n_samples, _shares(stats), features_of(schema)
    yield f"Made by schema {schema.fingerprint}, which is part of this file."
    if unused := [column.name for column in schema.columns if column.kind == IGNORE]:
        yield f"The schema also names columns that are ignored: {quote_names(unused)}."
    known_of = known_moments(stats)
    for name, mean in zip(stats.columns, stats.mean, strict=True):
        own, deviation = known_of[name]
        yes = name in columns and columns[name].kind == BOOLEAN
        if math.isnan(own):
            yield f"  {name}: no values"
        elif yes or name in shares:
            rows = round(min(1.0, max(0.0, mean)) * n)
            yield f"  {name}: {counted(rows, 'row')}{' yes' * yes} ({percent(own)})"
        else:
            yield f"  {name}: {moments(name, own, deviation, columns)}"
    logs = [name for name, column in columns.items() if column.scale == "log"]
    if logs:
        yield f"  (the file has logarithms, of 1 + value, and their deviations: {', '.join(logs)})"
    if any(name.endswith(feature("", ABSENT)) for name in shares):
        yield "  (of the rows with a value; in the file, a missing one counts as a fixed value)"
    for name, sketch in stats.sketches.items():
        n_groups, least = len(sketch.sizes), sketch.sizes.min()
        how = f"the means of {n_groups} groups of at least {least:,} neighboring values"
        if isinstance(stats, NoisyStats):
            how = "noisy counts of bins of equal width"
        low, high = (all_digits(name, sketch.means[i], columns) for i in (0, -1))
        yield f"  {name}: quantiles, as {how}, from {low} to {high}"


def known_moments(stats: Stats) -> dict[str, tuple[float, float]]:
    """Return mean and deviation of each feature over the rows with a value; NaN if there is none.

    In the file, a missing value counts as a fixed one.
    """
    means = dict(zip(stats.columns, stats.mean.tolist(), strict=True))
    variances = (stats.sum_of_squares / stats.n_samples).tolist()
    columns, found = features_of(stats.made_by), {}
    for (name, mean), variance in zip(means.items(), variances, strict=True):
        missing = min(1.0, max(0.0, means.get(feature(name, ABSENT), 0.0)))
        if name in columns and missing == 1:
            mean = variance = math.nan
        elif name in columns and missing:
            mean = known_mean(columns[name], mean, missing)
            variance = known_variance(columns[name], variance, mean, missing)
        found[name] = mean, math.sqrt(variance)
    return found


def _shares(stats: Stats) -> set[str]:
    """Return the features of 0 and 1: indicators, and categories, which have an (other)."""
    end = feature("", OTHER)
    groups = [name.removesuffix(OTHER) for name in stats.columns if name.endswith(end)]
    return {
        name
        for name in stats.columns
        if name.endswith(feature("", ABSENT)) or any(name.startswith(group) for group in groups)
    }
