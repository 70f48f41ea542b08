"""From the statistics of features to the preparation that all sites have in common."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fedjigsaw._typing import Floats
from fedjigsaw.columns import scaling
from fedjigsaw.columns.encoding import feature, provisional
from fedjigsaw.columns.features import check_features
from fedjigsaw.columns.fitting import Moments, fit, needs_sketch
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.columns.schema import ABSENT, BOOLEAN, CATEGORY, OTHER, REFUSE, Column, Schema
from fedjigsaw.columns.sketches import Sketch, Sketcher, merge_sketches
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io.formats import NoisyStats

NOISE_SHARE = 0.01  # under noise, features of 0 and 1 that are rarer than this are none


class Quantiles:
    """Sketches of the columns of a schema that need them, while their features are read."""

    def __init__(self, schema: Schema | None) -> None:
        columns = [] if schema is None else [c for c in schema.clustered if needs_sketch(c)]
        self.columns = {column.name: column for column in columns}
        self.sketchers = {name: Sketcher() for name in self.columns}

    def watch(self, blocks: Iterable[Floats], features: Sequence[str]) -> Iterator[Floats]:
        """Yield the blocks unchanged."""
        places = {name: j for j, name in enumerate(features)}
        for rows in blocks:
            for name, sketcher in self.sketchers.items():
                absent = places.get(feature(name, ABSENT))
                values = rows[:, places[name]]
                sketcher.add(values if absent is None else values[rows[:, absent] == 0])
            yield rows

    def sketches(self, least: int) -> dict[str, Sketch]:
        """Return the sketches that may leave."""
        found = {name: sketcher.sketch(least) for name, sketcher in self.sketchers.items()}
        return {name: sketch for name, sketch in found.items() if sketch is not None}


def guard_features(stats: Stats, schema: Schema, min_rows: int) -> Stats:
    """Take back what fewer than `min_rows` rows of a site have in common.

    Rare categories are pooled; if all of them together are too few, they count as the most
    frequent one, so that no subtraction from the number of rows gives them away. So does the rarer
    value of a boolean. A column with fewer values than that counts as missing throughout.
    """
    n = stats.n_samples
    places = {name: j for j, name in enumerate(stats.columns)}
    mean, squares = stats.mean.copy(), stats.sum_of_squares.copy()

    def set_count(name: str, count: float) -> None:
        share = count / n
        mean[places[name]], squares[places[name]] = share, n * share * (1 - share)

    for column in schema.clustered:
        absent = feature(column.name, ABSENT)
        if column.missing != REFUSE and 0 < n - round(mean[places[absent]] * n) < min_rows:
            set_count(absent, n)
            if column.kind == CATEGORY:
                for part in (*column.categories, OTHER):
                    set_count(feature(column.name, part), 0)
            else:
                mean[places[column.name]] = _stand_in(schema, column)
                squares[places[column.name]] = 0.0
        if column.kind == CATEGORY:
            for name, count in _pooled_counts(column, mean, places, n, min_rows).items():
                set_count(name, count)
        if column.kind == BOOLEAN:
            set_count(column.name, _boolean_count(column, mean, places, n, min_rows))
    return replace(stats, mean=mean, sum_of_squares=squares)


def _pooled_counts(
    column: Column, mean: Floats, places: Mapping[str, int], n: int, min_rows: int
) -> dict[str, float]:
    """Return the counts that change: those of rare categories, and of what they count as.

    At least `min_rows` rows have a value, or none: so if the rare ones are too few together, there
    is a category that is not rare.
    """
    other = feature(column.name, OTHER)
    names = [feature(column.name, part) for part in column.categories]
    counts = {name: round(mean[places[name]] * n) for name in names}
    rare = {name: count for name, count in counts.items() if 0 < count < min_rows}
    pooled = round(mean[places[other]] * n) + sum(rare.values())
    changed: dict[str, float] = dict.fromkeys(rare, 0)
    if pooled == 0 or pooled >= min_rows:
        return changed | {other: pooled}
    most = max(names, key=lambda name: counts[name])
    return changed | {other: 0, most: counts[most] + pooled}


def _boolean_count(
    column: Column, mean: Floats, places: Mapping[str, int], n: int, min_rows: int
) -> int:
    """Return how many rows are true, all or none of them if the others are too few."""
    absent = places.get(feature(column.name, ABSENT))
    n_values = n if absent is None else n - round(mean[absent] * n)
    n_true = round(mean[places[column.name]] * n)
    if n_true < min_rows:
        return 0
    return n_values if n_values - n_true < min_rows else n_true


def _stand_in(schema: Schema, column: Column) -> float:
    (encoder,) = [e for e in provisional(schema).encoders if e.column == column]
    return encoder.fill


def schema_bounds(schema: Schema) -> tuple[Floats, Floats]:
    """Return the public bounds of the features that statistics are about.

    Parameters
    ----------
    schema : every column of numbers or dates needs a range.

    Returns
    -------
    low, high : arrays with a number for each feature, in the order of
        ``provisional(schema).features``

    Raises
    ------
    ParameterError
        If a column has no range.

    Examples
    --------
    >>> from fedjigsaw.columns.schema import Column, Schema
    >>> from fedjigsaw.sites import schema_bounds
    >>> low, high = schema_bounds(Schema((Column("age", range=(0, 120), missing="refuse"),)))
    >>> low.tolist(), high.tolist()
    ([0.0], [120.0])
    """
    return provisional(schema).bounds()


def check_schema(stats: Mapping[str, Stats], schema: Schema | None) -> None:
    """Raise a MessageError unless all statistics were made by this schema, or all by none.

    Those by a schema must not contradict themselves.
    """
    wanted = "" if schema is None else schema.fingerprint
    for name, found in stats.items():
        if found.schema == wanted:
            if schema is not None and not isinstance(found, NoisyStats):
                check_features(name, found, schema)
            continue
        if not wanted:
            raise MessageError(f"{name} was made by a schema. Give that schema here, too.")
        if not found.schema:
            raise MessageError(f"{name} was made without a schema. Make it again with the schema.")
        raise MessageError(
            f"{name} was made by another schema ({found.schema}) than the one given ({wanted}). "
            "Use the same file at all sites."
        )


def fit_preparation(stats: Sequence[Stats], schema: Schema) -> Scaler:
    """Fit the preparation to the statistics of all sites."""
    pooled = scaling.pool(stats)
    n = pooled.n_samples
    mean = dict(zip(pooled.columns, pooled.mean.tolist(), strict=True))
    variance = dict(zip(pooled.columns, (pooled.sum_of_squares / n).tolist(), strict=True))
    sketches = {}
    for column in schema.clustered:
        if needs_sketch(column):
            found = [s.sketches[column.name] for s in stats if column.name in s.sketches]
            if not found:
                raise ParameterError(
                    f"No site sent quantiles of {column.name!r}, which its settings need "
                    "(scale = 'robust' or missing = 'median'): none has enough values. Choose "
                    "others in the schema."
                )
            sketches[column.name] = merge_sketches(found)
    least = NOISE_SHARE if any(isinstance(s, NoisyStats) for s in stats) else 0.0
    moments = Moments(n, mean, variance)
    encoding, center, width = fit(schema, moments, sketches, least_share=least)
    return Scaler(encoding.features, center, width, encoding)
