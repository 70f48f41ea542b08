"""Say what makes a cluster a cluster: numbers and plain sentences from what sites sent.

Names of columns, categories and sites are data of others. They are plain strings here; whoever
prints them escapes them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.contrasts import MOSTLY, Contrast, contrasts, sets_apart
from fedjigsaw.columns.in_words import all_digits, day, level, shown_of, unit_of
from fedjigsaw.columns.profiles import Profile, check_describable
from fedjigsaw.columns.schema import BOOLEAN, DATE, ORDERED, Column, Schema
from fedjigsaw.errors import counted
from fedjigsaw.io.formats import ModelFile, Score
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.methods._support import support_of
from fedjigsaw.report.units import number, percent

TOO_NOISY = "too noisy to tell how it differs from all rows"

__all__ = [
    "ClusterProfile",
    "describe_clusters",
    "describe_profile",
    "phrase",
]


@dataclass(frozen=True)
class ClusterProfile:
    """One cluster: how large it is and where, what sets it apart, and how well it is supported.

    Attributes
    ----------
    cluster : the id of the cluster.
    rows, by_site : rows of all sites, and of each site that has some (largest first).
    contrasts : every column, and every level of a category, beside all rows. The cluster that they
        name is its place in the model.
    apart : the contrasts that set the cluster apart, at most five, the clearest first.
    phrases : the same in words, such as "higher age (mean 71 years, all rows: 54)".
    support : clients, points, spread and margin, as the model states them; None if it does not.
    nearest, distance : the cluster with the nearest center, and its distance in the units of the
        clustering; None and NaN if there is only one.
    sentence : all of it in one sentence.
    """

    cluster: int
    rows: int
    by_site: Mapping[str, int]
    contrasts: tuple[Contrast, ...]
    apart: tuple[Contrast, ...]
    phrases: tuple[str, ...]
    support: Mapping[str, float] | None
    nearest: int | None
    distance: float
    sentence: str


def describe_clusters(
    file: ModelFile | None, score: Score, sites: Sequence[Score] = (), *, most: int = 5
) -> list[ClusterProfile]:
    """Describe every cluster of a model.

    Parameters
    ----------
    file : the model; None if only its scores are known: then there are no units, no support and no
        neighbors.
    score : of all sites together.
    sites : the scores of the single sites, if they are known.
    most : how many columns may set a cluster apart.

    Raises
    ------
    MessageError
        If there are too many clusters and columns.
    """
    columns = {} if file is None else _columns(file)
    found: list[list[Contrast]] = [[] for _ in score.counts]
    if score.profile is not None:
        check_describable(len(found), score.profile.numbers, score.profile.levels)
        noise = _noise(score, score.profile, max(1, len(sites)))
        for one in contrasts(score.profile, *noise, len(sites)):
            found[one.cluster].append(one)
    support = None if file is None else support_of(file.model)
    neighbors = nearest_clusters(np.zeros((len(found), 0)) if file is None else file.model.centers)
    ids, described = score.cluster_ids, []
    for c, own in enumerate(found):
        apart = tuple(sets_apart(own, most))
        phrases = tuple(phrase(one, columns.get(one.column)) for one in apart)
        rows = {s.client: int(s.counts[c]) for s in sites if s.counts[c]}
        by_site = dict(sorted(rows.items(), key=lambda item: (-item[1], item[0])))
        size = int(score.counts[c])
        near, distance = neighbors[c]
        start = _start(ids[c], size, len(by_site), noisy=score.privacy is not None)
        end = "; ".join(phrases) or _without(own, size, len(sites), noisy=score.privacy is not None)
        described.append(
            ClusterProfile(
                ids[c],
                size,
                by_site,
                tuple(own),
                apart,
                phrases,
                None if support is None else {n: float(v[c]) for n, v in support.items()},
                None if near is None else ids[near],
                distance,
                f"{start}: {end}.",
            )
        )
    return described


def _columns(file: ModelFile) -> dict[str, Column]:
    """Return the columns of the model's schema by name; none without a schema."""
    columns = () if file.encoding is None else file.encoding.schema.described
    return {column.name: column for column in columns}


def _noise(score: Score, profile: Profile, n_sites: int) -> tuple[float, Floats | None]:
    """Return about how much noise is on the sums: by a formula that needs no OpenDP."""
    if score.privacy is None:
        return 0.0, None
    low, high = score.privacy.limits(len(profile.numbers))
    far = math.log(1 / score.privacy.delta)
    rho = (math.sqrt(far + score.privacy.epsilon) - math.sqrt(far)) ** 2
    sensitivity = math.sqrt(1 + 2 * len(profile.numbers) + len(profile.levels))
    return sensitivity * math.sqrt(n_sites / (2 * rho)), high / 2 - low / 2


