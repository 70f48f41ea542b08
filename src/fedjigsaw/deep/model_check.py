"""Checks of a model that comes from a file, before anything uses its numbers.

A run goes on from a model, and other programs use its weights: a tensor that is missing or has
another shape would be an error far from its cause, or another network than the one that was
trained.
"""

from collections.abc import Sequence

import numpy as np

from fedjigsaw.deep import heads
from fedjigsaw.deep.image_size import check_size
from fedjigsaw.deep.network import STATISTICS, initial_model
from fedjigsaw.deep.parameters import DeepParameters
from fedjigsaw.deep.schedule import Step
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import SERVER_ONLY, Model, Tensors

OWNERS = ("weights.", "teacher.", SERVER_ONLY)  # how the names of checked tensors begin


def check_after(method: DeepParameters, model: Model, done: Sequence[Step]) -> None:
    """Raise a MessageError unless a model can be that of the server after some steps of a run."""
    kinds = {step.kind for step in done}
    if "cluster" in kinds:
        check_centers(method, model)
    check_network(method, model, trained="train" in kinds)


def check_centers(method: DeepParameters, model: Model) -> None:
    """Raise a MessageError unless a model has centers for every head."""
    start = initial_model(method.objective.network, 0)
    heads.check_model(model, method.sizes, start.centers.shape[1])


def check_network(
    method: DeepParameters, model: Model, *, trained: bool = True, at_server: bool = True
) -> None:
    """Raise a MessageError unless a model has the weights of a method's network, and no others.

    Parameters
    ----------
    trained : whether clients have trained it: only then are there teacher and momentum.
    at_server : whether the model has what only the server needs.
    """
    wanted = dict(initial_model(method.objective.network, 0).tensors)
    weights = [name for name in wanted if not name.endswith(STATISTICS)]
    if trained and method.schedule.ema:
        wanted |= {f"teacher.{n}": a for n, a in heads.named(wanted, "weights").items()}
    if trained and at_server and method.schedule.server_momentum:
        wanted |= {f"{SERVER_ONLY}velocity.{name}": wanted[name] for name in weights}
    found = {n: a for n, a in model.tensors.items() if n.startswith(OWNERS)}
    for name in sorted({*wanted, *found}):
        allowed, got = (_described(tensors, name) for tensors in (wanted, found))
        if allowed != got:
            raise MessageError(
                f"The tensor {name} of a {method.objective.network} network with these settings "
                f"must be {allowed}; got {got}."
            )
    for name, array in found.items():
        if not np.isfinite(array).all():
            raise MessageError(f"The tensor {name} has NaN or infinity.")
        if name.endswith("running_var") and (array < 0).any():
            raise MessageError(f"The tensor {name} has a negative variance.")
    check_size(model.tensors, "the model")


def _described(tensors: Tensors, name: str) -> str:
    return f"{tensors[name].dtype} of shape {tensors[name].shape}" if name in tensors else "absent"
