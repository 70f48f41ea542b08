"""Tensors of models, which may come from others."""

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.messages import Model


def take_tensor(model: Model, name: str, shape: tuple[int, ...], low: float, high: float) -> Floats:
    """Return a tensor of a model; raise a MessageError if its shape or a number is not allowed."""
    tensor = model.tensors.get(name, np.zeros(0)).astype(np.float64)
    if tensor.shape != shape or not ((tensor >= low) & (tensor <= high)).all():
        allowed = f"of shape {shape}, from {low:g} to {high:g}"
        raise MessageError(invalid(name, "a model", allowed, f"shape {tensor.shape}"))
    return tensor
