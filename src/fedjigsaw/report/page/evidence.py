"""How far to trust a model: support of clusters, sites that stand out, who is missing."""

from collections.abc import Iterator

import numpy as np

from fedjigsaw.errors import counted
from fedjigsaw.kernels.indices import SKEWED
from fedjigsaw.methods._support import (
    SUPPORT,
    WITH_AUTO,
    knows_no_counts,
    support_of,
)
from fedjigsaw.number.confidence import DOUBTFUL, SURE, KFindings
from fedjigsaw.report.number import number_heading
from fedjigsaw.report.page.missing import MANY, missing_shares
from fedjigsaw.report.page.run import Run
from fedjigsaw.report.page.view import Absent, HowMany, Table
from fedjigsaw.report.page.words import listed, short
from fedjigsaw.report.profiles import nearest_clusters
from fedjigsaw.report.trust import describe_lone, reports_of, strange_sites
from fedjigsaw.report.units import number, percent
from fedjigsaw.robust.support import FEWEST
from fedjigsaw.sites import unlike_units

NO_SPREAD = 1e-9  # in the units of the clustering
NARROW = 0.3  # margins below: clusters overlap much


def how_many(run: Run) -> HowMany | None:
    """Return how sure the number of clusters is, or None if it was given."""
    findings = KFindings.from_model(run.model.model, run.ids)
    if findings is None:
        return None
    columns = tuple(short(name) for name in run.model.columns)
    advice = tuple(findings.advice(columns))
    in_doubt = findings.confidence < DOUBTFUL
    return HowMany(number_heading(findings), findings.sentence(), advice, in_doubt)


def support_table(run: Run, shown: int) -> Table | Absent:
    """Return how well each cluster is backed by sites and rows."""
    support = support_of(run.model.model)
    if support is None:
        return Absent(
            f"The method {run.model.model.method} records no support of its clusters; "
            "the default method does.",
            "fedjigsaw summarize SITE.csv -k K --method jigsaw -o SITE.summary",
        )
    neighbors = nearest_clusters(run.model.model.centers)
    noisy = run.model.privacy is not None
    separation = None if noisy else support.get(WITH_AUTO)  # noise fills valleys, or digs them
    rows = []
    for i in range(shown):
        clients, points, spread, margin = (float(support[name][i]) for name in (*SUPPORT, "margin"))
        nearest, _ = neighbors[i]
        near = "–" if nearest is None else str(run.ids[nearest])
        measured = is_measured(spread)
        numbers = (
            *(() if noisy else (f"{clients:,.0f}",)),
            f"{points:,.0f}",
            number(spread, spread) if measured else "–",
            f"{margin:.2f}" if measured and nearest is not None else "–",
            *(() if separation is None else (f"{separation[i]:.2f}",)),
        )
        rows.append((f"Cluster {run.ids[i]}", *numbers, near))
    sites = () if noisy else ("Sites",)  # noise may hide a cluster of a site, or make one up
    apart = () if separation is None else ("Separation",)
    headings = ("Cluster", *sites, "Rows", "Spread", "Margin", *apart, "Nearest")
    caption = (
        f"Support of each cluster. {_rows_in_words(run, noisy=noisy)}Spread: typical distance of a "
        "row from the center. Margin: 0 if the center lies on that of a neighbor, near 1 if it "
        "lies far from all."
    )
    if separation is not None:
        caption += (
            " Separation: near 1 if clearly fewer rows lie between this cluster and its neighbors "
            f"than in it; below {SURE:g}, two of them may be one."
        )
    return Table(caption, headings, tuple(rows))


def _rows_in_words(run: Run, *, noisy: bool) -> str:
    if not run.scores:
        return ""
    if noisy:
        return "Rows: from the summaries, whose noise is not that of the sizes above. "
    return (
        "Rows: from the summaries, where all rows of a site's own cluster go together; the sizes "
        "above, from the scores, count each row by itself. "
    )


