"""Estimators as model files: the same files that the commands write and read, without code."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._regions import n_rows_of
from fedjigsaw._typing import Floats
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import DataError, MessageError, ParameterError, invalid, quote_names
from fedjigsaw.messages import Transcript

if TYPE_CHECKING:
    from fedjigsaw.io.formats import ModelFile


def save(estimator: Any, path: Path, *, scaler: Scaler | None, replace: bool) -> None:
    """Write a fitted estimator as a model file."""
    from fedjigsaw.io import formats

    if not replace and path.exists():  # said here, since files tell of the option of commands
        raise DataError(f"{path} already exists. Use overwrite=True to replace it.")
    formats.save(to_file(estimator, scaler), path, replace=replace)


def to_file(estimator: Any, scaler: Scaler | None = None) -> "ModelFile":
    """Return the content of a model file for a fitted estimator."""
    from fedjigsaw.io.formats import ModelFile

    if estimator._file is not None:
        if scaler is not None:
            raise ParameterError("This estimator was loaded from a file, which has its own scaler.")
        return estimator._file  # type: ignore[no-any-return]
    model, transcript = estimator.model_, estimator.transcript_
    if scaler is not None and len(scaler.columns) != model.centers.shape[1]:
        allowed = f"one for {model.centers.shape[1]} columns"
        raise ParameterError(invalid("scaler", "save", allowed, len(scaler.columns)))
    names = model.feature_names or unnamed(model.centers.shape[1])
    return ModelFile(
        model.with_feature_names(names if scaler is None else scaler.columns),
        scaler,
        transcript.clients,
        n_rows_of(estimator.summaries_),
        partly=_partly(transcript),
        privacy=estimator._privacy,
        clients_column=estimator._clients_column,
    )


def unnamed(n_columns: int) -> tuple[str, ...]:
    """Return the names that columns without names have in files."""
    return tuple(f"x{j}" for j in range(n_columns))


def _partly(transcript: Transcript) -> tuple[str, ...]:
    rounds = [set(done.bytes_up) for done in transcript.rounds]
    return tuple(name for name in transcript.clients if not all(name in done for done in rounds))


def load(cls: type[Any], path: Path) -> Any:
    """Make a fitted estimator of a class from a model file."""
    from fedjigsaw.io import formats
    from fedjigsaw.io.formats import ModelFile

    file = formats.load(path, ModelFile)
    if file.model.method != cls.method:
        raise MessageError(
            f"{path} is a model of method {file.model.method!r}, not of {cls.__name__}. "
            "fedjigsaw.load(path) loads a model of any method."
        )
    with formats.errors_in(path):
        return restored(cls, file)


def restored(cls: type[Any], file: "ModelFile") -> Any:
    """Return a fitted estimator with the model of a file."""
    if not len(file.model.centers):
        raise ParameterError("The model has no centers, so that it cannot label rows")
    estimator = cls.from_settings(dict(file.model.params))
    columns = file.columns if file.encoding is None else file.encoding.sources
    estimator._file, estimator._privacy = file, file.privacy
    estimator._clients_column = file.clients_column
    estimator.model_, estimator.summaries_ = file.model, ()
    estimator.n_features_in_ = len(columns)
    if columns != unnamed(len(columns)):
        estimator.feature_names_in_ = np.array(columns, dtype=object)
    centers = file.model.centers[: len(file.model.centers) - file.model.n_lone]
    estimator.cluster_centers_ = (
        np.array(centers) if file.scaler is None else file.scaler.unscale(centers)
    )
    estimator.n_clusters_ = len(centers)
    estimator._profile = None
    return estimator


def encoded(X: Any, file: "ModelFile", owner: str) -> Floats:
    """Return the columns of a table as the features of a model that was made with a schema."""
    from fedjigsaw.io.frames import from_frame, has_names

    assert file.encoding is not None
    names = file.encoding.sources
    table = from_frame(X, None if has_names(X) else names, name=f"X of {owner}")
    lacking = [name for name in names if name not in table.columns]
    if lacking:
        raise DataError(
            f"X of {owner} has no column {quote_names(lacking)}, which the model needs."
        )
    read = table.encoded(file.encoding).select(file.columns)
    blocks = [batch.rows for batch in read.batches()]
    return np.concatenate(blocks) if blocks else np.zeros((0, len(file.columns)))