def nearest_clusters(centers: Floats) -> list[tuple[int | None, float]]:
    """Return the nearest other cluster of each, and its distance; None and NaN without others."""
    if len(centers) < 2 or not centers.shape[1]:
        return [(None, math.nan)] * len(centers)
    apart = pairwise_distances(centers, centers)
    np.fill_diagonal(apart, np.inf)
    return list(zip(apart.argmin(axis=1).tolist(), apart.min(axis=1).tolist(), strict=True))


def _start(cluster: int, rows: int, n_sites: int, *, noisy: bool) -> str:
    text = f"Cluster {cluster}, {'about ' * noisy}{counted(rows, 'row')}"
    return f"{text} at {counted(n_sites, 'site')}" if n_sites else text


def _without(found: Sequence[Contrast], n_rows: int, n_sites: int, *, noisy: bool) -> str:
    if not found:
        return "no site sent a profile"
    if noisy:
        return TOO_NOISY
    if not n_rows:
        return "no rows"
    if all(math.isnan(one.difference) for one in found):
        return f"the guard {'of every site ' * (n_sites > 1)}hides its profile"
    return "much like all rows"


def describe_profile(
    profile: Profile,
    most: int,
    ids: Sequence[int] | None = None,
    schema: Schema | None = None,
) -> Iterator[str]:
    """List the numbers of a profile, cluster by cluster, for someone who decides to send it."""
    columns = shown_of(schema)
    rule = f"nothing about fewer than {profile.min_cluster_size} rows"
    rule = rule if profile.min_cluster_size > 1 else "none"
    yield f"Profile, in the units of the file (guard, as stated by the sender: {rule}):"
    for c in range(min(profile.n_clusters, most)):
        found = [
            f"{name} {all_digits(name, profile.mean[c, j], columns)} "
            f"(n {n}, sum of squares {squares:.6g})"
            for j, (name, n, squares) in enumerate(
                zip(profile.numbers, profile.count[c], profile.sum_of_squares[c], strict=True)
            )
            if n
        ]
        for column, counts in profile.level_counts.items():
            levels = zip(profile.levels[column], counts[c].tolist(), strict=True)
            shown = [f"{level} {n}" for level, n in levels if n]
            found += [f"{column}: {', '.join(shown[:most])}{', ...' * (len(shown) > most)}"] * any(
                shown
            )
        n_more = len(found) - most
        more = f"; ... and {counted(n_more, 'more column')}" if n_more > 0 else ""
        yield f"  {ids[c] if ids else c}: " + ("; ".join(found[:most]) or "nothing") + more


# ----------------------------------------------------------------------------------------- words


def phrase(one: Contrast, column: Column | None = None) -> str:
    """Say how a cluster differs from all rows in one column.

    Parameters
    ----------
    column : the column of the schema, if there is one: its kind, unit and categories.

    Examples
    --------
    >>> phrase(Contrast(0, "age", None, 9, 1.7, 1.5, mean=71.2, all_mean=54.4, all_std=11.0))
    'higher age (mean 71, all rows: 54)'
    >>> phrase(Contrast(0, "sex", "female", 9, 0.6, 0.5, share=0.82, all_share=0.51))
    'sex mostly female (82 %, all rows: 51 %)'
    >>> severity = Column("severity", "ordered", categories=("mild", "moderate", "severe"))
    >>> found = Contrast(0, "severity", None, 9, 1.7, 1.5, mean=1.4, all_mean=0.9, all_std=0.5)
    >>> phrase(found, severity)
    'higher severity (rank 1.40, all rows: 0.90; near moderate)'
    """
    column = column or Column(one.column)
    kind = column.kind
    if one.category is not None:
        way = "mostly" if one.share > MOSTLY else "more often"
        way = way if one.difference > 0 else "less often"
        shares = f"{percent(one.share)}, all rows: {percent(one.all_share)}"
        return f"{one.column} {way} {one.category} ({shares})"
    if kind == BOOLEAN:
        way = "more" if one.difference > 0 else "less"
        shares = f"{percent(one.mean)}, all rows: {percent(one.all_mean)}"
        return f"{one.column} {way} often ({shares})"
    if kind == DATE:
        way = "later" if one.difference > 0 else "earlier"
        days = f"mean {day(one.mean)}, all rows: {day(one.all_mean)}"
        return f"{way} {one.column} ({days})"
    way = "higher" if one.difference > 0 else "lower"
    if kind == ORDERED:
        own, everyone = (level(x, column.categories) for x in (one.mean, one.all_mean))
        if own == everyone:
            ranks = [number(x, one.all_std) for x in (one.mean, one.all_mean)]
            return f"{way} {one.column} (rank {ranks[0]}, all rows: {ranks[1]}; near {own})"
        return f"{way} {one.column} (around {own}, all rows: {everyone})"
    own, everyone = (number(x, one.all_std) for x in (one.mean, one.all_mean))
    unit = f" {unit_of(column)}" if unit_of(column) else ""
    return f"{way} {one.column} (mean {own}{unit}, all rows: {everyone})"
