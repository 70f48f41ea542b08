"""Questions and answers as Flower's records. No other module knows their layout.

A record consists of a small JSON text and, for arrays, the bytes of a file of
:mod:`fedjigsaw.io.formats`. So the code that checks files also checks what comes over the network:
format version, size, every field. A failure leaves a site as one word of :data:`REASONS`, never as
the text of an error, which may contain a path or a value.
"""

import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict

from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.engine import MadeError
from fedjigsaw.errors import (
    BudgetError,
    DataError,
    DivergedError,
    FedJigsawError,
    MessageError,
    ParameterError,
    counted,
    invalid,
)
from fedjigsaw.flower.scaler_values import scaler_from, scaler_values
from fedjigsaw.io import formats
from fedjigsaw.io._codec import FORMAT, check_format
from fedjigsaw.io.formats import MAX_BYTES, ModelFile, SummaryFile
from fedjigsaw.messages import CELLS, MAX_TIMEOUT, Broadcast, Model
from fedjigsaw.parameters import real
from fedjigsaw.privacy.summaries import CellsError
from fedjigsaw.records.journal import FullError
from fedjigsaw.records.policy import (
    ChangedDataError,
    NoLabelsError,
    OwnScalerError,
    PolicyError,
    PrivateError,
)

KEY, SHOWN = "fedjigsaw", "shown"
MAX_MESSAGE_BYTES = MAX_BYTES  # size limit of a request or a summary over Flower
# The JSON part of a message takes thirty times its bytes in memory. That of an answer has one word;
# that of a question may have a scaler of as many columns as the header of a file can name.
MAX_ANSWER_HEAD = 2**16
MAX_QUESTION_HEAD = 2**24
MAX_SHOWN_BYTES = MAX_BYTES // 2  # of the summaries of the round before, in a question


class LateError(Exception):
    """The server no longer waits. It is no OSError, which a reader takes for a broken file."""


# what the server may learn of a failure at a site: the word that travels -> text for people
REASONS = {
    "data": "its data cannot be used, or its guard allows nothing to leave",
    "policy": "its policy refuses this question",
    "scaler": "it has a scaler of its own: run without --scale, or start it without --scaler",
    "privacy": (
        "it answers under differential privacy, which covers neither statistics nor scores; make "
        "a scaler from the bounds, `fedjigsaw scaler --bounds`, and start all sites with it"
    ),
    "cells": (
        "it answers under differential privacy, and the run does not say which cells, or not the "
        "ones for --unit site: run with --cells (`fedjigsaw privacy cells` says which)"
    ),
    "labels": "it was started without --labels",
    "changed": "its data changed since the run began: put them back, or start without --resume",
    "parameter": "it does not know the method or a parameter, or holds another kind of data",
    "message": "it could not read the question; its version of fedjigsaw may differ",
    "size": "its answer exceeds the size limit of a message",
    "memory": "it ran out of memory",
    "disk": "it cannot write its files: its disk or its journal may be full",
    "diverged": "its training diverged: lower the learning rate",
    "timeout": "it did not finish in time",
    "error": "its part of the work failed",
}
SEE_LOG = "; see the log at the site"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # only writing has these errors


@dataclass(frozen=True)
class Shown:
    """What the server shows of the round before, so that sites can compute its model again.

    Attributes
    ----------
    before : the model that sites were asked about; None in the first round.
    files : the summaries that the server aggregated.
    """

    before: Model | None
    files: tuple[SummaryFile, ...]


@dataclass(frozen=True)
class Question:
    """What the server asks all sites in a round.

    Attributes
    ----------
    broadcast : number of the round, seed of the run, and the model so far.
    method, params : name of the method, and its parameters as JSON values.
    timeout : seconds after which the server no longer waits for the answer.
    columns : the order of columns that the site must use; None is the site's own.
    shown : in later rounds, what the model was made from; None if that is too large.
    scaler : the scaler that the site must use; None is the site's own, if it has one.
    """

    broadcast: Broadcast
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 600.0
    columns: tuple[str, ...] | None = None
    shown: Shown | None = None
    scaler: Scaler | None = None


