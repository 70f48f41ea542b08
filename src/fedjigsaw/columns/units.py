"""Find columns in which a site seems to use another unit, by the statistics of all sites.

Glucose in mg/dl at two sites and in mmol/l at a third makes clusters that are just "the third
site". Each site is compared with a *reference*: the site with the median mean among the others. A
column is conspicuous if, at some site, the means differ by 5 deviations (the smaller of the two),
and either

1. *another scale*: mean and deviation are both about the same number of times those of the
   reference (at least 2, and then the difference is 2 of the larger deviations; or at least 8), and
   the difference is 5 times the spread of the other means (2 times for a clear factor of 8); or
2. *far*: the difference is 2.5 of the larger deviations, and 10 times the spread of the other
   means. Between two sites, which have no others, it must be 20 of the smaller deviations instead.

The numbers were chosen on evidence. With one of 2, 3, 5 or 10 sites in another unit, 30 or 1,000
rows each, and means that are otherwise equal or differ by half a deviation, the column was found in
all of 100 draws for glucose, cholesterol (mg/dl, mmol/l), creatinine (mg/dl, umol/l), hemoglobin
(g/dl, g/l), body temperature (C, F) and height (m, cm), 87 to 100 % for HbA1c (%, mmol/mol), blood
pressure (mm Hg, kPa) and age (years, months), 73 to 89 % for weight (kg, lb), 75 to 80 % for air
temperature (C, F) from three sites on and hardly ever between two, and 56 to 75 % for CRP (mg/l,
mg/dl), whose deviation is larger than its mean.

There was no false alarm on S1 to S4, as they are or standardized, on `gaussian_grid` and on breast
cancer, split among 2, 3, 5, 10 and 20 sites, IID or by Dirichlet(1.0, 0.3, 0.1), ten seeds each.
On iris and wine there was none with IID and Dirichlet(1.0) either, 4 % on iris with Dirichlet(0.3),
and 18 and 8 % with Dirichlet(0.1): the petals of a site with one kind of flower look just like
others in another unit.

Sites of fewer than 10 rows, columns of zeros and ones, and columns that are constant at a site are
not judged. Noisy statistics need no allowance: their deviations are never stated below the noise
(no false alarm in 360 draws of equal sites, epsilon 0.05 to 5, 30 to 2,000 rows).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.fitting import Moments, known_moments
from fedjigsaw.columns.in_words import features_of, moments_in_short
from fedjigsaw.columns.scaling import Stats, aligned
from fedjigsaw.columns.schema import NUMBER, Column, Schema
from fedjigsaw.errors import counted

MIN_ROWS = 10
APART = 5.0  # of the smaller deviations
SCALE, LARGE_SCALE = 2.0, 8.0  # factors that look like another unit, the second in any case
SAME, LARGE_SAME = 1.5, 3.0  # factors of mean and deviation may differ by this much
SCALE_WIDTH, FAR_WIDTH = 2.0, 2.5  # of the larger deviations
SCALE_SPREAD, LARGE_SPREAD, FAR_SPREAD = 5.0, 2.0, 10.0  # of the spread of the others' means
PAIR = 20.0  # of the smaller deviations, between two sites
ROUNDING = 1e-9  # of the mean: smaller deviations are none
MAX_SHOWN = 20


@dataclass(frozen=True)
class SiteColumn:
    """One column at one site.

    Attributes
    ----------
    factor : about how many times those of the others mean and deviation are; None if they are not
        a multiple of them.
    """

    client: str
    rows: int
    mean: float
    deviation: float
    conspicuous: bool = False
    factor: float | None = None


@dataclass(frozen=True)
class Conspicuous:
    """A column in which the means of sites differ as they do in different units.

    Attributes
    ----------
    made_by : the schema that the column was made by, so that people can read its numbers, or None.
    """

    column: str
    sites: tuple[SiteColumn, ...]
    made_by: Schema | None = None

    @property
    def clients(self) -> tuple[str, ...]:
        """The sites that differ from the others."""
        return tuple(site.client for site in self.sites if site.conspicuous)

    def sentence(self) -> str:
        """Return who differs from the others, for a report."""
        columns = features_of(self.made_by)
        told = [_line(self.column, site, columns) for site in self.sites if site.conspicuous]
        return f"Do all sites use the same unit in column {self.column!r}? {'; '.join(told)}."

    def __str__(self) -> str:
        """Return the table of all sites, and what to do."""
        first = sorted(self.sites, key=lambda site: not site.conspicuous)
        shown = list(self.sites) if len(first) <= MAX_SHOWN else first[:MAX_SHOWN]
        lines = [f"Do all sites use the same unit in column {self.column!r}?"]
        columns = features_of(self.made_by)
        lines += [f"  {_line(self.column, site, columns)}" for site in shown]
        if len(first) > MAX_SHOWN:
            lines.append(f"  and {len(first) - MAX_SHOWN:,} others")
        without = f"for example with --without {quote(self.clients[0])}"
        lines.append(f"Check the unit. {self._way(columns.get(self.column))},")
        lines.append(f"or leave a site out, {without}.")
        return "\n".join(lines)

    def _way(self, column: Column | None) -> str:
        if column is None or column.kind != NUMBER:
            return "Correct the values in a site's file"
        apply = f"--factor {quote(column.name)}=NUMBER -o COPY.parquet"
        return f"Convert a file with `fedjigsaw schema apply FILE --schema schema.toml {apply}`"


def conspicuous_columns(stats: Sequence[Stats]) -> list[Conspicuous]:
    """Return the columns in which some site seems to use another unit, with all sites.

    Examples
    --------
    >>> def site(name, mean, deviation, n=400):
    ...     return Stats(name, ("glucose",), n, np.array([mean]), np.array([n * deviation**2]))
    >>> sites = [site("bern", 121.6, 35), site("dresden", 7.2, 2.1), site("lyon", 120.6, 33)]
    >>> (found,) = conspicuous_columns(sites)
    >>> print(found)
    Do all sites use the same unit in column 'glucose'?
      bern: 400 rows, mean 121.6, deviation 35
      dresden: 400 rows, mean 7.2, deviation 2.1 (about 1/16.8 of the others)
      lyon: 400 rows, mean 120.6, deviation 33
    Check the unit. Correct the values in a site's file,
    or leave a site out, for example with --without dresden.
    """
    if len(stats) < 2:
        return []
    sites = aligned([_of_known_values(site) for site in stats])
    rows = np.array([site.n_samples for site in sites])
    means = np.stack([site.mean for site in sites])
    deviations = np.sqrt(np.stack([site.sum_of_squares for site in sites]) / rows[:, None])
    judged = np.flatnonzero(rows >= MIN_ROWS)
    told = np.zeros(means.shape, dtype=bool)
    factors = np.ones(means.shape)
    if len(judged) >= 2:
        told[judged], factors[judged] = _judge(means[judged], deviations[judged])
    found = []
    for j in np.flatnonzero(told.any(axis=0)):
        table = [
            SiteColumn(site.client, site.n_samples, float(m), float(d), bool(t), _or_none(f))
            for site, m, d, t, f in zip(
                sites, means[:, j], deviations[:, j], told[:, j], factors[:, j], strict=True
            )
        ]
        found.append(Conspicuous(sites[0].columns[j], tuple(table), sites[0].made_by))
    return found


def _of_known_values(site: Stats) -> Stats:
    """Take out what stands for missing values: it is the same number in every unit."""
    if site.made_by is None:
        return site
    n, names = site.n_samples, site.columns
    variance = site.sum_of_squares / n
    given = Moments(
        n, dict(zip(names, site.mean, strict=True)), dict(zip(names, variance, strict=True))
    )
    known = known_moments(site.made_by, given)
    return replace(
        site,
        mean=np.array([known.mean[name] for name in names]),
        sum_of_squares=n * np.array([known.variance[name] for name in names]),
    )


def _judge(means: Floats, deviations: Floats) -> tuple[np.ndarray, Floats]:
    """Return, for each site and column, whether it is conspicuous, and the factor, or 1."""
    at = _nth_other(means, (len(means) - 2) // 2)  # the lower median of the others
    reference, deviation = (np.take_along_axis(x, at, axis=0) for x in (means, deviations))
    apart, spread = np.abs(means - reference), _spread(means, reference)
    small, large = np.minimum(deviations, deviation), np.maximum(deviations, deviation)
    varies = small > ROUNDING * np.maximum(np.abs(means), np.abs(reference))
    known = varies & ~_is_binary(means, deviations)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        same_sign = np.sign(means) * np.sign(reference) > 0
        scale = np.log(np.where(known & same_sign, means / reference, 1.0))
        unlike = np.abs(scale - np.log(np.where(known, deviations / deviation, 1.0)))
    factor = np.abs(scale)
    alike, clear = unlike <= np.log(SAME), apart >= SCALE_SPREAD * spread
    scaled = alike & (factor >= np.log(SCALE)) & (apart >= SCALE_WIDTH * large) & clear
    roughly = clear & (unlike <= np.log(LARGE_SAME))
    roughly |= alike & (apart >= LARGE_SPREAD * spread)  # the others may have an outlier
    scaled |= roughly & (factor >= np.log(LARGE_SCALE))
    scaled &= known & (apart >= APART * small)
    far = (apart >= FAR_WIDTH * large) & (apart >= FAR_SPREAD * spread)
    far &= known & (apart >= (PAIR if len(means) == 2 else APART) * small)
    return scaled | far, np.where(scaled, np.exp(scale), 1.0)


def _nth_other(values: Floats, n: int) -> Ints:
    """Return, for each entry, the row of the n-th smallest of the others in its column."""
    order = np.argsort(values, axis=0, kind="stable")
    rank = np.argsort(order, axis=0, kind="stable")
    return np.asarray(np.take_along_axis(order, np.where(rank <= n, n + 1, n), axis=0))


def _spread(means: Floats, reference: Floats) -> Floats:
    """Return the upper median distance of the other sites to the reference.

    In each column there are only two references: one for the sites below, and one for those above.
    """
    spread = np.zeros_like(means)
    if len(means) == 2:
        return spread
    for center in (reference.min(axis=0), reference.max(axis=0)):
        distances = np.abs(means - center)
        at = _nth_other(distances, (len(means) - 1) // 2)
        found = np.take_along_axis(distances, at, axis=0)
        spread = np.where(reference == center, found, spread)
    return spread


def _is_binary(means: Floats, deviations: Floats) -> np.ndarray:
    """Tell which columns hold zeros and ones only: their deviation follows from the mean."""
    expected = means * (1 - means)
    return np.asarray((np.abs(deviations**2 - expected) <= 1e-6 * np.abs(expected)).all(axis=0))


def _or_none(factor: float) -> float | None:
    return None if factor == 1.0 else float(factor)


def _line(name: str, site: SiteColumn, columns: Mapping[str, Column]) -> str:
    moments = moments_in_short(name, site.mean, site.deviation, columns)
    text = f"{site.client}: {counted(site.rows, 'row')}, {moments}"
    if not site.conspicuous:
        return text
    if site.factor is None:
        return f"{text} (far from the others)"
    times = f"{site.factor:.3g} times" if site.factor > 1 else f"1/{1 / site.factor:.3g} of"
    return f"{text} (about {times} the others)"
