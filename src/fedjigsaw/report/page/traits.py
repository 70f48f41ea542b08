"""What sets clusters apart: the value of every column in every cluster, beside that of all rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.contrasts import Contrast, sets_apart
from fedjigsaw.columns.in_words import day, level, unit_of
from fedjigsaw.columns.scaling import merge
from fedjigsaw.columns.schema import BOOLEAN, DATE, ORDERED, OTHER, Column
from fedjigsaw.io.formats import Score
from fedjigsaw.report.page.readings import center_contrasts
from fedjigsaw.report.page.run import Run
from fedjigsaw.report.page.words import plain, sentence, short
from fedjigsaw.report.profiles import TOO_NOISY, describe_clusters, phrase
from fedjigsaw.report.units import number, percent

TOP = 5  # columns that describe a cluster
NOTICEABLE = 0.25  # standard deviations from which on a center is called higher or lower
LONGEST_LEAD = 400  # characters


@dataclass(frozen=True)
class Traits:
    """Columns that describe clusters.

    Attributes
    ----------
    names : of m columns, with their units; a category has one for each level.
    columns : the columns of the file that these are from.
    difference : shape (k, m), from all rows in standard deviations; NaN where nothing is known.
    sure : shape (k, m), the size of the difference that is sure.
    values, spreads : of each cluster, k lists of m texts.
    overall : of all rows, m texts.
    apart : for each cluster, the columns that set it apart, the clearest first.
    leads : each cluster in a sentence.
    note : where the numbers are from.
    about_shares : what must be known about shares of categories, if anything.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    difference: Floats
    sure: Floats
    values: list[list[str]]
    spreads: list[list[str]]
    overall: list[str]
    apart: list[list[int]]
    leads: list[str]
    note: str
    about_shares: str = ""

    def strongest(self) -> list[int]:
        """Return the columns, those first in which clusters differ most."""
        return [int(j) for j in np.argsort(-self.sure.max(axis=0), kind="stable")]

    def strongest_columns(self, most: int) -> list[str]:
        """Return the columns of the file in which clusters differ most."""
        found = [j for j in self.strongest() if self.sure[:, j].max() > 0]
        return list(dict.fromkeys(self.columns[j] for j in found))[:most]


def traits_of(run: Run, sizes: Floats | None) -> Traits:
    """Describe clusters by the profiles that sites sent, or else by their centers.

    Parameters
    ----------
    sizes : rows of each cluster; None if they are not known.
    """
    total = run.total
    if total is not None and total.profile is not None:
        return _of_profile(run, total)
    if run.model.encoding is not None:
        return _of_readings(run)
    return _of_centers(run, sizes)


# --------------------------------------------------------------------------------------- profiles


def _of_profile(run: Run, total: Score) -> Traits:
    described = describe_clusters(run.model, total, run.scores, most=TOP)
    found = [cluster.contrasts for cluster in described]
    note = "Differences are in standard deviations of all rows with a profile."
    guard = _guard_of(run)
    if guard > 1:
        note += (
            f" Where a site has fewer than {guard} rows of a cluster, they are left out. Means and "
            "spreads are rounded to about their sampling error: further digits mean nothing."
        )
    otherwise = "Much like all rows, as far as profiles tell."
    noisy = run.noisy_profiles
    if noisy:
        otherwise = sentence(TOO_NOISY)
        note += (
            " Values have noise, for the sake of privacy: small differences, and rare categories, "
            "may be nothing but noise. Only differences that are sure in spite of it are colored."
        )
    leads = [_lead(cluster.phrases, otherwise) for cluster in described]
    traits = _of_contrasts(run, found, [c.apart for c in described], leads, note, guard)
    return replace(traits, spreads=[[""] * len(traits.names)] * run.k) if noisy else traits


def _of_contrasts(
    run: Run,
    found: Sequence[Sequence[Contrast]],
    apart: Sequence[Sequence[Contrast]],
    leads: list[str],
    note: str,
    guard: int = 1,
) -> Traits:
    columns = run.schema_columns
    found = _without_nothing(found)
    own = [columns.get(one.column) for one in found[0]]
    places = {(one.column, one.category): j for j, one in enumerate(found[0])}
    texts = [[_texts(one, c) for one, c in zip(row, own, strict=True)] for row in found]
    return Traits(
        tuple(_name(one, c) for one, c in zip(found[0], own, strict=True)),
        tuple(short(one.column) for one in found[0]),
        np.array([[_finding(one) for one in row] for row in found]),
        np.array([[one.at_least for one in row] for row in found]),
        [[value for value, _, _ in row] for row in texts],
        [[spread for _, spread, _ in row] for row in texts],
        [overall for _, _, overall in texts[0]],
        [[places[one.column, one.category] for one in row] for row in apart],
        leads,
        note,
        _about_shares(guard) if any(one.category is not None for one in found[0]) else "",
    )


def _without_nothing(found: Sequence[Sequence[Contrast]]) -> list[list[Contrast]]:
    """Leave out "(other)" of columns in which no row has such a category."""
    columns = zip(*found, strict=True)
    kept = [any(one.category != OTHER or one.share > 0 for one in column) for column in columns]
    return [[one for one, keep in zip(row, kept, strict=True) if keep] for row in found]


