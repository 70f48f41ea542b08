"""Export the backbone of a checkpoint: safetensors, or ONNX that takes images of bytes."""

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
from fedjigsaw.deep.wire import exact
from fedjigsaw.errors import ExtraError, ParameterError, requires_extra, unsupported
from fedjigsaw.io.atomic import write_whole

ENDINGS = (".onnx", ".safetensors")


class Backbone(nn.Module):
    """Compute features from images of bytes, shape (n, 3, height, width)."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.features(standardize(images))


def export(checkpoint: Checkpoint, path: Path, *, size: int | None = None) -> None:
    """Write the network of a checkpoint in the format that the path's ending names.

    Parameters
    ----------
    size : int or None
        Height and width of the images that the ONNX network takes. None is the size of the training
        images.
    """
    check_ending(path)
    objective = checkpoint.method.objective
    weights = exact(named(checkpoint.state.model.tensors, "weights"))
    if path.suffix == ".safetensors":
        about = {"network": objective.network, "norm": objective.norm}
        write_whole(path, safetensors.numpy.save(weights, metadata=about))
        return
    shape = (size, size) if size else checkpoint.image_size
    network = build(objective.network, shape, norm=objective.norm)
    state = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
    network.load_state_dict(state, strict=False)  # checkpoints have no batch counters
    content = BytesIO()
    try:
        with warnings.catch_warnings():
            # the newer exporter would need another package
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.onnx.export(
                Backbone(network).eval(),
                (torch.zeros(2, 3, *shape, dtype=torch.uint8),),
                content,  # type: ignore[arg-type]  # a file in memory
                input_names=["images"],
                output_names=["features"],
                dynamic_axes={"images": {0: "n"}, "features": {0: "n"}},
                dynamo=False,
            )
    except (ImportError, torch.onnx.errors.OnnxExporterError) as error:
        raise ExtraError(requires_extra("Export to ONNX", "onnx", "onnx")) from error
    write_whole(path, content.getvalue())


def check_ending(path: Path) -> None:
    """Raise a ParameterError now if there is no format for a path."""
    if path.suffix not in ENDINGS:
        raise ParameterError(unsupported(f"write {path}", path.suffix, ENDINGS))
