"""Tell people about each site: rows, clusters, influence, and who is unlike the others."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fedjigsaw.errors import ParameterError, StrangeSiteError, counted
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.messages import TOO_FEW, Model
from fedjigsaw.methods import data_kind
from fedjigsaw.methods._support import support_of
from fedjigsaw.number.cells import sends_cells
from fedjigsaw.robust.influence import PREFIX, SiteReport, lone_clients, site_reports


def strange_sites(file: ModelFile) -> list[str]:
    """Say who is unlike all others, why, and by which options of a command to react.

    Nothing is said where noise hides it.
    """
    params = file.model.params
    found = []
    for report in reports_of(file):
        if report.reason:
            options = [f"--without {report.client} leaves it out"]
            if "vouch" in params:
                options.append(f"--vouch {report.client} lets it count in any case")
            one_round = params.get("n_rounds", 1) == 1
            if params.get("liars") == 0 and one_round and not sends_cells(params):
                options.append("--liars 1 protects the others from it")
            found.append(
                f"{report.client} is unlike the others: {report.reason}. Look at its data, and "
                f"choose: {', '.join(options)}."
            )
    if TOO_FEW in file.model.tensors:
        found.append(
            f"More sites than --liars {params.get('liars')} allows for hold groups that too few "
            "others share. Choose a smaller number, or read the lone clusters as clusters."
        )
    return found


def check_strict(file: ModelFile, told: Sequence[str], strict: bool) -> None:
    """Raise an error if nothing is to be published where something is strange, or nobody looked."""
    if not strict:
        return
    if "vouch" not in file.model.params:
        raise ParameterError(
            f"--strict needs a method that compares the sites, such as jigsaw; {file.model.method} "
            "does not."
        )
    if told:
        raise StrangeSiteError(f"{' '.join(told)} No model was published (--strict).")


def describe_sites(file: ModelFile, most: int) -> Iterator[str]:
    """Describe each site of a model in one line; nothing if the model has no reports.

    Parameters
    ----------
    most : how many sites are shown: those first about which there is something to say.
    """
    reports = reports_of(file)
    if not reports:
        return
    noisy = file.privacy is not None
    kind = data_kind(file.model.method)
    about = ""
    if noisy:
        about = " (all numbers are noisy, so nobody can tell whether a site is unlike the others)"
    elif any(report.influence is not None for report in reports):
        about = " (influence: objective of the other sites' rows with this site, over without it)"
    yield f"Sites{about}:"
    shown = sorted(reports, key=_importance) if len(reports) > most else reports
    for report in shown[:most]:
        yield f"  {describe_site(report, noisy=noisy, kind=kind)}"
    if len(reports) > most:
        yield f"  and {len(reports) - most:,} others, about which there is less to say"


def reports_of(file: ModelFile) -> list[SiteReport]:
    """Return what a model reports about its sites, or nothing.

    The reports are about the last round, which a site that was in some rounds only may have missed.
    """
    rows = file.model.tensors.get(f"{PREFIX}rows")
    always = [client for client in file.clients if client not in file.partly]
    for clients in (file.clients, always):
        if rows is not None and rows.shape == (len(clients),):
            return site_reports(file.model, clients) or []
    return []


class Part(NamedTuple):
    """What the clusters of a model were made of.

    Attributes
    ----------
    n_sites, n_rows : without sites that are in no cluster, and what they claim.
    more : what to add about these sites in words; empty if there are none.
    """

    n_sites: int
    n_rows: int
    more: str


def part_of(file: ModelFile) -> Part:
    """Return how many sites and rows the clusters of a model were made of."""
    out = [report for report in reports_of(file) if not report.clusters]
    if not out:
        return Part(len(file.clients), file.n_samples, "")
    # `n_samples` of the file has what these sites claim
    n_rows = file.n_samples - sum(report.rows for report in out)
    words = counted(len(out), "more site is", "more sites are")
    return Part(len(file.clients) - len(out), n_rows, f" ({words} in no cluster)")


def describe_site(report: SiteReport, *, noisy: bool = False, kind: str = "rows") -> str:
    """Describe one site in one line; of noisy numbers, leave out what would judge the site.

    Parameters
    ----------
    kind : what the site holds, rows or images.

    Examples
    --------
    >>> describe_site(SiteReport("oslo", 1200, 4, 1, 1.0, ""))
    'oslo: 1,200 rows; in 4 clusters, of which 1 is held by this site only; influence 1.00'
    >>> describe_site(SiteReport("oslo", 1200, 4, 0, 9.0, ""), noisy=True)
    'oslo: about 1,200 rows; in 4 clusters'
    >>> describe_site(SiteReport("oslo", 1, 1, 0, 1.0, ""), kind="images")
    'oslo: 1 image; in 1 cluster; influence 1.00'
    """
    parts = [f"{'about ' * noisy}{counted(report.rows, kind.removesuffix('s'))}", _clusters(report)]
    if report.reason:
        parts.append(report.reason)
    if report.influence is not None and not noisy:
        parts.append(f"influence {_number(report.influence)}")
    return f"{report.client}: " + "; ".join(parts)


def _clusters(report: SiteReport) -> str:
    text = f"in {counted(report.clusters, 'cluster')}" if report.clusters else "in no cluster"
    if not report.alone:
        return text
    verb = "is" if report.alone == 1 else "are"
    return f"{text}, of which {report.alone} {verb} held by this site only"


def _number(influence: float) -> str:
    return f"{influence:.2f}" if influence < 100 else f"{influence:.0e}".replace("e+0", "e")


def _importance(report: SiteReport) -> tuple[bool, float]:
    return not report.reason, -(report.influence or 1.0)


# ---------------------------------------------------------------------------------- lone clusters


def clusters_in_words(model: Model, noun: str = "cluster") -> str:
    """Say how many clusters a model has, and how many of one site besides.

    Examples
    --------
    >>> clusters_in_words(Model([[0.0], [9.0]], tensors={"lone_sites": [0]}))
    '1 cluster and 1 lone cluster'
    """
    text = counted(len(model.centers) - model.n_lone, noun)
    return f"{text} and {counted(model.n_lone, 'lone cluster')}" if model.n_lone else text


def lone_values(file: ModelFile) -> list[dict[str, Any]]:
    """Return id, site and rows of each lone cluster."""
    model = file.model
    support = support_of(model) if model.n_lone else None
    first = len(model.centers) - model.n_lone
    return [
        {
            "id": file.cluster_ids[first + i],
            "client": client,
            "rows": None if support is None else int(support["points"][first + i]),
        }
        for i, client in enumerate(lone_clients(model, file.clients))
    ]


def lone_in_words(lone: dict[str, Any]) -> str:
    """Say who holds a lone cluster.

    Examples
    --------
    >>> lone_in_words({"id": 4, "client": "oslo", "rows": 212})
    'Cluster 4 is held by oslo alone: 212 rows.'
    """
    rows = "" if lone["rows"] is None else f": {counted(lone['rows'], 'row')}"
    return f"Cluster {lone['id']} is held by {lone['client']} alone{rows}."


def describe_lone(file: ModelFile) -> Iterator[str]:
    """Say who holds each lone cluster."""
    yield from map(lone_in_words, lone_values(file))
