"""Training schedule of DeepFeCA: rounds, learning rate, momentum and communication steps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.parameters import Rule, fraction, integer, one_of, real


class Step(NamedTuple):
    """One communication step between the server and all clients.

    Attributes
    ----------
    round : int
        Round of training that the step belongs to.
    kind : {"calibrate", "cluster", "train"}
    inner_round : int
        Round of the clusterer, for methods that take several.
    """

    round: int
    kind: str
    inner_round: int = 0


@dataclass(frozen=True)
class Schedule:
    """Rounds of training, steps of SGD at the clients, and averaging at the server.

    Parameters
    ----------
    n_rounds : int, default 150
        Rounds of training.
    local_epochs : int, default 5
        Epochs of each client per round.
    batch_size : int, default 128
        Images per batch.
    learning_rate, final_learning_rate : float, default 0.05 and 0.0005
        Learning rate at its highest, and at the end of training.
    warmup_rounds : int, default 0
        Rounds of linear warmup, before the rate falls along a cosine to its final value.
    momentum : float, default 0.9
        Momentum of the clients' SGD. It starts at zero in each round.
    weight_decay : float, default 1e-4
        Weight decay of the clients' SGD.
    server_momentum : float, default 0
        Momentum of the server's updates (FedAvgM of Hsu et al. 2019).
    ema : float, default 0
        Cluster with teacher weights: an exponential moving average of the global weights, of which
        this fraction is kept per round. 0 means no teacher.
    batch_norm : {"average", "recalibrate"}
        Average the clients' batch-norm statistics together with their weights; or measure them
        again under the averaged weights, in one more step per round (not with `ema`).
    validation_share : float, default 0
        Fraction of each client's images to validate on: they are neither trained on nor clustered.
        Their loss after each round shows where a network memorizes the pseudo-labels that it made.

    Examples
    --------
    >>> from fedjigsaw.deep import Schedule
    >>> quick = Schedule(n_rounds=10, local_epochs=1)
    >>> quick.n_rounds, quick.learning_rate
    (10, 0.05)
    """

    n_rounds: int = 150
    local_epochs: int = 5
    batch_size: int = 128
    learning_rate: float = 0.05
    final_learning_rate: float = 0.0005
    warmup_rounds: int = 0
    momentum: float = 0.9
    weight_decay: float = 1e-4
    server_momentum: float = 0.0
    ema: float = 0.0
    batch_norm: str = "average"
    validation_share: float = 0.0

    rules: ClassVar[Mapping[str, Rule]] = {
        "n_rounds": integer(1, 10**6),
        "local_epochs": integer(1, 10**6),
        "batch_size": integer(2, 2**20),
        "learning_rate": real(0),
        "final_learning_rate": real(0),
        "warmup_rounds": integer(0),
        "momentum": fraction(one=False),
        "weight_decay": real(0),
        "server_momentum": fraction(one=False),
        "ema": fraction(one=False),
        "batch_norm": one_of("average", "recalibrate"),
        "validation_share": fraction(one=False),
    }

    def learning_rate_at(self, t: int) -> float:
        """Learning rate of round `t`: linear warmup, then a cosine.

        Examples
        --------
        >>> schedule = Schedule(10, warmup_rounds=2, learning_rate=0.3, final_learning_rate=0.1)
        >>> [round(schedule.learning_rate_at(t), 3) for t in (0, 1, 2, 6)]
        [0.1, 0.2, 0.3, 0.2]
        """
        if t < self.warmup_rounds:
            return self.learning_rate * (t + 1) / (self.warmup_rounds + 1)
        progress = (t - self.warmup_rounds) / max(1, self.n_rounds - self.warmup_rounds)
        low = self.final_learning_rate
        return low + (self.learning_rate - low) * (1 + math.cos(math.pi * progress)) / 2

    def n_batches(self, sizes: Sequence[int], least: int = 1) -> int:
        """Batches of one round over clients with these numbers of images.

        `least` is the guard's smallest number of images.
        """
        trained = (len(self.split_rows(n, least)[0]) for n in sizes)
        return sum(max(1, n // self.batch_size) for n in trained) * self.local_epochs

    def split_rows(self, n_images: int, least: int = 1) -> tuple[Ints, Ints]:
        """Return a client's images to train on and those to validate on, the same in every round.

        The latter are spread evenly: images may be sorted by class. Neither are fewer than `least`,
        the guard's smallest number of images: numbers about each part leave. A client with too few
        images for both, such as a single one, uses all of them for both.

        Examples
        --------
        >>> [rows.tolist() for rows in Schedule(validation_share=0.34).split_rows(6)]
        [[0, 2, 3, 5], [1, 4]]
        """
        everything, share = np.arange(n_images), self.validation_share
        if not share:
            return everything, everything[:0]
        if n_images < 2 * least:
            return everything, everything
        n_held = min(max(least, int(n_images * share)), n_images - least)
        held = ((np.arange(n_held) + 0.5) * n_images / n_held).astype(np.int64)
        return np.setdiff1d(everything, held), held


@lru_cache(maxsize=16)
def plan(schedule: Schedule, cluster_rounds: int) -> tuple[Step, ...]:
    """Communication steps of a whole run, in order.

    Batch-norm statistics are measured before the first round.

    Parameters
    ----------
    cluster_rounds : int
        Communication rounds of one clustering.

    Examples
    --------
    >>> [step.kind for step in plan(Schedule(2), 1)]
    ['calibrate', 'cluster', 'train', 'cluster', 'train']
    """
    steps = [Step(0, "calibrate")]
    for t in range(schedule.n_rounds):
        steps += [Step(t, "cluster", inner_round) for inner_round in range(cluster_rounds)]
        steps.append(Step(t, "train"))
        if schedule.batch_norm == "recalibrate":
            steps.append(Step(t, "calibrate"))
    return tuple(steps)


def n_steps(schedule: Schedule, cluster_rounds: int) -> int:
    """Return the length of :func:`plan`, without making it.

    Examples
    --------
    >>> n_steps(Schedule(150), 1)
    301
    """
    recalibrates = schedule.batch_norm == "recalibrate"
    return 1 + schedule.n_rounds * (cluster_rounds + 1 + recalibrates)
