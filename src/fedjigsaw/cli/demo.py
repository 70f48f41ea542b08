"""The command demo: the methods of the paper on generated data."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedjigsaw.cli._comparing import PictureFlag, SeedFlag, drawable, print_table
from fedjigsaw.cli._shared import (
    ForceFlag,
    JsonFlag,
    check_outputs,
    compiling_told,
    escape,
    out,
    print_json,
    track,
)
from fedjigsaw.comparison.demo import run_demo
from fedjigsaw.comparison.tables import NUMBERS, cell_text
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.rows import write_rows
from fedjigsaw.methods import CLUSTERERS, DEFAULT, label_of
from fedjigsaw.methods._support import support_of
from fedjigsaw.report import pictures
from fedjigsaw.report.inspection import describe_support
from fedjigsaw.report.page.view import Table

app = typer.Typer()
COLUMNS = ("n_found", "confidence", "l2", "purity", "nmi", "bytes_per_client", "seconds")


@app.command()
def demo(
    context: typer.Context,
    picture: PictureFlag = Path("demo.png"),
    rows_file: Annotated[
        Path | None,
        typer.Option(
            "--rows",
            help="Also write each measured row as a JSON line to this file. "
            "Example: --rows rows.jsonl",
        ),
    ] = None,
    seed: SeedFlag = 0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Run the methods of the paper on a generated data set: one table, one picture.

    15 Gaussians in the plane, 2000 rows, split among ten clients by Dirichlet(0.3): each client has
    rows of only some of the clusters. It needs no download and takes a few seconds.

    Example: fedjigsaw demo -o demo.png
    """
    drawn = drawable(context, picture)
    check_outputs(drawn, rows_file, force=force)
    with compiling_told():
        result = run_demo(seed, track=partial(track, label="Methods"))
    if drawn is not None:
        figure = pictures.roadmap(result.fitted, result.data, result.clients)
        write_whole(drawn, pictures.render(figure, drawn.suffix), replace=force)
    if rows_file is not None:
        write_rows(rows_file, result.rows, replace=force)
    model = result.fitted[DEFAULT].model_
    if as_json:
        support = {name: values.tolist() for name, values in (support_of(model) or {}).items()}
        print_json({"rows": list(result.rows), "support": support, "picture": drawn and str(drawn)})
        return
    shown = [name for name in COLUMNS if name in result.rows[0]]
    lines = [
        (label_of(row["method"]), *(cell_text(name, [row[name]]) for name in shown))
        for row in result.rows
    ]
    backend = result.rows[0]["backend"]
    title = f"15 Gaussians, 10 clients, Dirichlet(0.3) (k-means by {backend})"
    print_table(Table(title, ("method", *(NUMBERS[name][0] for name in shown)), tuple(lines)))
    out.print(f"{CLUSTERERS[DEFAULT].label}:")
    for line in describe_support(model):
        out.print(line)
    if drawn is not None:
        out.print(f"Picture of all steps from data to centers: {escape(str(drawn))}")
