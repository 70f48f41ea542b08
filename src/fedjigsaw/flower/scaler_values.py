"""A scaler as JSON values: in a job, and in a question."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.records.policy import RefusedError

LARGEST = 1e40  # numbers of a scaler that a site takes from a server; the least is 1 / LARGEST


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


def check_size(scaler: Scaler) -> None:
    """Raise a RefusedError for a scaler that may make rows overflow.

    Whether they do shows in the kind of a failure, which nobody counts: by many scalers it would
    tell sums and single cells, digit by digit.
    """
    mean, deviation = np.abs(scaler.mean).max(), scaler.deviation
    if max(mean, deviation.max()) > LARGEST or deviation.min() < 1 / LARGEST:
        raise RefusedError(f"a number of the scaler is above {LARGEST:g}, or below its inverse")


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