def category(error: BaseException) -> str:
    """Return the word of REASONS for an error.

    Examples
    --------
    >>> category(DataError("values of column 'age' in /home/ada/patients.csv ..."))
    'data'
    """
    cause = error if isinstance(error, OSError) else error.__cause__
    if isinstance(cause, OSError) and cause.errno in FULL:
        return "disk"
    kinds: dict[type[BaseException], str] = {
        FullError: "disk",  # before MessageError
        OwnScalerError: "scaler",
        PrivateError: "privacy",
        CellsError: "cells",  # before ParameterError
        NoLabelsError: "labels",
        ChangedDataError: "changed",
        PolicyError: "policy",  # before ParameterError, of which it is a kind
        BudgetError: "policy",  # before DataError
        DataError: "data",
        MadeError: "error",  # before ParameterError, too
        ParameterError: "parameter",
        MessageError: "message",
        MemoryError: "memory",
        DivergedError: "diverged",
        TimeoutError: "timeout",
        LateError: "timeout",
    }
    for kind, word in kinds.items():
        if isinstance(error, kind):
            return word
    return "error"


# -------------------------------------------------------------------------------- server to site


def pack_question(question: Question) -> RecordDict:
    """Serialize a request. A model in it must have names for its columns."""
    broadcast = question.broadcast
    head = {
        "round": broadcast.round,
        "seed": broadcast.seed,
        "method": question.method,
        "params": dict(question.params),
        "timeout": float(question.timeout),
        "columns": question.columns,
        "cells": broadcast.cells,
    }
    if question.scaler is not None:
        head["scaler"] = scaler_values(question.scaler)
    body = None if broadcast.model is None else pack_model(broadcast.model)
    if body is not None and len(body) > MAX_MESSAGE_BYTES:
        allowed = f"at most {MAX_MESSAGE_BYTES} bytes"
        raise MessageError(invalid("size", "the model for the sites", allowed, len(body)))
    content = pack(head, body)
    _pack_shown(content, question.shown)
    return content


def _pack_shown(content: RecordDict, shown: Shown | None) -> None:
    """Add what the server shows, unless a message would become too large."""
    if shown is None:
        return
    files = [formats.encode(file) for file in shown.files]
    before = b"" if shown.before is None else pack_model(shown.before)
    if sum(map(len, files)) + len(before) <= MAX_SHOWN_BYTES:
        content[SHOWN] = ConfigRecord({"files": files, "before": before})


def unpack_question(content: RecordDict) -> Question:
    """Unpack a question and check every field. Anything else is a MessageError."""
    head, body = unpack(content)
    try:
        return Question(
            Broadcast(
                formats.take(head, "round", int),
                formats.take(head, "seed", int),
                None if body is None else unpack_model(body),
                cells=None if head.get("cells") is None else formats.take(head, "cells", str),
            ),
            formats.take(head, "method", str),
            formats.take(head, "params", dict),
            seconds(head),
            None if head.get("columns") is None else formats.take_names(head, "columns"),
            _unpack_shown(content),
            None if head.get("scaler") is None else scaler_from(formats.take(head, "scaler", dict)),
        )
    except FedJigsawError as error:
        raise MessageError(f"The question cannot be used: {error}") from error


def _unpack_shown(content: RecordDict) -> Shown | None:
    record = content.get(SHOWN)
    if record is None:
        return None
    files = record.get("files") if isinstance(record, ConfigRecord) else None
    before = record.get("before") if isinstance(record, ConfigRecord) else None
    packed = [file for file in files if isinstance(file, bytes)] if isinstance(files, list) else []
    if not isinstance(before, bytes) or not packed or packed != files:
        raise MessageError("The summaries that the question shows cannot be read.")
    if sum(map(len, packed)) + len(before) > MAX_SHOWN_BYTES:
        raise MessageError(f"The question shows more than {MAX_SHOWN_BYTES} bytes.")
    found = [formats.decode(file) for file in packed]
    summaries = tuple(file for file in found if isinstance(file, SummaryFile))
    if len(summaries) < len(found):
        raise MessageError("The question shows something else than summaries.")
    return Shown(unpack_model(before) if before else None, summaries)


def seconds(head: Mapping[str, Any]) -> float:
    timeout = formats.take(head, "timeout", float)
    real(0, MAX_TIMEOUT, inclusive=False).check("timeout", "a question", timeout)
    return timeout


