"""A run as a file: where it stands, with which parameters, on which data. No pickle inside.

The model that a federation of sites has trained is a run that is over; it can be read, too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from fedjigsaw.deep.deepfeca import CentralDeepCluster, DeepFeCA
from fedjigsaw.deep.execution import Execution
from fedjigsaw.deep.state import State
from fedjigsaw.errors import FedJigsawError, MessageError, ParameterError, invalid
from fedjigsaw.io import formats
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.messages import Model
from fedjigsaw.parameters import integer

FORMAT = 1
MAX_BYTES = 2**31
CLASSES = {cls.method: cls for cls in (DeepFeCA, CentralDeepCluster)}
NOT_COMPARED = tuple(Execution.rules)  # a run may go on with another device


@dataclass(frozen=True)
class Checkpoint:
    """A run after some rounds.

    Attributes
    ----------
    method : the estimator, its parameters as in the run.
    about : what the run was on (data set, split and so on), as JSON values.
    numbers : those of the last round, and the seconds so far.
    """

    method: DeepFeCA
    state: State
    about: Mapping[str, Any]

    def check_same(self, method: DeepFeCA, about: Mapping[str, Any], path: Path) -> None:
        """A run goes on only with the parameters and data that it began with."""
        mine = {"method": self.method.method, **self.method.configuration(), **self.about}
        asked = {"method": method.method, **method.configuration(), **about}
        for name in asked:
            if name not in NOT_COMPARED and mine.get(name) != asked[name]:
                allowed = f"as in {path}, {mine.get(name)!r}"
                advice = "Use the same options and data, or another --out."
                raise ParameterError(
                    invalid(name, "a run that goes on", allowed, repr(asked[name]), advice)
                )


def save(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint, whole or not at all."""
    state = checkpoint.state
    header = {
        "format": FORMAT,
        "method": checkpoint.method.method,
        "params": checkpoint.method.configuration(),
        "round": state.round,
        "seed": state.seed,
        "numbers": dict(state.numbers),
        "about": dict(checkpoint.about),
    }
    arrays = {f"tensor.{name}": np.asarray(array) for name, array in state.model.tensors.items()}
    arrays["centers"] = state.model.centers
    write_whole(path, safetensors.numpy.save(arrays, metadata={"fedjigsaw": json.dumps(header)}))


def load(path: Path) -> Checkpoint:
    """Read a checkpoint, or the model of a federation; every error names the file."""
    try:
        size = path.stat().st_size
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise MessageError(invalid("file", str(path), "readable", reason)) from error
    if size > MAX_BYTES:
        raise MessageError(invalid("size", str(path), f"at most {MAX_BYTES} bytes", size))
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["fedjigsaw"])
            if isinstance(header, dict) and header.get("kind") == "model":
                return _of_federation(formats.load(path, ModelFile))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return _restore(header, arrays)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, FedJigsawError) else "another, or a part of one"
        allowed = "a checkpoint made by `fedjigsaw deep train`"
        raise MessageError(invalid("content", str(path), allowed, reason[:300])) from error


def _of_federation(file: ModelFile) -> Checkpoint:
    method = CLASSES[file.model.method].from_settings(file.model.params)
    method.model_ = file.model
    state = State(method.schedule.n_rounds, method.random_state or 0, file.model, {})
    return Checkpoint(method, state, {"clients": list(file.clients), "n_images": file.n_samples})


def _restore(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Checkpoint:
    if header["format"] != FORMAT:
        raise MessageError(invalid("format", "the file", str(FORMAT), repr(header["format"])))
    method = CLASSES[header["method"]].from_settings(header["params"])
    integer(0).check("round", "the file", header["round"])
    integer(0).check("seed", "the file", header["seed"])
    tensors = {n.removeprefix("tensor."): a for n, a in arrays.items() if n.startswith("tensor.")}
    model = Model(arrays["centers"], method.method, method.configuration(), None, tensors)
    state = State(header["round"], header["seed"], model, dict(header["numbers"]))
    method.model_ = model
    return Checkpoint(method, state, dict(header["about"]))
