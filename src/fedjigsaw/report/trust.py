"""Tell people about each site: rows, clusters, influence, what was set aside and why."""

from collections.abc import Iterator
from typing import NamedTuple

from fedjigsaw.errors import counted
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.methods import data_kind
from fedjigsaw.trust.site_reports import PREFIX, SiteReport, site_reports

CONSPICUOUS = 1.05  # influence from which on leaving the site out is offered


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
        about = " (all numbers are noisy, so nobody can tell whether a site is conspicuous)"
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
    """What a model was made of.

    Attributes
    ----------
    n_sites, n_rows : without sites that were set aside, and what they claim.
    aside : what to add about these sites in words; empty if there are none.
    """

    n_sites: int
    n_rows: int
    aside: str


def part_of(file: ModelFile) -> Part:
    """Return how many sites and rows a model was made of."""
    reports = reports_of(file)
    n = sum(report.set_aside for report in reports)
    if not n:
        return Part(len(file.clients), file.n_samples, "")
    # `n_samples` of the file has what the sites that were set aside claim
    n_rows = sum(report.rows for report in reports if not report.set_aside)
    words = counted(n, "more site was", "more sites were")
    return Part(len(file.clients) - n, n_rows, f" ({words} set aside)")


def describe_site(report: SiteReport, *, noisy: bool = False, kind: str = "rows") -> str:
    """Describe one site in one line; of noisy numbers, leave out what would judge the site.

    Parameters
    ----------
    kind : what the site holds, rows or images.

    Examples
    --------
    >>> describe_site(SiteReport("oslo", 1200, 4, 1, 1.0, False, ""))
    'oslo: 1,200 rows; in 4 clusters, of which 1 is held by this site only; influence 1.00'
    >>> describe_site(SiteReport("oslo", 1200, 4, 0, 9.0, False, ""), noisy=True)
    'oslo: about 1,200 rows; in 4 clusters'
    >>> describe_site(SiteReport("oslo", 1, 1, 0, 1.0, False, ""), kind="images")
    'oslo: 1 image; in 1 cluster; influence 1.00'
    """
    parts = [f"{'about ' * noisy}{counted(report.rows, kind.removesuffix('s'))}"]
    if report.set_aside:
        parts.append(f"set aside, since {report.reason}")
    else:
        parts.append(_clusters(report))
        if report.reason:
            parts.append(report.reason)
    if report.influence is not None and not noisy:
        parts.append(f"influence {_number(report.influence)}")
    text = f"{report.client}: " + "; ".join(parts)
    if is_odd(report) and (report.set_aside or not noisy):
        text += f"; leave it out with --without {report.client}"
    return text


def _clusters(report: SiteReport) -> str:
    text = f"in {counted(report.clusters, 'cluster')}"
    if not report.alone:
        return text
    verb = "is" if report.alone == 1 else "are"
    return f"{text}, of which {report.alone} {verb} held by this site only"


def _number(influence: float) -> str:
    return f"{influence:.2f}" if influence < 100 else f"{influence:.0e}".replace("e+0", "e")


def is_odd(report: SiteReport) -> bool:
    """Tell whether a site stands out, so that leaving it out is worth a thought."""
    return bool(report.reason) or (report.influence or 1.0) >= CONSPICUOUS


def _importance(report: SiteReport) -> tuple[bool, float]:
    return not report.reason, -(report.influence or 1.0)
