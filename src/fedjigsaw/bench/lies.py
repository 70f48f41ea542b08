"""Lies that a site may tell: each changes an honest summary into one that does harm.

The letters are those of the table that ``fedjigsaw reproduce liars`` makes. A combination, such as
"b+c", applies both: of two lies about centers, each gets half of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.messages import Summary


@dataclass(frozen=True)
class Room:
    """What a liar knows: the range of the data, lowest and highest value of each column."""

    low: Floats
    high: Floats

    @property
    def width(self) -> Floats:
        return self.high - self.low

    def points(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw points from the range."""
        return rng.uniform(self.low, self.high, size=(n, len(self.low)))


Lie = Callable[[Summary, Room, np.random.Generator], Summary]


def far(summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
    """Send centers ten ranges away."""
    away = room.points(len(summary.centers), rng) + 10 * room.width
    return replace(summary, centers=away)


def one_huge(summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
    """Send one center at 1e99."""
    centers = np.array(summary.centers)
    centers[0, 0] = 1e99
    return replace(summary, centers=centers)


def at_random(summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
    """Send centers drawn at random from the range of the data."""
    return replace(summary, centers=room.points(len(summary.centers), rng))


def one_point(summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
    """Send the same point of the range for every center."""
    return replace(summary, centers=np.repeat(room.points(1, rng), len(summary.centers), axis=0))


def more_rows(factor: float) -> Lie:
    """Claim `factor` times as many rows."""

    def lie(summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
        counts = summary.counts
        if counts is not None:
            counts = np.rint(counts * factor).astype(np.int64)
        return replace(summary, n_samples=int(summary.n_samples * factor), counts=counts)

    return lie


def rows_claimed(n: int) -> Lie:
    """Claim `n` rows in all."""

    def lie(summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
        return more_rows(n / summary.n_samples)(summary, room, rng)

    return lie


def spread(value: float) -> Lie:
    """Claim a summed squared distance of `value` for every cluster."""

    def lie(summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
        if summary.sse is None:
            return summary
        return replace(summary, sse=np.full(len(summary.centers), value))

    return lie


def wide(factor: float) -> Lie:
    """Claim `factor` times the radii."""

    def lie(summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
        return summary if summary.radii is None else replace(summary, radii=summary.radii * factor)

    return lie


def no_rows(summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
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
    "a": "far centers (10 x range), a billion rows",
    "a'": "far centers, own rows",
    "a''": "one center at 1e99",
    "b": "rows and counts x 1000",
    "c": "random centers in range",
    "c'": "random centers, rows x 10",
    "d": "all centers at one point",
    "e": "sums of squares 1e30",
    "e'": "sums of squares 0",
    "f": "a cluster of no rows",
    "g": "radii x 1e6",
}
MOVING = (far, at_random, one_point)


def tell(name: str, summary: Summary, room: Room, rng: np.random.Generator) -> Summary:
    """Return the summary with a lie, or with a combination of several such as "b+c"."""
    letters = name.split("+")
    told = summary
    share = [letter for letter in letters if LIES[letter][0] in MOVING]
    for letter in letters:
        before = told
        for lie in LIES[letter]:
            told = lie(told, room, rng)
        if letter in share and share.index(letter) > 0:  # the first half keeps the earlier lie
            half = len(told.centers) // 2
            kept = np.concatenate([before.centers[:half], told.centers[half:]])
            told = replace(told, centers=kept)
    return told
