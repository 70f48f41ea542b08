"""How sure the number of clusters of a model is, in words and as values."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedjigsaw.messages import Model
from fedjigsaw.methods._support import k_curve_of
from fedjigsaw.number.confidence import DOUBTFUL, KFindings

MOST_BEST = 5  # numbers of clusters with the best index that are listed


def number_values(model: Model, ids: Sequence[int] = ()) -> dict[str, Any] | None:
    """Return what is known about the number of clusters, for JSON; None if it was given.

    Parameters
    ----------
    ids : of the clusters; their places by default.
    """
    findings = KFindings.from_model(model, ids)
    if findings is None:
        return None
    return {
        "confidence": findings.confidence,
        "runner_up": findings.runner_up,
        "closest": None
        if findings.closest is None
        else [findings.name(i) for i in findings.closest],
        "separation": findings.separation.tolist(),
        "elongation": findings.elongation.tolist(),
        "background": findings.background,
        "sentence": findings.sentence(),
        "advice": findings.advice(model.feature_names),
    }


def describe_number(model: Model, ids: Sequence[int] = ()) -> Iterator[str]:
    """Say how sure the number of clusters is, and what helps; nothing if it was given."""
    findings = KFindings.from_model(model, ids)
    if findings is not None:
        yield f"{number_heading(findings)}: {findings.sentence()}"
        yield from (f"- {text}" for text in findings.advice(model.feature_names))


def number_heading(findings: KFindings) -> str:
    """Return the words before the sentence about the number of clusters."""
    if findings.confidence < DOUBTFUL:
        return "The number of clusters is in doubt"
    return "Number of clusters"


def describe_choice(model: Model, ids: Sequence[int] = ()) -> Iterator[str]:
    """Say how sure the number of clusters is, and how others compare; nothing if it was given."""
    curve, findings = k_curve_of(model), KFindings.from_model(model)
    if curve is None or findings is None:
        return
    yield from describe_number(model, ids)
    if findings.runner_up is not None:
        yield f"- Runner-up: {findings.runner_up}."
    yield from (f"- {text}" for text in why_not_the_best(model))
    best = np.argsort(-curve["index"], kind="stable")[: min(MOST_BEST, len(curve["k"]) - 1)]
    listed = "; ".join(f"{curve['k'][i]}: {curve['index'][i]:.6g}" for i in best)
    yield f"  best k: index (minus BIC; the best has 0): {listed}"


def why_not_the_best(model: Model) -> Iterator[str]:
    """Say why the number with the best index was not chosen, if it was not."""
    curve = k_curve_of(model)
    if curve is None:
        return
    best = int(curve["k"][curve["index"].argmax()])
    if best != len(model.centers):
        yield (
            f"{best} has the best index, but some of these {best} clusters have no valley between "
            "them: the rows there are as dense as in the clusters."
        )
