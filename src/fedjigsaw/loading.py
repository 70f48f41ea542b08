"""Load a model file of any method as an estimator."""

import os
from typing import TYPE_CHECKING

from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.methods import find_for_rows
from fedjigsaw.validation import check_path

if TYPE_CHECKING:
    from fedjigsaw.estimator import FederatedClusterer


def load(path: str | os.PathLike[str]) -> "FederatedClusterer":
    """Load a model file as a fitted estimator, whatever its method.

    The file is one that an estimator's `save` or a command wrote (``aggregate``, ``federation
    run``). It holds no code. The estimator labels rows as ``fedjigsaw assign`` does; rows are those
    of the tables, and are scaled as the file says. A method of your own must be registered first
    (:func:`fedjigsaw.register`), or be installed.

    Parameters
    ----------
    path : str or path
        The model file.

    Returns
    -------
    FederatedClusterer
        A fitted estimator of the class that made the model.

    Raises
    ------
    DataError
        If the file cannot be read.
    MessageError
        If it is not a model, or its method is not known here.
    ParameterError
        If `path` is no path.

    Examples
    --------
    >>> import tempfile
    >>> from fedjigsaw import Jigsaw, load
    >>> path = f"{tempfile.mkdtemp()}/model"
    >>> Jigsaw(2, random_state=0).fit([[0.0], [1.0], [9.0]]).save(path)
    >>> load(path).predict([[8.0], [0.0]]).tolist()
    [1, 0]
    """
    place = check_path(path, "load")
    file = formats.load(place, ModelFile)
    with formats.errors_in(place):
        cls: type[FederatedClusterer] = find_for_rows(file.model.method).cls
    return cls.of_file(file, place)
