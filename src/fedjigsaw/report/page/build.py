"""Make a report page of the files of a run."""

from datetime import date
from math import isfinite

import numpy as np

import fedjigsaw
from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import feature
from fedjigsaw.columns.schema import ABSENT, DATE, OTHER
from fedjigsaw.errors import counted
from fedjigsaw.methods import label_of
from fedjigsaw.methods._support import k_curve_of, support_of
from fedjigsaw.report import pictures
from fedjigsaw.report.number import why_not_the_best
from fedjigsaw.report.page import evidence, sent
from fedjigsaw.report.page.charts import WIDE, cluster_map, to_svg
from fedjigsaw.report.page.geometry import directions_in_words, project, shown_in_words
from fedjigsaw.report.page.missing import missing_shares
from fedjigsaw.report.page.run import Run
from fedjigsaw.report.page.sizes import (
    MAX_SITES,
    SizeFacts,
    rows_of,
    segments_of,
    size_facts,
    size_table,
)
from fedjigsaw.report.page.traits import Traits, traits_of
from fedjigsaw.report.page.view import (
    Absent,
    Cluster,
    Fact,
    Heat,
    HeatCell,
    HeatRow,
    Picture,
    ReportPage,
    Trait,
)
from fedjigsaw.report.page.words import day_in_words, listed, plain, share, short, signed
from fedjigsaw.report.profiles import nearest_clusters
from fedjigsaw.report.trust import (
    clusters_in_words,
    describe_lone,
    lone_in_words,
    lone_values,
    part_of,
)
from fedjigsaw.report.units import number, percent

MAX_CLUSTERS = 100  # that are described, of a model with more
MAX_COLUMNS = 150  # of the heat map: those in which clusters differ most
MAX_GLANCE = 12  # clusters that are listed at the top
REACH = 3.0  # the difference at the end of a bar
STEPS = (0.25, 0.75, 1.25, 2.0, 3.0)  # differences at which the shade changes


def build_report(run: Run, *, title: str | None = None, today: date) -> ReportPage:
    """Return everything that the report of a run shows."""
    sizes = size_facts(run)
    traits = traits_of(run, sizes.totals)
    shown = min(run.k, MAX_CLUSTERS)
    nearest = [cluster for cluster, _ in nearest_clusters(run.model.model.centers)]
    clusters = tuple(_cluster(run, i, sizes, traits, nearest) for i in range(shown))
    n_sites = counted(len(run.model.clients), "site")
    where = listed(run.model.clients) if len(run.model.clients) <= 3 else n_sites
    return ReportPage(
        title=plain(title) if title else f"{clusters_in_words(run.model.model)} at {where}",
        subtitle=f"A clustering of the rows of {n_sites}, which stayed where they are",
        date=day_in_words(today),
        version=fedjigsaw.__version__,
        facts=_facts(run, sizes),
        short=tuple(_in_short(run, sizes, traits)),
        glance=clusters if shown <= MAX_GLANCE else (),
        map=_map(run, sizes),
        legend=sizes.legend if len(sizes.legend) > 1 else (),
        sizes=size_table(sizes, run.ids[:shown]),
        heat=_heat(run, traits, shown),
        profile_hint=_profile_hint(run),
        clusters=clusters,
        more_clusters=""
        if shown == run.k
        else f"{counted(run.k - shown, 'more cluster is', 'more clusters are')} not shown.",
        how_many=evidence.how_many(run),
        k_curve=_k_curve(run),
        support=evidence.support_table(run, shown),
        sites=evidence.site_table(run, MAX_SITES),
        trust=tuple(evidence.trust_notes(run)),
        left=sent.sent_table(run),
        left_notes=tuple(sent.sent_notes(run)),
        promise=tuple(sent.promise(run)),
        promise_details=tuple(sent.promise_details(run)),
        made=tuple(_made(run)),
    )


# --------------------------------------------------------------------------------------- overview


def _facts(run: Run, sizes: SizeFacts) -> tuple[Fact, ...]:
    about = "" if run.model.privacy is None else "about "
    columns = len(run.model.columns if run.model.encoding is None else run.model.encoding.sources)
    k = run.k - run.model.model.n_lone
    sites = run.scored or counted(part_of(run.model).n_sites, "site")
    return (
        Fact(f"{k:,}", "cluster" if k == 1 else "clusters"),
        Fact(f"{about}{rows_of(run, sizes):,.0f}", "rows"),
        Fact(*sites.split(" ", 1)),
        Fact(f"{columns:,}", "column" if columns == 1 else "columns"),
    )


