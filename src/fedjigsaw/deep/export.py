"""The backbone of a checkpoint for other programs: safetensors, or ONNX with its scaling inside."""

import warnings
from io import BytesIO
from pathlib import Path

import safetensors.numpy
import torch
from torch import Tensor, nn

from fedjigsaw.deep.augment import standardize
from fedjigsaw.deep.checkpoint import Checkpoint
from fedjigsaw.deep.heads import named
from fedjigsaw.deep.network import Network, build
from fedjigsaw.errors import ExtraError, ParameterError, invalid
from fedjigsaw.io.atomic import write_whole

ENDINGS = (".onnx", ".safetensors")


class Backbone(nn.Module):
    """From bytes of shape (n, 3, height, width) to features."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.features(standardize(images))


def export(checkpoint: Checkpoint, path: Path, *, size: int | None = None) -> None:
    """Write the network of a checkpoint, in the format of the path's ending.

    Parameters
    ----------
    size : height and width of the images that the ONNX network takes, any number of them; None: of
        those that it was trained on, or 32 where the checkpoint does not tell.
    """
    check_ending(path)
    objective = checkpoint.method.objective
    weights = named(checkpoint.state.model.tensors, "weights")
    if path.suffix == ".safetensors":
        about = {"network": objective.network, "norm": objective.norm}
        write_whole(path, safetensors.numpy.save(weights, metadata=about))
        return
    height, width = (size, size) if size else checkpoint.about.get("image_size", (32, 32))
    network = build(objective.network, height, norm=objective.norm)
    state = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
    network.load_state_dict(state, strict=False)  # counters of batches are not kept
    content = BytesIO()
    try:
        with warnings.catch_warnings():
            # the older exporter has had its day, but needs one package less
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.onnx.export(
                Backbone(network).eval(),
                (torch.zeros(2, 3, height, width, dtype=torch.uint8),),
                content,  # type: ignore[arg-type]  # a file in memory will do
                input_names=["images"],
                output_names=["features"],
                dynamic_axes={"images": {0: "n"}, "features": {0: "n"}},
                dynamo=False,
            )
    except (ImportError, torch.onnx.errors.OnnxExporterError) as error:
        advice = "Install it with `pip install 'fedjigsaw[onnx]'`."
        raise ExtraError(invalid("onnx", "export", "installed", "none", advice)) from error
    write_whole(path, content.getvalue())


def check_ending(path: Path) -> None:
    """Say before any work whether there is a format for a path."""
    if path.suffix not in ENDINGS:
        allowed = "one of " + ", ".join(ENDINGS)
        raise ParameterError(invalid("ending", str(path), allowed, repr(path.suffix)))
