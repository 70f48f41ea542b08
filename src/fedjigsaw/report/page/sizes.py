"""Rows of each cluster, in all and at each site: from scores, or from the support of the model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import counted
from fedjigsaw.methods._support import knows_no_counts, support_of
from fedjigsaw.report.page.charts import OTHERS
from fedjigsaw.report.page.run import Run
from fedjigsaw.report.page.view import Absent, Segment, SizeRow, Sizes
from fedjigsaw.report.page.words import share, short
from fedjigsaw.report.trust import part_of

MAX_SITES = 50  # that have a column of their own


@dataclass(frozen=True)
class SizeFacts:
    """Rows of clusters.

    Attributes
    ----------
    totals : shape (k,), rows of each cluster; None if nobody knows them.
    by_site : shape (n_sites, k), or None without scores.
    colors : places in the palette of the parts of a bar, in their order.
    groups : for each part, the sites that it stands for.
    """

    totals: Floats | None
    sites: tuple[str, ...] = ()
    by_site: Floats | None = None
    colors: tuple[int, ...] = (0,)
    groups: tuple[tuple[int, ...], ...] = ()
    note: str = ""

    @property
    def legend(self) -> tuple[tuple[int, str], ...]:
        """Color and name of each part."""
        names = [
            short(self.sites[g[0]], 40) if len(g) == 1 else f"{len(g)} other sites"
            for g in self.groups
        ]
        return tuple(zip(self.colors, names, strict=True)) if names else ()

    def parts(self) -> Floats | None:
        """Return the rows of each cluster in each part of its bar, shape (k, n_parts)."""
        if self.by_site is None:
            return None
        return np.stack([self.by_site[list(g)].sum(axis=0) for g in self.groups], axis=1)


def size_facts(run: Run) -> SizeFacts:
    """Return what the files of a run tell about sizes."""
    counts = run.counts
    if counts is None:
        support = support_of(run.model.model)
        if support is None:
            return SizeFacts(None)
        note = "Sizes are those that the server knows from the summaries of all sites."
        if knows_no_counts(run.model.model):
            note = "Some sites sent no counts: the sizes are guesses."
        elif run.model.privacy is not None:
            note = "Sizes are noisy, for the sake of privacy."
        return SizeFacts(support["points"].astype(np.float64).clip(0), note=note)
    by_site = counts.astype(np.float64)
    order = np.argsort(-by_site.sum(axis=1), kind="stable")
    n = len(order)
    own = order[: OTHERS if n > OTHERS + 1 else OTHERS + 1]
    groups: list[tuple[int, ...]] = [(int(i),) for i in sorted(own)]
    if n > len(own):
        groups.append(tuple(sorted(int(i) for i in order[len(own) :])))
    sites = tuple(score.client for score in run.scores)
    colors = tuple(range(len(groups)))
    noisy = any(score.privacy is not None for score in run.scores)
    note = f"Sizes are those of the scores given, of {run.scored}." if run.scored else ""
    note = f"{note} Sizes are noisy, for the sake of privacy.".lstrip() if noisy else note
    return SizeFacts(by_site.sum(axis=0), sites, by_site, colors, tuple(groups), note)


def rows_of(run: Run, facts: SizeFacts) -> float:
    """Return the rows that the page is about: with noise, or if some sites sent no score, the sum
    of the sizes that it shows.
    """
    if run.scored and facts.totals is not None:
        return float(facts.totals.sum())
    if run.model.privacy is None or facts.totals is None:
        return part_of(run.model).n_rows
    scored = {score.client for score in run.scores}
    known = scored >= set(run.model.clients)
    return float(facts.totals.sum()) if known else part_of(run.model).n_rows


def segments_of(facts: SizeFacts, i: int, largest: float) -> tuple[Segment, ...]:
    """Return the bar of one cluster, in percent of the largest."""
    parts = facts.parts()
    if facts.totals is None or not largest:
        return ()
    if parts is None:
        total = float(facts.totals[i])
        return (Segment(0, 100 * total / largest, "all sites", counted(total, "row")),)
    return tuple(
        Segment(color, 100 * rows / largest, name, counted(rows, "row"))
        for (color, name), rows in zip(facts.legend, parts[i].tolist(), strict=True)
        if rows > 0
    )


def size_table(facts: SizeFacts, ids: Sequence[int]) -> Sizes | Absent:
    """Return the rows of the first clusters, with these ids, as a table with bars."""
    if facts.totals is None:
        return Absent(
            "Neither the model nor the files given tell how many rows are in each cluster. "
            "Each site can count them:",
            "fedjigsaw score SITE.csv --model MODEL -o SITE.score",
        )
    whole, largest = float(facts.totals.sum()), float(facts.totals.max())
    parts, columns = facts.parts(), tuple(name for _, name in facts.legend)
    if facts.by_site is not None and len(facts.sites) <= MAX_SITES:
        parts, columns = facts.by_site.T, tuple(short(name, 40) for name in facts.sites)
    rows = [
        SizeRow(
            number,
            f"{facts.totals[i]:,.0f}",
            share(float(facts.totals[i]), whole),
            segments_of(facts, i, largest),
            () if parts is None else tuple(f"{n:,.0f}" for n in parts[i]),
        )
        for i, number in enumerate(ids)
    ]
    legend = facts.legend if len(facts.legend) > 1 else ()
    return Sizes(tuple(rows), columns, legend, facts.note)
