"""The command ``fedjigsaw deep train``. Torch is loaded on demand."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedjigsaw.cli._images import IMAGES, Data, Device, Size, print_left_out
from fedjigsaw.cli._shared import (
    RECIPES,
    ForceFlag,
    JsonFlag,
    check_outputs,
    choice,
    clusters_by_head,
    err,
    escape,
    out,
    parameters,
    parse_params,
    print_json,
    progress_bar,
    warnings_shown,
)
from fedjigsaw.errors import DivergedError, ParameterError
from fedjigsaw.parameters import real
from fedjigsaw.partition import SPLITS
from fedjigsaw.records.signals import exit_code, stopped_by_signals

if TYPE_CHECKING:
    from fedjigsaw.deep.checkpoint import Checkpoint
    from fedjigsaw.deep.session import Session

# panels of the help
CLIENTS, TRAINING, OUTPUT = "Simulated clients", "Training", "Checkpoint and results"

COLLAPSED = (
    "[yellow]Warning:[/] the clusters have collapsed. Lower -s learning_rate or --local-epochs."
)
GO_ON = "--resume to go on with it, or "

OPTIONS = {  # settings of DeepFeCA that have an option of their own
    "n_clusters": "-k",
    "clusterer": "--method",
    "clusterer_params": "-p",
    "n_rounds": "--rounds",
    "local_epochs": "--local-epochs",
    "batch_size": "--batch-size",
    "network": "--network",
    "device": "--device",
    "random_state": "--seed",
}


def train(
    context: typer.Context,
    data: Data,
    output: Annotated[
        Path,
        typer.Option("--out", "-o", help="File for the checkpoint.", rich_help_panel=OUTPUT),
    ],
    split: Annotated[
        str,
        typer.Option(
            **choice([*(name for name in SPLITS if name != "column"), "central"]),
            help="How to split the images among clients. central keeps all in one place.",
            rich_help_panel=CLIENTS,
        ),
    ] = "dirichlet",
    alpha: Annotated[
        float,
        typer.Option(
            help="dirichlet, quantity: concentration. Smaller values are more skewed.",
            rich_help_panel=CLIENTS,
        ),
    ] = 0.3,
    clients: Annotated[
        int, typer.Option(min=1, help="Number of clients.", rich_help_panel=CLIENTS)
    ] = 10,
    min_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="dirichlet, quantity: smallest number of images of a client.",
            rich_help_panel=CLIENTS,
        ),
    ] = None,
    shards: Annotated[
        int,
        typer.Option(min=1, help="shards: number of shards per client.", rich_help_panel=CLIENTS),
    ] = 2,
    recipe: Annotated[
        str | None,
        typer.Option(
            **choice(RECIPES),
            help="Named settings: those of the paper, or our best. Other options override them. "
            "Example: --recipe best --rounds 50",
            show_default="none",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Method that clusters; `fedjigsaw methods` lists them. Example: --method jigsaw",
            show_default="feca",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    k: Annotated[Any, clusters_by_head("Number of clusters", TRAINING)] = "10",
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds of training.", rich_help_panel=TRAINING)
    ] = 150,
    local_epochs: Annotated[
        int, typer.Option(min=1, help="Epochs of a client per round.", rich_help_panel=TRAINING)
    ] = 5,
    batch_size: Annotated[
        int, typer.Option(min=2, help="Images per batch.", rich_help_panel=TRAINING)
    ] = 128,
    network: Annotated[
        str,
        typer.Option(
            help="Network to train: resnet18, resnet18-half or small.", rich_help_panel=TRAINING
        ),
    ] = "resnet18",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "-s",
            "--set",
            help="Set any other setting of DeepFeCA; repeat it for several. "
            "Example: -s server_momentum=0.5",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    param: Annotated[list[str] | None, parameters(TRAINING)] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of the split and the training.", rich_help_panel=TRAINING),
    ] = 0,
    size: Size = None,
    subset: Annotated[
        int | None,
        typer.Option(
            min=1, help="Train on this many images, drawn at random.", rich_help_panel=IMAGES
        ),
    ] = None,
    device: Device = "auto",
    rows_file: Annotated[
        Path | None,
        typer.Option("--rows", help="File for one JSON line per round.", rich_help_panel=OUTPUT),
    ] = None,
    eval_every: Annotated[
        int,
        typer.Option(
            min=0,
            help="Rounds between evaluations. 0 evaluates at the end only.",
            rich_help_panel=OUTPUT,
        ),
    ] = 10,
    save_every: Annotated[
        int, typer.Option(min=1, help="Rounds between checkpoints.", rich_help_panel=OUTPUT)
    ] = 10,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Stop before this time is over, with a checkpoint to resume from. "
            "At least one round is trained.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the checkpoint --out, if it exists.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Train a network on the unlabeled images of several clients (DeepFeCA).

    Labels are used to split the images (dirichlet, shards) and to evaluate, never to train.

    Example: fedjigsaw deep train --data cifar --split dirichlet --recipe best -o run.st
    """
    from fedjigsaw.deep import CentralDeepCluster, DeepFeCA, images, recipes, simulation
    from fedjigsaw.deep import session as sessions

    force_or_resume = force or resume
    check_outputs(output, rows_file, force=force_or_resume, inputs=[Path(data)], hint=GO_ON)
    _check_options(device, split, method, max_minutes)
    options = {
        "n_clusters": k,
        "clusterer": method or "feca",
        "clusterer_params": parse_params(param),
        "n_rounds": rounds,
        "local_epochs": local_epochs,
        "batch_size": batch_size,
        "network": network,
        "device": device,
        "random_state": seed,
    }
    estimator = (CentralDeepCluster if split == "central" else DeepFeCA).from_settings(
        {
            **options,
            **(recipes.RECIPES[recipe] if recipe else {}),
            **{name: value for name, value in options.items() if _is_given(context, name)},
            **_without_options(parse_params(setting, "--set", "server_momentum=0.5")),
        }
    )
    schedule = estimator.schedule
    loaded = images.load(data, size=size)
    found = simulation.subset(loaded, subset, seed=seed)
    ids, split_options = simulation.split_images(
        found,
        split,
        clients,
        seed=seed,
        alpha=alpha,
        min_size=min_size,
        shards=shards,
        batch_size=schedule.batch_size,
    )
    err.print(f"Read {escape(data)}: {simulation.in_words(found, ids)}.")
    print_left_out(data, loaded)
    if found.train_labels is not None and (reason := sessions.why_not_evaluated(found)):
        err.print(f"[yellow]Warning:[/] {escape(reason)}")
    about = simulation.describe_data(
        found, ids, split=split, **split_options, method=estimator.clusterer_name
    )
    session = sessions.Session(
        estimator, found, ids, about, output, rows_file, save_every, eval_every, max_minutes
    )
    start = sessions.resume(session, force=force) if resume else None
    done = 0 if start is None else start.state.round
    row = _run(session, start, done, schedule.n_rounds)
    if as_json:
        print_json(row)
    else:
        _print_end(row, done, session)


