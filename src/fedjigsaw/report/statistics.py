"""Tell people about the statistics of each site: which are conspicuous, and what was done."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from fedjigsaw.columns.in_words import features_of, moments_in_short
from fedjigsaw.columns.scaling import Stats
from fedjigsaw.columns.schema import Column
from fedjigsaw.errors import counted
from fedjigsaw.sites.moments import Verdict

MAX_COLUMNS = 3  # conspicuous columns that are shown


def describe_statistics(verdicts: Sequence[Verdict], most: int) -> Iterator[str]:
    """Describe the conspicuous columns at each site; nothing if nothing is conspicuous.

    Parameters
    ----------
    most : how many sites are shown: the conspicuous ones first.
    """
    if not any(verdict.reason for verdict in verdicts):
        return
    named = dict.fromkeys(verdict.column for verdict in verdicts if verdict.column)
    columns = list(named)[:MAX_COLUMNS]
    known = features_of(verdicts[0].stats.made_by)
    yield "Sites (mean and deviation of the conspicuous columns; do all use the same units?):"
    shown = sorted(verdicts, key=lambda v: not v.reason) if len(verdicts) > most else verdicts
    for verdict in shown[:most]:
        yield f"  {_statistics_of(verdict.stats, columns, known)}{_offer(verdict)}"
    if len(verdicts) > most:
        yield f"  and {len(verdicts) - most:,} others"


def _statistics_of(stats: Stats, names: Sequence[str], columns: Mapping[str, Column]) -> str:
    parts = [counted(stats.n_samples, "row")]
    for name in names:
        j = stats.columns.index(name)
        deviation = sqrt(stats.sum_of_squares[j] / stats.n_samples)
        parts.append(f"{name}: {moments_in_short(name, stats.mean[j], deviation, columns)}")
    return f"{stats.client}: " + "; ".join(parts)


def _offer(verdict: Verdict) -> str:
    """Say what is conspicuous about a site, what was done, and how to leave it out."""
    if not verdict.reason:
        return ""
    aside = "set aside, since " if verdict.used is None else ""
    return f"; {aside}{verdict.reason}; leave it out with --without {verdict.stats.client}"
