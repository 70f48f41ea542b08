"""Features of images by any network: one of ours, or an ImageNet backbone whose weights are here.

Nothing is downloaded. ``timm:NAME`` and ``torchvision:NAME`` build a network of those libraries and
fill it with weights from a file; its classifier is left out.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedjigsaw.deep import checkpoint
from fedjigsaw.deep.images import Bytes
from fedjigsaw.deep.trainer import GPU_FEATURE_BATCH
from fedjigsaw.errors import ExtraError, MessageError, ParameterError, invalid

LIBRARIES = ("timm", "torchvision")
IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE = 224  # of the images that ImageNet backbones have learned from
BATCH = 100


def quiet(n_images: int) -> None:
    """The progress that nobody watches."""


def embed(
    images: Bytes,
    model: str,
    *,
    weights: Path | None = None,
    device: str = "auto",
    tell: Callable[[int], object] = quiet,
) -> np.ndarray:
    """Features of shape (n_images, n_features), float32.

    Parameters
    ----------
    model : path of a checkpoint, or ``timm:NAME`` or ``torchvision:NAME``.
    weights : file with the weights of such a network, safetensors or a plain state dictionary.
    tell : called with the number of images that were looked at since the last time.
    """
    library, colon, name = model.partition(":")
    if colon and library in LIBRARIES:
        see = seer(build(library, name, weights), device)
        return in_parts(see, images, BATCH, tell)
    if weights is not None:
        allowed = "given for a network of timm or torchvision"
        raise ParameterError(invalid("weights", "embed", allowed, f"for {model}"))
    method = checkpoint.load(Path(model)).method.set_params(device=device)
    return in_parts(method.transform, images, GPU_FEATURE_BATCH, tell)


def in_parts(
    see: Callable[[Bytes], np.ndarray], images: Bytes, size: int, tell: Callable[[int], object]
) -> np.ndarray:
    """What is seen of all images, looked at part by part."""
    found = []
    for start in range(0, len(images), size):
        found.append(see(images[start : start + size]))
        tell(len(found[-1]))
    return np.concatenate(found)


def build(library: str, name: str, weights: Path | None) -> nn.Module:
    """A network of another library without its classifier, with weights from a file."""
    if weights is None:
        advice = "Give it with --weights; nothing is downloaded."
        raise ParameterError(invalid("weights", f"{library}:{name}", "a file", "none", advice))
    try:
        if library == "timm":
            import timm

            network = timm.create_model(name, pretrained=False)
        else:
            import torchvision

            network = torchvision.models.get_model(name, weights=None)
    except ImportError as error:
        advice = f"Install it with `pip install {library}`."
        raise ExtraError(invalid(library, "embed", "installed", "none", advice)) from error
    except (ValueError, RuntimeError) as error:
        raise ParameterError(
            invalid("name", "a network", f"known to {library}", repr(name))
        ) from error
    try:
        network.load_state_dict(_read(weights))
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0][:200]
        raise MessageError(
            invalid("weights", str(weights), f"those of {library}:{name}", reason)
        ) from error
    return without_classifier(network)


def without_classifier(network: nn.Module) -> nn.Module:
    """Let a network return what its classifier would have seen."""
    if hasattr(network, "reset_classifier"):  # timm
        network.reset_classifier(0)  # type: ignore[operator]
        return network
    for name in ("fc", "head", "heads", "classifier"):
        last = getattr(network, name, None)
        if isinstance(last, nn.Linear):
            setattr(network, name, nn.Identity())
            return network
        if isinstance(last, nn.Sequential) and isinstance(last[-1], nn.Linear):
            last[-1] = nn.Identity()
            return network
    allowed = "one that ends in a linear classifier"
    raise ParameterError(invalid("network", "embed", allowed, type(network).__name__))


def _read(path: Path) -> Any:
    """A state dictionary; a file of torch is read by its safe loader, which runs no code."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise MessageError(invalid("file", str(path), "there", "none")) from error
    except Exception as error:  # the loaders raise what their formats make them raise
        allowed = "safetensors, or tensors by torch.save"
        raise MessageError(invalid("weights", str(path), allowed, "another")) from error


def seer(network: nn.Module, device: str) -> Callable[[Bytes], np.ndarray]:
    """What a network of ImageNet sees of images, as a function."""
    place = torch.device(
        device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    )
    network.eval().to(place)
    mean, deviation = (
        torch.tensor(v, device=place).view(1, 3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_DEVIATION)
    )

    @torch.no_grad()
    def see(images: Bytes) -> np.ndarray:
        x = torch.from_numpy(images).to(place).float() / 255
        x = F.interpolate(x, size=(SIDE, SIDE), mode="bilinear", antialias=True)
        seen: Tensor = network((x - mean) / deviation)
        return seen.flatten(1).float().cpu().numpy()

    return see
