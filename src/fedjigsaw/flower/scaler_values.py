"""A scaler as JSON values: in a job, and in a question."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.kernels.scaling import Scaler


def scaler_values(scaler: Scaler) -> dict[str, Any]:
    """Return a scaler as JSON values.

    Examples
    --------
    >>> scaler_values(Scaler(("age",), np.array([40.0]), np.array([10.0])))
    {'columns': ['age'], 'mean': [40.0], 'deviation': [10.0]}
    """
    if scaler.encoding is not None:
        raise ParameterError(
            "This scaler has a schema, so it cannot travel: start each site with --scaler."
        )
    numbers = {name: getattr(scaler, name).tolist() for name in ("mean", "deviation")}
    return {"columns": list(scaler.columns), **numbers}


def scaler_from(values: Mapping[str, Any]) -> Scaler:
    """Return the scaler of JSON values; anything that is none is a MessageError."""
    mean, deviation = _numbers(values, "mean"), _numbers(values, "deviation")
    return Scaler(formats.take_names(values, "columns"), mean, deviation)


def _numbers(values: Mapping[str, Any], name: str) -> Floats:
    found = formats.take(values, name, list)
    if not all(type(value) in (int, float) for value in found):
        raise MessageError(f"The {name} of a scaler contains something else than numbers.")
    try:
        return np.array(found, dtype=np.float64)
    except OverflowError as error:
        raise MessageError(
            f"The {name} of a scaler contains a number that is too large."
        ) from error
