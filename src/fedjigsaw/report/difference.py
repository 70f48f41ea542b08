"""Say how two models differ: in words, in the units of the data, and as values for JSON."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.report.centers import Reading, centers_table
from fedjigsaw.report.units import percent
from fedjigsaw.sites.drift import ClusterChange, Difference
from fedjigsaw.sites.succession import places_of

NO_NOISE = (
    "How much chance moves the clusters is not known. Give the summaries of the new model "
    "(--summaries), or make models with --like, where their summaries are."
)


def describe_drift(difference: Difference, no_noise: str = NO_NOISE) -> Iterator[str]:
    """Say how much the clusters changed beside chance, and whether that is an alarm.

    Parameters
    ----------
    no_noise : what to say if it is not known what chance does.
    """
    drift, limit = difference.drift, difference.limit
    if drift is None:
        yield no_noise
    else:
        text = f"Drift {drift:.3g} (largest change of a cluster over the noise; alarm above"
        yield f"{text} {limit:g}): {'more' if drift > limit else 'no more'} than chance explains."
    if not difference.succession.is_calm:
        yield "Alarm: clusters are new, gone, split or merged, whatever the drift."


def in_spreads(one: ClusterChange, value: float | None) -> float | None:
    """Return a change in spreads of the cluster, or None if that is not known."""
    if value is None or not 0 < one.spread < np.inf:
        return None
    return value / one.spread


def moved_columns(one: ClusterChange, old: ModelFile, new: ModelFile, most: int) -> list[str]:
    """Say in which columns a cluster changed most, such as "age 54.2 -> 61"."""
    if one.old is None or one.new is None:
        place, file = (one.new, new) if one.old is None else (one.old, old)
        table = _readings(file, place)
        return [f"{name} {_text(reading, file)}" for name, reading in list(table.items())[:most]]
    before, after = _readings(old, one.old), _readings(new, one.new)
    found = []
    for name in _by_change(one, old, new):
        texts = _text(before[name], old), _text(after[name], new)
        if texts[0] != texts[1]:
            found.append(f"{name} {texts[0]} -> {texts[1]}")
    return found[:most]


def difference_values(difference: Difference, old: ModelFile, new: ModelFile) -> dict[str, Any]:
    """Return all that is known about a difference as plain values."""
    return {
        "drift": difference.drift,
        "limit": difference.limit,
        "alarm": difference.alarm,
        "succession": difference.succession.to_dict(),
        "clusters": [_values(one, old, new) for one in difference.clusters],
    }


def _values(one: ClusterChange, old: ModelFile, new: ModelFile) -> dict[str, Any]:
    before = {} if one.old is None else _readings(old, one.old)
    after = {} if one.new is None else _readings(new, one.new)
    return {
        "old": one.old,
        "new": one.new,
        "change": one.change,
        "change_in_spreads": in_spreads(one, one.change),
        "noise": one.noise,
        "drift": one.drift,
        "share_before": one.shares[0],
        "share_after": one.shares[1],
        "columns": {
            name: {
                "before": before[name].to_dict() if name in before else None,
                "after": after[name].to_dict() if name in after else None,
            }
            for name in (before or after)
        },
    }


def share_in_words(one: ClusterChange) -> str:
    """Say how a cluster's share of the rows changed.

    Examples
    --------
    >>> share_in_words(ClusterChange(0, 0, 0.1, 1.0, None, (0.25, 0.2)))
    '25 % -> 20 %'
    """
    before, after = ("–" if share is None else percent(share) for share in one.shares)
    return f"{before} -> {after}"


def _text(reading: Reading, file: ModelFile) -> str:
    """Return a value in words, with fewer digits where no schema says how many there are."""
    return f"{reading.value:.4g}" if file.encoding is None else reading.text


def _readings(file: ModelFile, cluster: int | None) -> dict[str, Reading]:
    assert cluster is not None
    return centers_table(file)[file.cluster_ids.index(cluster)]


def _by_change(one: ClusterChange, old: ModelFile, new: ModelFile) -> list[str]:
    """Return the columns of the file, those first in which a cluster changed most."""
    assert one.old is not None
    assert one.new is not None
    i, j = old.cluster_ids.index(one.old), new.cluster_ids.index(one.new)
    moved: Floats = places_of(new, old).centers[j] - places_of(old).centers[i]
    if old.encoding is None:
        return [old.columns[c] for c in np.argsort(-np.abs(moved), kind="stable")]
    blocks = old.encoding.by_column(moved)
    return sorted(blocks, key=lambda name: -float(np.linalg.norm(blocks[name])))
