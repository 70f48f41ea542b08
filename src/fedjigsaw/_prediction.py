"""What a fitted estimator does with rows: label and measure them; and its file."""

import os
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fedjigsaw import _saving
from fedjigsaw._inputs import check_weights
from fedjigsaw._rows import in_blocks
from fedjigsaw._typing import Floats, Ints, Rows
from fedjigsaw.columns.contrasts import profile_frame
from fedjigsaw.columns.profiles import Profile
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import ParameterError, UnavailableError
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.messages import Model, Summary
from fedjigsaw.number.shapes import label_rows, labels_of_local_centers
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.validation import check_data, check_path, rows_by_client, take_clients, without

if TYPE_CHECKING:
    from fedjigsaw.io.formats import ModelFile


class Prediction:
    """Methods of a fitted estimator, whose model labels rows."""

    model_: Model
    summaries_: tuple[Summary, ...]
    n_clusters_: int
    n_features_in_: int
    _profile: tuple[Ints, Floats, Floats, int] | None  # moments of each cluster, and the guard
    _privacy: Privacy | None = None  # of the fit
    _file: "ModelFile | None" = None  # from which the estimator was loaded
    _clients_column: str | None = None  # taken out of the rows at the fit, and so of others

    __dir__ = object.__dir__  # that of scikit-learn computes each property, such as `sites_`

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Show what is stored; scikit-learn (from 1.9 on) would compute each property for it."""
        stored = SimpleNamespace(**vars(self))
        shown: Any = BaseEstimator._get_fitted_attr_html(stored, doc_link)
        shown.estimator_class = type(self)  # for the documentation of each attribute
        return shown

    @property
    def cluster_ids_(self) -> Ints:
        """The id of each cluster in a model file; 0, 1, 2, ... if it follows no other model."""
        check_is_fitted(self, "model_")
        ids = None if self._file is None else self._file.cluster_ids
        return np.arange(len(self.model_.centers)) if ids is None else np.array(ids, dtype=np.int64)

    @property
    def profile_(self) -> Any:
        """What the rows of each cluster are like: a pandas DataFrame, a row per cluster and column.

        It is made from what each client may send under the guard of the fit: mean and standard
        deviation, and the difference from all rows in standard deviations. A fit under differential
        privacy has none.
        """
        check_is_fitted(self, "model_")
        if self._profile is None and not hasattr(self, "labels_"):
            raise UnavailableError(
                "There is no profile_ after a fit of data that were not in memory, nor in a loaded "
                "model. sites.score(..., profile=True) makes one of a file."
            )
        if self._profile is None:
            raise UnavailableError(
                "There is no profile_ after a private fit, which spent nothing on it. "
                "sites.score(..., profile=True, privacy=...) makes one with a budget of its own."
            )
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = _saving.unnamed(self.n_features_in_)
        count, mean, squares, size = self._profile
        return profile_frame(Profile(tuple(names), count, mean, squares, {}, {}, size))

    def predict(self, X: Any, *, clients: Any = None) -> Ints:
        """Return the cluster of each row: that of the nearest center, unless the model says more.

        A model with shapes of clusters labels rows by these, and -1 where a row is in none.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n_samples, n_features)
        clients : array of shape (n_samples,), name of a column, or None
            The client of each row, as in `fit`. A row then gets the label of the nearest center
            that its client sent, as with ``assign="local"``. Rows of clients that took no part in
            the fit get their nearest center.

        Returns
        -------
        array of int of shape (n_samples,)

        Raises
        ------
        DataError
            If the rows have other columns than those of the fit, or missing values.
        ParameterError
            If `clients` are given to a model that was loaded from a file.

        Examples
        --------
        >>> from fedjigsaw import Jigsaw
        >>> model = Jigsaw(2, random_state=0).fit([[30.0], [32.0], [60.0], [62.0]])
        >>> model.predict([[35.0], [70.0]]).tolist()
        [0, 1]
        """
        owner = f"{type(self).__name__}.predict"
        X, clients = take_clients(X, clients, owner=owner)
        rows = self._known(X, "predict")
        labels, _ = self._label(rows)
        if clients is not None:
            if self._file is not None:
                raise ParameterError(
                    "A loaded model does not know what clients sent: predict without clients. "
                    "`fedjigsaw assign --local` labels rows by the summary of a site."
                )
            self._relabel(labels, rows, rows_by_client(rows.shape[0], clients, owner=owner))
        return labels

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the summed squared distance of the rows to their nearest center.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n_samples, n_features)
        y : ignored
            Present for scikit-learn's API.
        sample_weight : array of shape (n_samples,) or None
            Weight of each row in the sum, a number >= 0.

        Returns
        -------
        float
            At most 0; the larger, the better.
        """
        rows = self._known(X, "score")
        owner = f"{type(self).__name__}.score"
        weights = check_weights(sample_weight, rows.shape[0], owner=owner, whole=False)
        total = 0.0
        for part, block in self._blocks(rows):
            _, distances = nearest_centers(block, self.model_.centers)
            weighted = distances if weights is None else weights[part] * distances
            total += float(weighted @ distances)
        return -total

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        scaler: Scaler | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the model to a file, which holds no code: not pickle, but safetensors.

        The commands ``assign``, ``score``, ``inspect``, ``report`` and ``diff`` read it, and so do
        `load` and :func:`fedjigsaw.load`. It has the centers, the parameters, the names of the
        columns and clients, and what the model says about clusters; no row, no label and no
        summary. Columns without names get x0, x1, ...

        Parameters
        ----------
        path : path of the file
        scaler : Scaler or None
            How rows were scaled before the fit, such as ``FederatedPreparation.scaler_``, so that
            the commands and a loaded model take rows as they were before.
        overwrite : bool, default False
            Replace a file that exists, instead of raising an error.

        Raises
        ------
        DataError
            If the file exists and is not to be replaced, or cannot be written.
        """
        check_is_fitted(self, "model_")
        place = check_path(path, f"{type(self).__name__}.save")
        _saving.save(self, place, scaler=scaler, replace=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load an estimator from a model file of this method.

        The file is one that `save` or a command wrote. It holds no code. `predict`, `transform`
        and `score` take rows as they were before they were scaled, and so are `cluster_centers_`.
        There is no `labels_`, `inertia_`, `transcript_` or `profile_`. Labels count from 0;
        `cluster_ids_` has the ids of a model that follows another one.

        Parameters
        ----------
        path : path of the file

        Raises
        ------
        DataError
            If the file cannot be read.
        MessageError
            If it is not a model, or is one of another method.
        """
        loaded: Self = _saving.load(cls, check_path(path, f"{cls.__name__}.load"))
        return loaded

    def _known(self, X: Any, verb: str) -> Any:
        check_is_fitted(self, "model_")
        owner = f"{type(self).__name__}.{verb}"
        if self._file is not None and self._file.encoding is not None:
            return _saving.encoded(X, self._file, owner)
        return check_data(self, without(X, self._clients_column), owner=owner, reset=False)

    def _blocks(self, rows: Any) -> Iterator[tuple[slice, Floats]]:
        """Yield rows in the units of the model, block by block."""
        scaler = None if self._file is None else self._file.scaler
        for part, block in in_blocks(rows):
            yield part, block if scaler is None else scaler.scale(block)

    def _label(self, rows: Any) -> tuple[Ints, Floats]:
        """Return the cluster of each row, and the distance to the nearest center."""
        labels: Ints = np.empty(rows.shape[0], dtype=np.int64)
        distances: Floats = np.empty(rows.shape[0])
        for part, block in self._blocks(rows):
            labels[part], _, distances[part] = label_rows(self.model_, block)
        return labels, distances

    def _relabel(self, labels: Ints, rows: Any, members: Mapping[str, Rows]) -> None:
        """Relabel rows by the local centers of their client, where it sent any."""
        known = [summary for summary in self.summaries_ if summary.client in members]
        if not known:
            return
        centers = [summary.centers for summary in known]
        groups = labels_of_local_centers(self.model_, np.concatenate(centers))
        ends = np.cumsum(list(map(len, centers)))[:-1]
        for summary, own in zip(known, np.split(groups, ends), strict=True):
            held = members[summary.client]
            found = [
                own[nearest_centers(block, summary.centers)[0]]
                for _, block in self._blocks(rows[held])
            ]
            labels[held] = np.concatenate(found)
