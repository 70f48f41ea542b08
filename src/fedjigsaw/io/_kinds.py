"""Summaries, models, statistics and scores <-> header and arrays: two functions for each kind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.columns.profiles import Profile
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.columns.schema import Schema
from fedjigsaw.columns.sketches import Sketch
from fedjigsaw.errors import MessageError, ParameterError, invalid
from fedjigsaw.io._codec import Arrays, Header, take, take_array, take_floats, take_names
from fedjigsaw.io.contents import ModelFile, NoisyStats, Score, SummaryFile
from fedjigsaw.messages import Model, Summary, Tensors
from fedjigsaw.privacy import Privacy
from fedjigsaw.validation import check_name

Parts = tuple[Header, Arrays]
MOMENTS = ("count", "mean", "sum_of_squares")  # arrays of a profile


def _summary_parts(file: SummaryFile) -> Parts:
    summary = file.summary
    header = {
        "client": summary.client,
        "n_samples": summary.n_samples,
        "n_used": file.n_used,
        "merged": summary.merged,
        "method": file.method,
        "params": dict(file.params),
        "columns": list(file.columns),
        **_scaler_header(file.scaler),
        "guard": dict(file.guard),
        "seed": file.seed,
        **_skipped_header(file),
        **_privacy_header(file.privacy),
    }
    arrays = {name: getattr(summary, name) for name in ("centers", "radii", "counts", "sse")}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    return header, arrays | _tensor_arrays(summary.tensors) | _scaler_arrays(file.scaler)


def _summary_from(header: Header, arrays: Arrays) -> SummaryFile:
    columns = take_names(header, "columns")
    summary = Summary(
        n_samples=take(header, "n_samples", int),
        centers=take_floats(arrays, "centers"),
        radii=arrays.get("radii"),
        counts=arrays.get("counts"),
        sse=arrays.get("sse"),
        tensors=_tensors_from(arrays),
        client=check_name(take(header, "client", str)),
        merged=take(header, "merged", int),
    )
    _check_width(summary.centers, columns)
    return SummaryFile(
        summary,
        take(header, "method", str),
        take(header, "params", dict),
        columns,
        _scaler_from(header, columns, arrays),
        take(header, "guard", dict),
        take(header, "seed", int),
        take(header, "n_used", int),
        _privacy_from(header, len(columns)),
        _skipped_from(header),
    )


def _model_parts(file: ModelFile) -> Parts:
    header = {
        "method": file.model.method,
        "params": dict(file.model.params),
        "columns": list(file.columns),
        **_scaler_header(file.scaler),
        "clients": list(file.clients),
        "n_samples": file.n_samples,
        "partly": list(file.partly),
        "ids": list(file.ids),
        "next_id": file.next_id,
        **_skipped_header(file),
        **_privacy_header(file.privacy),
    }
    if file.clients_column is not None:
        header["clients_column"] = file.clients_column
    arrays = {"centers": file.model.centers}
    return header, arrays | _tensor_arrays(file.model.tensors) | _scaler_arrays(file.scaler)


def _model_from(header: Header, arrays: Arrays) -> ModelFile:
    columns = take_names(header, "columns")
    centers = take_floats(arrays, "centers")
    _check_width(centers, columns)
    method, params = take(header, "method", str), take(header, "params", dict)
    return ModelFile(
        Model(centers, method, params, columns, _tensors_from(arrays)),
        _scaler_from(header, columns, arrays),
        tuple(check_name(name) for name in take_names(header, "clients")),
        take(header, "n_samples", int),
        take_names(header, "partly"),
        _privacy_from(header, len(columns)),
        _skipped_from(header),
        tuple(take(header, "ids", list)),
        take(header, "next_id", int),
        take(header, "clients_column", str) if "clients_column" in header else None,
    )


def _stats_parts(stats: Stats) -> Parts:
    header = {
        "client": stats.client,
        "columns": list(stats.columns),
        "n_samples": stats.n_samples,
        "sketches": list(stats.sketches),
        **_schema_header(stats.made_by),
        **_privacy_header(stats.privacy if isinstance(stats, NoisyStats) else None),
    }
    arrays: Arrays = {"mean": stats.mean, "sum_of_squares": stats.sum_of_squares}
    for i, sketch in enumerate(stats.sketches.values()):
        arrays |= {f"sketch.{i}.means": sketch.means, f"sketch.{i}.sizes": sketch.sizes}
    return header, arrays


def _stats_from(header: Header, arrays: Arrays) -> Stats:
    columns = take_names(header, "columns")
    privacy = _privacy_from(header, len(columns))
    fields = (
        take(header, "client", str),
        columns,
        take(header, "n_samples", int),
        take_floats(arrays, "mean"),
        take_floats(arrays, "sum_of_squares"),
    )
    names, schema = take_names(header, "sketches"), _schema_from(header)
    sketches = {name: _sketch_from(arrays, i) for i, name in enumerate(names)}
    if privacy is None:
        return Stats(*fields, made_by=schema, sketches=sketches)
    return NoisyStats(*fields, privacy, made_by=schema, sketches=sketches)


def _sketch_from(arrays: Arrays, i: int) -> Sketch:
    sizes = take_array(arrays, f"sketch.{i}.sizes")
    if sizes.dtype != np.int64:
        raise MessageError(invalid("sizes of quantiles", "the file", "int64", sizes.dtype))
    return Sketch(take_floats(arrays, f"sketch.{i}.means"), sizes)


def _score_parts(score: Score) -> Parts:
    header = {
        "client": score.client,
        "model": score.model,
        "ids": list(score.ids),
        **_skipped_header(score),
        **_privacy_header(score.privacy),
    }
    if score.n_noise and score.privacy is None:
        header["n_noise"] = score.n_noise
    arrays = {"counts": score.counts, "sse": score.sse}
    if score.profile is None:
        return header, arrays
    described, more = _profile_parts(score.profile)
    return header | {"profile": described, **_schema_header(score.made_by)}, arrays | more


def _score_from(header: Header, arrays: Arrays) -> Score:
    client, model = take(header, "client", str), take(header, "model", str)
    counts, sse = take_array(arrays, "counts"), take_floats(arrays, "sse")
    profile = _profile_from(header, arrays)
    n_numbers = 0 if profile is None else len(profile.numbers)
    privacy = _privacy_from(header, n_numbers)
    n_noise = take(header, "n_noise", int) if "n_noise" in header else 0
    skipped, ids = _skipped_from(header), tuple(take(header, "ids", list))
    schema = _schema_from(header)
    return Score(client, model, counts, sse, profile, privacy, skipped, n_noise, ids, schema)


def _profile_parts(profile: Profile) -> Parts:
    header = {
        "numbers": list(profile.numbers),
        "categories": [{"column": c, "levels": list(names)} for c, names in profile.levels.items()],
        "min_cluster_size": profile.min_cluster_size,
    }
    arrays = {f"profile.{name}": getattr(profile, name) for name in MOMENTS}
    levels = {f"profile.levels.{i}": a for i, a in enumerate(profile.level_counts.values())}
    return header, arrays | levels


def _profile_from(header: Header, arrays: Arrays) -> Profile | None:
    if "profile" not in header:
        return None
    described = take(header, "profile", dict)
    levels, counts = {}, {}
    for i, entry in enumerate(take(described, "categories", list)):
        if not isinstance(entry, dict):
            allowed = "a list of columns with their levels"
            raise MessageError(invalid("categories", "the file", allowed, repr(entry)[:80]))
        column = take(entry, "column", str)
        if column in levels:
            text = f"The file has a profile with column {column!r} twice."
            raise MessageError(text, column=column)
        levels[column] = take_names(entry, "levels")
        counts[column] = take_array(arrays, f"profile.levels.{i}")
    count, mean, squares = (take_array(arrays, f"profile.{name}") for name in MOMENTS)
    return Profile(
        take_names(described, "numbers"),
        count,
        mean,
        squares,
        levels,
        counts,
        take(described, "min_cluster_size", int),
    )


class Kind(NamedTuple):
    """One kind of file: its class, and the functions that take it apart and put it together."""

    cls: type[Any]
    parts: Callable[[Any], Parts]
    build: Callable[[Header, Arrays], Any]


KINDS = {
    "summary": Kind(SummaryFile, _summary_parts, _summary_from),
    "model": Kind(ModelFile, _model_parts, _model_from),
    "statistics": Kind(Stats, _stats_parts, _stats_from),
    "score": Kind(Score, _score_parts, _score_from),
}


def kind_of(cls: type[Any]) -> str:
    """Return the name of the kind of file that holds this class."""
    for name, kind in KINDS.items():
        if issubclass(cls, kind.cls):
            return name
    raise TypeError(f"no file format for {cls.__name__}")


# ----------------------------------------------------------------------------------------- parts


def _tensor_arrays(tensors: Tensors) -> Arrays:
    return {f"tensor.{name}": array for name, array in tensors.items()}


def _tensors_from(arrays: Arrays) -> dict[str, np.ndarray]:
    return {
        name.removeprefix("tensor."): array
        for name, array in arrays.items()
        if name.startswith("tensor.")
    }


def _skipped_header(file: SummaryFile | ModelFile | Score) -> Header:
    told = file.n_skipped and file.privacy is None
    return {"n_skipped": file.n_skipped} if told else {}


def _skipped_from(header: Header) -> int:
    return take(header, "n_skipped", int) if "n_skipped" in header else 0


@contextmanager
def _as_messages() -> Iterator[None]:
    """Raise what is wrong with a parameter as an error of the file that has it."""
    try:
        yield
    except ParameterError as error:
        raise MessageError(str(error), **error.subject) from error


def _privacy_header(privacy: Privacy | None) -> Header:
    return {} if privacy is None else {"privacy": privacy.to_dict()}


def _privacy_from(header: Header, n_columns: int) -> Privacy | None:
    if "privacy" not in header:
        return None
    with _as_messages():
        privacy = Privacy.from_dict(take(header, "privacy", dict))
        privacy.limits(n_columns)
        return privacy


def _schema_header(schema: Schema | None) -> Header:
    return {} if schema is None else {"made_by": schema.to_dict()}


def _schema_from(header: Header) -> Schema | None:
    if "made_by" not in header:
        return None
    with _as_messages():
        return Schema.from_dict(take(header, "made_by", dict))


def _scaler_header(scaler: Scaler | None) -> Header:
    if scaler is None or scaler.encoding is None:
        return {"scaler": scaler and scaler.fingerprint}
    return {"scaler": scaler.fingerprint, "encoding": scaler.encoding.to_dict()}


def _scaler_arrays(scaler: Scaler | None) -> Arrays:
    if scaler is None:
        return {}
    return {"scaler.mean": scaler.mean, "scaler.deviation": scaler.deviation}


def _scaler_from(header: Header, columns: tuple[str, ...], arrays: Arrays) -> Scaler | None:
    if header.get("scaler") is None:
        return None
    mean, deviation = (take_floats(arrays, f"scaler.{name}") for name in ("mean", "deviation"))
    scaler = Scaler(columns, mean, deviation, encoding_from(header))
    if scaler.fingerprint != header["scaler"]:
        allowed = f"{scaler.fingerprint}, that of its arrays"
        raise MessageError(invalid("scaler", "the file", allowed, repr(header["scaler"])[:80]))
    return scaler


def encoding_from(header: Header) -> Encoding | None:
    """Take the encoding of a scaler from a header that may have one."""
    if "encoding" not in header:
        return None
    with _as_messages():
        return Encoding.from_dict(take(header, "encoding", dict))


def _check_width(centers: Floats, columns: tuple[str, ...]) -> None:
    if centers.ndim != 2 or centers.shape[1] != len(columns) or len(set(columns)) < len(columns):
        allowed = f"different names, one for each coordinate of centers of shape {centers.shape}"
        raise MessageError(invalid("columns", "the file", allowed, list(columns)[:20]))
