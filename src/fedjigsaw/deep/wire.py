"""Weights on their way between server and clients: as they are, or in half the bytes.

With ``wire="bf16"``, weights travel in bfloat16, as integers of 16 bits. Server to clients, these
are the weights themselves; the server keeps the exact ones under names that begin with ``server.``,
which are not sent. Clients to server, they are the *differences* that training made: a small
step would be lost in rounded weights. The server adds them to the exact weights, so that rounding
does not add up over rounds. Batch-norm statistics are few, and travel as they are.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedjigsaw.deep.network import STATISTICS
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import SERVER_ONLY, Model, Summary, Tensors

WEIGHTS, TEACHER = "weights.", "teacher."


def to_bf16(array: np.ndarray) -> np.ndarray:
    """Round float32 to bfloat16, to the nearest and ties to even, as integers of 16 bits.

    Examples
    --------
    >>> from_bf16(to_bf16(np.float32([1.0, -0.3]))).tolist()
    [1.0, -0.30078125]
    """
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    last = (bits >> np.uint32(16)) & np.uint32(1)
    rounded: np.ndarray = ((bits + np.uint32(0x7FFF) + last) >> np.uint32(16)).astype(np.uint16)
    return rounded.reshape(np.shape(array))


def from_bf16(array: np.ndarray) -> np.ndarray:
    """Return bfloat16, given as integers of 16 bits, as float32."""
    found: np.ndarray = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return found


def exact(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return weights as float32, however they travelled."""
    return {n: from_bf16(a) if a.dtype == np.uint16 else a for n, a in arrays.items()}


# ----------------------------------------------------------------------------------- at the server


def packed(tensors: Tensors) -> dict[str, np.ndarray]:
    """Round the weights of a model for the clients, and keep the exact ones for the server."""
    found = dict(tensors)
    for name, array in tensors.items():
        if _is_rounded(name):
            found[name], found[SERVER_ONLY + name] = to_bf16(array), array
    return found


def unpacked(model: Model) -> Model:
    """Return the model with exact weights: those that the server kept, if they are there.

    A model that was never rounded stays as it is.
    """
    if not any(array.dtype == np.uint16 for array in model.tensors.values()):
        return model
    kept = {SERVER_ONLY + name for name in model.tensors if _is_rounded(name)}
    tensors = {n: model.tensors.get(SERVER_ONLY + n, a) for n, a in model.tensors.items()}
    return replace(model, tensors={n: a for n, a in exact(tensors).items() if n not in kept})


def received(summary: Summary, model: Model) -> Summary:
    """Add the differences that a client sent to the exact weights of the model.

    Raises
    ------
    MessageError
        If they are not bfloat16, or of other shapes.
    """
    tensors = dict(summary.tensors)
    for name, sent in summary.tensors.items():
        if not _is_rounded(name) or name not in model.tensors:
            continue
        before = model.tensors[name]
        if sent.dtype != np.uint16 or sent.shape != before.shape:
            raise MessageError(
                f"Client {summary.client!r} sent {name} as {sent.dtype} of shape {sent.shape}, not "
                f"as bfloat16 of shape {before.shape}."
            )
        tensors[name] = before + from_bf16(sent)
    return replace(summary, tensors=tensors)


# -------------------------------------------------------------------------------------- at a client


def differences(
    trained: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return what training changed, rounded, and the statistics as they are.

    Parameters
    ----------
    trained, before : weights after and before training, by name.
    """
    old = exact(before)
    return {
        name: array if name.endswith(STATISTICS) else to_bf16(array - old[name])
        for name, array in trained.items()
    }


def _is_rounded(name: str) -> bool:
    return name.startswith((WEIGHTS, TEACHER)) and not name.endswith(STATISTICS)
