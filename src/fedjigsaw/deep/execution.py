"""How DeepFeCA computes: device, precision, captured steps, compilation, parallel clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedjigsaw.errors import ParameterError
from fedjigsaw.kernels.torch import DeviceBackend
from fedjigsaw.parameters import Rule, boolean, integer, one_of

MAX_LANES = 32  # torch has this many streams for a GPU


def _is_device(value: object) -> bool:
    if value == "auto":
        return True
    try:
        return isinstance(value, str) and bool(torch.device(value).type)
    except RuntimeError:
        return False


@dataclass(frozen=True)
class Execution:
    """Where and how to compute. Results are the same up to rounding.

    Parameters
    ----------
    device : str, default "auto"
        A torch device. "auto" is a GPU if there is one, else the CPU.
    precision : {"auto", "float32"}
        "auto" trains in bfloat16 on a GPU, and computes features in single precision there, but for
        convolutions, which round to TensorFloat-32. "float32" computes everything in full single
        precision, as a CPU does in any case. It holds for the whole process.
    capture : bool, default True
        On a GPU, record a training step once as a CUDA graph and replay it, which is four times as
        fast. Turn it off to debug a step.
    compile : bool, default False
        Let torch.compile fuse the operations of a training step. The first step waits for that.
    lanes : int, default 1
        Clients of this process that train at the same time, each with its own copy of the network.
        More lanes keep a GPU busier and take more memory; a CPU gains nothing. Results on a CPU are
        the same bits.

    Examples
    --------
    >>> from fedjigsaw.deep import Execution
    >>> Execution(device="cpu").torch_device
    device(type='cpu')
    """

    device: str = "auto"
    precision: str = "auto"
    capture: bool = True
    compile: bool = False
    lanes: int = 1

    rules: ClassVar[Mapping[str, Rule]] = {
        "device": Rule("the name of a torch device, or 'auto'", _is_device),
        "precision": one_of("auto", "float32"),
        "capture": boolean(),
        "compile": boolean(),
        "lanes": Rule(
            f"an integer from 1 to {MAX_LANES}",
            lambda value: integer(1).accepts(value) and int(value) <= MAX_LANES,  # type: ignore[call-overload]
        ),
    }

    @property
    def torch_device(self) -> torch.device:
        if self.device != "auto":
            return torch.device(self.device)
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    @property
    def kmeans_backend(self) -> DeviceBackend | None:
        """The k-means backend of the clusterers: a GPU, or None for the default on a CPU."""
        device = self.torch_device
        return DeviceBackend(device, quick_seeds=True) if device.type == "cuda" else None


def check_device(name: str) -> None:
    """Raise a ParameterError now if a device cannot be used, not in the middle of the work.

    Parameters
    ----------
    name : a torch device such as "cuda:1", or "auto".

    Examples
    --------
    >>> from fedjigsaw.deep import check_device
    >>> check_device("cpu")
    >>> check_device("tea")
    Traceback (most recent call last):
    fedjigsaw.errors.ParameterError: device of DeepFeCA must be the name of a torch device, or
    'auto'; got 'tea'.
    """
    Execution.rules["device"].check("device", "DeepFeCA", name)
    try:
        torch.zeros(1, device=None if name == "auto" else name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ParameterError(f"This machine has no torch device {name!r}.") from error
