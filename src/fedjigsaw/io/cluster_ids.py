"""Ids of clusters: numbers that stay with a cluster from one model to the next.

A model that follows no other has the ids 0, 1, 2, ..., in the order of its centers; its file lists
none. Otherwise the file has the ids of its clusters and the next free one, so that the id of a
cluster that is gone is never used again.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.validation import MAX_COUNT


def check_ids(
    ids: Iterable[Any], next_id: int | None, k: int, owner: str
) -> tuple[tuple[int, ...], int]:
    """Return the ids of k clusters and the next free id, or nothing and 0 if both are the usual.

    Parameters
    ----------
    next_id : the next free id; None where it does not matter.

    Examples
    --------
    >>> check_ids((4, 0), 7, 2, "a model"), check_ids((0, 1), 2, 2, "a model")
    (((4, 0), 7), ((), 0))
    """
    ids = tuple(ids)
    if not ids and not next_id:
        return (), 0
    good = all(type(i) is int and 0 <= i < MAX_COUNT for i in ids)
    if not good or len(ids) != k or len(set(ids)) < k:
        allowed = f"{k} different integers from 0 to {MAX_COUNT - 1}, one for each cluster"
        raise MessageError(invalid("ids", owner, allowed, repr(ids)[:80]))
    next_id = max(ids, default=-1) + 1 if next_id is None else next_id
    if type(next_id) is not int or not max(ids, default=-1) < next_id <= MAX_COUNT:
        allowed = f"an integer above all ids, at most {MAX_COUNT}"
        raise MessageError(invalid("next_id", owner, allowed, repr(next_id)[:80]))
    usual = ids == tuple(range(k)) and next_id == k
    return ((), 0) if usual else (ids, next_id)


def to_ids(labels: Ints, ids: Sequence[int]) -> Ints:
    """Return the ids of clusters that are given by their places; noise stays noise.

    Examples
    --------
    >>> to_ids(np.array([1, -1, 0]), (7, 3)).tolist()
    [3, -1, 7]
    """
    known = np.array([*ids, -1], dtype=np.int64)  # noise has the label -1: the last place
    found: Ints = known[labels]
    return found