def _in_short(run: Run, sizes: SizeFacts, traits: Traits) -> list[str]:
    about = "" if run.model.privacy is None else "About "
    part = part_of(run.model)
    n_rows = rows_of(run, sizes)
    sites = run.scored or f"{counted(part.n_sites, 'site')}{part.more}"
    verb = "falls" if n_rows == 1 else "fall"
    rows, found = counted(n_rows, "row"), clusters_in_words(run.model.model)
    told = [f"{about}{rows} at {sites} {verb} into {found}."]
    told.extend(describe_lone(run.model))
    if sizes.totals is not None and run.k > 1 and sizes.totals.sum():
        whole = float(sizes.totals.sum())
        most, least = int(sizes.totals.argmax()), int(sizes.totals.argmin())
        told.append(
            f"The largest is cluster {run.ids[most]} with "
            f"{share(float(sizes.totals[most]), whole)} of the rows, the smallest cluster "
            f"{run.ids[least]} with {share(float(sizes.totals[least]), whole)}."
        )
    strongest = traits.strongest_columns(3)
    if run.k > 1 and len(traits.names) > 1 and strongest:
        told.append(f"They differ most in {listed(strongest)}.")
    told.extend(evidence.where_found(run))
    if len(run.files) > 1:
        told.append(sent.sent_in_words(run))
    return told


def _map(run: Run, sizes: SizeFacts) -> Picture | Absent:
    centers = run.model.model.centers
    if run.k < 2:
        return Absent("A single cluster has no map.")
    totals = sizes.totals
    known = totals is not None and totals.sum() > 0
    weights = np.ones(run.k) if totals is None or not known else totals
    found = project(centers, weights)
    parts = sizes.parts()
    figure = cluster_map(found.places, weights, parts, list(sizes.colors), run.ids)
    area = "The area of a bubble is the number of its rows" if known else "Sizes are not known"
    slices = "; its slices are the sites." if parts is not None and parts.shape[1] > 1 else "."
    caption = [
        f"{area}{slices} Clusters that are alike lie near each other.",
        *directions_in_words(found, run.model.columns, _dates(run), _indicators(run)),
        shown_in_words(found),
    ]
    everywhere = [text for text in figure.axes[0].texts if WIDE not in str(text.get_gid())]
    if len(everywhere) < run.k:
        caption.append("Where numbers would overlap, that of the larger cluster is shown.")
    svg = to_svg(figure, "map", "Map of the clusters", " ".join(caption))
    return Picture((svg,), tuple(caption))


def _dates(run: Run) -> set[str]:
    """Return the names of columns with dates."""
    return {name for name, column in run.schema_columns.items() if column.kind == DATE}


def _indicators(run: Run) -> set[str]:
    """Return the names of features that no direction is named after."""
    encoders = () if run.model.encoding is None else run.model.encoding.encoders
    return {feature(e.column.name, part) for e in encoders for part in (ABSENT, OTHER)}


def _k_curve(run: Run) -> Picture | Absent:
    model = run.model.model
    if k_curve_of(model) is None:
        return Absent(
            f"The number of clusters, {run.k}, was given. To have it found, all sites make their "
            "summaries with -k auto, and then:",
            "fedjigsaw aggregate *.summary -k auto -o MODEL",
        )
    marks = f"{'; '.join(pictures.k_marks(model))}."
    caption = [
        marks,
        "The index weighs how well a number of clusters describes the rows against that number. "
        "It is 0 for the best; differences above 10 are drawn by their magnitude.",
        "A number is chosen only if there is a valley between any two neighbors: clearly fewer "
        "rows than in either.",
        *why_not_the_best(model),
    ]
    figure = pictures.k_curve(model, told=False)
    return Picture((to_svg(figure, "index", pictures.K_TITLE, marks),), tuple(caption))


def _profile_hint(run: Run) -> Absent | None:
    if run.total is not None and run.total.profile is not None:
        return None
    return Absent(
        "The values shown are those of the centers. Profiles of the rows (mean and spread of "
        "every column, shares of categories) come with scores:",
        "fedjigsaw score SITE.csv --model MODEL --profile -o SITE.score",
    )


# ---------------------------------------------------------------------------------------- columns


def shade(difference: float) -> int:
    """Return the shade of a difference, from -5 to 5.

    Examples
    --------
    >>> [shade(z) for z in (-9, -1, 0.1, 0.5, 2.5, float("nan"))]
    [-5, -2, 0, 1, 4, 0]
    """
    if not isfinite(difference):
        return 0
    return int(np.sign(difference)) * int(np.searchsorted(STEPS, abs(difference), side="right"))


