"""Commands that measure: reproduce, the paper's tables beside ours."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedjigsaw._console import JsonFlag, count_steps, err, out, print_json
from fedjigsaw.bench import compare, runner
from fedjigsaw.bench.cells import origin
from fedjigsaw.bench.studies import Study, find, jobs_of, studies

app = typer.Typer()


@app.command()
def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="Names of tables, or all. Without any: list them."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Seeds per cell. Default: as many as the paper's.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Cells computed at a time. Default: one per core.")
    ] = None,
    folder: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the rows, one file per table.")
    ] = Path("results"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget the rows of these tables and start anew.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compute the paper's tables, and show ours beside the paper's numbers.

    Every finished cell is one line in OUT/TABLE.jsonl. Interrupt it when you like: the next run
    computes only what is missing.

    Example: fedjigsaw reproduce table1 --runs 10
    """
    if not tables:
        _list(folder, as_json)
        return
    chosen = find(tables)
    if fresh:
        for study in chosen:
            runner.result_file(folder, study.name).unlink(missing_ok=True)
    wanted = [job for study in chosen for job in jobs_of(study, runs)]
    todo = runner.missing(wanted, folder)
    if len(todo) < len(wanted):
        err.print(f"{len(wanted) - len(todo)} of {len(wanted)} cells are in {folder} already.")
        _tell_other_origins(folder, chosen)
    with count_steps("Cells", len(todo)) as progress:
        runner.run_jobs(wanted, folder, n_jobs=jobs, progress=progress)
    rows = {s.name: runner.read_rows(runner.result_file(folder, s.name)) for s in chosen}
    if as_json:
        print_json(
            {
                study.name: [
                    {"cell": cell, "number": number, "mean": c.mean, "std": c.std, "runs": c.runs}
                    | {"paper": c.published, "verdict": c.verdict}
                    for (cell, number), c in compare.compare(study, rows[study.name]).items()
                ]
                for study in chosen
            }
        )
        return
    for study in chosen:
        _print_study(study, rows[study.name])


def _list(folder: Path, as_json: bool) -> None:
    """Which tables there are, and how much of each is there."""
    counts = {}
    for study in studies().values():
        wanted = jobs_of(study)
        counts[study.name] = (len(wanted) - len(runner.missing(wanted, folder)), len(wanted))
    if as_json:
        print_json(
            {
                name: {"about": study.about, "done": counts[name][0], "cells": counts[name][1]}
                for name, study in studies().items()
            }
        )
        return
    table = Table("name", "what it is", f"done in {folder}")
    for name, study in studies().items():
        table.add_row(name, study.about, "{} of {}".format(*counts[name]))
    out.print(table)
    out.print("Run one with `fedjigsaw reproduce NAME`, or all of them.")


def _tell_other_origins(folder: Path, chosen: list[Study]) -> None:
    """Rows that other code made are kept; whoever reads them should know."""
    here = (origin()["commit"], origin()["backend"])
    others = {
        f"{row['commit']} ({row['backend']})"
        for study in chosen
        for row in runner.read_rows(runner.result_file(folder, study.name))
        if (row["commit"], row["backend"]) != here
    }
    if others:
        told = escape(", ".join(sorted(others)))
        err.print(f"Some are of other commits or backends: {told}. --fresh makes all anew.")


def _print_study(study: Study, rows: list[runner.Row]) -> None:
    out.print(f"[bold]{study.name}[/]: {study.about}")
    for title, table in compare.tables(study, rows).items():
        out.print(f"\n{title}")
        out.print(escape(table))
    counts = compare.count_verdicts(study, rows)
    if any(counts.values()):
        told = ", ".join(f"{n} {word}" for word, n in counts.items())
        out.print(
            f"\nOurs (the paper's): {told} "
            f"({compare.BETTER} better, {compare.WITHIN} within one standard deviation, "
            f"{compare.WORSE} worse)."
        )
    out.print("")
