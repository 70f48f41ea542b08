"""Models made by hand, for tests of models that follow each other."""

import numpy as np

from fedjigsaw.io.formats import ModelFile
from fedjigsaw.messages import Model


def model(centers, *, spread=None, points=None, scaler=None, columns=None, **fields):
    """Return a model with these centers, and with support if there is a spread."""
    centers = np.atleast_2d(np.asarray(centers, dtype=float).T).T
    k, d = centers.shape
    tensors = {}
    if spread is not None:
        tensors = {
            "support_clients": np.ones(k, dtype=np.int64),
            "support_points": np.full(k, 100) if points is None else np.array(points),
            "support_spread": np.broadcast_to(np.asarray(spread, dtype=float), k).copy(),
            "support_margin": np.zeros(k),
        }
    columns = columns or tuple(f"x{j}" for j in range(d))
    made = Model(centers, "jigsaw", {}, columns, tensors)
    return ModelFile(made, scaler, ("a",), 100, **fields)