def _check_options(device: str, split: str, method: str | None, max_minutes: float | None) -> None:
    """Check options of `deep train` before any image is read."""
    from fedjigsaw.deep.execution import check_device

    check_device(device)
    if split == "central" and method is not None:
        raise ParameterError(
            "--split central clusters with k-means in one place: leave --method out."
        )
    if max_minutes is not None:
        real(0).check("--max-minutes", "deep train", max_minutes)


def _is_given(context: typer.Context, setting: str) -> bool:
    """Return whether the user gave the option of a setting, or else its default applies."""
    names = {option: found.name for found in context.command.params for option in found.opts}
    source = context.get_parameter_source(names[OPTIONS[setting]] or "")
    return source is not None and source.name != "DEFAULT"


def _without_options(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings; refuse one that has an option of its own, which could contradict it."""
    for name in settings:
        if name in OPTIONS:
            raise ParameterError(f"Use {OPTIONS[name]} instead of --set {name}.")
    return settings


def _run(session: "Session", start: "Checkpoint | None", done: int, rounds: int) -> dict[str, Any]:
    """Run a session, show its progress, and return its last row."""
    row: dict[str, Any] = {"rounds": 0} if start is None else session.row(start.state)
    try:
        with warnings_shown(), stopped_by_signals(), closing(session.run(start)) as run:
            for row in _show_progress(run, done, rounds):  # noqa: B007 - the last one is returned
                pass
    except KeyboardInterrupt as stop:
        n = session.kept
        kept = f"round {n} is kept; go on with --resume" if n else "no round was completed"
        err.print(f"Interrupted: {kept}.")
        raise typer.Exit(exit_code(stop)) from None
    except Exception as error:
        if session.kept:
            # what has diverged once would do so again
            again = "" if isinstance(error, DivergedError) else "; go on with --resume"
            err.print(f"Round {session.kept} is kept{again}.")
        raise
    return row


def _show_progress(
    run: Iterator[dict[str, Any]], done: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """Show each row of a run as it comes: a progress bar on a terminal, lines elsewhere."""
    from fedjigsaw.deep.progress import progress_line

    with progress_bar() as progress:
        task = progress.add_task("Rounds", total=rounds, completed=done)
        for row in run:
            line = progress_line(row, rounds, first=row["rounds"] == done + 1)
            progress.update(task, completed=row["rounds"], description=line)
            if not err.is_terminal:
                err.print(line)
            if row["collapsed"]:
                err.print(COLLAPSED)
            yield row


def _print_end(row: dict[str, Any], done: int, session: "Session") -> None:
    from fedjigsaw.deep.progress import accuracies

    rounds = session.method.schedule.n_rounds
    if done == rounds:
        out.print(f"Nothing to do: all {rounds} rounds are done.")
    elif row["rounds"] < rounds:
        out.print(f"Stopped after round {row['rounds']} of {rounds}; go on with --resume.")
    if "linear_accuracy" in row:
        out.print(accuracies(row, has_test=session.data.has_test))
    out.print(f"Checkpoint of round {row['rounds']} -> {escape(str(session.out))}")