def pack_model(model: Model) -> bytes:
    return formats.encode(ModelFile(model, None, (), 0))


def unpack_model(content: bytes) -> Model:
    file = formats.decode(content)
    if not isinstance(file, ModelFile):
        raise MessageError("The question contains a summary where a model should be.")
    return file.model


# -------------------------------------------------------------------------------- site to server


def pack_answer(file: SummaryFile) -> RecordDict:
    """Serialize a summary; one over the size limit becomes a failure."""
    content = formats.encode(file)
    return pack_failure("size") if len(content) > MAX_MESSAGE_BYTES else pack({}, content)


def pack_failure(word: str) -> RecordDict:
    return pack({"failure": word}, None)


def unpack_answer(content: RecordDict) -> SummaryFile | str:
    """Unpack a summary, or the reason why there is none. Anything else is a MessageError."""
    head, body = unpack(content, MAX_ANSWER_HEAD)
    if body is None:
        return reason(head)
    file = formats.decode(body)
    if not isinstance(file, SummaryFile):
        raise MessageError("The answer contains a model where a summary should be.")
    _check_plausible(file)
    return file


def reason(head: Mapping[str, Any]) -> str:
    """Return the text for the word by which a site reported a failure."""
    word = formats.take(head, "failure", str)
    if word not in REASONS:
        raise MessageError("The answer reports a failure that is not one of REASONS.")
    return REASONS[word] + SEE_LOG


def _check_plausible(file: SummaryFile) -> None:
    """Raise a MessageError for impossible counts or NaN tensors."""
    summary, owner = file.summary, f"client {file.summary.client!r}"
    sizes = file.params.get("n_clusters")
    n_heads = len(sizes) if isinstance(sizes, list) else 1  # each head clusters all rows
    most = n_heads * summary.n_samples
    # cells that all sites share may be more than the rows of one

    if len(summary.centers) > most and CELLS not in summary.tensors:
        raise MessageError(
            f"{owner} sent {counted(len(summary.centers), 'center')}, more than {most}: one per "
            "row and head."
        )
    # a guard that rounds at most doubles a count; what the site says about its guard is not asked
    # not as integers, whose sum may pass the largest one and begin anew
    total = 0.0 if summary.counts is None else float(summary.counts.sum(dtype=np.float64))
    if total > 2 * most:
        raise MessageError(
            f"The counts of {owner} sum to {total:.0f}, which exceeds twice {most}, one per row "
            "and head."
        )
    for name, tensor in summary.tensors.items():
        if not np.isfinite(tensor).all():
            raise MessageError(f"Tensor {name!r} of {owner} contains NaN or infinity.")


# ---------------------------------------------------------------------------------- the envelope


def small(**values: str) -> ConfigRecord:
    """Make a record of short texts."""
    return ConfigRecord(dict(values))


def take_small(content: RecordDict, record: str, name: str) -> str:
    """Take a short text from a record of a message, or raise a MessageError."""
    found = content.get(record)
    return formats.take(dict(found) if isinstance(found, ConfigRecord) else {}, name, str)


def pack(head: Mapping[str, Any], body: bytes | None) -> RecordDict:
    record = ConfigRecord({"head": json.dumps({"format": FORMAT, **head})})
    if body is not None:
        record["body"] = body
    return RecordDict({KEY: record})


def unpack(
    content: RecordDict, max_head: int = MAX_QUESTION_HEAD
) -> tuple[dict[str, Any], bytes | None]:
    """Return the JSON part and the arrays of a message, after checking their size."""
    record = content.get(KEY)
    text = record.get("head") if isinstance(record, ConfigRecord) else None
    body = record.get("body") if isinstance(record, ConfigRecord) else None
    if not isinstance(text, str) or not isinstance(body, bytes | None):
        raise MessageError("The message was not packed by fedjigsaw.")
    for part, most in ((text, max_head), (body or b"", MAX_MESSAGE_BYTES)):
        if len(part) > most:
            raise MessageError(invalid("size", "a message", f"at most {most} bytes", len(part)))
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError("The head of the message is not JSON.") from error
    if not isinstance(head, dict):
        raise MessageError("The head of the message is not a JSON object.")
    check_format(head)
    return head, body
