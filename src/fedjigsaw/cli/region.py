"""What `aggregate --as-summary` adds: the summary of a region, for the next level."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw.cli._shared import escape, out, print_json
from fedjigsaw.errors import ParameterError, counted
from fedjigsaw.io import formats
from fedjigsaw.io.contents import describe_rows
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.io.regions import is_merged, sites_of
from fedjigsaw.report.inspection import MAX_SHOWN
from fedjigsaw.report.privacy import privacy_values
from fedjigsaw.report.trust import describe_sites, reports_of

REGION = "Regions"

AsSummary = Annotated[
    bool,
    typer.Option(
        "--as-summary",
        help="Write one summary of all files instead of a model: these sites are a region, and "
        "another server aggregates its summary with those of others.",
        rich_help_panel=REGION,
    ),
]
RegionName = Annotated[
    str | None,
    typer.Option(
        "--client",
        help="With --as-summary: name of the region at the next level. Default: the name of the "
        "output without its ending. Example: --client north",
        rich_help_panel=REGION,
    ),
]
RegionCenters = Annotated[
    int | None,
    typer.Option(
        "--centers",
        min=1,
        help="With --as-summary: most centers that the region sends. If the sites have no more, "
        "their summaries pass as they are; otherwise centers are merged. Default: four for each "
        "cluster, and 400 with `-k auto`. Example: --centers 100",
        rich_help_panel=REGION,
    ),
]


def check_region(
    as_summary: bool, client: str | None, centers: int | None, like: Path | None
) -> None:
    """Raise a ParameterError for options of a region without --as-summary, and of a model with."""
    if as_summary and like is not None:
        raise ParameterError("--like is for a model: give it where the last level is aggregated.")
    if as_summary:
        return
    for name, value in (("--client", client), ("--centers", centers)):
        if value is not None:
            raise ParameterError(f"{name} is for the summary of a region: give --as-summary, too.")


def write_region(
    file: SummaryFile, model: ModelFile | None, path: Path, *, force: bool, as_json: bool
) -> None:
    """Write the summary of a region, and print what it is made of."""
    formats.save(file, path, replace=force)
    summary = file.summary
    if as_json:
        print_json(_values(file, model, path))
        return
    rows = describe_rows(sum(sites_of(summary).values()), file.n_skipped)
    how = "Centers were merged" if is_merged(summary) else "Summaries of sites pass as they are"
    text = f"{counted(len(sites_of(summary)), 'site')}, {rows} -> region {summary.client!r}"
    size = f"{path.stat().st_size:,} bytes"
    out.print(escape(f"{text}: {counted(len(summary.centers), 'center')} -> {path} ({size})"))
    out.print(f"{how}. The names of the sites are in the file.")
    for line in () if model is None else describe_sites(model, MAX_SHOWN):
        out.print(escape(line))
    if file.privacy is not None:
        out.print(f"Differential privacy at every site: {file.privacy.sentence()}")


def _values(file: SummaryFile, model: ModelFile | None, path: Path) -> dict[str, Any]:
    summary = file.summary
    return {
        "summary": str(path),
        "region": summary.client,
        "n_centers": len(summary.centers),
        "merged": is_merged(summary),
        "n_samples": sum(sites_of(summary).values()),
        "skipped": file.n_skipped,
        "sites": list(sites_of(summary)),
        "guard": dict(file.guard),
        "reports": [] if model is None else [asdict(report) for report in reports_of(model)],
        "privacy": privacy_values(file),
    }
