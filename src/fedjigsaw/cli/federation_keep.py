"""The commands about summaries that a coordinator keeps: federation keep, forget."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedjigsaw.cli._shared import FederationFolder, JsonFlag, escape, out, print_json
from fedjigsaw.errors import ParameterError, counted
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.sites.keeping import Kept, KeptSummary


def keep(
    folder: FederationFolder,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Summaries to keep, one from each site, as `summarize` writes them. Default: "
            "none, and what is kept is listed. Example: oslo.summary"
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """At the coordinator: list the kept summaries, or keep those of sites without a network.

    `federation run` keeps the summaries of its sites. With `run --ask new` or `--ask none`, kept
    summaries take part, and their sites are not asked.

    Example: fedjigsaw federation keep clinic

    Example: fedjigsaw federation keep clinic oslo.summary
    """
    from fedjigsaw.flower import folders, jobs

    home = folders.server_folder(folder)
    kept, sites = Kept(home / folders.KEPT), jobs.active_sites(home)
    loaded = {path: formats.load(path, SummaryFile) for path in files or ()}
    for path, file in loaded.items():
        if file.summary.client not in sites:
            raise ParameterError(
                f"{path} is from {file.summary.client!r}, which is no site of this federation: "
                f"{', '.join(sites)}. Add it with `fedjigsaw federation add`."
            )
    for file in loaded.values():
        kept.add(file)
    found = kept.summaries()
    if as_json:
        print_json({"kept": [_values(one, sites) for one in found]})
        return
    if not found:
        out.print("No summary is kept. `fedjigsaw federation run` keeps those of its sites.")
        return
    table = Table("site", "method", "-k", "rows", "bytes", "kept on", "notes")
    for one in found:
        values = _values(one, sites)
        note = "" if values["takes_part"] else "no site any more: takes no part"
        cells = [values[name] for name in ("site", "method", "n_clusters")]
        sizes = [f"{values[name]:,}" for name in ("n_samples", "bytes")]
        table.add_row(*map(str, [*cells, *sizes, one.time, note]))
    out.print(table)


def forget(
    folder: FederationFolder,
    site: Annotated[str, typer.Argument(help="Name of the site. Example: oslo")],
    as_json: JsonFlag = False,
) -> None:
    """At the coordinator: delete all kept summaries of a site.

    Models that were made with them stay. The second command makes a model without the site, and
    asks nobody.

    Example: fedjigsaw federation forget clinic oslo

    Example: fedjigsaw federation run clinic -k 4 -o clinic.model --ask none --force
    """
    from fedjigsaw.flower import folders, jobs

    home = folders.server_folder(folder)
    kept = Kept(home / folders.KEPT)
    known = sorted({*kept.sites(), *jobs.active_sites(home)})
    if site not in known:
        raise ParameterError(f"There is no site {site!r}. Sites: {', '.join(known)}.")
    number = kept.forget(site)
    if as_json:
        print_json({"site": site, "forgotten": number})
    elif number:
        what = counted(number, "summary", "summaries")
        out.print(escape(f"Forgot {what} of {site}. Runs and models of before are not changed."))
    else:
        out.print(escape(f"No summary of {site} was kept."))


def _values(one: KeptSummary, sites: list[str]) -> dict[str, Any]:
    return {
        "site": one.site,
        "method": one.file.method,
        "n_clusters": one.file.params.get("n_clusters"),
        "params": dict(one.file.params),
        "n_samples": one.file.summary.n_samples,
        "bytes": one.path.stat().st_size,
        "time": one.time,
        "file": str(one.path),
        "takes_part": one.site in sites,
    }
