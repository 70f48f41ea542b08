"""How sure is the number of clusters? Between 0 and 1; what that means was measured.

Agreement of the criteria, times the depth of the weakest valley or, for a single cluster, the share
of the variance that the cells show, times what is known to blur the picture. The rules were set by
hand on generated data with and without structure; ``docs/jigsaw.md`` shows how often a confidence
is right on other data. What is found travels in a model as tensors; the words are made from them
where they are shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fedjigsaw import messages
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import counted
from fedjigsaw.messages import Model
from fedjigsaw.number.cells import FEW_CELLS, LEAST_VARIANCE, Cells
from fedjigsaw.number.mixture import LONG, MIN_ROWS, NO_VARIANCE
from fedjigsaw.number.shapes import knows_noise, take_tensor
from fedjigsaw.number.valleys import BELIEVED
from fedjigsaw.validation import MAX_COUNT

if TYPE_CHECKING:
    from fedjigsaw.number.decide import Choice

AGREEMENT = {"agree": 0.98, "separate": 0.85, "joined": 0.85}  # by how it was decided
VOTES = (0.3, 0.45, 0.6, 0.7, 0.8, 0.8)  # otherwise, by how many of five criteria agree
RESOLVED = 0.8  # share of the variance between cells from which a single cluster is believed
FLAT, FLATTER = 2.4, 0.8  # kurtosis between Gaussian (3) and uniform (1.8), and below the others
COARSE = 0.1  # a column whose steps hide so much of its variance shows no shapes
HIDDEN = 0.4  # factor for one cluster where a few columns seem to have several
DOUBT_OF_STEPS = 0.55  # is subtracted where all columns are coarse
CLEARLY = 1.5  # times deeper: a valley between clusters, beside one inside of a cluster
BLURRED = 0.5  # factor for what may well hide another number
SMALL_CLUSTER = 0.02  # of an average cluster
SURE, DOUBTFUL = 0.9, 0.5  # from here on nothing is added; below, a warning is given
BACKGROUND, STEPS = 0.02, 0.25  # shares of rows in no cluster, and of coarse columns, worth a word
MAX_NAMED = 5  # clusters or columns in a sentence


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
    DUPLICATES = 256  # most clusters are a single row that repeats
    FINER = 512  # more clusters are about as good, and have valleys between them, too
    NOISE = 1024  # the noise of differential privacy may hide clusters


NAMED = Doubt.OVERLAP | Doubt.CRITERIA | Doubt.FINER  # doubts for which another number is named


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
    def of(cls, choice: "Choice", order: Ints, left_out: float, seen: float = 1.0) -> Self:
        """Collect what a choice says.

        Parameters
        ----------
        order : the clusters of the choice, in the order of the model.
        left_out : number of rows that guards left out, far from all others.
        seen : how far noise lets so many clusters be believed; 1 without noise.
        """
        confidence, doubts = _assess(choice, left_out, seen)
        columns, _ = telling_columns(choice.cells)
        pair, shapes = choice.valleys.closest, choice.mixture.shapes
        a, b = (0, 0) if pair is None else sorted(np.argsort(order)[list(pair)].tolist())
        return cls(
            confidence=confidence,
            runner_up=choice.runner_up,
            closest=None if pair is None else (a, b),
            background=choice.mixture.background / choice.cells.n_rows,
            elongation=np.sqrt(shapes.longest / shapes.variances)[order],
            columns=columns if choice.k == 1 else columns[:0],
            doubts=doubts,
            separation=choice.valleys.separation()[order],
        )

    @classmethod
    def from_model(cls, model: Model, ids: Sequence[int] = ()) -> Self | None:
        """Read the findings of a model, which may come from others; None if it has none."""
        if messages.K_CONFIDENCE not in model.tensors:
            return None
        (k, d), known, take = model.centers.shape, model.tensors, partial(take_tensor, model)
        runner_up = int(take(messages.K_RUNNER_UP, (1,), 0, MAX_COUNT)[0])
        a, b = take(messages.K_CLOSEST, (2,), -1, k - 1).astype(np.int64).tolist()
        n_columns = known.get(messages.K_COLUMNS, np.zeros(0)).size
        return cls(
            confidence=float(take(messages.K_CONFIDENCE, (1,), 0, 1)[0]),
            runner_up=runner_up or None,
            closest=None if min(a, b) < 0 else (a, b),
            background=float(take(messages.K_BACKGROUND, (1,), 0, 1)[0]),
            elongation=take(messages.K_ELONGATION, (k,), 0, np.inf),
            columns=take(messages.K_COLUMNS, (n_columns,), 0, d - 1).astype(np.int64),
            doubts=Doubt(int(take(messages.K_DOUBTS, (1,), 0, 2 * max(Doubt) - 1)[0])),
            separation=take(messages.SUPPORT_SEPARATION, (k,), 0, 1),
            shaped=messages.SHAPE_CLUSTERS in known,
            noisy=knows_noise(model),
            ids=tuple(ids),
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the findings as tensors of a model."""
        closest, runner_up = self.closest or (-1, -1), self.runner_up or 0
        found: list[Any] = [self.confidence, runner_up, closest, self.background, self.elongation]
        found += [self.columns, int(self.doubts), self.separation]
        named = zip(messages.K_TENSORS[1:], found, strict=True)  # all but the curve
        return {name: np.atleast_1d(value) for name, value in named}

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
        a, b = (self.name(i) for i in self.closest or (0, 0))
        words = {  # the weightiest first
            Doubt.NOISE: "the noise of differential privacy hides clusters of few rows",
            Doubt.DUPLICATES: "most clusters are a single row that repeats",
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
        reasons = [reason for doubt, reason in words.items() if doubt in self.doubts]
        if self.runner_up is not None and self.doubts & NAMED:
            near = "nearly" if self.confidence >= DOUBTFUL else "about"
            text += f"; {self.runner_up} is {near} as good"
        return f"{text}{': ' if reasons else ''}{', and '.join(reasons[:2])}."

    def name(self, i: int) -> int:
        """Return what a cluster is called."""
        return self.ids[i] if self.ids else int(i)

    def advice(self, columns: tuple[str, ...] | None = None) -> list[str]:
        """Say what else the clusters are like, and what helps.

        Parameters
        ----------
        columns : names of the columns.
        """
        long = [self.name(i) for i in np.flatnonzero(self.elongation >= LONG).tolist()]
        are, them, pieces = (
            (f"Cluster {long[0]} is", "it", "it may be a piece of a bent cluster")
            if len(long) == 1
            else (f"Clusters {_listed(long)} are", "them", "they may be pieces of bent clusters")
        )
        cut = bool(long) and len(self.elongation) > 1 and not self.shaped
        noise = self.background >= BACKGROUND and not self.noisy and len(self.separation) > 1
        names = [columns[j] if columns else str(j) for j in self.columns]
        advice = {
            f"{are} elongated (up to {self.elongation.max():.0f} times as long as wide): nearest "
            f"centers may cut {them}. Set shape to elongated to label rows by shapes of "
            "clusters.": cut,
            f"If {pieces}, set shape to any to join those that have no valley between them.": cut
            and Doubt.CRITERIA in self.doubts,
            f"About {self.background:.0%} of the rows lie outside of all clusters. Set noise to "
            "true to label them -1.": noise,
            "If rows are copies of others, or weights stand for copies, find the number of "
            "clusters with each row once.": Doubt.DUPLICATES in self.doubts,
            "Leave out columns that mean nothing, or give them weight 0 in a schema.": Doubt.STEPS
            in self.doubts,
            "There may be more clusters: raise max_clusters, or give their number.": Doubt.LIMIT
            in self.doubts,
            f"Only these columns seem to have clusters: {_listed(names)}. Try them alone, or give "
            "the others weight 0 in the schema.": Doubt.COLUMNS in self.doubts,
        }
        return [text for text, helps in advice.items() if helps]


def _listed(names: Sequence[object]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" * (len(names) > MAX_NAMED)
    return ", ".join(map(str, names[:MAX_NAMED])) + more


def _assess(choice: "Choice", left_out: float, seen: float) -> tuple[float, Doubt]:
    """Return how much the number of clusters can be trusted, and the reasons for doubt."""
    cells, hills, single = choice.cells, choice.valleys, choice.k == 1
    separated = float(hills.separation().min())
    between = min(hills.depths.values(), default=0.0)
    arguable = hills.inside >= BELIEVED and hills.inside > between / CLEARLY
    telling, coarse = telling_columns(cells)
    hidden = single and len(telling) > 0
    # clusters that are a single row each, which repeats or has a weight: rows that repeat are taken
    # for as many rows that happen to be equal, but usually nobody measured them again
    moments = choice.mixture.moments
    variances = moments.traces / (np.maximum(moments.counts, 1) * cells.n_columns)
    duplicates = not single and float(np.mean(variances <= LEAST_VARIANCE)) > 0.5
    a_cluster = max(3 * MIN_ROWS, SMALL_CLUSTER * cells.n_rows / choice.k)
    few_cells = choice.per_client < FEW_CELLS
    few = single or choice.per_client < choice.k / 2

    votes = sum(k == choice.k for k in choice.criteria.values())
    value = AGREEMENT.get(choice.way, VOTES[votes])
    blurs = [arguable or duplicates, choice.finer is not None, not choice.complete]
    blurs += [choice.mixture.background >= cells.n_rows / 2, few_cells and few]
    value *= BLURRED ** sum(blurs)
    shown = min(1.0, cells.resolved / RESOLVED) ** 2 * (HIDDEN if hidden else 1.0)
    value *= shown if single else separated
    value *= 1 - DOUBT_OF_STEPS * coarse
    value *= 1 - BLURRED * min(1.0, left_out / a_cluster)
    value *= 1 - choice.dropped * (not few)  # nothing is dropped where there are many cells

    reasons = {
        Doubt.NOISE: seen < 1,
        Doubt.OVERLAP: separated < SURE,
        Doubt.CRITERIA: choice.way not in AGREEMENT or arguable,
        Doubt.BLUR: single and cells.resolved < RESOLVED,
        Doubt.COLUMNS: hidden,
        Doubt.STEPS: coarse >= STEPS,
        Doubt.LEFT_OUT: left_out >= a_cluster / 10,
        Doubt.FEW_CELLS: few_cells and (few or choice.dropped > 0),
        Doubt.LIMIT: not choice.complete,
        Doubt.DUPLICATES: duplicates,
        Doubt.FINER: choice.finer is not None,
    }
    return float(value * seen), Doubt(sum(doubt for doubt, is_so in reasons.items() if is_so))


def telling_columns(cells: Cells) -> tuple[Ints, float]:
    """Return columns of the data whose cells are far flatter than those of other columns.

    A column with clusters is flat, one of noise is a bell. Where few columns are flat, the others
    may hide clusters in them. A column of so few values that the shapes of clusters do not show
    tells nothing; the share of such columns is returned, too.
    """
    points, counts = cells.points, cells.counts
    variance = counts @ points**2 / cells.n_rows
    kurtosis = (counts @ points**4 / cells.n_rows) / np.maximum(variance, NO_VARIANCE) ** 2
    flat = (kurtosis < FLAT) & (kurtosis < np.median(kurtosis) - FLATTER)
    coarse = cells.quantization > COARSE * variance
    return cells.seen[flat & ~coarse], float(coarse.mean())
