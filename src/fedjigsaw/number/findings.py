"""What a model says about its number of clusters: how sure it is, and what would be nearly as good.

Findings travel in a model as tensors; the words are made from them where they are shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Self

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import counted
from fedjigsaw.messages import Model
from fedjigsaw.number.confidence import (
    RESOLVED,
    a_cluster,
    are_copies,
    coarse_columns,
    confidence,
    separation,
    telling_columns,
)
from fedjigsaw.number.decision import AGREE, FEW_CELLS, JOINED, LONG, SEPARATE, Choice
from fedjigsaw.number.shapes import CLUSTERS, knows_noise
from fedjigsaw.number.tensors import take_tensor
from fedjigsaw.validation import MAX_COUNT

SURE, DOUBTFUL = 0.9, 0.5  # from here on nothing is added; below, a warning is given
BACKGROUND = 0.02  # share of rows outside of all clusters that is worth a word
STEPS = 0.25  # share of columns of few values that is worth a word
MAX_NAMED = 5

CONFIDENCE, RUNNER_UP, CLOSEST = "k_confidence", "k_runner_up", "k_closest"
OUTSIDE, ELONGATION, COLUMNS, DOUBTS = "k_background", "k_elongation", "k_columns", "k_doubts"
SEPARATION = "support_separation"
K_TENSORS = (
    "k_curve",
    *(CONFIDENCE, RUNNER_UP, CLOSEST, OUTSIDE, ELONGATION, COLUMNS, DOUBTS, SEPARATION),
)


class Doubt(IntFlag):
    """Why the number of clusters is in doubt."""

    OVERLAP = 1  # the weakest valley is shallow
    CRITERIA = 2  # criteria prefer different numbers
    BLUR = 4  # most variance lies within cells, where nothing is seen
    COLUMNS = 8  # a few columns seem to have clusters, and the others hide them
    STEPS = 16  # many columns have few values
    LEFT_OUT = 32  # guards left rows out, among which a cluster may be
    FEW_CELLS = 64  # clients sent too few cells
    LIMIT = 128  # the search ended at its limit
    COPIES = 256  # most clusters are a single row that repeats
    FINER = 512  # more clusters are about as good, and have valleys between them, too
    NOISE = 1024  # the noise of differential privacy may hide clusters


NAMED = Doubt.OVERLAP | Doubt.CRITERIA | Doubt.FINER  # doubts for which another number is told


@dataclass(frozen=True)
class KFindings:
    """How sure the number of clusters of a model is.

    Attributes
    ----------
    confidence : between 0 and 1; docs/jigsaw.md says how often each value is right.
    runner_up : the next best number of clusters, or None.
    closest : the two clusters that are separated least, or None.
    background : share of the rows that lie outside of all clusters.
    elongation : shape (k,), how many times each cluster is longer than wide.
    columns : numbers of the columns that alone seem to have clusters, if there is one cluster.
    doubts : the reasons for doubt.
    separation : shape (k,), between 0 and 1: whether there is a valley around each cluster.
    shaped, noisy : whether the model labels rows by the shapes of clusters, and some as noise.
    ids : what each cluster is called; its place in the model by default.
    """

    confidence: float
    runner_up: int | None
    closest: tuple[int, int] | None
    background: float
    elongation: Floats
    columns: Ints
    doubts: Doubt
    separation: Floats
    shaped: bool = False
    noisy: bool = False
    ids: tuple[int, ...] = ()

    @classmethod
    def of(cls, choice: Choice, order: Ints, left_out: float, seen: float = 1.0) -> Self:
        """Collect what a choice says.

        Parameters
        ----------
        order : the clusters of the choice, in the order of the model.
        left_out, seen : as in :func:`~fedjigsaw.number.confidence.confidence`.
        """
        place = np.argsort(order)
        pair = choice.valleys.closest
        a, b = (-1, -1) if pair is None else sorted(place[list(pair)].tolist())
        shapes = choice.mixture.shapes
        return cls(
            confidence=confidence(choice, left_out, seen),
            runner_up=choice.runner_up,
            closest=None if pair is None else (a, b),
            background=choice.mixture.background / choice.cells.n_rows,
            elongation=np.sqrt(shapes.longest / shapes.variances)[order],
            columns=telling_columns(choice.cells) if choice.k == 1 else np.zeros(0, dtype=np.int64),
            doubts=_doubts(choice, left_out, seen),
            separation=separation(choice.valleys.of_clusters())[order],
        )

    @classmethod
    def from_model(cls, model: Model, ids: Sequence[int] = ()) -> Self | None:
        """Read the findings of a model, which may come from others; None if it has none."""
        if CONFIDENCE not in model.tensors:
            return None
        k, tensors = len(model.centers), model.tensors
        sure = take_tensor(model, CONFIDENCE, (1,), 0, 1)[0]
        runner_up = int(take_tensor(model, RUNNER_UP, (1,), 0, MAX_COUNT)[0])
        a, b = take_tensor(model, CLOSEST, (2,), -1, k - 1).astype(np.int64).tolist()
        n_columns = tensors[COLUMNS].size if COLUMNS in tensors else 0
        columns = take_tensor(model, COLUMNS, (n_columns,), 0, model.centers.shape[1] - 1)
        return cls(
            confidence=float(sure),
            runner_up=runner_up or None,
            closest=None if min(a, b) < 0 else (a, b),
            background=float(take_tensor(model, OUTSIDE, (1,), 0, 1)[0]),
            elongation=take_tensor(model, ELONGATION, (k,), 0, np.inf),
            columns=columns.astype(np.int64),
            doubts=Doubt(int(take_tensor(model, DOUBTS, (1,), 0, 2 * max(Doubt) - 1)[0])),
            separation=take_tensor(model, SEPARATION, (k,), 0, 1),
            shaped=CLUSTERS in tensors,
            noisy=knows_noise(model),
            ids=tuple(ids),
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the findings as tensors of a model."""
        return {
            CONFIDENCE: np.array([self.confidence]),
            RUNNER_UP: np.array([self.runner_up or 0]),
            CLOSEST: np.array(self.closest or (-1, -1)),
            OUTSIDE: np.array([self.background]),
            ELONGATION: self.elongation,
            COLUMNS: self.columns,
            DOUBTS: np.array([int(self.doubts)]),
            SEPARATION: self.separation,
        }

    def sentence(self) -> str:
        """Say how many clusters there are, how sure that is, and what is nearly as good.

        Examples
        --------
        >>> KFindings(0.6, 3, (0, 1), 0.0, np.ones(2), np.zeros(0), Doubt.OVERLAP, np.ones(2)
        ... ).sentence()
        '2 clusters (confidence 0.60); 3 is nearly as good: clusters 0 and 1 overlap.'
        """
        text = f"{counted(len(self.separation), 'cluster')} (confidence {self.confidence:.2f})"
        if self.confidence >= SURE:
            return f"{text}."
        reasons = [reason for doubt, reason in self._reasons().items() if doubt in self.doubts]
        if self.runner_up is not None and self.doubts & NAMED:
            near = "nearly" if self.confidence >= DOUBTFUL else "about"
            text += f"; {self.runner_up} is {near} as good"
        return f"{text}{': ' if reasons else ''}{', and '.join(reasons[:2])}."

    def _reasons(self) -> dict[Doubt, str]:
        a, b = (self.name(i) for i in self.closest or (0, 0))
        return {
            Doubt.NOISE: "the noise of differential privacy hides clusters of few rows",
            Doubt.COPIES: "most clusters are a single row that repeats",
            Doubt.FINER: "so many have gaps between them, too",
            Doubt.COLUMNS: "a few columns seem to have clusters that the others hide",
            Doubt.LIMIT: "the search ended at its limit, and there may be more",
            Doubt.FEW_CELLS: "each site has few different rows",
            Doubt.LEFT_OUT: "guards left out rows of which too few are alike, perhaps a cluster",
            Doubt.OVERLAP: f"clusters {a} and {b} overlap",
            Doubt.BLUR: "groups of few rows, which is all that is sent, do not show finer clusters",
            Doubt.STEPS: "many columns have few values",
            Doubt.CRITERIA: "what fits the rows best has clusters without a gap between them",
        }

    def name(self, i: int) -> int:
        """Return what a cluster is called."""
        return self.ids[i] if self.ids else int(i)

    def advice(self, columns: "tuple[str, ...] | None" = None) -> list[str]:
        """Say what else the clusters are like, and what helps.

        Parameters
        ----------
        columns : names of the columns.
        """
        found = []
        long = np.flatnonzero(self.elongation >= LONG)
        if len(long) and len(self.elongation) > 1 and not self.shaped:
            times = f"up to {self.elongation.max():.0f} times as long as wide"
            them, pieces = "them", "they may be pieces of bent clusters"
            if len(long) == 1:
                them, pieces = "it", "it may be a piece of a bent cluster"
            found.append(
                f"{_list([self.name(int(i)) for i in long])} elongated ({times}): nearest centers "
                f"may cut {them}. Set shape to elongated to label rows by shapes of clusters."
            )
            if Doubt.CRITERIA in self.doubts:
                found.append(
                    f"If {pieces}, set shape to any to join those that have no valley between them."
                )
        if self.background >= BACKGROUND and not self.noisy and len(self.separation) > 1:
            found.append(
                f"About {self.background:.0%} of the rows lie outside of all clusters. "
                "Set noise to true to label them -1."
            )
        if Doubt.COPIES in self.doubts:
            found.append(
                "If rows are copies of others, or weights stand for copies, find the number of "
                "clusters with each row once."
            )
        if Doubt.STEPS in self.doubts:
            found.append("Leave out columns that mean nothing, or give them weight 0 in a schema.")
        if Doubt.LIMIT in self.doubts:
            found.append("There may be more clusters: raise max_clusters, or give their number.")
        if Doubt.COLUMNS in self.doubts:
            names = [columns[j] if columns else str(j) for j in self.columns[:MAX_NAMED]]
            more = f" and {len(self.columns) - MAX_NAMED} more" * (len(self.columns) > MAX_NAMED)
            found.append(
                f"Only these columns seem to have clusters: {', '.join(names)}{more}. Try them "
                "alone, or give the others weight 0 in the schema."
            )
        return found