def is_measured(spread: float) -> bool:
    """Tell whether the spread of a cluster is more than a remainder of rounding."""
    return spread > NO_SPREAD


def site_table(run: Run, most: int) -> Table | Absent:
    """Return what the server knows about each site."""
    reports = reports_of(run.model)
    if not reports:
        return Absent(
            f"The method {run.model.model.method} with its parameters keeps no reports about "
            "single sites; the default method does."
        )
    if run.model.privacy is not None:
        lines = [(short(r.client, 40), f"{r.rows:,}") for r in reports[:most]]
        caption = "What the server knows about each site. Rows: with noise."
        return Table(caption, ("Site", "Rows"), tuple(lines))
    rows = [
        (
            short(report.client, 40),
            f"{report.rows:,}",
            f"{report.clusters}",
            f"{report.alone}",
            "–" if report.influence is None else f"{report.influence:.2f}",
            report.reason,
        )
        for report in sorted(reports, key=lambda r: not r.reason)[:most]
    ]
    headings = ("Site", "Rows", "Clusters", "Held alone", "Influence", "Remark")
    caption = (
        "What the server knows about each site. Influence: how much worse the clusters fit the "
        "other sites with this site than without it; 1 is not at all."
    )
    return Table(caption, headings, tuple(rows), words=(5,))


def trust_notes(run: Run) -> list[str]:
    """Return sentences about everything that limits the trust in a model."""
    parts = (_missing_sites, _missing_values, _odd_sites, _units, _weak_clusters, _skew)
    return [sentence for part in parts for sentence in part(run)]


def _missing_sites(run: Run) -> Iterator[str]:
    model = run.model
    if model.privacy is not None:
        yield "Numbers of rows are noisy, for the sake of privacy."
    if model.partly:
        yield f"Not in every round: {listed(model.partly)}. Their part in the model is smaller."
    if model.n_skipped:
        skipped = counted(model.n_skipped, "row")
        yield f"{skipped} with missing values took no part: are they like the others?"
    n_noise = sum(score.n_noise for score in run.scores)
    if n_noise:
        rows = counted(n_noise, "row")
        yield (
            f"{rows} in no cluster (label -1), or left out by a guard: sizes and profiles are "
            "without them."
        )
    scored = {score.client for score in run.scores}
    unscored = [client for client in model.clients if client not in scored]
    strangers = sorted(scored - set(model.clients))
    if run.scores and unscored and not run.is_merged:
        yield (
            f"No score was given for {listed(unscored)}: sizes and profiles leave out its rows."
            if len(unscored) == 1
            else f"No score was given for {listed(unscored)}: sizes and profiles leave out "
            "their rows."
        )
    silent = [score.client for score in run.scores if score.profile is None]
    if silent and len(silent) < len(run.scores):
        yield f"The scores of {listed(silent)} have no profiles: those shown leave out their rows."
    if strangers and not run.is_merged:
        verb = "was" if len(strangers) == 1 else "were"
        yield f"{listed(strangers)} took no part in the model, but {verb} scored with it."


def _missing_values(run: Run) -> Iterator[str]:
    many = {name: p for name, p in missing_shares(run).items() if p > MANY}
    if many:
        ordered = sorted(many, key=lambda name: -many[name])
        told = listed([f"{percent(many[name])} of {short(name)}" for name in ordered])
        yield (
            f"Many values are missing: {told}. Means and shares are those of the rows with values, "
            "which may not be like the others."
        )


def _odd_sites(run: Run) -> Iterator[str]:
    reports = reports_of(run.model)
    if reports and run.model.privacy is not None:
        yield "What each site sent has noise: nobody can tell whether a site is unlike the others."
        return
    strange = strange_sites(run.model)
    yield from strange
    if 0 < len(reports) < FEWEST:
        yield f"With fewer than {FEWEST} sites, nobody can tell which one is unlike the others."
    elif reports and not strange:
        yield "No site is unlike all others."


