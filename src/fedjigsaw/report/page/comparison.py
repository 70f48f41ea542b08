"""Make a page of a comparison of methods, or of what privacy costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import fedjigsaw
from fedjigsaw.report.page.charts import to_svg
from fedjigsaw.report.page.view import ComparisonPage, Fact, Picture, Table
from fedjigsaw.report.page.words import day_in_words, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# heading of a column -> what it means
MEANINGS = {
    "centers": "clusters that were found.",
    "objective / pooled": "summed squared distance of all rows to their centers, beside that of "
    "k-means on all rows in one place: 1 is as good, and 1.05 is five percent worse.",
    "objective / without privacy": "summed squared distance of all rows to their centers, beside "
    "that without noise: 1 is no loss (mean and range over runs).",
    "e^epsilon": "how much more likely any result may be with one row than without it.",
    "agreement": "of labels with and without privacy (adjusted Rand index): 1 is the same.",
    "ari": "how well clusters and classes agree (adjusted Rand index): 1 is the same, 0 is chance.",
    "purity": "share of rows in a cluster that is mostly of their class.",
    "nmi": "what clusters and classes tell about each other, from 0 to 1.",
    "bytes per client": "what a site sends, on average.",
    "rounds": "how often each site sends.",
    "seconds": "to compute everything on this machine.",
}


def comparison_page(
    table: Table,
    notes: Sequence[str],
    figure: Figure,
    *,
    facts: Mapping[str, int],
    today: date,
) -> ComparisonPage:
    """Return everything that the page of a comparison shows.

    Parameters
    ----------
    table : one line per method, or per epsilon; its caption says what was compared.
    facts : numbers of things, by what they count.
    """
    private = table.headings[0] == "epsilon"
    title = "What privacy costs" if private else "Methods side by side"
    svg = to_svg(figure, "chart", title, "The numbers are in the table below.")
    meanings = [(name, MEANINGS[name]) for name in table.headings if name in MEANINGS]
    return ComparisonPage(
        title=title,
        subtitle=plain(table.caption),
        date=day_in_words(today),
        version=fedjigsaw.__version__,
        facts=tuple(Fact(f"{n:,}", label[:-1] if n == 1 else label) for label, n in facts.items()),
        picture=Picture((svg,)),
        table=replace(table, caption=plain(table.caption)),
        notes=tuple(map(plain, notes)),
        meanings=tuple(meanings),
    )
