"""Where a run stands after a round, and what the round was like."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedjigsaw.deep.parameters import Step
from fedjigsaw.messages import Model, Round, Transcript

COLLAPSED_SPREAD = 0.1  # below, nearly all projections are the same
COLLAPSED_SHARE = 0.9  # above, nearly all images are in one cluster


@dataclass(frozen=True)
class State:
    """A run after some rounds: all that is needed to go on, and what the last round was like."""

    round: int
    seed: int
    model: Model
    numbers: Mapping[str, Any]
    exchanges: tuple[Round, ...] = ()


def describe(
    model: Model, transcript: Transcript, steps: Sequence[Step], n_views: int
) -> dict[str, Any]:
    """The numbers of a round of training, from its exchanges and their result, ready for JSON."""
    seconds = dict.fromkeys(("calibrate", "cluster", "train"), 0.0)
    for r in transcript.rounds:
        seconds[steps[r.number].verb] += r.seconds
    sizes, owners = model.tensors["report.sizes"], model.tensors["head"]
    largest = max(sizes[owners == h].max() / sizes[owners == h].sum() for h in set(owners.tolist()))
    spread = float(model.tensors["report.spread"])
    return {
        "loss": float(model.tensors["report.loss"]),
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
