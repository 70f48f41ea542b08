"""Lies that a site may tell: each changes an honest summary into one that does harm.

The letters are those of the table that ``fedjigsaw reproduce liars`` makes. A combination, such as
"b+c", applies both: of two lies about centers, each gets half of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.datasets import Dataset
from fedjigsaw.engine import Client, Reply, SerialEngine
from fedjigsaw.errors import MessageError
from fedjigsaw.kernels.kmeans import kmeans, nearest_centers
from fedjigsaw.messages import Broadcast, Failure, Summary
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.trust.site_reports import site_reports

if TYPE_CHECKING:
    from fedjigsaw.base import FederatedClusterer


@dataclass(frozen=True)
class Box:
    """What a liar knows: the range of the data, lowest and highest value of each column."""

    low: Floats
    high: Floats

    @property
    def width(self) -> Floats:
        return self.high - self.low

    def points(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw points from the range."""
        return rng.uniform(self.low, self.high, size=(n, len(self.low)))


Lie = Callable[[Summary, Box, np.random.Generator], Summary]


def far(summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
    """Send centers ten ranges away."""
    away = box.points(len(summary.centers), rng) + 10 * box.width
    return replace(summary, centers=away)


def one_huge(summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
    """Send one center at 1e99."""
    centers = np.array(summary.centers)
    centers[0, 0] = 1e99
    return replace(summary, centers=centers)


def at_random(summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
    """Send centers drawn at random from the range of the data."""
    return replace(summary, centers=box.points(len(summary.centers), rng))


def one_point(summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
    """Send the same point of the range for every center."""
    return replace(summary, centers=np.repeat(box.points(1, rng), len(summary.centers), axis=0))


def more_rows(factor: float) -> Lie:
    """Claim `factor` times as many rows."""

    def lie(summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
        counts = summary.counts
        if counts is not None:
            counts = np.rint(counts * factor).astype(np.int64)
        return replace(summary, n_samples=int(summary.n_samples * factor), counts=counts)

    return lie


def rows_claimed(n: int) -> Lie:
    """Claim `n` rows in all."""

    def lie(summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
        return more_rows(n / summary.n_samples)(summary, box, rng)

    return lie


def spread(value: float) -> Lie:
    """Claim a summed squared distance of `value` for every cluster."""

    def lie(summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
        if summary.sse is None:
            return summary
        return replace(summary, sse=np.full(len(summary.centers), value))

    return lie


def wide(factor: float) -> Lie:
    """Claim `factor` times the radii."""

    def lie(summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
        return summary if summary.radii is None else replace(summary, radii=summary.radii * factor)

    return lie


def no_rows(summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
    """Claim that a cluster has no rows."""
    if summary.counts is None:
        return summary
    counts = np.array(summary.counts)
    counts[0] = 0
    return replace(summary, counts=counts)


LIES: Mapping[str, Sequence[Lie]] = {
    "a": (far, rows_claimed(10**9)),
    "a'": (far,),
    "a''": (one_huge,),
    "b": (more_rows(1000),),
    "c": (at_random,),
    "c'": (at_random, more_rows(10)),
    "d": (one_point,),
    "e": (spread(1e30),),
    "e'": (spread(0.0),),
    "f": (no_rows,),
    "g": (wide(1e6),),
}
ABOUT = {
    "none": "none (the liars stay away)",
    "a": "a: far centers (10 ranges), a billion rows",
    "a'": "a': far centers, own rows",
    "a''": "a'': one center at 1e99",
    "b": "b: rows and counts x 1000",
    "c": "c: random centers in range",
    "c'": "c': random centers, rows x 10",
    "d": "d: all centers at one point",
    "e": "e: sums of squares 1e30",
    "e'": "e': sums of squares 0",
    "f": "f: a cluster of no rows",
    "g": "g: radii x 1e6",
}
MOVING = (far, at_random, one_point)


def tell(name: str, summary: Summary, box: Box, rng: np.random.Generator) -> Summary:
    """Return the summary with a lie, or with a combination of two such as "b+c"."""
    letters = name.split("+")
    moving = [letter for letter in letters if LIES[letter][0] in MOVING]
    lied = summary
    for letter in letters:
        before = lied
        for lie in LIES[letter]:
            lied = lie(lied, box, rng)
        if letter in moving[1:]:  # the first half keeps the other lie
            half = len(lied.centers) // 2
            lied = replace(lied, centers=np.r_[before.centers[:half], lied.centers[half:]])
    return lied


class LyingEngine(SerialEngine):
    """An engine some of whose clients lie; "none" is a lie of those who do not answer.

    Parameters
    ----------
    honest : the honest answers, kept from one lie to the next.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        *,
        lie: str,
        liars: Sequence[str],
        seed: int,
        honest: list[Reply],
    ) -> None:
        super().__init__(clients)
        self.lie, self.liars, self.rng = lie, liars, np.random.default_rng([seed, 1])
        self.honest = honest

    def gather(self, broadcast: Broadcast) -> list[Reply]:
        rows = np.concatenate([client.data for client in self.clients])
        box = Box(rows.min(axis=0), rows.max(axis=0))
        if not self.honest:
            self.honest += super().gather(broadcast)
        return [self._answer(reply, broadcast, box) for reply in self.honest]

    def _answer(self, reply: Reply, broadcast: Broadcast, box: Box) -> Reply:
        if reply.client not in self.liars or not isinstance(reply, Summary):
            return reply
        if self.lie == "none":
            return Failure(reply.client, "stayed away")
        lied = tell(self.lie, reply, box, self.rng)
        try:
            self.clients[0].method.check_answer(lied, broadcast)
        except MessageError as error:
            return Failure(reply.client, str(error))
        return lied


def fit_among_liars(
    method: FederatedClusterer, data: Dataset, clients: Ints, *, lie: str, n_liars: int, seed: int
) -> dict[str, Any]:
    """Fit a method while some clients lie. Return what the honest clients have of it.

    Returns
    -------
    `honest_ratio` : objective of the honest rows, over that of k-means on them alone;
    `caught`, `accused` : numbers of liars and of honest clients that were set aside or limited;
    `named` : whether the largest influence is that of a liar (None without influence).
    """
    names = np.unique(clients)
    chosen = np.random.default_rng([seed, 2]).permutation(names)[:n_liars]
    liars = {str(name) for name in chosen}
    answers = _answers(data.name, clients.tobytes(), seed, method.method, method.n_clusters)
    engine = partial(LyingEngine, lie=lie, liars=sorted(liars), seed=seed, honest=answers)
    method.fit(data.X, clients=clients, guard=Guard(), engine=engine, min_clients=1)
    honest = ~np.isin(clients, chosen)
    best = _best(data.X[honest].tobytes(), data.X.shape[1], method.n_clusters)
    _, distances = nearest_centers(data.X[honest], method.cluster_centers_)
    reports = site_reports(method.model_, [s.client for s in method.summaries_]) or []
    odd = {report.client for report in reports if report.reason}
    odd |= liars - {report.client for report in reports} if lie != "none" else set()
    ranked = sorted(reports, key=lambda report: -(report.influence or 0.0))
    first = ranked[0] if ranked and ranked[0].influence is not None else None
    return {
        "honest_ratio": float(distances @ distances) / best,
        "n_found": method.n_clusters_,
        "caught": len(odd & liars),
        "accused": len(odd - liars),
        "named": None if first is None else first.client in liars,
    }


@lru_cache(16)
def _answers(dataset: str, clients: bytes, seed: int, method: str, k: int) -> list[Reply]:
    """Return the list that keeps the honest answers, which are the same for all lies."""
    return []


@lru_cache(64)
def _best(rows: bytes, n_columns: int, k: int) -> float:
    """Return the objective of the best of twenty starts of k-means on the honest rows."""
    X = np.frombuffer(rows).reshape(-1, n_columns)
    return kmeans(X, k, rng=np.random.default_rng(0), n_init=20).inertia
