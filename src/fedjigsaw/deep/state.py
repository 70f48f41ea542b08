"""The state of a run after a round of training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedjigsaw.deep.schedule import Step
from fedjigsaw.messages import Model, Round, Transcript

COLLAPSED_SPREAD = 0.1  # below this, nearly all projections are the same
COLLAPSED_SHARE = 0.9  # above this, nearly all images are in one cluster


@dataclass(frozen=True)
class State:
    """A run after some rounds of training: all that is needed to go on from there.

    Attributes
    ----------
    round : int
        Rounds of training that are done.
    seed : int
        Seed of the run.
    model : Model
        The centers, and the weights as named tensors.
    numbers : dict
        Loss, cluster sizes, traffic and times of the last round, as JSON values.
    exchanges : tuple of Round
        Communication rounds of the last round of training.
    """

    round: int
    seed: int
    model: Model
    numbers: Mapping[str, Any]
    exchanges: tuple[Round, ...] = ()


def describe(
    model: Model, transcript: Transcript, steps: Sequence[Step], n_views: int
) -> dict[str, Any]:
    """Compute the numbers of a round of training from its transcript and model, as JSON values."""
    seconds = dict.fromkeys(("calibrate", "cluster", "train"), 0.0)
    for r in transcript.rounds:
        seconds[steps[r.number].kind] += r.seconds
    sizes, owners = model.tensors["report.sizes"], model.tensors["head"]
    largest = max(sizes[owners == h].max() / sizes[owners == h].sum() for h in set(owners.tolist()))
    spread = float(model.tensors["report.spread"])
    held = model.tensors.get("report.validation_loss")
    return {
        "loss": float(model.tensors["report.loss"]),
        **({} if held is None else {"validation_loss": float(held)}),
        "clusters": len(sizes),
        "clusters_used": int((sizes > 0).sum()),
        "largest_share": float(largest),
        "spread": spread,
        "collapsed": bool(spread < COLLAPSED_SPREAD or largest > COLLAPSED_SHARE),
        "bytes_up": transcript.bytes_up,
        "bytes_down": transcript.bytes_down,
        "cluster_seconds": seconds["cluster"],
        "train_seconds": seconds["train"],
        "round_seconds": transcript.seconds,
        "views_per_second": n_views / seconds["train"],
    }
