"""An audit of differential privacy: how well can neighbors be told apart by all that was released?

The attacker knows both data sets and sees every noisy table, not only the summary. Later tables
depend on earlier noise. But what was released can be replayed on either data set, and gives the
exact table that noise was added to. So the attacker has the likelihood ratio itself, and no attack
is stronger. In units of its own noise, the statistic of one run is a standard normal number without
the canary and has the mean mu with it. A mechanism that keeps its promise has a small mu.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq
from scipy.stats import beta, norm

from fedjigsaw.messages import OWN, SHARED, SPREAD, Broadcast, Model, Summary
from fedjigsaw.privacy.cells import Box, nearest_cell
from fedjigsaw.privacy.dp import SITE, Noise, Privacy
from fedjigsaw.privacy.summaries import PrivateRound, shared_cells
from reproduction.studies import Floats, Ints, Row

CONFIDENCE = 0.95
THRESHOLDS = np.array([-2.5, -1.5, 0.0, 1.5, 2.5])  # of the statistic
N_COLUMNS, N_CELLS = 2, 16


@dataclass(frozen=True)
class Release:
    """One table of whole numbers: without noise, with it, and the scale that was asked for."""

    table: Ints
    scale: float
    noisy: Ints


@dataclass(frozen=True)
class Witness(Noise):
    """Noise that writes down what it is given and what it returns.

    Parameters
    ----------
    strength : float
        Factor on the noise's scale: 1 is the real mechanism, less is a broken one.
    given : sequence of arrays
        If there are any, these noisy tables are returned, whatever the tables are.
    """

    strength: float = 1.0
    given: Sequence[Ints] = ()
    releases: list[Release] = field(default_factory=list)

    def add(self, values: Ints, scale: float) -> Ints:
        if self.given:
            noisy = self.given[len(self.releases)]
        else:
            noisy = super().add(values, self.strength * scale)
        self.releases.append(Release(values, scale, noisy))
        return noisy


@dataclass(frozen=True)
class Watched(PrivateRound):
    """A question whose releases can be seen."""

    witness: Witness = field(default_factory=Witness)

    def noise(self) -> Noise:
        return self.witness


def watch(
    question: PrivateRound, rows: Floats, witness: Witness, rng: Generator | None = None
) -> Summary:
    """Answer a question as a site does, with the noise of a witness.

    Parameters
    ----------
    rng : of the search at the site; what leaves the site through a table does not depend on it.
    """
    watched = Watched(**vars(question) | {"witness": witness})
    broadcast = question.broadcast
    return watched.answer(rows, rng or np.random.default_rng([broadcast.seed, broadcast.round]))


def replay(question: PrivateRound, rows: Floats, releases: Sequence[Release]) -> Witness:
    """Answer a question about other rows with noisy tables that were released before.

    The witness has the exact tables of these rows, each as it would be after the same releases.
    """
    witness = Witness(given=[release.noisy for release in releases])
    watch(question, rows, witness)
    return witness


# ------------------------------------------------------------------------------------- neighbors


@dataclass(frozen=True)
class Neighbors:
    """Questions to a site, and two data sets that their answers may not tell apart."""

    questions: tuple[PrivateRound, ...]
    rows: Floats
    others: Floats

    def statistic(self, noise: np.random.Generator | None, strength: float, *, held: bool) -> float:
        """Return the statistic of one run, in units of its noise."""
        product, length = self.ratio(noise, strength, held=held)
        return float(product / length**0.5)

    def ratio(
        self, noise: np.random.Generator | None, strength: float, *, held: bool
    ) -> tuple[float, float]:
        """Return numbers p, l of one run whose log likelihood ratio is p - l / 2.

        Parameters
        ----------
        noise, strength : as in :class:`Witness`
        held : whether the site holds `others`.
        """
        product = length = 0.0
        for question in self.questions:
            witness = Witness(noise, strength)
            watch(question, self.others if held else self.rows, witness)
            replayed = replay(question, self.rows if held else self.others, witness.releases)
            tables = (replayed.releases, witness.releases)
            pairs = zip(*(tables if held else tables[::-1]), strict=True)
            for without, with_ in pairs:
                scale = strength * without.scale
                change = (with_.table - without.table) / scale
                product += float((change * ((with_.noisy - without.table) / scale)).sum())
                length += float((change**2).sum())
        return product, length


def neighbors(mechanism: str, privacy: Privacy) -> Neighbors:
    """Return the worst case of a mechanism: a canary that changes every table as far as possible.

    The canary of a search is alone in a corner, beyond the radius of every cell. That of shared
    cells is the point of the box that is farthest from all centers.
    """
    first = PrivateRound(privacy, 1, Broadcast(0, 0, client="a"), 2, 4, N_CELLS)
    if privacy.cells == SHARED:
        one, other = _far_points()
        rows = np.repeat(other, 20, axis=0)
        if privacy.unit == SITE:
            return Neighbors((first,), rows, one)
        return Neighbors((first,), rows, np.vstack([rows, one]))
    spread = 0.02 * np.random.default_rng(0).standard_normal((1000, N_COLUMNS))
    rows = np.clip(np.repeat([[-0.8], [-0.5]], 500, axis=0) + spread, -1, 1)
    others = np.vstack([rows, np.ones((1, N_COLUMNS))])
    if mechanism == "own":
        return Neighbors((first,), rows, others)
    model = Model(-0.5 * np.ones((1, N_COLUMNS)), tensors={SPREAD: np.array([0.01])})
    later = (Broadcast(number, 0, model, client="a") for number in (1, 2))
    questions = [first, *(replace(first, broadcast=broadcast) for broadcast in later)]
    return Neighbors(tuple(replace(q, n_rounds=3) for q in questions), rows, others)


def _far_points() -> tuple[Floats, Floats]:
    """Return two points of different cells that are far from their centers."""
    box = Box.within(-np.ones(N_COLUMNS), np.ones(N_COLUMNS))
    centers, _ = shared_cells(tuple(box.half), N_CELLS)
    points = box.on_grid(np.random.default_rng(0).uniform(-1, 1, (20_000, N_COLUMNS)))
    labels, squared = nearest_cell(points, centers)
    one = int(squared.argmax())
    other = int(np.where(labels == labels[one], 0, squared).argmax())
    return points[[one]], points[[other]]


# --------------------------------------------------------------------------------------- the study


def promised(mechanism: str, epsilon: float = 1.0, delta: float = 1e-6) -> Privacy:
    """Return what a mechanism promises, with its rows in (-1, 1)."""
    cells = SHARED if mechanism in ("shared", "site") else OWN
    return Privacy(epsilon, delta, (-1.0, 1.0), SITE if mechanism == "site" else "row", cells)


def audit(
    mechanism: str,
    strength: float,
    n_runs: int,
    seed: int,
    epsilon: float = 1.0,
    delta: float = 1e-6,
) -> Row:
    """Run one mechanism with and without the canary; keep what is needed to pool seeds.

    Parameters
    ----------
    mechanism : "own" and "rounds": a site's own cells, asked once or three times; "shared" and
        "site": shared cells, for a row or a site.
    strength : share of the noise that the mechanism adds; less than 1 is broken.
    """
    case, found = neighbors(mechanism, promised(mechanism, epsilon, delta)), {}
    for held in (False, True):
        noise = np.random.default_rng([seed, crc32(f"{mechanism}, {strength:g}, {held}".encode())])
        values = np.array([case.statistic(noise, strength, held=held) for _ in range(n_runs)])
        found["with" if held else "without"] = {
            "sum": float(values.sum()),
            "squares": float(values @ values),
            "above": [int((values > t).sum()) for t in THRESHOLDS],
        }
    return {"n_runs": n_runs, "epsilon": epsilon, "delta": delta, **found}


# ---------------------------------------------------------------------------------- what it proves


@dataclass(frozen=True)
class Verdict:
    """What the runs of some rows prove.

    Attributes
    ----------
    runs : with and without the canary together.
    mu : mean distance of the statistic with and without the canary.
    estimate, lower : epsilon for this mu, and for the least mu that is likely.
    plain : a lower bound from rates of right and wrong guesses alone, whatever the noise is like.
    """

    runs: int
    mu: float
    estimate: float
    lower: float
    plain: float


def verdict(rows: Sequence[Row]) -> Verdict:
    """Pool rows of one mechanism that differ in their seeds."""
    n, delta = sum(row["n_runs"] for row in rows), rows[0]["delta"]
    means, spreads, above = [], [], []
    for name in ("without", "with"):
        mean = sum(row[name]["sum"] for row in rows) / n
        means.append(mean)
        spreads.append(sum(row[name]["squares"] for row in rows) / n - mean**2)
        above.append(np.sum([row[name]["above"] for row in rows], axis=0))
    mu = (means[1] - means[0]) / float(np.mean(spreads)) ** 0.5
    error = (2 / n + mu**2 / (4 * n)) ** 0.5  # of a difference over a pooled deviation
    least = mu - float(norm.ppf(CONFIDENCE)) * error
    return Verdict(
        2 * n, mu, gaussian_epsilon(mu, delta), gaussian_epsilon(least, delta),
        plain_bound(above[0], above[1], n, delta),
    )  # fmt: skip


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon of telling apart two normal numbers whose means differ by mu.

    Examples
    --------
    >>> round(gaussian_epsilon(1 / 4.2247, 1e-6), 3)
    1.0
    """

    def excess(epsilon: float) -> float:
        with_, without = norm.cdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        return float(with_ - np.exp(epsilon) * without) - delta

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, mu**2 / 2 + 10 * mu + 1))


def plain_bound(without: Ints, with_: Ints, n: int, delta: float) -> float:
    """Return a lower bound on epsilon from the runs above each threshold, by Clopper and Pearson.

    A guess "with" above a threshold, or "without" below it, is right with a probability of at most
    e^epsilon times that of being wrong, plus delta. All bounds hold together.
    """
    miss = (1 - CONFIDENCE) / (4 * len(without))  # two rates, two kinds of guesses
    best = 0.0
    for right, wrong in ((with_, without), (n - without, n - with_)):
        least = np.nan_to_num(beta.ppf(miss, right, n - right + 1), nan=0.0)
        most = np.nan_to_num(beta.ppf(1 - miss, wrong + 1, n - wrong), nan=1.0)
        ratio = np.maximum(least - delta, 0) / most
        best = max(best, float(np.log(np.maximum(ratio, 1)).max()))
    return best