def _guard_of(run: Run) -> int:
    """Return the strictest guard of the profiles; 1 if there is none."""
    return max(score.profile.min_cluster_size for score in run.scores if score.profile is not None)


def _about_shares(guard: int) -> str:
    """Say what the guard does to shares of categories (`fedjigsaw.privacy.statistics`)."""
    if guard == 1:
        return ""
    return (
        "Shares of rare categories are approximate: at each site, the rows of each category in a "
        f"cluster, also of yes and no, are rounded to a multiple of {guard}."
    )


def _finding(one: Contrast) -> float:
    """Return the difference of a column, or NaN of a level that is many things."""
    return np.nan if one.category == OTHER else one.difference


def _lead(phrases: tuple[str, ...], otherwise: str) -> str:
    if not phrases:
        return otherwise
    return sentence(short("; ".join(phrases[:3]), LONGEST_LEAD).replace(" %", "\u00a0%"))


def _name(one: Contrast, column: Column | None) -> str:
    if one.category == OTHER:
        return short(f"{one.column}: {OTHER}, rare categories together")
    if one.category is not None:
        return short(f"{one.column}: {one.category}")
    unit = "" if column is None else unit_of(column)
    return f"{short(one.column)} ({short(unit, 20)})" if unit else short(one.column)


def _texts(one: Contrast, column: Column | None) -> tuple[str, str, str]:
    """Return value and spread of a column in a cluster, and its value in all rows."""
    if one.category is not None:
        return percent(one.share), "", percent(one.all_share)
    kind = None if column is None else column.kind
    if kind == BOOLEAN:
        return percent(one.mean), "", percent(one.all_mean)
    if kind == DATE:
        spread = "" if np.isnan(one.std) else f"{number(one.std, one.std)} days"
        return day(one.mean), spread, day(one.all_mean)
    if kind == ORDERED and column is not None:
        own, everyone = (plain(level(x, column.categories)) for x in (one.mean, one.all_mean))
        return own, "", everyone
    value, spread, overall = (number(x, one.all_std) for x in (one.mean, one.std, one.all_mean))
    return value, "" if np.isnan(one.std) else spread, overall


# ---------------------------------------------------------------------------------------- centers


def _of_readings(run: Run) -> Traits:
    found = center_contrasts(run)
    apart = [sets_apart(own, TOP) for own in found]
    columns = run.schema_columns
    leads = []
    for row in apart:
        clear = [one for one in row if abs(one.difference) >= NOTICEABLE]
        words = tuple(phrase(one, columns.get(one.column)) for one in clear)
        leads.append(_lead(words, "About average in all columns."))
    note = "Differences are in the units that the schema gives to each column."
    if any(column.scale == "log" for column in columns.values()):
        note += " The mean of a column with a scale of logarithms is the geometric mean."
    return _of_contrasts(run, found, apart, leads, note)


def _of_centers(run: Run, sizes: Floats | None) -> Traits:
    model = run.model
    centers = model.model.centers
    values = centers if model.scaler is None else model.scaler.unscale(centers)
    mean, deviation, note = _reference(run, values, sizes)
    difference = (values - mean) / deviation
    names = tuple(short(name) for name in model.columns)
    texts = [
        [number(*cell) for cell in zip(row, deviation.tolist(), strict=True)]
        for row in values.tolist()
    ]
    overall = [number(*cell) for cell in zip(mean.tolist(), deviation.tolist(), strict=True)]
    apart, leads = [], []
    for row, own in zip(difference, texts, strict=True):
        top = [int(j) for j in np.argsort(-np.abs(row), kind="stable")[:TOP] if row[j]]
        words = [
            f"{'higher' if row[j] > 0 else 'lower'} {names[j]} ({own[j]}, all rows: {overall[j]})"
            for j in top
            if abs(row[j]) >= NOTICEABLE
        ]
        apart.append(top)
        leads.append(_lead(tuple(words), "About average in all columns."))
    spreads = [[""] * len(names) for _ in values]
    sure = np.abs(difference)
    columns = tuple(short(name) for name in run.sources)
    return Traits(names, columns, difference, sure, texts, spreads, overall, apart, leads, note)


def _reference(run: Run, values: Floats, sizes: Floats | None) -> tuple[Floats, Floats, str]:
    """Return mean and deviation of all rows, as well as the files tell, and where they are from."""
    source = run.model.scaler or (merge(run.stats) if run.stats else None)
    if source is not None:
        places = [source.columns.index(name) for name in run.model.columns]
        note = "Differences are in standard deviations of all rows."
        return source.mean[places], source.deviation[places], note
    weights = np.ones(len(values)) if sizes is None or not sizes.sum() else sizes
    mean = np.average(values, axis=0, weights=weights)
    deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
    note = (
        "The data were not scaled, and no statistics were given: differences are in standard "
        "deviations of the centers, which makes them look larger than those of rows."
    )
    return mean, np.where(deviation > 0, deviation, 1.0), note
