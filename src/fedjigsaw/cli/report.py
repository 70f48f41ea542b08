"""The command that writes a report for people who read no model files."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from fedjigsaw.cli._shared import (
    ForceFlag,
    JsonFlag,
    check_outputs,
    escape,
    out,
    print_json,
)
from fedjigsaw.errors import ParameterError, counted
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.regular import ending

app = typer.Typer()


@app.command()
def report(
    model: Annotated[Path, typer.Argument(help="The model that `aggregate` wrote.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Any other files of the run: scores, summaries, statistics. Each is recognized "
            "by what is in it: bern.score bern.summary bern.stats"
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="The page to write. Example: -o report.html")
    ] = Path("report.html"),
    title: Annotated[
        str | None,
        typer.Option(
            help="The heading of the page. Default: how many clusters of which sites. "
            'Example: --title "Patients of three clinics"'
        ),
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a report that anyone can open: one HTML file, without scripts or network.

    It shows a map of the clusters, their sizes at each site, what sets each apart, how far to trust
    them, what left each site, and which promise was made. The more files of the run are given, the
    more it can show; sections without their files say which command makes them.

    Example: fedjigsaw report model *.score *.summary -o report.html
    """
    paths = [model, *(files or [])]
    check_outputs(output, force=force, inputs=paths)
    if ending(output) not in (".html", ".htm"):
        raise ParameterError(
            f"A page is HTML: its name must end in .html; got {output}. A browser prints it to PDF."
        )
    from fedjigsaw.report.page.build import build_report
    from fedjigsaw.report.page.render import check_installed, render_page
    from fedjigsaw.report.page.run import read_run

    check_installed()
    run = read_run(paths)
    page = render_page(build_report(run, title=title, today=datetime.now(UTC).date()))
    write_whole(output, page, replace=force)
    if as_json:
        clients = list(run.model.clients)
        print_json({"page": str(output), "bytes": len(page), "n_clusters": run.k, "sites": clients})
        return
    text = f"{counted(len(run.model.clients), 'site')}, {counted(run.k, 'cluster')}"
    out.print(f"{text} -> {escape(str(output))} ({len(page):,} bytes)")
