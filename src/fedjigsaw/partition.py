"""Split rows among clients, for simulations.

Each function returns client ids of shape (n_samples,), to be passed as ``fit(X, clients=ids)``.
:func:`split` chooses one of the others by name.
"""

from typing import Any

import numpy as np

from fedjigsaw._random import generator
from fedjigsaw._typing import Ints
from fedjigsaw.errors import DataError, ParameterError, invalid
from fedjigsaw.parameters import integer, one_of, real

MAX_REDRAWS = 10_000
# names of the splits, and of the options of `split` that each of them uses
SPLITS: dict[str, tuple[str, ...]] = {
    "iid": (),
    "dirichlet": ("alpha", "min_size"),
    "shards": ("shards_per_client",),
}


def split(
    name: str,
    labels: Any,
    n_clients: int,
    *,
    rng: np.random.Generator | int,
    alpha: float = 0.3,
    min_size: int = 1,
    shards_per_client: int = 2,
) -> Ints:
    """Split rows among clients by the named split: one of the keys of ``SPLITS``.

    For callers that get the name from elsewhere, such as benchmarks and commands. Options that the
    split does not use are ignored.

    Parameters
    ----------
    name : {"iid", "dirichlet", "shards"}
    labels : array of shape (n_samples,), the class of each row. "iid" uses only their number.
    alpha, min_size : options of :func:`dirichlet`.
    shards_per_client : option of :func:`shards`.

    Examples
    --------
    >>> split("iid", [0, 0, 1, 1], 2, rng=0).tolist() == iid(4, 2, rng=0).tolist()
    True
    """
    one_of(*SPLITS).check("name", "split", name)
    if name == "dirichlet":
        return dirichlet(labels, n_clients, alpha=alpha, rng=rng, min_size=min_size)
    if name == "shards":
        return shards(labels, n_clients, rng=rng, shards_per_client=shards_per_client)
    return iid(len(labels), n_clients, rng=rng)


def iid(n_samples: int, n_clients: int, *, rng: np.random.Generator | int) -> Ints:
    """Split rows at random, as evenly as possible.

    Examples
    --------
    >>> np.bincount(iid(10, 3, rng=0)).tolist()
    [4, 3, 3]
    """
    _check_clients("iid", n_samples, n_clients)
    return generator(rng, "iid").permutation(np.arange(n_samples) % n_clients)


def dirichlet(
    labels: Any, n_clients: int, *, alpha: float, rng: np.random.Generator | int, min_size: int = 1
) -> Ints:
    r"""Split each class among clients in random proportions :math:`p \sim \mathrm{Dir}(\alpha)`.

    The smaller `alpha`, the fewer classes a client has. Proportions are redrawn until every
    client has at least `min_size` rows.

    Examples
    --------
    >>> ids = dirichlet([0] * 50 + [1] * 50, 4, alpha=0.3, rng=0, min_size=5)
    >>> ids.shape, bool(np.bincount(ids).min() >= 5)
    ((100,), True)
    """
    rng = generator(rng, "dirichlet")
    classes, sizes = _check_labels("dirichlet", labels)
    _check_clients("dirichlet", len(classes), n_clients)
    real(1e-3).check("alpha", "dirichlet", alpha)
    if alpha > 1e6:
        raise ParameterError(invalid("alpha", "dirichlet", "at most 1e6", alpha))
    integer(0).check("min_size", "dirichlet", min_size)
    if min_size * n_clients > len(classes):
        allowed = f"at most n_samples / n_clients = {len(classes) / n_clients:g}"
        raise ParameterError(invalid("min_size", "dirichlet", allowed, min_size))
    for _ in range(MAX_REDRAWS):
        shares = rng.dirichlet(np.full(n_clients, float(alpha)), size=len(sizes))
        cuts = np.rint(np.cumsum(shares, axis=1) * sizes[:, None]).astype(np.int64)
        cuts[:, -1] = sizes
        counts = np.diff(cuts, axis=1, prepend=0)
        if counts.sum(axis=0).min() >= min_size:
            return _assign(classes, counts, rng)
    raise ParameterError(
        f"No Dirichlet split with at least {min_size} rows per client was found in "
        f"{MAX_REDRAWS} draws ({n_clients} clients, alpha = {alpha:g}). "
        "Use fewer clients, a larger alpha or a smaller min_size."
    )


def shards(
    labels: Any, n_clients: int, *, rng: np.random.Generator | int, shards_per_client: int = 2
) -> Ints:
    """Sort rows by class, cut them into equal shards, and give each client some shards at random.

    Each client has few classes, for data of any size (McMahan et al., 2017).

    Examples
    --------
    >>> ids = shards([0] * 6 + [1] * 6, 2, rng=0, shards_per_client=1)
    >>> sorted([ids[:6].tolist(), ids[6:].tolist()])
    [[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]
    """
    rng = generator(rng, "shards")
    classes, _ = _check_labels("shards", labels)
    integer(1).check("shards_per_client", "shards", shards_per_client)
    _check_clients("shards", len(classes), n_clients)
    n_shards = n_clients * shards_per_client
    if n_shards > len(classes):
        allowed = f"at most n_samples / n_clients = {len(classes) / n_clients:g}"
        raise ParameterError(invalid("shards_per_client", "shards", allowed, shards_per_client))
    # rows of one class in random order, then classes one after the other
    order = np.lexsort((rng.random(len(classes)), classes))
    owners = rng.permutation(np.arange(n_shards) % n_clients)
    ids = np.empty(len(classes), dtype=np.int64)
    ids[order] = owners[np.arange(len(classes)) * n_shards // len(classes)]
    return ids


def _assign(classes: Ints, counts: Ints, rng: np.random.Generator) -> Ints:
    """Return client ids that give client m ``counts[c, m]`` random rows of each class c."""
    ids = np.empty(len(classes), dtype=np.int64)
    for c, row in enumerate(counts):
        members = rng.permutation(np.flatnonzero(classes == c))
        ids[members] = np.repeat(np.arange(len(row)), row)
    return ids


def _check_labels(owner: str, labels: Any) -> tuple[Ints, Ints]:
    labels = np.asarray(labels)
    if labels.ndim != 1 or not len(labels):
        allowed = "1-D with at least one label"
        raise DataError(invalid("labels", owner, allowed, f"shape {labels.shape}"))
    try:
        _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise DataError(
            f"Cannot sort the labels for {owner}: {error}. Use only numbers or only strings."
        ) from error
    return classes, sizes


def _check_clients(owner: str, n_samples: int, n_clients: int) -> None:
    integer(1).check("n_samples", owner, n_samples)
    integer(1).check("n_clients", owner, n_clients)
    if n_clients > n_samples:
        raise ParameterError(f"Cannot split {n_samples} samples among {n_clients} clients.")
