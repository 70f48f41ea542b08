"""Features of images from a checkpoint, or from an ImageNet backbone with weights from a file.

Nothing is downloaded. ``timm:NAME`` builds a network of that library without its classifier, and
loads its weights from a file.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedjigsaw.deep import checkpoint
from fedjigsaw.deep.pictures import Bytes
from fedjigsaw.deep.trainer import GPU_FEATURE_BATCH
from fedjigsaw.errors import (
    DataError,
    ExtraError,
    MessageError,
    ParameterError,
    unreadable,
    unsupported,
)
from fedjigsaw.io.atomic import write_whole

TIMM = "timm:"
ENDINGS = (".npy", ".parquet")
ID_COLUMN = "image_id"  # summaries leave out columns that are named like this
IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE = 224  # height and width of the images that ImageNet backbones were trained on
BATCH = 100


def quiet(n_images: int) -> None:
    """Report no progress."""


def embed(
    images: Bytes,
    model: str,
    *,
    weights: Path | None = None,
    device: str = "auto",
    progress: Callable[[int], object] = quiet,
) -> np.ndarray:
    """Compute features of shape (n_images, n_features), float32.

    Parameters
    ----------
    model : str
        Path of a checkpoint, or ``timm:NAME``.
    weights : Path or None
        Weights of such a network: safetensors, or a state dictionary of torch.
    progress : callable
        Called with the number of images that were embedded since the last call.

    Raises
    ------
    DataError
        If a feature is NaN or infinite.
    """
    features = _features(images, model, weights, device, progress)
    if not np.isfinite(features).all():
        source = model if weights is None else weights
        raise DataError(
            f"Features of these images are NaN or infinite: the weights in {source} are damaged, "
            "or training diverged. Use others."
        )
    return features


def _features(
    images: Bytes,
    model: str,
    weights: Path | None,
    device: str,
    progress: Callable[[int], object],
) -> np.ndarray:
    if not is_checkpoint(model):
        extract = extractor(build(model.removeprefix(TIMM), weights), device)
        return in_parts(extract, images, BATCH, progress)
    if weights is not None:
        raise ParameterError(
            f"--weights is for networks of timm; the checkpoint {model} has its own."
        )
    method = checkpoint.load(Path(model)).method.set_params(device=device)
    return in_parts(method.transform, images, GPU_FEATURE_BATCH, progress)


def is_checkpoint(model: str) -> bool:
    """Return whether `model` names a file, and no network of another library."""
    return not model.startswith(TIMM)


def in_parts(
    extract: Callable[[Bytes], np.ndarray],
    images: Bytes,
    size: int,
    progress: Callable[[int], object],
) -> np.ndarray:
    """Extract features in parts of `size` images, and report progress after each."""
    found = []
    for start in range(0, len(images), size):
        found.append(extract(images[start : start + size]))
        progress(len(found[-1]))
    return np.concatenate(found)


def check_ending(path: Path) -> None:
    """Raise a ParameterError now if features cannot be saved to a path."""
    if path.suffix not in ENDINGS:
        raise ParameterError(unsupported(f"write {path}", path.suffix, ENDINGS))


def save_features(features: np.ndarray, path: Path, files: Sequence[str] | None = None) -> None:
    """Write features as NPY, or as Parquet with the columns x0, x1, ... that NPY has, too.

    Parameters
    ----------
    files : sequence of str or None
        File of each image: the first column of Parquet, which commands take for an identifier.
    """
    check_ending(path)
    content = BytesIO()
    if path.suffix == ".npy":
        np.save(content, features, allow_pickle=False)
    else:
        columns: dict[str, Any] = {} if files is None else {ID_COLUMN: list(files)}
        columns |= {f"x{i}": column for i, column in enumerate(features.T.copy())}
        pa.parquet.write_table(pa.table(columns), content)
    write_whole(path, content.getvalue())


def build(name: str, weights: Path | None) -> nn.Module:
    """Build a network of timm with weights from a file, without its classifier."""
    if weights is None:
        raise ParameterError(
            f"timm:{name} needs a file of weights: use --weights. Nothing is downloaded."
        )
    try:
        import timm
    except ImportError as error:
        raise ExtraError(f"timm:{name} requires timm: pip install timm.") from error
    try:
        network: nn.Module = timm.create_model(name, pretrained=False)
    except (ValueError, RuntimeError) as error:
        raise ParameterError(f"timm has no network {name!r}.") from error
    try:
        network.load_state_dict(_read(weights))
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0][:200]
        raise MessageError(f"The weights in {weights} do not fit timm:{name}: {reason}") from error
    network.reset_classifier(0)  # type: ignore[operator]
    return network


def _read(path: Path) -> Any:
    """Read a state dictionary. Files of torch are read by its safe loader, which runs no code."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise DataError(unreadable(path, error)) from error
    except Exception as error:  # the loaders raise errors of many kinds
        raise MessageError(
            f"{path} has neither safetensors nor tensors written by torch.save."
        ) from error


def extractor(network: nn.Module, device: str) -> Callable[[Bytes], np.ndarray]:
    """Return a function that computes the features of images with an ImageNet network."""
    place = torch.device(
        device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    )
    network.eval().to(place)
    mean, deviation = (
        torch.tensor(v, device=place).view(1, 3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_DEVIATION)
    )

    @torch.no_grad()
    def extract(images: Bytes) -> np.ndarray:
        x = torch.from_numpy(images).to(place).float() / 255
        x = F.interpolate(x, size=(SIDE, SIDE), mode="bilinear", antialias=True)
        features: Tensor = network((x - mean) / deviation)
        return features.flatten(1).float().cpu().numpy()

    return extract
