"""Split rows among clients, for simulations.

Each function returns client ids of shape (n_samples,), to be passed as ``fit(X, clients=ids)``.
:func:`split` chooses one of the others by name, and :func:`register` adds one of your own.

Parameters that several functions share:

n_samples, n_clients : int
    Number of rows, and of clients. There must be a row for each client.
labels : array of shape (n_samples,)
    The class of each row, as numbers or texts.
rng : Generator or int
    Source of random numbers, or its seed. The same seed gives the same split.
alpha : float from 0.001 to 1e6
    Concentration of random proportions: 0.1 is far from even, 100 is nearly even.
min_size : int, default 1
    Smallest number of rows of a client. Proportions are drawn anew until all have as many.

A value that is not allowed raises a ParameterError, and labels that are missing a DataError.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from fedjigsaw._rows import dense
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import DataError, ParameterError, counted, invalid
from fedjigsaw.parameters import fraction, integer, one_of, real
from fedjigsaw.random import generator
from fedjigsaw.validation import MAX_SAMPLES, as_column, check_data, distinct

MAX_REDRAWS = 10_000
PRINCIPAL = "principal"
# names of the splits, and of the options of `split` that each of them uses
SPLITS: dict[str, tuple[str, ...]] = {
    "iid": (),
    "dirichlet": ("alpha", "min_size"),
    "shards": ("shards_per_client",),
    "quantity": ("alpha", "min_size"),
    "features": ("X", "direction", "mix"),
    "column": ("values",),
}
# splits that do not look at the class of a row; those of users need not
WITHOUT_CLASSES = ["iid", "quantity", "features", "column"]
Rng = np.random.Generator | int
Own = Callable[[Any, Any, int, np.random.Generator], Any]
F = TypeVar("F", bound=Own)
_own: dict[str, Own] = {}


def split(
    name: str | Own,
    labels: Any,
    n_clients: int,
    *,
    rng: Rng,
    alpha: float = 0.3,
    min_size: int = 1,
    shards_per_client: int = 2,
    X: Any = None,
    direction: Any = PRINCIPAL,
    mix: float = 0.0,
    values: Any = None,
) -> Ints:
    """Split rows among clients by the named split: one of the keys of ``SPLITS``.

    For callers that get the name from elsewhere, such as benchmarks and commands. Options that the
    split does not use are ignored.

    Parameters
    ----------
    name : {"iid", "dirichlet", "shards", "quantity", "features", "column"}, or a function
        A function of your own gets ``(X, labels, n_clients, rng)`` and returns the client of each
        row. So does one that has a name since :func:`register`.
    labels, n_clients, rng
        As above. Of splits that need no classes, only the number of labels matters. "column" has
        as many clients as there are values.
    alpha, min_size : options of :func:`dirichlet` and :func:`quantity`.
    shards_per_client : option of :func:`shards`.
    X, direction, mix : options of :func:`features`.
    values : option of :func:`column`.

    Returns
    -------
    array of shape (n_samples,)
        The client of each row, 0, 1, ..., for ``fit(X, clients=...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.partition import iid, split
    >>> split("iid", [0, 0, 1, 1], 2, rng=0).tolist() == iid(4, 2, rng=0).tolist()
    True
    >>> halves = lambda X, labels, n_clients, rng: np.arange(len(labels)) * 2 // len(labels)
    >>> split(halves, [0, 0, 1, 1], 2, rng=0).tolist()
    [0, 0, 1, 1]
    """
    own = name if callable(name) else _own.get(name) if isinstance(name, str) else None
    if own is not None:
        return _checked(own, X, labels, n_clients, generator(rng, "split"))
    one_of(*SPLITS).check("name", "split", name)
    if name == "dirichlet":
        return dirichlet(labels, n_clients, alpha=alpha, rng=rng, min_size=min_size)
    if name == "shards":
        return shards(labels, n_clients, rng=rng, shards_per_client=shards_per_client)
    if name == "features":
        return features(X, n_clients, rng=rng, direction=direction, mix=mix)
    if name == "column":
        return column(values)
    n_samples = len(as_column(labels, "labels", "split"))
    if name == "quantity":
        return quantity(n_samples, n_clients, alpha=alpha, rng=rng, min_size=min_size)
    return iid(n_samples, n_clients, rng=rng)


def register(function: F, *, name: str | None = None) -> F:
    """Make a split of your own known by its name, to `compare` and ``--split``.

    Parameters
    ----------
    function : callable
        It gets ``(X, labels, n_clients, rng)`` and returns the client of each row. All random
        numbers come from `rng`, so that a seed gives the same split again.
    name : str or None
        None is the name of the function.

    Returns
    -------
    function : so that this can be a decorator.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.partition import register, split
    >>> @register
    ... def odd_and_even(X, labels, n_clients, rng):
    ...     return np.arange(len(labels)) % 2
    >>> split("odd_and_even", [0, 0, 1, 1], 2, rng=0).tolist()
    [0, 1, 0, 1]
    """
    if not callable(function):
        allowed = "a function of (X, labels, n_clients, rng)"
        raise ParameterError(invalid("function", "register", allowed, repr(function)))
    if name is not None and not (isinstance(name, str) and name):
        raise ParameterError(invalid("name", "register", "a text or None", repr(name)))
    name = name or str(getattr(function, "__name__", "own"))
    if name in SPLITS and name not in _own:
        raise ParameterError(f"{name!r} is a split of the package, which cannot be replaced.")
    _own[name] = function
    SPLITS[name] = ("X",)
    if name not in WITHOUT_CLASSES:
        WITHOUT_CLASSES.append(name)
    return function


def iid(n_samples: int, n_clients: int, *, rng: Rng) -> Ints:
    """Split rows at random, as evenly as possible.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.partition import iid
    >>> np.bincount(iid(10, 3, rng=0)).tolist()
    [4, 3, 3]
    """
    _check_clients("iid", n_samples, n_clients)
    return generator(rng, "iid").permutation(np.arange(n_samples) % n_clients)


def dirichlet(labels: Any, n_clients: int, *, alpha: float, rng: Rng, min_size: int = 1) -> Ints:
    r"""Split each class among clients in random proportions :math:`p \sim \mathrm{Dir}(\alpha)`.

    The smaller `alpha`, the fewer classes a client has.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.partition import dirichlet
    >>> ids = dirichlet([0] * 50 + [1] * 50, 4, alpha=0.3, rng=0, min_size=5)
    >>> ids.shape, bool(np.bincount(ids).min() >= 5)
    ((100,), True)
    """
    _, classes, _ = distinct(labels, "labels", "dirichlet")
    return _in_proportions("dirichlet", classes, n_clients, alpha, rng, min_size)


def quantity(
    n_samples: int, n_clients: int, *, alpha: float = 0.3, rng: Rng, min_size: int = 1
) -> Ints:
    r"""Split rows at random into clients of very different sizes, :math:`\mathrm{Dir}(\alpha)`.

    The smaller `alpha`, the more rows are at few clients. Each client has rows of all classes, in
    the proportions of all rows, up to chance.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.partition import quantity
    >>> ids = quantity(100, 4, alpha=0.3, rng=0, min_size=2)
    >>> np.bincount(ids).sum().item(), bool(np.bincount(ids).min() >= 2)
    (100, True)
    """
    _check_clients("quantity", n_samples, n_clients)
    classes = np.zeros(n_samples, dtype=np.int64)
    return _in_proportions("quantity", classes, n_clients, alpha, rng, min_size)


def _in_proportions(
    owner: str, classes: Ints, n_clients: int, alpha: float, rng: Rng, min_size: int
) -> Ints:
    """Split each of the classes 0, 1, ... in proportions of its own."""
    sizes = np.bincount(classes)
    rng = generator(rng, owner)
    _check_clients(owner, len(classes), n_clients)
    real(1e-3, 1e6).check("alpha", owner, alpha)
    integer(0).check("min_size", owner, min_size)
    _check_share("min_size", owner, min_size, len(classes), n_clients)
    for _ in range(MAX_REDRAWS):
        shares = rng.dirichlet(np.full(n_clients, float(alpha)), size=len(sizes))
        cuts = np.rint(np.cumsum(shares, axis=1) * sizes[:, None]).astype(np.int64)
        cuts[:, -1] = sizes
        counts = np.diff(cuts, axis=1, prepend=0)
        if counts.sum(axis=0).min() >= min_size:
            ids = np.empty(len(classes), dtype=np.int64)
            for c, row in enumerate(counts):  # rows of a class in random order
                ids[rng.permutation(np.flatnonzero(classes == c))] = np.repeat(
                    np.arange(n_clients), row
                )
            return ids
    raise ParameterError(
        f"No Dirichlet split with at least {min_size} rows per client was found in "
        f"{MAX_REDRAWS} draws ({n_clients} clients, alpha = {alpha:g}). "
        "Use fewer clients, a larger alpha or a smaller min_size."
    )


def shards(labels: Any, n_clients: int, *, rng: Rng, shards_per_client: int = 2) -> Ints:
    """Sort rows by class, cut them into equal shards, and give each client some shards at random.

    Each client has few classes, for data of any size (McMahan et al., 2017).

    Parameters
    ----------
    shards_per_client : int, default 2
        Number of shards that each client gets.

    Examples
    --------
    >>> from fedjigsaw.partition import shards
    >>> ids = shards([0] * 6 + [1] * 6, 2, rng=0, shards_per_client=1)
    >>> sorted([ids[:6].tolist(), ids[6:].tolist()])
    [[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]
    """
    rng = generator(rng, "shards")
    _, classes, _ = distinct(labels, "labels", "shards")
    _check_clients("shards", len(classes), n_clients)
    integer(1).check("shards_per_client", "shards", shards_per_client)
    _check_share("shards_per_client", "shards", shards_per_client, len(classes), n_clients)
    n_shards = n_clients * shards_per_client
    # rows of one class in random order, then classes one after the other
    order = np.lexsort((rng.random(len(classes)), classes))
    owners = rng.permutation(np.arange(n_shards) % n_clients)
    ids = np.empty(len(classes), dtype=np.int64)
    ids[order] = owners[np.arange(len(classes)) * n_shards // len(classes)]
    return ids


def features(
    X: Any, n_clients: int, *, rng: Rng, direction: Any = PRINCIPAL, mix: float = 0.0
) -> Ints:
    """Give each client another region: sort rows along a direction, and cut them into equal parts.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    direction : "principal", int, or array of shape (n_features,)
        The direction in which the rows vary most, the number of a column, or a vector.
    mix : float from 0 to 1, default 0
        Share of the rows, drawn at random, that are dealt at random: with 0, regions are apart; 1
        is the same as :func:`iid`. Sizes do not change.

    Examples
    --------
    >>> from fedjigsaw.partition import features
    >>> features([[3.0], [1.0], [4.0], [2.0]], 2, rng=0, direction=0).tolist()
    [1, 0, 1, 0]
    """
    rng = generator(rng, "features")
    if X is None:
        raise ParameterError("The split 'features' needs the rows, X.")
    rows = dense(check_data(None, X, owner="partition.features"))
    _check_clients("features", len(rows), n_clients)
    fraction().check("mix", "features", mix)
    # equal places in random order
    order = np.lexsort((rng.random(len(rows)), _places(rows, direction)))
    ids = np.empty(len(rows), dtype=np.int64)
    ids[order] = np.arange(len(rows)) * n_clients // len(rows)
    mixed = rng.permutation(len(rows))[: round(float(mix) * len(rows))]
    ids[mixed] = ids[rng.permutation(mixed)]
    return ids


def column(values: Any) -> Ints:
    """Make every value of a column a client, in the order of the values.

    Parameters
    ----------
    values : array of shape (n_samples,)
        The value of each row, such as the name of its hospital.

    Examples
    --------
    >>> from fedjigsaw.partition import column
    >>> column(["Oslo", "Bern", "Oslo"]).tolist()
    [1, 0, 1]
    """
    if values is None or isinstance(values, str):
        raise DataError(
            f"The split 'column' needs the values of a column, X[name]; got {values!r}."
        )
    return distinct(values, "values", "the column")[1]


def _checked(own: Own, X: Any, labels: Any, n_clients: int, rng: np.random.Generator) -> Ints:
    """Return what a split of the user's own gives, after a look at it."""
    name, n_rows = getattr(own, "__name__", "the split"), len(as_column(labels, "labels", "split"))
    integer(1).check("n_clients", name, n_clients)
    ids = as_column(own(X, labels, n_clients, rng), "clients", name)
    if len(ids) != n_rows:
        allowed = f"one for each of the {n_rows} rows"
        raise DataError(invalid("clients", name, allowed, f"shape {ids.shape}"))
    if ids.dtype.kind == "O" and all(isinstance(client, str) for client in ids):
        return ids.astype(str)
    if not (np.issubdtype(ids.dtype, np.integer) or ids.dtype.kind in "US"):
        raise DataError(invalid("clients", name, "integers or strings", ids.dtype))
    return ids


def _places(rows: Floats, direction: Any) -> Floats:
    """Return the place of each row along a direction."""
    n_columns = rows.shape[1]
    vector = np.zeros(0)
    if isinstance(direction, str) and direction == PRINCIPAL:
        centered = rows - rows.mean(axis=0)
        vector = np.linalg.eigh(centered.T @ centered)[1][:, -1]
        vector = vector * np.sign(vector[np.abs(vector).argmax()])
    elif integer(0, n_columns - 1).accepts(direction):
        vector = np.eye(n_columns)[int(direction)]
    else:
        with suppress(TypeError, ValueError):
            vector = np.asarray(direction, dtype=np.float64)
    if vector.shape == (n_columns,) and np.isfinite(vector).all() and vector.any():
        return np.asarray(rows @ vector)
    allowed = f"'principal', a column from 0 to {n_columns - 1}, or a vector of that many numbers"
    raise ParameterError(invalid("direction", "features", allowed, repr(direction)))


def _check_share(name: str, owner: str, value: int, n_samples: int, n_clients: int) -> None:
    """Check a number of rows or shards that each client gets."""
    if value * n_clients > n_samples:
        allowed = f"at most n_samples / n_clients = {n_samples / n_clients:g}"
        raise ParameterError(invalid(name, owner, allowed, value))


def _check_clients(owner: str, n_samples: int, n_clients: int) -> None:
    integer(1, MAX_SAMPLES).check("n_samples", owner, n_samples)
    integer(1).check("n_clients", owner, n_clients)
    if n_clients > n_samples:
        raise ParameterError(
            f"Cannot split {counted(n_samples, 'sample')} among {counted(n_clients, 'client')}. "
            "Ask for fewer clients."
        )
