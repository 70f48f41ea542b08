"""The command that asks the sites of a federation: federation run."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from rich.table import Table

from fedjigsaw.cli._run_tasks import (
    AssignFlag,
    RetriesOption,
    ScaleFlag,
    ScalerFile,
    ScoreFolder,
    check_folder,
    print_results,
    result_values,
    take_results,
    task_values,
)
from fedjigsaw.cli._shared import (
    RECIPES,
    FederationFolder,
    ForceFlag,
    JsonFlag,
    ParamFlag,
    check_outputs,
    choice,
    clusters_by_head,
    err,
    escape,
    out,
    parse_params,
    print_json,
    warnings_shown,
)
from fedjigsaw.cli._strange import (
    DetailOption,
    LiarsOption,
    StrictFlag,
    VouchOption,
    end,
    given,
    print_strange,
    strange_values,
)
from fedjigsaw.cli._succession import LikeModel, follow, load_earlier
from fedjigsaw.engine import FederatedMethod, warn_of_fewer_clusters
from fedjigsaw.errors import ConspicuousSiteWarning, ParameterError, counted
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.messages import OWN, SHARED
from fedjigsaw.methods import DEFAULT, data_kind
from fedjigsaw.records.signals import exit_code, stopped_by_signals
from fedjigsaw.report.inspection import MAX_SHOWN
from fedjigsaw.report.number import describe_number, number_values
from fedjigsaw.report.trust import (
    clusters_in_words,
    describe_lone,
    describe_sites,
    part_of,
    reports_of,
    strange_sites,
)
from fedjigsaw.sites.keeping import Kept

MAX_ROUNDS_SHOWN = 12
RunCells = Annotated[
    str | None,
    typer.Option(
        "--cells",
        **choice((OWN, SHARED)),
        help="For sites with --epsilon: describe cells of each site, or cells that all sites "
        "share. `fedjigsaw privacy cells` says which. Default: sites with --epsilon answer "
        "nothing, but those with --unit site.",
    ),
]


def run(
    folder: FederationFolder,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="File for the model. Example: -o clinic.model")
    ],
    k: Annotated[
        Any, clusters_by_head("Number of clusters in all data, or `auto` to let jigsaw find it")
    ],
    method: Annotated[
        str,
        typer.Option(
            help="Method; `fedjigsaw methods` lists them. deepfeca learns from images. "
            "Example: --method feca"
        ),
    ] = DEFAULT,
    recipe: Annotated[
        str | None,
        typer.Option(
            **choice(RECIPES),
            help="deepfeca: named settings, as of `deep train`, all but their number of clusters. "
            "-p overrides them. Example: --recipe best -k 300,300,300",
            show_default="none",
        ),
    ] = None,
    param: ParamFlag = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Seed of the server's random numbers, and of training on images. Sites cluster "
            "rows with a seed of their own.",
        ),
    ] = 0,
    min_sites: Annotated[
        int | None,
        typer.Option(min=1, help="Smallest number of sites that must answer. Default: all."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Do not ask this site; repeat for several. Example: --without oslo"),
    ] = None,
    ask: Annotated[
        str,
        typer.Option(
            **choice(["all", "new", "none"]),
            help="Whom to ask: all sites; only those whose summary for the same question is not "
            "kept, as after a site joined; or none, which needs no running server. The kept "
            "summaries of the others take part. Example: --ask new",
        ),
    ] = "all",
    keep: Annotated[
        bool,
        typer.Option(
            help="Keep the summaries of the sites, for --ask. `federation forget` deletes them."
        ),
    ] = True,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a site has to answer in each round, up to a day.")
    ] = 600.0,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for sites that are not connected yet.")
    ] = 60.0,
    cells: RunCells = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="deepfeca: go on after the last round of a run with the same options that ended "
            "without a model.",
        ),
    ] = False,
    liars: LiarsOption = None,
    vouch: VouchOption = None,
    detail: DetailOption = None,
    strict: StrictFlag = False,
    like: LikeModel = None,
    retries: RetriesOption = 0,
    scale: ScaleFlag = False,
    scaler: ScalerFile = None,
    score: ScoreFolder = None,
    assign: AssignFlag = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """On the server's machine: run a method over all sites and write the model.

    Example: fedjigsaw federation run clinic -k 4 -o clinic.model
    """
    from fedjigsaw.flower import folders, jobs

    check_outputs(output, force=force, inputs=[like, scaler])
    check_folder(score)
    earlier = load_earlier(like, output, method)
    home = folders.server_folder(folder)
    left_out = without or []
    own = given(parse_params(param), liars=liars, vouch=vouch, detail=detail)
    params = _of_recipe(recipe, method) | own
    old = None if earlier is None else earlier.model
    tasks = task_values(retries, scale, scaler, score, assign, old)
    more = {**tasks, "strict": strict, "cells": cells}
    job = jobs.Job(method, k, params, seed, min_sites, timeout, wait, left_out, ask, keep, **more)
    with stopped_by_signals(in_background=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConspicuousSiteWarning)  # printed below
        try:
            sites = jobs.active_sites(home, left_out)
            model, transcript = jobs.run_job(home, job, print_event, resume=resume)
        except KeyboardInterrupt as stop:
            err.print("The run was stopped; there is no model.")
            if job.make_method().data_kind == "images":
                err.print("To go on after its last complete round, add --resume.")
            raise typer.Exit(exit_code(stop)) from None
    kept = home / folders.KEPT if keep else None
    summaries = _summaries(job.make_method(), kept) if earlier is not None else []
    made = follow(formats.load(model, ModelFile), earlier, summaries)
    made.save(output, replace=force, run=model.parent.name)
    found = take_results(transcript, score)
    values = {**made.values(), **result_values(*found)}
    report(made.model, transcript, sites, output, as_json, values)
    if not as_json:
        made.print()
        print_results(*found, score, made.model)
    end(made.model, strict)


def _of_recipe(recipe: str | None, method: str) -> dict[str, Any]:
    """Return the parameters of a recipe; the number of clusters is asked for."""
    if recipe is None:
        return {}
    if method != "deepfeca":
        raise ParameterError(f"--recipe is for deepfeca, not for {method}: leave it out.")
    from fedjigsaw.deep.recipes import RECIPES as SETTINGS  # it needs torch

    return {name: value for name, value in SETTINGS[recipe].items() if name != "n_clusters"}


def _summaries(method: FederatedMethod, kept: Path | None) -> list[SummaryFile]:
    """Return the summaries of a run that were just kept; none if they are not on this machine."""
    if kept is None or method.total_rounds > 1:
        return []
    return list(Kept(kept).about(method.method, method.configuration()).values())


# ---------------------------------------------------------------------------------------- printing


def print_event(event: Mapping[str, Any]) -> None:
    """Print a line for an event of a run to standard error."""
    words = {"waiting": "waiting for", "failed": "failed:", "warning": "warning:", "kept": "kept:"}
    words["again"] = "asking again:"
    text = f"{words.get(event['event'], event['event'])} {event['site']}".strip()
    err.print(escape(f"{text} ({event['detail']})" if event["detail"] else text))


def report(
    file: ModelFile,
    transcript: Mapping[str, Any],
    sites: Iterable[str],
    path: Path,
    as_json: bool,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Print which sites took part, which did not and why, and where the model is.

    Parameters
    ----------
    more : further values for JSON.
    """
    # a model may be made from the sites of a region, which answered for them
    answered = {name for round_ in transcript["rounds"] for name in round_["bytes_up"]}
    missing = sorted(set(sites) - answered)
    k = len(file.model.centers) - file.model.n_lone
    if as_json:
        numbers = {"model": str(path), "n_clusters": k, "ids": list(file.cluster_ids)}
        people = {"sites": list(file.clients), "missing": missing, "partly": list(file.partly)}
        reports = [asdict(report) for report in reports_of(file)]
        of_k = number_values(file.model, file.ids)
        found = {"k": of_k, "reports": reports, "transcript": transcript, **strange_values(file)}
        print_json({**numbers, **people, **found, **more})
        return
    print_strange(strange_sites(file))
    out.print(rounds_table(file.clients, transcript["rounds"]))
    with warnings_shown():
        warn_of_fewer_clusters(file.model.params.get("n_clusters"), k)
    if missing:
        out.print(f"[yellow]{_sites(missing)} did not take part.[/]")
    if file.partly:
        out.print(
            f"[yellow]{_sites(file.partly)} missed some rounds.[/] The model lists the sites."
        )
    kind = data_kind(file.model.method)
    about = "" if file.privacy is None else "about "
    part = part_of(file)
    what = f"{counted(part.n_sites, 'site')}, {about}{part.n_rows:,} {kind}{part.more}"
    out.print(f"{what} -> {clusters_in_words(file.model, 'center')} -> {escape(str(path))}")
    for line in (*describe_number(file.model, file.ids), *describe_lone(file)):
        out.print(escape(line))
    if file.privacy is not None:
        out.print(f"Differential privacy at every site: {file.privacy.sentence()}")
    for line in describe_sites(file, MAX_SHOWN):
        out.print(escape(line))


def _sites(names: Sequence[str]) -> str:
    return f"{'Site' if len(names) == 1 else 'Sites'} {', '.join(names)}"


def rounds_table(clients: Iterable[str], rounds: list[Mapping[str, Any]]) -> Table:
    """Tabulate bytes and failures by round; sums over the rounds if there are many."""
    table = Table("round", "site", "bytes up", "notes")
    many = len(rounds) > MAX_ROUNDS_SHOWN
    for name in clients if many else ():
        sent = [r["bytes_up"][name] for r in rounds if name in r["bytes_up"]]
        table.add_row("all", name, f"{sum(sent):,}", f"in {len(sent)} of {len(rounds)} rounds")
    for round_ in rounds:
        for name, size in round_["bytes_up"].items() if not many else ():
            note = "" if size else "kept summary"
            table.add_row(str(round_["number"]), name, f"{size:,}", note)
        for name, reason in round_["failures"].items():
            table.add_row(str(round_["number"]), name, "", escape(f"failed: {reason}"))
    return table
