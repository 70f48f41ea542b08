"""Models in MLflow: log, load, predict.

The flavor keeps the model's own file, which holds no code, and its lineage beside it. Any tool that
reads MLflow's models can label rows with it, by the generic ``python_function`` flavor:

    import fedjigsaw.mlflow, mlflow
    with mlflow.start_run():
        info = fedjigsaw.mlflow.log_model(Path("june.model"), name="patients")
    mlflow.pyfunc.load_model(info.model_uri).predict(rows)  # label and distance of each row

Requires the extra ``mlflow``.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import fedjigsaw
from fedjigsaw import sites
from fedjigsaw.errors import DataError, ExtraError, requires_extra
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.frames import from_frame
from fedjigsaw.sites.lineage import Lineage, fingerprint, sidecar

__all__ = ["FLAVOR", "Predictor", "load_model", "log_model", "save_model"]

FLAVOR = "fedjigsaw"
"""Name of the flavor in the file ``MLmodel`` of a model."""
FILE = "model"  # in the folder of an MLflow model


class Predictor:
    """A model that labels rows, as MLflow calls it.

    Parameters
    ----------
    model : the model.

    Examples
    --------
    >>> from fedjigsaw.io.formats import ModelFile
    >>> from fedjigsaw.messages import Model
    >>> from fedjigsaw.mlflow import Predictor
    >>> model = ModelFile(Model([[32.0], [62.0]], feature_names=("age",)), None, ("bern",), 10)
    >>> Predictor(model).predict({"age": [35.0, 60.0]})["label"].tolist()
    [0, 1]
    """

    def __init__(self, model: ModelFile) -> None:
        self.model = model

    def predict(self, model_input: Any, params: Any = None) -> Any:
        """Return a pandas DataFrame: the cluster id of each row, and its distance to the center.

        The label is missing where a value of the row is, and -1 for a row of no cluster.

        Parameters
        ----------
        model_input : pandas or polars DataFrame, mapping of names to columns, or 2-D array with
            the columns of the model in their order.
        """
        import pandas as pd

        model = self.model
        names = model.columns if model.encoding is None else model.encoding.sources
        rows = from_frame(model_input, names if isinstance(model_input, np.ndarray) else None)
        parts = list(sites.assign(rows, model, drop_missing=True))
        labels = pa.chunked_array([part.labels for part in parts], pa.int64())
        distances = pa.chunked_array([part.distances for part in parts], pa.float64())
        return pd.DataFrame(
            {
                "label": pd.array(labels.to_pylist(), dtype="Int64"),
                "distance": distances.to_pandas(),
            }
        )


def save_model(
    model: ModelFile | Path, path: str | Path, *, mlflow_model: Any = None, **_: Any
) -> None:
    """Write a model as a folder in MLflow's format.

    Parameters
    ----------
    model : the model, or its file; only a file has a lineage.
    path : the folder, which must not exist yet.
    mlflow_model : MLflow's description, which :func:`log_model` begins.

    Raises
    ------
    ExtraError
        If MLflow or pandas is not installed.
    DataError
        If the folder has files already.
    """
    _check_installed()
    from mlflow import pyfunc
    from mlflow.models import Model

    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} already exists, with files in it. Choose another folder.")
    content, lineage = _read(model)
    folder.mkdir(parents=True, exist_ok=True)
    formats.save(content, folder / FILE)
    if lineage is not None:
        lineage.save(folder / FILE)
    (folder / "requirements.txt").write_text(f"fedjigsaw[mlflow]=={fedjigsaw.__version__}\n")
    described = Model() if mlflow_model is None else mlflow_model
    described.add_flavor(
        FLAVOR,
        fedjigsaw_version=fedjigsaw.__version__,
        data=FILE,
        fingerprint=fingerprint(content),
        method=content.model.method,
    )
    pyfunc.add_to_model(described, loader_module=__name__, data=FILE)
    described.save(str(folder / "MLmodel"))


def log_model(model: ModelFile | Path, name: str = "model", **options: Any) -> Any:
    """Log a model to the active run of MLflow; return what MLflow knows about it.

    Fingerprint, parent, run, sites and cluster ids become metadata of the logged model.

    Parameters
    ----------
    model : the model, or its file; only a file has a lineage.
    name : name of the logged model.
    options : further ones of ``mlflow.models.Model.log``, such as `registered_model_name`.

    Raises
    ------
    ExtraError
        If MLflow or pandas is not installed.
    """
    _check_installed()
    from mlflow.models import Model

    content, lineage = _read(model)
    known = {
        "fingerprint": fingerprint(content),
        "ids": json.dumps(content.cluster_ids),
        "sites": json.dumps(content.clients),
        "parent": None if lineage is None else lineage.parent,
        "run": None if lineage is None else lineage.run,
    }
    own = {key: value for key, value in known.items() if value is not None}
    metadata = {**own, **(options.pop("metadata", None) or {})}
    flavor = sys.modules[__name__]
    return Model.log(
        artifact_path=None, name=name, flavor=flavor, model=model, metadata=metadata, **options
    )


def load_model(model_uri: str) -> ModelFile:
    """Load a model that was logged or saved, by its URI or folder.

    Parameters
    ----------
    model_uri : such as ``"models:/patients/3"``, or the path of a folder.

    Returns
    -------
    ModelFile
        For :func:`fedjigsaw.sites.assign` and all functions that take a model.

    Raises
    ------
    ExtraError
        If MLflow or pandas is not installed.
    MessageError
        If the folder holds no model of this package.
    """
    _check_installed()
    from mlflow import artifacts

    folder = Path(model_uri)
    if not folder.is_dir():
        folder = Path(artifacts.download_artifacts(artifact_uri=model_uri))
    return formats.load(folder / FILE, ModelFile)


def _load_pyfunc(path: str) -> Predictor:
    """Load a model for MLflow; its name is MLflow's."""
    return Predictor(formats.load(Path(path), ModelFile))


def _read(model: ModelFile | Path) -> tuple[ModelFile, Lineage | None]:
    if isinstance(model, ModelFile):
        return model, None
    content = formats.load(Path(model), ModelFile)
    there = sidecar(Path(model)).exists()
    return content, Lineage.load(Path(model)) if there else None


def _check_installed() -> None:
    try:
        import mlflow  # noqa: F401
        import pandas  # noqa: F401
    except ImportError as error:
        extra = requires_extra("fedjigsaw.mlflow", "mlflow-skinny and pandas", "mlflow")
        raise ExtraError(extra) from error
