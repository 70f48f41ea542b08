"""Models that a site computes again, from the summaries that the server shows."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from fedjigsaw.engine import FederatedMethod
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.messages import Broadcast, Model
from fedjigsaw.records.journal import Record
from fedjigsaw.records.policy import RefusedError
from fedjigsaw.sites.admission import aggregate_round

if TYPE_CHECKING:
    from fedjigsaw.flower.records import Question

TOLERANCE = 1e-6  # relative; other processors give other last digits


def derived(
    question: "Question", method: FederatedMethod, name: str, earlier: Sequence[Record]
) -> Broadcast:
    """Compute the model of a later round again, from the summaries that the server shows.

    The site's own summary must be among them as it left, as the answer to the round before. The
    site then answers for the model that it computed, so that the server does not choose a digit.

    Parameters
    ----------
    earlier : the answers of this site to questions with the same method, parameters and data.
    """
    asked, shown = question.broadcast, question.shown
    assert asked.model is not None
    if shown is None:
        raise RefusedError("the server does not show the summaries of the round before")
    own = [file for file in shown.files if file.summary.client == name]
    hashes = {sha256(formats.encode(file)).hexdigest() for file in own}
    before = describe_model(shown.before)
    sent = any(
        record["answer"] in hashes
        and (record["round"], record["model"]) == (asked.round - 1, before)
        for record in earlier
    )
    if len(own) != 1 or not sent:
        raise RefusedError("this site's answer of the round before is not among those shown")
    previous = Broadcast(asked.round - 1, asked.seed, shown.before, cells=asked.cells)
    try:
        for file in shown.files:
            method.check_answer(file.summary, previous)
        model = aggregate_round(method, [file.summary for file in shown.files], previous)
    except FedJigsawError as error:
        raise RefusedError(f"the summaries shown cannot be aggregated: {error}") from error
    if not _close(model.centers, asked.model.centers):
        raise RefusedError("the model does not come from the summaries shown")
    names = asked.model.feature_names
    return replace(asked, model=model.with_feature_names(names))


def _close(ours: np.ndarray, theirs: np.ndarray) -> bool:
    if ours.shape != theirs.shape:
        return False
    return bool(np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * float(np.ptp(ours))))


def describe_model(model: Model | None) -> str | None:
    """Return the hash of a model."""
    if model is None:
        return None
    return sha256(formats.encode(ModelFile(model, None, (), 0))).hexdigest()
