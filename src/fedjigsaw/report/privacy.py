"""State a promise of differential privacy in words that a privacy officer can check."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.in_words import deviations, features_of, limits, shown_of, value_of
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.columns.schema import Column
from fedjigsaw.errors import counted
from fedjigsaw.io.formats import Content, ModelFile, NoisyStats, Score, SummaryFile
from fedjigsaw.messages import CELL_NOISE, NOISE, Summary
from fedjigsaw.privacy.cells import FLOOR
from fedjigsaw.privacy.dp import ROW, Privacy

Private = SummaryFile | ModelFile | NoisyStats | Score


def promise_of(content: Content | Scaler) -> Privacy | None:
    """Return the promise that a file states, if there is one."""
    return content.privacy if isinstance(content, Private) else None


def describe_privacy(content: Private, most: int) -> Iterator[str]:
    """Describe what a file promises: the factor, how it is counted, what it does not cover.

    Parameters
    ----------
    most : how many columns are shown.
    """
    values = privacy_values(content)
    if values is None:
        return
    who = "the weakest of all sites" if isinstance(content, ModelFile) else "stated by the sender"
    yield f"Differential privacy, {who}: epsilon {values['epsilon']:g}, delta {values['delta']:g}."
    yield values["sentence"]
    yield from _noise(values["noise"], most, _columns(content))
    yield f"- Counted for: {values['counted_for']}"
    yield f"- Included: {values['included']}"
    columns, pairs = _columns(content), _bounds(content)
    bounds = [f"{name} {limits(name, *pair, columns)}" for name, pair in pairs.items()]
    more = ", ..." * (len(bounds) > most)
    yield f"- Bounds, to which rows were clipped: {', '.join(bounds[:most])}{more}."
    yield f"- Public by assumption: {', '.join(values['public'])}."
    yield "- Not covered:"
    yield from (f"  - {text}" for text in values["not_covered"])


def privacy_values(content: Content | Scaler) -> dict[str, Any] | None:
    """Return what a file promises as plain values; None if it promises nothing."""
    privacy = promise_of(content)
    if privacy is None or not isinstance(content, Private):
        return None
    columns = _columns(content)
    scaler = content.scaler if isinstance(content, SummaryFile | ModelFile) else None
    return {
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "factor": math.exp(privacy.epsilon),
        "unit": privacy.unit,
        "cells": privacy.cells,
        "rows_per_site": privacy.rows_per_site,
        "sentence": privacy.sentence(),
        "counted_for": _counted_for(privacy),
        "included": _included(scaler),
        "bounds": {
            name: [value_of(columns[name], x) for x in pair] if name in columns else list(pair)
            for name, pair in _bounds(content).items()
        },
        "public": [
            *_public(scaler),
            *[MODEL] * isinstance(content, Score),
            *[SCHEMA] * (isinstance(content, NoisyStats) and content.schema != ""),
        ],
        "not_covered": [*_whole_persons(privacy), *NOT_COVERED],
        "noise": _noise_values(content),
    }


def _bounds(content: Private) -> dict[str, tuple[float, float]]:
    """Return the bounds of each feature, as the noise was made for them."""
    if content.privacy is None:
        return {}
    low, high = content.privacy.limits(len(content.columns))
    return dict(zip(content.columns, zip(low.tolist(), high.tolist(), strict=True), strict=True))


def _columns(content: Private) -> dict[str, Column]:
    """Return the column of each feature that the bounds are about."""
    known = shown_of if isinstance(content, Score) else features_of
    return known(content.made_by)


MODEL = "the model, however it was made"
SCHEMA = "the schema, with its categories and ranges"
NOT_COVERED = [
    "other releases about the same rows: they add up (fedjigsaw privacy status, at the site).",
    "labels and scores that a site computes for itself: labels do not leave, and scores are exact "
    "unless they have an epsilon of their own.",
    "how long an answer takes, and that an answer fails.",
    "the ledger and the journal: they contain a hash of the data file. Keep them at the site.",
    "anyone who can read the data or the memory of the site's machine.",
    "what rows have in common: a cluster that is there without any one row is no secret.",
]


def rows_in_words(summary: Summary) -> str:
    """Say what the number of rows of a noisy summary is: it leaves out what is hidden by noise."""
    rows = f"about {counted(summary.n_samples, 'row')}"
    if summary.counts is None:
        return f"{rows} (a noisy number) in {len(summary.centers)} cells that all sites share"
    found = _deviations(summary)
    if found is not None and summary.counts.max() <= FLOOR * found[0]:
        return f"{rows} in 1 cluster that does not stand out from the noise"
    if len(summary.centers) == 1:
        return f"{rows} in 1 cluster that stands out from the noise"
    return f"{rows} in {len(summary.centers)} clusters that stand out from the noise"


def _included(scaler: Scaler | None) -> str:
    but = "" if scaler is None else " but those of the scaler"
    return f"every number in this file{but}, and all rounds of the run that it is from."


def _whole_persons(privacy: Privacy) -> Iterator[str]:
    whose = "several rows, or rows at several sites" if privacy.unit == ROW else "several sites"
    yield f"a person with {whose}: the promise is for one {privacy.unit}, and weaker for them."


def _counted_for(privacy: Privacy) -> str:
    if privacy.unit == ROW:
        return "one row more or less at a site; a row that is changed counts more than twice."
    return (
        f"all rows of a site replaced by others; a site counts for at most "
        f"{privacy.rows_per_site} rows."
    )


def _public(scaler: Scaler | None) -> list[str]:
    found = [
        "the bounds and names of the columns",
        "how the data file is written, such as the decimal sign and the format of dates",
        "method, number of clusters and other parameters",
        "names of sites and that they took part",
        "epsilon and delta",
        "when the operator of a site declares new data (--data-set)",
    ]
    return found if scaler is None else [*found, "the scaler, however it was made"]


def _noise_values(content: Private) -> dict[str, Any] | None:
    """Return standard deviations of the noise, in the units of the features."""
    if not isinstance(content, SummaryFile):
        return None
    d = len(content.columns)
    scale = np.ones(d) if content.scaler is None else content.scaler.deviation
    found = _deviations(content.summary)
    if found is None:
        return None
    counts, places, kind = found
    return {
        "counts": counts,
        "of": kind,
        "logarithms": [name for name, c in _columns(content).items() if c.scale == "log"],
        "columns": {
            name: [float(places.min() * unit), float(places.max() * unit)]
            for name, unit in zip(content.columns, scale, strict=True)
        },
    }


def _deviations(summary: Summary) -> tuple[float, Floats, str] | None:
    """Return the noise on counts and on coordinates, if tensors of the right shape state it."""
    own, shared = summary.tensors.get(NOISE), summary.tensors.get(CELL_NOISE)
    if own is not None and own.ndim == 2 and own.shape[1] == 2 and len(own):
        return float(own[:, 0].max()), own[:, 1], "centers"
    if shared is not None and shared.shape == (2,):
        return float(shared[0]), shared[1:], "sums"
    return None


def _noise(
    values: dict[str, Any] | None, most: int, columns: Mapping[str, Column]
) -> Iterator[str]:
    if values is None:
        return
    ranges = [
        f"{name} {deviations(name, low, high, columns)}"
        for name, (low, high) in values["columns"].items()
    ]
    what = "centers" if values["of"] == "centers" else "the sum of a cell"
    more = ", ..." * (len(ranges) > most)
    yield (
        f"Noise (standard deviations): {values['counts']:.3g} on each count; "
        f"on {what}: {', '.join(ranges[:most])}{more}."
    )