def _units(run: Run) -> Iterator[str]:
    stats = {found.client: found for found in run.stats if found.client in run.model.clients}
    for column in unlike_units(stats, []):
        yield column.sentence()


def _weak_clusters(run: Run) -> Iterator[str]:
    support = support_of(run.model.model)
    if support is None:
        return
    yield from describe_lone(run.model)
    if knows_no_counts(run.model.model):
        yield "Some sites sent no counts: numbers of rows are guesses."
    alone, shared = alone_at_a_site(run)
    if alone:
        verb = "has" if len(alone) == 1 else "have"
        yield (
            f"{_named(run, alone)} {verb} rows of one site only. That may be a group of its own, "
            "or other units or habits at that site."
        )
    if shared:
        verb = "is" if len(shared) == 1 else "are"
        yield (
            f"{_named(run, shared)} {verb} found in the summary of one site only; the few rows of "
            "other sites made no cluster there."
        )
    narrow = np.flatnonzero(support["margin"] < NARROW).tolist()
    if narrow:
        verb = "lies" if len(narrow) == 1 else "lie"
        yield (
            f"{_named(run, narrow)} {verb} close to a neighbor (margin below {NARROW}): rows "
            "between the two could belong to either."
        )
    if WITH_AUTO not in support or run.model.privacy is not None:
        yield (
            "Clusters are found in any data, also in data without groups. A large margin alone "
            "does not prove that a group is real: check whether the differences make sense to an "
            "expert."
        )
        return
    close = np.flatnonzero(support[WITH_AUTO] < SURE).tolist()
    if close:
        verb = "is" if len(close) == 1 else "are"
        yield (
            f"{_named(run, close)} {verb} not clearly separate from a neighbor (separation below "
            f"{SURE:g}): the two may be one."
        )
    yield (
        "Separate clusters need not mean anything: check whether the differences make sense to an "
        "expert."
    )


def alone_at_a_site(run: Run) -> tuple[list[int], list[int]]:
    """Return the clusters in the summary of one site: without rows of other sites, and with them.

    Lone clusters are not among them. With noise, nobody can tell.
    """
    support = support_of(run.model.model)
    if support is None or run.model.privacy is not None or len(run.model.clients) == 1:
        return [], []
    n_shared = run.k - run.model.model.n_lone
    alone = np.flatnonzero(support["clients"][:n_shared] == 1).tolist()
    if run.counts is None:
        return alone, []
    held = (run.counts > 0).sum(axis=0)
    return [i for i in alone if held[i] < 2], [i for i in alone if held[i] > 1]


def where_found(run: Run) -> Iterator[str]:
    """Say whether clusters are found at all sites, or at one; nothing if there is noise."""
    support, n_sites = support_of(run.model.model), len(run.model.clients)
    if support is None or n_sites == 1 or run.model.privacy is not None:
        return
    alone, _ = alone_at_a_site(run)
    if (support["clients"] == n_sites).all():
        yield "Every cluster is found at every site."
    elif alone:
        verb = "is" if len(alone) == 1 else "are"
        yield f"{counted(len(alone), 'cluster')} {verb} found at one site only."


def _skew(run: Run) -> Iterator[str]:
    skew = run.model.model.tensors.get("skew")
    if skew is None or skew.size != 1 or knows_no_counts(run.model.model):
        return
    if skew.item() >= SKEWED:
        yield (
            "Sites differ much in the clusters that they hold. Labels by each site's own summary "
            "(assign --local) are recommended."
        )


def _named(run: Run, clusters: list[int], most: int = 8) -> str:
    if len(clusters) == 1:
        return f"Cluster {run.ids[clusters[0]]}"
    if len(clusters) > most:
        return counted(len(clusters), "cluster")
    return "Clusters " + listed([str(run.ids[i]) for i in clusters])