def _list(clusters: list[int]) -> str:
    names = ", ".join(map(str, clusters[:MAX_NAMED]))
    more = f" and {len(clusters) - MAX_NAMED} more" * (len(clusters) > MAX_NAMED)
    return f"Cluster {names} is" if len(clusters) == 1 else f"Clusters {names}{more} are"


def _doubts(choice: Choice, left_out: float, seen: float) -> Doubt:
    cells = choice.cells
    few = choice.k == 1 or choice.per_client < choice.k / 2 or choice.dropped > 0
    reasons = {
        Doubt.NOISE: seen < 1,
        Doubt.OVERLAP: float(separation(np.array([choice.valleys.weakest]))[0]) < SURE,
        Doubt.CRITERIA: choice.way not in (AGREE, SEPARATE, JOINED) or choice.valleys.arguable,
        Doubt.BLUR: choice.k == 1 and cells.resolved < RESOLVED,
        Doubt.COLUMNS: choice.k == 1 and len(telling_columns(cells)) > 0,
        Doubt.STEPS: float(coarse_columns(cells).mean()) >= STEPS,
        Doubt.LEFT_OUT: left_out >= a_cluster(choice) / 10,
        Doubt.FEW_CELLS: choice.per_client < FEW_CELLS and few,
        Doubt.LIMIT: not choice.complete,
        Doubt.COPIES: are_copies(choice),
        Doubt.FINER: choice.finer is not None,
    }
    return Doubt(sum(doubt for doubt, is_so in reasons.items() if is_so))
