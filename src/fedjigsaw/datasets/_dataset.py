"""A data set in memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints


@dataclass(frozen=True)
class Dataset:
    """Rows with their true classes, the true centers if known, and a name.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The rows.
    y : array of shape (n_samples,)
        Class of each row, as 0, 1, ...; all 0 if the classes are not known.
    centers : array of shape (n_clusters, n_features) or None
        The true centers; None if they are not known.
    name : str
        Name of the data set, or of its file.
    columns : tuple of str
        Names of the columns, if they have any.
    has_classes : bool
        Whether the classes are known.
    clients : array of shape (n_samples,) or None
        Values of the column that tells who holds each row, if one was named.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.datasets import Dataset
    >>> data = Dataset(np.array([[0.0], [1.0], [9.0]]), np.array([0, 0, 1]), None, "toy")
    >>> data.n_clusters
    2
    """

    X: Floats
    y: Ints
    centers: Floats | None
    name: str
    columns: tuple[str, ...] = ()
    has_classes: bool = True
    clients: Any = None

    @property
    def n_clusters(self) -> int:
        """Number of classes; 1 if they are not known."""
        return len(np.unique(self.y))
