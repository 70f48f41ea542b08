"""Summaries, models, statistics and scores as files that anyone can check, and nobody can run.

A file is a safetensors file: a short JSON header, then plain arrays of float64 or int64 (weights of
networks: float32). No pickle, no code. The header says what it is, in which format version, made by
which method with which parameters from which columns, scaled by which scaler, under which guard.
The same content always gives the same bytes. What comes from others is read with a limit on its
size, and each field is checked; a file that is not in order is refused with its name and the
reason.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from fedjigsaw._typing import Floats, Ints
from fedjigsaw._validation import check_name
from fedjigsaw.errors import FedJigsawError, MessageError, invalid
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.kernels.scaling import Scaler, Stats
from fedjigsaw.messages import MAX_COUNT, Model, Summary

FORMAT = 1
MAX_BYTES = 64 * 2**20
MAX_HEADER = 2**20
DTYPES = {"F64", "I64"}
TENSOR_DTYPES = {*DTYPES, "F32"}
T = TypeVar("T")


@dataclass(frozen=True)
class SummaryFile:
    """A summary and all that a coordinator must know to put it together with others.

    Attributes
    ----------
    guard : the rule that it passed before it left: min_cluster_size and counts.
    n_used : rows that were clustered; fewer than ``summary.n_samples`` if they were a sample.
    """

    summary: Summary
    method: str
    params: Mapping[str, Any]
    columns: tuple[str, ...]
    scaler: Scaler | None
    guard: Mapping[str, Any]
    seed: int
    n_used: int

    def __post_init__(self) -> None:
        owner = f"client {self.summary.client!r}"
        if not 1 <= self.n_used <= self.summary.n_samples:
            allowed = f"from 1 to its rows, {self.summary.n_samples}"
            raise MessageError(invalid("n_used", owner, allowed, self.n_used))
        known = {"min_cluster_size": int, "counts": str}
        if {name: type(value) for name, value in self.guard.items()} != known:
            allowed = "a min_cluster_size and a word on counts"
            raise MessageError(invalid("guard", owner, allowed, repr(dict(self.guard))[:80]))


@dataclass(frozen=True)
class ModelFile:
    """A model, who took part in it (and who of them not in every round), how to scale rows."""

    model: Model
    scaler: Scaler | None
    clients: tuple[str, ...]
    n_samples: int
    partly: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.clients)) < len(self.clients):
            raise MessageError(invalid("clients", "a model", "different", list(self.clients)[:9]))
        if not set(self.partly) <= set(self.clients):
            allowed = "some of its clients"
            raise MessageError(invalid("partly", "a model", allowed, list(self.partly)[:9]))

    @property
    def columns(self) -> tuple[str, ...]:
        return self.model.feature_names or ()


@dataclass(frozen=True, eq=False)
class Score:
    """How well a model fits one site's rows: size and summed squared distance per cluster."""

    client: str
    model: str
    counts: Ints
    sse: Floats

    def __post_init__(self) -> None:
        # the checks of a summary are just those wanted here
        counts = Summary(
            1, np.zeros((max(1, len(self.counts)), 1)), None, self.counts, self.sse, {}, self.client
        )
        if not self.client or counts.counts is None or not counts.counts.sum():
            raise MessageError(
                invalid("counts", f"client {self.client!r}", "of at least one row", 0)
            )


Content = SummaryFile | ModelFile | Stats | Score


# ------------------------------------------------------------------------------------------ files


def save(content: Content, path: Path) -> None:
    """Write a summary, model, statistics or score, whole or not at all."""
    write_whole(path, encode(content))


def load(path: Path, kind: type[T]) -> T:
    """Read a file that must be of one kind; every error names the file."""
    content = load_any(path)
    if not isinstance(content, kind):
        names = {cls: name for name, (cls, _, _) in KINDS.items()}
        raise MessageError(
            invalid("kind", str(path), f"a {names[kind]}", f"a {names[type(content)]}")
        )
    return content


def load_any(path: Path) -> Content:
    """Read any file that fedjigsaw writes, within limits on its size."""
    content = _read(path)
    try:
        return decode(content)
    except FedJigsawError as error:
        raise MessageError(f"{path} cannot be used: {error}") from error


def is_json(path: Path) -> bool:
    """Whether a file starts like a scaler."""
    return _read(path)[:1] == b"{"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise MessageError(invalid("file", str(path), "readable", reason)) from error
    if len(content) > MAX_BYTES:
        allowed = f"at most {MAX_BYTES} bytes"
        raise MessageError(invalid("size", str(path), allowed, "more"))
    return content


def fingerprint(content: bytes) -> str:
    """A short name for exactly these bytes."""
    return sha256(content).hexdigest()[:16]


