"""Checkpoints: the state of a run, its parameters and its data, as a file without pickle.

The model of a federation can be read, too, as a run that is complete.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from fedjigsaw.deep.deepfeca import CentralDeepCluster, DeepFeCA
from fedjigsaw.deep.execution import Execution
from fedjigsaw.deep.heads import named
from fedjigsaw.deep.image_size import check_size
from fedjigsaw.deep.model_check import check_centers, check_network
from fedjigsaw.deep.state import State
from fedjigsaw.errors import FedJigsawError, MessageError, ParameterError, unsupported
from fedjigsaw.io import formats
from fedjigsaw.io._codec import FORMAT, digest, read_bounded, take, unpack
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.messages import Model
from fedjigsaw.parameters import integer, real

MAX_CHECKPOINT_BYTES = 2**29  # ten times the weights of the largest network
CLASSES = {cls.method: cls for cls in (DeepFeCA, CentralDeepCluster)}
# a run may go on with another device, and where its images, which have a fingerprint, were renamed
NOT_COMPARED = (*Execution.rules, "dataset")


@dataclass(frozen=True)
class Checkpoint:
    """A run after some rounds.

    Attributes
    ----------
    method : DeepFeCA
        The estimator, with the parameters of the run.
    state : State
        Round, seed, model and numbers of the last round.
    about : dict
        Description of the data (data set, split and so on), as JSON values.
    """

    method: DeepFeCA
    state: State
    about: Mapping[str, Any]

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of the images in training."""
        return check_size(self.state.model.tensors, "the model")

    def check_same(self, method: DeepFeCA, about: Mapping[str, Any], path: Path) -> None:
        """Raise a ParameterError if a run would be resumed with other parameters or data."""
        mine = {"method": self.method.method, **self.method.configuration(), **self.about}
        asked = {"method": method.method, **method.configuration(), **about}
        for name in asked:
            if name not in NOT_COMPARED and mine.get(name) != asked[name]:
                raise ParameterError(
                    f"Cannot resume {path}: it was trained with {name}={mine.get(name)!r}, not "
                    f"{asked[name]!r}. Use the same options and data, or another --out."
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
    header["sha256"] = _digest(header, arrays)
    write_whole(path, safetensors.numpy.save(arrays, metadata={"fedjigsaw": json.dumps(header)}))


def load(path: Path) -> Checkpoint:
    """Read a checkpoint, or the model of a federation; every error names the file."""
    content = read_bounded(path, MAX_CHECKPOINT_BYTES)
    try:
        header, arrays = unpack(content)
        if header.get("kind") == "model":
            return _of_federation(formats.load(path, ModelFile))
        return _restore(header, arrays)
    except (KeyError, TypeError, ValueError) as error:
        known = isinstance(error, FedJigsawError)
        reason = str(error)[:300] if known else "it is another file, or was cut off."
        raise MessageError(
            f"{path} is not a checkpoint written by `fedjigsaw deep train`: {reason} "
            "Name another file, or train again."
        ) from error


def export(checkpoint: Checkpoint, path: Path) -> None:
    """Write the weights of a checkpoint's network as safetensors, for other programs."""
    check_export(path)
    weights = named(checkpoint.state.model.tensors, "weights")
    about = {"network": checkpoint.method.objective.network}
    write_whole(path, safetensors.numpy.save(weights, metadata=about))


def check_export(path: Path) -> None:
    """Raise a ParameterError now if a network cannot be exported to a path."""
    if path.suffix != ".safetensors":
        raise ParameterError(unsupported(f"write {path}", path.suffix, (".safetensors",)))


def _digest(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Compute the checksum of a header, without the one that it may have, and of arrays."""
    text = json.dumps({n: v for n, v in header.items() if n != "sha256"}, sort_keys=True)
    return digest(text, arrays)


def _of_federation(file: ModelFile) -> Checkpoint:
    method = CLASSES[file.model.method].from_settings(file.model.params)
    check_centers(method, file.model)
    check_network(method, file.model, at_server=False)
    method.load_model(file.model)
    state = State(method.schedule.n_rounds, method.random_state or 0, file.model, {})
    size = check_size(file.model.tensors, "the model")
    about = {"clients": list(file.clients), "n_images": file.n_samples, "image_size": list(size)}
    return Checkpoint(method, state, about)


def _restore(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Checkpoint:
    if header["sha256"] != _digest(header, arrays):
        raise MessageError("It was changed, or its disk is damaged.")
    method = CLASSES[header["method"]].from_settings(header["params"])
    integer(1, method.schedule.n_rounds).check("round", "the file", header["round"])
    integer(0).check("seed", "the file", header["seed"])
    tensors = {n.removeprefix("tensor."): a for n, a in arrays.items() if n.startswith("tensor.")}
    model = Model(arrays["centers"], method.method, method.configuration(), None, tensors)
    check_centers(method, model)
    check_network(method, model)
    numbers = take(header, "numbers", dict)
    real(0).check("seconds", "the file", numbers.get("seconds", 0))  # --resume adds to them
    state = State(header["round"], header["seed"], model, numbers)
    return Checkpoint(method.load_model(model), state, take(header, "about", dict))
