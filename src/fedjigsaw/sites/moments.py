"""Check the column statistics of sites against each other, before they become a scaler.

A scaler should be exactly that of the pooled rows, so statistics are used as they are unless they
are impossible. Sites that differ are only *told*, for people to decide: they may measure in other
units. From four sites on, and with at most 30 % liars:

1. The *size* of a column is the range of the sites' means plus a deviation, both without the
   extreme 30 % of the sites. A site whose mean lies 10 sizes away, or whose deviation is that
   large, is told. At 1,000 sizes its statistics are set aside; the more the deviations of the
   others differ, the more it takes.
2. A site whose mean and deviation are both many times those of the others, by about the same
   factor, or a fraction, is told: this is what other units look like. Up to a factor of about 100,
   as between m and cm, it is never set aside for that.
3. A site with more than 100 times the typical number of rows is told. Beyond 1,000 times it counts
   as a typical site, if its weight alone would move the scaler by 10 sizes or 10 times.

A column that is constant at most sites has no size: no majority can judge it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedjigsaw._received import MIN_SITES, Flags
from fedjigsaw._typing import Floats
from fedjigsaw.columns.scaling import Stats, aligned

FAR = 10.0  # sizes of a column from which on a site is told
IMPOSSIBLE = 1e3  # sizes from which on it is set aside, if the others are alike
MOST = 1e9  # the same, however different the others are
UNITS = 8.0  # factor from which on mean and deviation look like other units
UNIT_MISTAKE = 120.0  # factor up to which that is a mistake for people to mend
LIARS = 0.3  # share of the sites that may send anything
MANY, TOO_MANY = 100.0, 1e3  # times the typical rows: told, and limited if they do harm
ROUNDING = 1e-12  # differences that are smaller than this share of the mean are none


@dataclass(frozen=True)
class Verdict:
    """What the coordinator knows about the statistics of one site.

    Attributes
    ----------
    used : Stats or None
        What the scaler is made from; None if they are set aside.
    column : the column that is conspicuous; empty if none is.
    reason : what is conspicuous; empty if nothing is.
    many_rows : whether the number of rows is.
    """

    stats: Stats
    used: Stats | None
    column: str
    reason: str
    many_rows: bool = False


def judge(stats: Sequence[Stats]) -> list[Verdict]:
    """Judge the statistics of each site by those of the others, in the order of their names."""
    columns = _Columns(aligned(stats))
    limited = _limited_rows(columns)
    verdicts = []
    for i, site in enumerate(sorted(stats, key=lambda s: s.client)):
        column, reason = columns.finding(i)
        used: Stats | None = site
        if columns.impossible[i]:
            used = None
        elif limited[i]:
            used = _as_typical(site, columns.typical_rows)
        times = site.n_samples / columns.typical_rows
        many = times > MANY and len(stats) >= MIN_SITES
        if many:
            effect = "; it counts as a typical site" if limited[i] else ""
            rows = f"it claims {_factor(times)} times the rows of a typical site{effect}"
            reason = f"{reason}; {rows}" if reason else rows
        verdicts.append(Verdict(site, used, column, reason, many))
    return verdicts


def _as_typical(site: Stats, typical_rows: int) -> Stats:
    squares = site.sum_of_squares * (typical_rows / site.n_samples)
    return replace(site, n_samples=typical_rows, sum_of_squares=squares)


class _Columns:
    """Statistics as matrices, with a row for each site, and what is typical of each column."""

    def __init__(self, sites: Sequence[Stats]) -> None:
        self.names = sites[0].columns
        self.rows = np.array([site.n_samples for site in sites], dtype=np.float64)
        self.means = np.stack([site.mean for site in sites])
        self.squares = np.stack([site.sum_of_squares for site in sites])
        self.deviations = np.sqrt(self.squares / self.rows[:, None])
        self.typical_rows = int(np.median(self.rows))
        self.middle = np.median(self.means, axis=0)
        away = np.maximum(np.abs(self.means - self.middle), self.deviations)
        rounding = ROUNDING * np.abs(self.middle)
        self.size, most = self._sizes(rounding)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            self.sizes_away = np.where(self.size > 0, away / self.size, 0.0)
        self.factors = self._unit_factors(rounding)
        mistakes = (self.factors != 1) & (self.factors < UNIT_MISTAKE)
        enough = len(sites) >= MIN_SITES
        self.told = (self.sizes_away > FAR) & enough
        self.too_far = self.told & (self.sizes_away > most) & ~mistakes
        self.impossible = np.asarray(self.too_far.any(axis=1))

    def _sizes(self, rounding: Floats) -> tuple[Floats, Floats]:
        """Return the size of each column, and how many sizes are possible."""
        last = len(self.means) - 1
        dropped = int(LIARS * len(self.means))
        means, deviations = np.sort(self.means, axis=0), np.sort(self.deviations, axis=0)
        low, high = deviations[dropped], deviations[last - dropped]
        size = np.maximum(means[last - dropped] - means[dropped], 0) + high
        size[size <= rounding] = 0.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            unlike = np.where(low > rounding, high / low, np.inf)
        return size, np.clip(IMPOSSIBLE * unlike, IMPOSSIBLE, MOST)

    def _unit_factors(self, rounding: Floats) -> Floats:
        """Return by which factor a column looks like one of other units; 1 if it does not."""
        ok = (self.deviations > rounding) & (self.middle * self.means > 0)
        log_deviations = np.log(np.where(ok, self.deviations, 1.0))
        log_means = np.log(np.where(ok, np.abs(self.means), 1.0))
        found = np.zeros_like(self.means)
        for j in range(len(self.names)):
            own = np.flatnonzero(ok[:, j])
            if len(own) <= len(self.means) / 2 or len(own) < 3:
                continue
            parts = []
            for logs in (log_deviations[own, j], log_means[own, j]):
                part = logs - np.median(logs)
                border = max(np.log(UNITS), 6 * float(np.median(np.abs(part))))
                parts.append(np.where(np.abs(part) > border, part, 0.0))
            same = (parts[0] * parts[1] > 0) & (np.abs(parts[0] - parts[1]) < np.log(3))
            found[own, j] = np.where(same, (parts[0] + parts[1]) / 2, 0.0)
        return np.asarray(np.exp(found))

    def finding(self, i: int) -> tuple[str, str]:
        """Return the most conspicuous column of a site and what is conspicuous, or nothing."""
        in_units = self.factors[i] != 1
        if self.impossible[i]:
            j = int(np.where(self.too_far[i], self.sizes_away[i], 0).argmax())
        elif in_units.any():
            j = int(np.abs(np.log(self.factors[i])).argmax())
        elif self.told[i].any():
            j = int(self.sizes_away[i].argmax())
        else:
            return "", ""
        name, f = self.names[j], self.factors[i, j]
        if in_units[j]:
            times = f"{_factor(f)} times" if f > 1 else f"1/{_factor(1 / f)} of"
            text = f"mean and deviation of {name} are about {times} those of the others"
            return name, f"{text}: are these other units?"
        times = _factor(self.sizes_away[i, j])
        return name, f"mean or deviation of {name} is {times} times the range of the others"


def _limited_rows(columns: _Columns) -> Flags:
    """Tell which sites claim impossibly many rows whose weight moves the scaler of the others."""
    rows, kept = columns.rows, ~columns.impossible
    heavy = kept & (rows > TOO_MANY * columns.typical_rows) & (len(rows) >= MIN_SITES)
    capped = np.where(heavy, columns.typical_rows, rows)
    limited = np.zeros_like(heavy)
    if not heavy.any():
        return limited
    mean, deviation = _pooled(columns, capped, kept)
    sized = columns.size > 0
    for i in np.flatnonzero(heavy):
        with_it = capped.copy()
        with_it[i] = rows[i]
        new_mean, new_deviation = _pooled(columns, with_it, kept)
        moved = np.abs(new_mean - mean) > FAR * columns.size
        wider, narrower = new_deviation > FAR * deviation, FAR * new_deviation < deviation
        limited[i] = (sized & (moved | wider | narrower)).any()
    return limited


def _pooled(columns: _Columns, rows: Floats, kept: Flags) -> tuple[Floats, Floats]:
    """Return mean and deviation of each column with these numbers of rows."""
    share = np.where(kept, rows, 0.0)
    share = share / share.sum()
    means, deviations = columns.means[kept], columns.deviations[kept]
    mean = share[kept] @ means
    return mean, np.sqrt(share[kept] @ (deviations**2 + (means - mean) ** 2))


def _factor(value: float) -> str:
    return (
        f"{value:,.0f}"
        if value < 1e6
        else f"{min(value, 1e99):.0e}".replace("e+0", "e").replace("e+", "e")
    )