def encode(content: Content) -> bytes:
    """The bytes of a file. The same content gives the same bytes."""
    for kind, (cls, disassemble, _) in KINDS.items():
        if isinstance(content, cls):
            header, arrays = disassemble(content)
            head = json.dumps({"format": FORMAT, "kind": kind, **header}, sort_keys=True)
            # one single key: safetensors keeps no order among several
            return safetensors.numpy.save(
                {name: np.asarray(array, order="C") for name, array in arrays.items()},
                metadata={"fedjigsaw": head},
            )
    raise TypeError(f"no file format for {type(content).__name__}")


def decode(content: bytes) -> Content:
    """The content of a file's bytes, every field checked; anything else is a MessageError."""
    header, arrays = _unpack(content)
    version = take(header, "format", int)
    if version != FORMAT:
        advice = "A newer fedjigsaw made it: install that one." if version > FORMAT else ""
        raise MessageError(invalid("format", "the file", str(FORMAT), version, advice))
    kind = take(header, "kind", str)
    if kind not in KINDS:
        raise MessageError(invalid("kind", "the file", "one of " + ", ".join(KINDS), repr(kind)))
    try:
        result: Content = KINDS[kind][2](header, arrays)
    except KeyError as error:
        raise MessageError(
            invalid("arrays", "the file", f"with {error}", sorted(arrays))
        ) from error
    return result


