"""Support statistics and the curve over k, as Jigsaw puts them into a model."""

import numpy as np

from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.kernels.indices import margins
from fedjigsaw.messages import K_CONFIDENCE, K_CURVE, Model
from fedjigsaw.validation import MAX_COUNT, MAX_MAGNITUDE

SUPPORT = ("clients", "points", "spread")
MAX_CURVE = 10_000
WITH_AUTO = "separation"  # only where the number of clusters was found, too


def support_of(model: Model) -> dict[str, np.ndarray] | None:
    """Return the support statistics of each cluster, or None if the model has none."""
    tensors = {name: model.tensors.get(f"support_{name}") for name in SUPPORT}
    found = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if not found:
        return None
    if (separation := model.tensors.get(f"support_{WITH_AUTO}")) is not None:
        found[WITH_AUTO] = separation
    shapes = {tensor.shape for tensor in found.values()}
    if not set(SUPPORT) <= set(found) or shapes != {(len(model.centers),)}:
        allowed = f"{', '.join(SUPPORT)}, one number per cluster each"
        raise MessageError(invalid("support", "a model", allowed, sorted(found)))
    for name, tensor in found.items():
        if not (np.abs(tensor.astype(np.float64)) <= MAX_MAGNITUDE).all():
            raise MessageError(invalid(f"support_{name}", "a model", "finite", "NaN or infinity"))
    found["margin"] = margins(model.centers, found["spread"]) * (found["points"] > 0)
    return found


def knows_no_counts(model: Model) -> bool:
    """Tell whether the model's numbers of rows are guesses: some client sent no counts."""
    return "guessed_counts" in model.tensors


def k_curve_of(model: Model) -> dict[str, np.ndarray] | None:
    """Return k, objective and index of every k considered, or None if k was given."""
    curve = model.tensors.get(K_CURVE)
    if curve is None or K_CONFIDENCE not in model.tensors:
        return None
    if curve.ndim != 2 or curve.shape[1] != 3 or not 0 < len(curve) <= MAX_CURVE:
        allowed = f"of shape (n, 3), with n from 1 to {MAX_CURVE}"
        raise MessageError(invalid("k_curve", "a model", allowed, curve.shape))
    k, objective, index = curve.T
    large = np.isfinite(index) & (np.abs(index) > MAX_MAGNITUDE**2)
    if np.isnan(index).any() or (index == np.inf).all() or large.any():
        allowed = f"numbers from -{MAX_MAGNITUDE**2:g} to {MAX_MAGNITUDE**2:g}"
        raise MessageError(invalid("index", "the k_curve of a model", allowed, "others"))
    if not ((k >= 1) & (k <= MAX_COUNT)).all():
        raise MessageError(invalid("k", "the k_curve of a model", ">= 1", k[~(k >= 1)][:1]))
    return {"k": k.astype(np.int64), "objective": objective, "index": index}