def _heat(run: Run, traits: Traits, shown: int) -> Heat:
    order = traits.strongest()[:MAX_COLUMNS]
    sure = np.where(traits.sure > 0, traits.difference, 0)
    shades = sure if run.noisy_profiles else traits.difference
    missing = {short(name): share for name, share in missing_shares(run).items()}
    rows = []
    for j in order:
        cells = [
            HeatCell(
                shade(float(shades[i, j])), signed(z), traits.values[i][j], traits.spreads[i][j]
            )
            for i, z in enumerate(traits.difference[:shown, j].tolist())
        ]
        absent = missing.get(traits.columns[j])
        told = "–" if absent is None else percent(absent)
        rows.append(HeatRow(traits.names[j], traits.overall[j], tuple(cells), told))
    left = len(traits.names) - len(order)
    # each category has a line of its own
    what = "columns" if len(set(traits.columns)) == len(traits.names) else "columns and categories"
    more = f"{left:,} {what} in which the clusters differ less are not shown." if left else ""
    clusters = run.ids[:shown]
    return Heat(clusters, tuple(rows), traits.note, traits.about_shares, bool(missing), more)


def _trait(traits: Traits, i: int, j: int) -> Trait:
    z = float(traits.difference[i, j])
    return Trait(
        traits.names[j],
        traits.values[i][j],
        traits.spreads[i][j],
        traits.overall[j],
        signed(z),
        float(np.clip(z / REACH, -1, 1)) * 50,
    )


# --------------------------------------------------------------------------------------- clusters


def _cluster(
    run: Run, i: int, sizes: SizeFacts, traits: Traits, nearest: list[int | None]
) -> Cluster:
    own: Floats | None = sizes.totals
    return Cluster(
        number=run.ids[i],
        size="" if own is None else _size_in_words(sizes, i, float(own[i])),
        share="" if own is None else share(float(own[i]), float(own.sum())),
        lead=traits.leads[i],
        traits=tuple(_trait(traits, i, j) for j in traits.apart[i]),
        segments=() if own is None else segments_of(sizes, i, float(own[i])),
        remarks=tuple(_remarks(run, i, sizes, nearest)),
    )


def _size_in_words(sizes: SizeFacts, i: int, rows: float) -> str:
    assert sizes.totals is not None
    text = f"{counted(rows, 'row')}, {share(rows, float(sizes.totals.sum()))} of all"
    if sizes.by_site is None or sizes.note:  # where there is noise, nobody knows who has none
        return text
    held = int((sizes.by_site[:, i] > 0).sum())
    return f"{text}, at {held} of {counted(len(sizes.sites), 'site')}"


def _remarks(run: Run, i: int, sizes: SizeFacts, nearest: list[int | None]) -> list[str]:
    told = [lone_in_words(one) for one in lone_values(run.model) if one["id"] == run.ids[i]]
    if (near := nearest[i]) is not None:
        told.append(f"Nearest: cluster {run.ids[near]}.")
    support = support_of(run.model.model)
    if support is not None:
        clients, margin = int(support["clients"][i]), float(support["margin"][i])
        if run.model.privacy is None:  # noise may hide a cluster, or make one up
            told.append(
                f"Found in the summaries of {clients} of {counted(len(run.model.clients), 'site')}."
            )
        if near is not None and evidence.is_measured(float(support["spread"][i])):
            told.append(f"Margin {margin:.2f} (0: on top of a neighbor, near 1: far from all).")
    measured = [score for score in run.scores if score.sse.any() or score.privacy is None]
    rows = sum(int(score.counts[i]) for score in measured)
    if rows > 0:
        sse = sum(float(score.sse[i]) for score in measured)
        typical = float(np.sqrt(max(0.0, sse) / rows))
        unit = "" if run.model.scaler is None else " (in scaled units)"
        told.append(f"Rows lie about {number(typical, typical)}{unit} from its center.")
    return told


# --------------------------------------------------------------------------------------- appendix


def _made(run: Run) -> list[tuple[str, str]]:
    model, method = run.model, run.model.model.method
    label = label_of(method)
    params = ", ".join(f"{name} = {value}" for name, value in model.model.params.items())
    made = [
        ("Method", label),
        ("Parameters", params or "all default"),
        ("Sites", listed(model.clients, MAX_SITES)),
        ("Columns", listed(model.columns, 50)),
        ("Scaling", "none" if model.scaler is None else f"scaler {model.scaler.fingerprint}"),
        ("Model", run.fingerprint),
        ("Program", f"fedjigsaw {fedjigsaw.__version__}"),
    ]
    return [(name, short(value, 2000)) for name, value in made]