def _unpack(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Split a safetensors file into our header and its arrays."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(MAX_HEADER, len(content) - 8):
        raise _foreign("a file of another kind, or a part of one")
    try:
        outer = json.loads(content[8 : 8 + length])
        described = {name: entry for name, entry in outer.items() if name != "__metadata__"}
        header = json.loads(outer["__metadata__"]["fedjigsaw"])
        known = all(
            entry["dtype"] in (TENSOR_DTYPES if name.startswith("tensor.") else DTYPES)
            for name, entry in described.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _foreign("a safetensors file of another program") from error
    if not isinstance(header, dict) or not known:
        raise _foreign("arrays of other types than F64 or I64 (tensors: or F32)")
    try:
        arrays = safetensors.numpy.load(content)
    except (SafetensorError, ValueError, TypeError, OverflowError, MemoryError) as error:
        reason = str(error)[:200]
        raise MessageError(invalid("arrays", "the file", "as its header says", reason)) from error
    return header, arrays


def _foreign(got: str) -> MessageError:
    return MessageError(invalid("content", "the file", "what fedjigsaw writes", got))


def take(header: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """A field of the header, of one JSON type; integers and strings within bounds."""
    value: Any = header.get(name)
    good = isinstance(value, kind)
    if kind is int:
        good = good and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    if kind is str:
        good = good and _is_plain(value)
    if not good:
        words = {"int": f"an integer from 0 to {MAX_COUNT}", "str": "a short printable string"}
        allowed = words.get(kind.__name__, f"a JSON {kind.__name__}")
        raise MessageError(invalid(f"header field {name!r}", "the file", allowed, repr(value)[:80]))
    result: T = value
    return result


def _is_plain(text: str) -> bool:
    """Nothing that could write over other lines of a terminal, or fill it."""
    return len(text) <= 1000 and text.isprintable()


def take_names(header: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = take(header, name, list)
    if not all(isinstance(value, str) and _is_plain(value) for value in values):
        allowed = "a list of short printable strings"
        raise MessageError(
            invalid(f"header field {name!r}", "the file", allowed, repr(values)[:80])
        )
    return tuple(values)


# ------------------------------------------------------------------ one pair of functions per kind

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]


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
        "scaler": file.scaler and file.scaler.fingerprint,
        "guard": dict(file.guard),
        "seed": file.seed,
    }
    arrays = {name: getattr(summary, name) for name in ("centers", "radii", "counts", "sse")}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    arrays |= {f"tensor.{name}": array for name, array in summary.tensors.items()}
    return header, arrays | _scaler_arrays(file.scaler)


def _summary_from(header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> SummaryFile:
    columns = take_names(header, "columns")
    summary = Summary(
        n_samples=take(header, "n_samples", int),
        centers=_floats(arrays, "centers"),
        radii=arrays.get("radii"),
        counts=arrays.get("counts"),
        sse=arrays.get("sse"),
        tensors={
            n.removeprefix("tensor."): a for n, a in arrays.items() if n.startswith("tensor.")
        },
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
    )


def _model_parts(file: ModelFile) -> Parts:
    header = {
        "method": file.model.method,
        "params": dict(file.model.params),
        "columns": list(file.columns),
        "scaler": file.scaler and file.scaler.fingerprint,
        "clients": list(file.clients),
        "n_samples": file.n_samples,
    }
    if file.partly:
        header["partly"] = list(file.partly)
    arrays = {"centers": file.model.centers}
    arrays |= {f"tensor.{name}": array for name, array in file.model.tensors.items()}
    return header, arrays | _scaler_arrays(file.scaler)


def _model_from(header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> ModelFile:
    columns = take_names(header, "columns")
    centers = _floats(arrays, "centers")
    _check_width(centers, columns)
    tensors = {n.removeprefix("tensor."): a for n, a in arrays.items() if n.startswith("tensor.")}
    model = Model(
        centers, take(header, "method", str), take(header, "params", dict), columns, tensors
    )
    return ModelFile(
        model,
        _scaler_from(header, columns, arrays),
        tuple(check_name(name) for name in take_names(header, "clients")),
        take(header, "n_samples", int),
        take_names(header, "partly") if "partly" in header else (),
    )


def _stats_parts(stats: Stats) -> Parts:
    header = {"client": stats.client, "columns": list(stats.columns), "n_samples": stats.n_samples}
    return header, {"mean": stats.mean, "sum_of_squares": stats.sum_of_squares}


def _stats_from(header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> Stats:
    return Stats(
        take(header, "client", str),
        take_names(header, "columns"),
        take(header, "n_samples", int),
        _floats(arrays, "mean"),
        _floats(arrays, "sum_of_squares"),
    )


def _score_parts(score: Score) -> Parts:
    return {"client": score.client, "model": score.model}, {
        "counts": score.counts,
        "sse": score.sse,
    }


def _score_from(header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> Score:
    client, model = take(header, "client", str), take(header, "model", str)
    return Score(client, model, arrays["counts"], _floats(arrays, "sse"))


def _scaler_arrays(scaler: Scaler | None) -> dict[str, np.ndarray]:
    return (
        {} if scaler is None else {"scaler.mean": scaler.mean, "scaler.deviation": scaler.deviation}
    )


def _scaler_from(
    header: Mapping[str, Any], columns: tuple[str, ...], arrays: dict[str, np.ndarray]
) -> Scaler | None:
    if header.get("scaler") is None:
        return None
    scaler = Scaler(columns, _floats(arrays, "scaler.mean"), _floats(arrays, "scaler.deviation"))
    if scaler.fingerprint != header["scaler"]:
        allowed = f"{scaler.fingerprint}, that of its arrays"
        raise MessageError(invalid("scaler", "the file", allowed, repr(header["scaler"])[:80]))
    return scaler


def _floats(arrays: dict[str, np.ndarray], name: str) -> Floats:
    array = arrays[name]
    if array.dtype != np.float64:
        raise MessageError(invalid(name, "the file", "float64", array.dtype))
    return array


def _check_width(centers: Floats, columns: tuple[str, ...]) -> None:
    if centers.ndim != 2 or centers.shape[1] != len(columns) or len(set(columns)) < len(columns):
        allowed = f"one column per center coordinate, shape {centers.shape}"
        raise MessageError(invalid("columns", "the file", allowed, list(columns)[:20]))


KINDS: dict[str, tuple[type[Any], Callable[[Any], Parts], Callable[..., Any]]] = {
    "summary": (SummaryFile, _summary_parts, _summary_from),
    "model": (ModelFile, _model_parts, _model_from),
    "statistics": (Stats, _stats_parts, _stats_from),
    "score": (Score, _score_parts, _score_from),
}


# --------------------------------------------------------------------------------------- scalers


def save_scaler(scaler: Scaler, path: Path) -> None:
    """A scaler is for people to read, too: JSON, every digit kept."""
    content = {
        "format": FORMAT,
        "kind": "scaler",
        "fingerprint": scaler.fingerprint,
        "columns": list(scaler.columns),
        "mean": scaler.mean.tolist(),
        "deviation": scaler.deviation.tolist(),
    }
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def load_scaler(path: Path) -> Scaler:
    """Read a scaler, within the limits of all other files."""
    try:
        header = json.loads(_read(path))
        if not isinstance(header, dict) or header.get("kind") != "scaler":
            raise MessageError(invalid("kind", "the file", "a scaler", "another"))
        if take(header, "format", int) != FORMAT:
            raise MessageError(invalid("format", "the file", str(FORMAT), header["format"]))
        columns = take_names(header, "columns")
        mean, deviation = (_numbers(header, name) for name in ("mean", "deviation"))
        scaler = Scaler(columns, mean, deviation)
        if scaler.fingerprint != header.get("fingerprint"):
            raise MessageError(invalid("fingerprint", "the file", scaler.fingerprint, "another"))
        return scaler
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, FedJigsawError) else "it is no JSON"
        raise MessageError(f"{path} cannot be used: {reason}") from error


def _numbers(header: Mapping[str, Any], name: str) -> Floats:
    values = take(header, name, list)
    if not all(isinstance(value, (int, float)) for value in values):
        allowed = "a list of numbers"
        raise MessageError(invalid(f"header field {name!r}", "the file", allowed, "others"))
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise MessageError(invalid(name, "the file", "finite", "too large a number")) from error
