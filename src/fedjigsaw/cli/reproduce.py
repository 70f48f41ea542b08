"""The command that reproduces the paper's tables."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedjigsaw.bench import verdicts
from fedjigsaw.bench.reproduction import Reproduction
from fedjigsaw.bench.runner import result_file
from fedjigsaw.bench.studies import find, studies
from fedjigsaw.bench.study import Study
from fedjigsaw.cli._shared import JsonFlag, count_steps, err, escape, out, print_json
from fedjigsaw.io.rows import Row

app = typer.Typer()


@app.command()
def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="Names of tables, or all: table1 radius. Default: list them."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of seeds of each cell. Default: as many as the paper's. Example: --runs 3",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of worker processes. Default: one per core. Example: --jobs 4"
        ),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="The folder of the rows, one file per table. Example: -o results"
        ),
    ] = Path("results"),
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Delete the rows of these tables and start again. Default: continue.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compute the paper's tables, and show our numbers beside the paper's.

    Every finished cell is one JSON line in OUT/TABLE.jsonl. You can interrupt the command: the next
    run computes only what is missing.

    Example: fedjigsaw reproduce table1 --runs 10
    """
    if not tables:
        _list_studies(folder, as_json=as_json)
        return
    work = Reproduction(find(tables), folder, runs)
    if fresh:
        work.delete_rows()
    _compute(work, jobs)
    rows = work.rows()
    if as_json:
        print_json(
            {
                study.name: [
                    outcome.as_row()
                    for outcome in verdicts.outcomes(study, rows[study.name]).values()
                ]
                for study in work.studies
            }
        )
        return
    for study in work.studies:
        _print_study(study, rows[study.name])
        if not study.numbers:
            path = result_file(folder, study.name)
            out.print(f"It has no table; its rows are in {escape(str(path))}.\n")


def _compute(work: Reproduction, jobs: int | None) -> None:
    """Compute the missing rows, and say what is kept and what is replaced."""
    total, todo = len(work.tasks), len(work.missing())
    if todo < total:
        err.print(f"{total - todo} of {total} cells are already in {work.folder}.")
        others = work.other_provenances()
        if others:
            text = escape(", ".join(others))
            err.print(f"Some are of other commits or backends: {text}. --fresh computes all again.")
    outdated = work.outdated()
    if outdated:
        more = f" and {len(outdated) - 1} more" * (len(outdated) > 1)
        err.print(f"Rows with other parameters will be replaced: {escape(outdated[0])}{more}.")
    lacking = work.lacking()
    for text, n_cells in lacking.items():
        err.print(f"{n_cells} cells are left out. {escape(text)}")
    try:
        with count_steps("Cells", todo - sum(lacking.values())) as progress:
            work.run(n_jobs=jobs, progress=progress)
    except KeyboardInterrupt:
        kept = total - len(work.missing())
        err.print(f"Interrupted. {kept} of {total} cells are kept; run it again to continue.")
        raise


def _list_studies(folder: Path, *, as_json: bool) -> None:
    """Print the tables, and how many cells of each are finished."""
    counts = {}
    for name, study in studies().items():
        work = Reproduction([study], folder)
        total = len(work.tasks)
        counts[name] = (total - len(work.missing()), total)
    if as_json:
        print_json(
            {
                name: {"about": study.about, "done": counts[name][0], "cells": counts[name][1]}
                for name, study in studies().items()
            }
        )
        return
    table = Table("name", "content", f"cells in {folder}")
    for name, study in studies().items():
        table.add_row(name, study.about, "{} of {}".format(*counts[name]))
    out.print(table)
    out.print("Compute one with `fedjigsaw reproduce NAME`, or all with `fedjigsaw reproduce all`.")


def _print_study(study: Study, rows: list[Row]) -> None:
    out.print(f"[bold]{study.name}[/]: {study.about}")
    for title, table in verdicts.tables(study, rows).items():
        out.print(f"\n{title}")
        out.print(escape(table))
    counts = verdicts.count_verdicts(study, rows)
    if any(counts.values()):
        text = ", ".join(f"{n} {word}" for word, n in counts.items())
        out.print(
            f"\nOurs (the paper's): {text} "
            f"({verdicts.BETTER} better, {verdicts.WITHIN} within one standard deviation, "
            f"{verdicts.WORSE} worse)."
        )
    out.print("")
