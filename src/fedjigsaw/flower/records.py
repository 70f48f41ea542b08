"""Questions and answers as Flower's records: the only file that knows what those look like.

A record holds one small JSON text and, where there are numbers, the bytes of a file of
:mod:`fedjigsaw.io.formats`. So what comes over the network is checked by the very code that checks
files: format version, size, every field. What fails at a site leaves it as one word out of
:data:`REASONS`, never as the text of an error, which may hold a path or a value.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict

from fedjigsaw.errors import (
    DataError,
    DivergedError,
    FedJigsawError,
    MessageError,
    ParameterError,
    invalid,
)
from fedjigsaw.io import formats
from fedjigsaw.io.formats import FORMAT, MAX_BYTES, ModelFile, SummaryFile
from fedjigsaw.messages import Broadcast, Model
from fedjigsaw.parameters import real

KEY = "fedjigsaw"

# what a server may learn of a failure at a site: the word that travels -> how it is told
REASONS = {
    "data": "its data cannot be used, or its guard lets nothing leave",
    "parameter": "it does not know the method or a parameter, or its data are of another kind",
    "message": "it could not read the question; its version of fedjigsaw may be another",
    "size": "its answer is larger than a message may be",
    "memory": "it ran out of memory",
    "diverged": "its training diverged: lower the learning rate",
    "timeout": "it was not done in time",
    "error": "its own part of the work failed",
}
SEE_LOG = "; the log at the site tells more"


@dataclass(frozen=True)
class Question:
    """What a server asks all sites in a round.

    Attributes
    ----------
    method, params : an estimator by its name on the command line, and its configuration.
    timeout : seconds after which nobody waits for the answer any more.
    columns : the order that their columns must have; None leaves it to the site.
    """

    broadcast: Broadcast
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 600.0
    columns: tuple[str, ...] | None = None


def category(error: BaseException) -> str:
    """The word of REASONS for an error.

    Examples
    --------
    >>> category(DataError("values of column 'age' in /home/ada/patients.csv ..."))
    'data'
    """
    kinds: dict[type[BaseException], str] = {
        DataError: "data",
        ParameterError: "parameter",
        MessageError: "message",
        MemoryError: "memory",
        DivergedError: "diverged",
        TimeoutError: "timeout",
    }
    for kind, word in kinds.items():
        if isinstance(error, kind):
            return word
    return "error"


# -------------------------------------------------------------------------------- server to site


def pack_question(question: Question) -> RecordDict:
    """What travels to a site. A model that is sent must name its columns."""
    broadcast = question.broadcast
    head = {
        "round": broadcast.round,
        "seed": broadcast.seed,
        "method": question.method,
        "params": dict(question.params),
        "timeout": float(question.timeout),
        "columns": question.columns,
    }
    body = None if broadcast.model is None else pack_model(broadcast.model)
    if body is not None and len(body) > MAX_BYTES:
        allowed = f"at most {MAX_BYTES} bytes"
        raise MessageError(invalid("size", "the model for the sites", allowed, len(body)))
    return _pack(head, body)


def unpack_question(content: RecordDict) -> Question:
    """A question, every field checked; anything else is a MessageError."""
    head, body = _unpack(content)
    try:
        return Question(
            Broadcast(
                formats.take(head, "round", int),
                formats.take(head, "seed", int),
                None if body is None else unpack_model(body),
            ),
            formats.take(head, "method", str),
            formats.take(head, "params", dict),
            _seconds(head),
            None if head.get("columns") is None else formats.take_names(head, "columns"),
        )
    except FedJigsawError as error:
        raise MessageError(f"The question cannot be used: {error}") from error


def _seconds(head: Mapping[str, Any]) -> float:
    timeout = formats.take(head, "timeout", float)
    real(0, inclusive=False).check("timeout", "a question", timeout)
    return timeout


def pack_model(model: Model) -> bytes:
    return formats.encode(ModelFile(model, None, (), 0))


def unpack_model(content: bytes) -> Model:
    file = formats.decode(content)
    if not isinstance(file, ModelFile):
        raise MessageError(invalid("kind", "a message", "a model", type(file).__name__))
    return file.model


# -------------------------------------------------------------------------------- site to server


def pack_answer(file: SummaryFile) -> RecordDict:
    """What travels back. An answer that is too large is told as a failure, and stays at home."""
    content = formats.encode(file)
    return pack_failure("size") if len(content) > MAX_BYTES else _pack({}, content)


def pack_failure(word: str) -> RecordDict:
    return _pack({"failure": word}, None)


def unpack_answer(content: RecordDict) -> SummaryFile | str:
    """A summary, or why there is none; a MessageError if it is neither."""
    head, body = _unpack(content)
    if body is None:
        word = formats.take(head, "failure", str)
        if word not in REASONS:
            raise MessageError(invalid("failure", "a message", "a known one", "another"))
        return REASONS[word] + SEE_LOG
    file = formats.decode(body)
    if not isinstance(file, SummaryFile):
        raise MessageError(invalid("kind", "a message", "a summary", type(file).__name__))
    _check_plausible(file)
    return file


def _check_plausible(file: SummaryFile) -> None:
    """What a well-formed summary cannot say: more rows in its clusters than there are, or NaN."""
    summary, owner = file.summary, f"client {file.summary.client!r}"
    sizes = file.params.get("n_clusters")
    n_heads = len(sizes) if isinstance(sizes, list) else 1  # each clusters all rows
    most = n_heads * summary.n_samples
    if len(summary.centers) > most:
        allowed = f"at most {most}, one per row and head"
        raise MessageError(invalid("centers", owner, allowed, len(summary.centers)))
    if summary.counts is not None:
        # rounding may have added up to a guard's size to each
        room = len(summary.counts) * int(file.guard["min_cluster_size"])
        if summary.counts.sum() > most + room:
            allowed = f"in sum at most {most}, its rows in each head"
            raise MessageError(invalid("counts", owner, allowed, int(summary.counts.sum())))
    for name, tensor in summary.tensors.items():
        if not np.isfinite(tensor).all():
            raise MessageError(invalid(f"tensor {name!r}", owner, "finite", "another number"))


# ---------------------------------------------------------------------------------- the envelope


def _pack(head: Mapping[str, Any], body: bytes | None) -> RecordDict:
    record = ConfigRecord({"head": json.dumps({"format": FORMAT, **head})})
    if body is not None:
        record["body"] = body
    return RecordDict({KEY: record})


def _unpack(content: RecordDict) -> tuple[dict[str, Any], bytes | None]:
    """The JSON part and the numbers of a message, within limits on their size."""
    record = content.get(KEY)
    text = record.get("head") if isinstance(record, ConfigRecord) else None
    body = record.get("body") if isinstance(record, ConfigRecord) else None
    if not isinstance(text, str) or not isinstance(body, bytes | None):
        raise MessageError(invalid("content", "a message", "one of fedjigsaw's", "another"))
    if max(len(text), len(body or b"")) > MAX_BYTES:
        raise MessageError(invalid("size", "a message", f"at most {MAX_BYTES} bytes", "more"))
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError(invalid("head", "a message", "JSON", "another text")) from error
    if not isinstance(head, dict) or formats.take(head, "format", int) != FORMAT:
        raise MessageError(invalid("format", "a message", str(FORMAT), "another"))
    return head, body
