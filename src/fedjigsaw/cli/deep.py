"""Commands of DeepFeCA: deep train, evaluate, embed, export. They need torch, loaded on demand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.progress import Progress

from fedjigsaw.bench.cells import Cell, split_rows
from fedjigsaw.bench.provenance import provenance
from fedjigsaw.cli._shared import (
    ForceFlag,
    JsonFlag,
    ParamFlag,
    check_outputs,
    choice,
    clusters_by_head,
    count_rows,
    err,
    out,
    parse_params,
    print_json,
)
from fedjigsaw.errors import DataError, ParameterError, invalid
from fedjigsaw.io.atomic import add_row, write_whole
from fedjigsaw.io.formats import fingerprint
from fedjigsaw.parameters import real
from fedjigsaw.partition import SPLITS

if TYPE_CHECKING:
    from fedjigsaw.deep.images import ImageSet


def head_sizes(text: str) -> int | list[int]:
    """Parse one number of clusters >= 2, or one for each head of a network: "300,300"."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 1 for part in parts):
        raise typer.BadParameter(f"{text!r} is not a number >= 2, nor several as in 300,300.")
    sizes = [int(part) for part in parts]
    return sizes if len(sizes) > 1 else sizes[0]


app = typer.Typer(
    help="Learn features from images that stay where they are (needs torch).", no_args_is_help=True
)

Checkpoint = Annotated[Path, typer.Argument(help="Made by `deep train`.")]
Data = Annotated[
    str,
    typer.Option(
        help="Folder in the layout of CIFAR-10, CIFAR-100 (binary) or Tiny-ImageNet, folder of "
        "images, NPZ file, or `digits`."
    ),
]
Size = Annotated[
    int | None,
    typer.Option(min=8, help="Scale images of folders (only those) to this height and width."),
]
Device = Annotated[str, typer.Option(help="A torch device, or auto: a GPU if there is one.")]


@app.command()
def train(
    data: Data,
    output: Annotated[Path, typer.Option("--out", "-o", help="Where the checkpoint goes.")],
    split: Annotated[
        str,
        typer.Option(
            **choice([*SPLITS, "central"]),
            help="How images are dealt out; central: one place has all of them, no --method.",
        ),
    ] = "dirichlet",
    alpha: Annotated[float, typer.Option(help="dirichlet: the smaller, the more skewed.")] = 0.3,
    clients: Annotated[int, typer.Option(min=1, help="Number of clients.")] = 10,
    min_size: Annotated[
        int | None, typer.Option(min=1, help="dirichlet: fewest images of a client.")
    ] = None,
    shards: Annotated[int, typer.Option(min=1, help="shards: how many each client gets.")] = 2,
    method: Annotated[
        str | None,
        typer.Option(
            help="The method that clusters; `fedjigsaw methods` lists them.", show_default="feca"
        ),
    ] = None,
    k: Annotated[Any, clusters_by_head("Clusters", head_sizes)] = "10",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of training.")] = 150,
    local_epochs: Annotated[int, typer.Option(min=1, help="Epochs of a client per round.")] = 5,
    batch_size: Annotated[int, typer.Option(min=2, help="Images in a batch.")] = 128,
    network: Annotated[str, typer.Option(help="resnet18, resnet18-half or small.")] = "resnet18",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "-s", "--set", help="Any other parameter of DeepFeCA, e.g. -s server_momentum=0.5."
        ),
    ] = None,
    param: ParamFlag = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of split and training.")] = 0,
    size: Size = None,
    subset: Annotated[
        int | None, typer.Option(min=1, help="Train on so many of the images, drawn at random.")
    ] = None,
    device: Device = "auto",
    rows_file: Annotated[
        Path | None, typer.Option("--rows", help="One JSON line per round goes here.")
    ] = None,
    eval_every: Annotated[
        int, typer.Option(min=0, help="Rounds between evaluations; 0: at the end only.")
    ] = 10,
    save_every: Annotated[int, typer.Option(min=1, help="Rounds between checkpoints.")] = 10,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Stop before, with a checkpoint to go on from; after one round at the earliest.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from --out, if it is there.")] = (
        False
    ),
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Train a network on unlabeled images of several clients: DeepFeCA.

    Labels are used to deal images out (dirichlet, shards) and to evaluate, never to train.

    Example: fedjigsaw deep train --data cifar --split dirichlet --alpha 0.3 -k 10 -o run.st
    """
    from fedjigsaw.deep import CentralDeepCluster, DeepFeCA, checkpoint, images
    from fedjigsaw.deep.execution import check_device
    from fedjigsaw.deep.session import Session, check_rows

    going_on = resume and output.exists()
    check_outputs(output, rows_file, force=force or resume)
    check_device(device)
    if split == "central" and method is not None:
        allowed = "left out: k-means clusters what one place has"
        raise ParameterError(invalid("--method", "--split central", allowed, method))
    if max_minutes is not None:
        real(0).check("--max-minutes", "deep train", max_minutes)
    estimator = (CentralDeepCluster if split == "central" else DeepFeCA).from_settings(
        {
            "n_clusters": k,
            "clusterer": method or "feca",
            "clusterer_params": parse_params(param),
            "n_rounds": rounds,
            "local_epochs": local_epochs,
            "batch_size": batch_size,
            "network": network,
            "device": device,
            "random_state": seed,
            **_others(parse_params(setting, "--set")),
        }
    )
    found = _subset(images.load(data, size=size), subset, seed)
    ids, dealt = _deal(found, split, alpha, clients, min_size, shards, seed, batch_size)
    about = _about(found, ids, split=split, **dealt, method=estimator.clusterer_name)
    start = checkpoint.load(output) if going_on else None
    if start is not None:
        start.check_same(estimator, about, output)
    if resume and not force:
        check_rows(rows_file, about, estimator, resuming=True)
    told = {**about, **provenance()}
    told |= {"backend": "torch"} if estimator.execution.torch_device.type == "cuda" else {}
    session = Session(
        estimator, found, ids, told, output, rows_file, save_every, eval_every, max_minutes
    )
    done = 0 if start is None else start.state.round
    row: dict[str, Any] = {"rounds": done}
    if start is not None:
        row = {**told, "rounds": done, "seed": start.state.seed, **start.state.numbers}
    try:
        with closing(session.run(start)) as run:
            for row in _tell(run, done, rounds):  # noqa: B007 - the last one is wanted
                pass
    except KeyboardInterrupt:
        n = row["rounds"]
        err.print(f"Interrupted: {f'round {n} is kept; go on with --resume' if n else 'no round'}.")
        raise
    if as_json:
        print_json(row)
        return
    _tell_end(row, done, rounds)
    out.print(f"Checkpoint of round {row['rounds']} -> {escape(str(output))}")


@app.command()
def evaluate(
    file: Checkpoint,
    data: Data,
    size: Size = None,
    device: Device = "auto",
    rows_file: Annotated[
        Path | None, typer.Option("--rows", help="Add a JSON line to these rows of `deep train`.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Linear probe and nearest neighbors on the frozen features of labeled images.

    Where there are no images to test on, every fifth is kept for that.
    """
    from fedjigsaw.deep import checkpoint, images
    from fedjigsaw.deep import session as sessions
    from fedjigsaw.deep.execution import check_device

    check_outputs(rows_file, force=True, inputs=[file])
    check_device(device)
    loaded, made_by = checkpoint.load(file), provenance()
    about = {name: value for name, value in loaded.about.items() if name not in made_by}
    method = loaded.method.set_params(device=device)
    sessions.check_rows(rows_file, about, method, resuming=False)
    found = images.load(data, size=size)
    if found.train_labels is None:
        raise DataError(invalid("labels", data, "known for an evaluation", "none"))
    with count_rows("Looking at the images", len(found.train) + len(found.test)) as tell:
        numbers = sessions.evaluate(method, found, tell=tell)
    row = {**about, "rounds": loaded.state.round, "seed": loaded.state.seed, **numbers}
    row |= {"evaluated_on": found.name, "config": method.configuration(), **made_by}
    if rows_file is not None:
        add_row(rows_file, row)
    if as_json:
        print_json(row)
        return
    out.print(_accuracies(numbers))


@app.command()
def embed(
    data: Annotated[str, typer.Argument(help="Images, as for `deep train --data`.")],
    model: Annotated[
        str, typer.Option(help="A checkpoint, or timm:NAME or torchvision:NAME with --weights.")
    ],
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Where the features go: .npy or .parquet.")
    ],
    weights: Annotated[
        Path | None, typer.Option(help="Weights of a network of timm or torchvision, on disk.")
    ] = None,
    part: Annotated[str, typer.Option(**choice(["train", "test"]), help="Which images.")] = "train",
    size: Size = None,
    device: Device = "auto",
    force: ForceFlag = False,
) -> None:
    """Features of images, one row each, ready for `fedjigsaw summarize`."""
    from fedjigsaw.deep import backbones, images
    from fedjigsaw.deep.execution import check_device

    check_outputs(output, force=force, inputs=[weights, Path(model), Path(data)])
    check_device(device)
    if output.suffix not in (".npy", ".parquet"):
        allowed = ".npy or .parquet"
        raise ParameterError(invalid("ending", str(output), allowed, repr(output.suffix)))
    found = images.load(data, size=size)
    shown = found.train if part == "train" else found.test
    if not len(shown):
        raise DataError(invalid("images", data, f"some to {part} on", "none"))
    with count_rows("Looking at the images", len(shown)) as tell:
        features = backbones.embed(shown, model, weights=weights, device=device, tell=tell)
    write_whole(output, _table(features, output.suffix))
    out.print(
        f"{features.shape[0]:,} images, {features.shape[1]} features -> {escape(str(output))}"
    )


@app.command()
def export(
    file: Checkpoint,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="A name ending in .onnx or .safetensors.")
    ],
    size: Annotated[
        int | None,
        typer.Option(min=8, help="onnx: height and width of its images; else as in training."),
    ] = None,
    force: ForceFlag = False,
) -> None:
    """The network of a checkpoint for other programs."""
    from fedjigsaw.deep import checkpoint
    from fedjigsaw.deep import export as exporting

    check_outputs(output, force=force, inputs=[file])
    exporting.check_ending(output)
    exporting.export(checkpoint.load(file), output, size=size)
    out.print(f"{output.stat().st_size:,} bytes -> {escape(str(output))}")


# ------------------------------------------------------------------------------------------- parts


OPTIONS = {  # parameters of DeepFeCA that have an option of their own
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


def _others(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without an option of their own; two places for one thing could differ."""
    for name in settings:
        if name in OPTIONS:
            allowed = f"a parameter without an option, for this one use {OPTIONS[name]}"
            raise ParameterError(invalid("--set", "deep train", allowed, name))
    return settings


def _subset(found: ImageSet, n_images: int | None, seed: int) -> ImageSet:
    from dataclasses import replace

    if n_images is None or n_images >= len(found.train):
        return found
    chosen = np.sort(np.random.default_rng(seed).permutation(len(found.train))[:n_images])
    labels = None if found.train_labels is None else found.train_labels[chosen]
    return replace(found, train=found.train[chosen], train_labels=labels)


def _deal(
    found: ImageSet,
    split: str,
    alpha: float,
    clients: int,
    min_size: int | None,
    shards: int,
    seed: int,
    batch_size: int,
) -> tuple[Any, dict[str, Any]]:
    """Who holds each image, and what a row says of that; None if all are in one place."""
    if split == "central":
        return None, {}
    labels = found.train_labels
    if labels is None:
        if split != "iid":
            advice = "Use --split iid."
            raise DataError(invalid("labels", found.name, f"known for {split}", "none", advice))
        labels = np.zeros(len(found.train), dtype=np.int64)
    if min_size is None:  # a whole batch, but never hard to meet
        min_size = max(1, min(batch_size, len(labels) // (10 * clients)))
    cell = Cell(found.name, "", 1, seed, clients, split, alpha, min_size, shards)
    told = cell.as_row()
    names = ("n_clients", "alpha", "min_size", "shards")
    return split_rows(labels, cell), {name: told[name] for name in names if name in told}


def _about(found: ImageSet, ids: Any, **more: Any) -> dict[str, Any]:
    """What a run is on: the start of its rows, and what it must be on when it goes on."""
    held = [found.train] if ids is None else [found.train, ids]
    return {
        "dataset": found.name,
        "n_images": len(found.train),
        "image_size": list(found.train.shape[2:]),
        **more,
        "fingerprint": fingerprint(b"".join(array.tobytes() for array in held)),
    }


def _tell(run: Iterator[dict[str, Any]], done: int, rounds: int) -> Iterator[dict[str, Any]]:
    """The rows of a run, each told as it comes: progress on a terminal, a line elsewhere."""
    with Progress(console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("Rounds", total=rounds, completed=done)
        for row in run:
            progress.update(task, completed=row["rounds"], description=_line(row, rounds))
            if not err.is_terminal:
                err.print(_line(row, rounds))
            if row["collapsed"]:
                err.print("[yellow]Warning:[/] the clusters have collapsed; see docs/deepfeca.md.")
            yield row


def _tell_end(row: dict[str, Any], done: int, rounds: int) -> None:
    """How a run ended that began with so many rounds done."""
    if done == rounds:
        out.print(f"Nothing was left to do: all {rounds} rounds are done.")
    elif row["rounds"] < rounds:
        out.print(f"Stopped after round {row['rounds']} of {rounds}; go on with --resume.")
    if "linear_accuracy" in row:
        out.print(_accuracies(row))


def _line(row: dict[str, Any], rounds: int) -> str:
    """One round in one line."""
    left = (rounds - row["rounds"]) * row["round_seconds"]
    words = [
        f"round {row['rounds']}/{rounds}",
        f"loss {row['loss']:.3f}",
        f"{row['clusters_used']}/{row['clusters']} clusters",
        f"largest {row['largest_share']:.0%}",
        f"spread {row['spread']:.2f}",
    ]
    words += [f"nmi {row['nmi']:.3f}"] if "nmi" in row else []
    words += [f"linear {row['linear_accuracy']:.2%}"] if "linear_accuracy" in row else []
    share = row["cluster_seconds"] / row["round_seconds"]
    words += [
        f"{row['round_seconds']:.1f} s ({share:.0%} clustering)",
        f"{row['views_per_second']:,.0f} views/s",
        f"{left:.0f} s left" if left < 100 else f"{left / 60:.0f} min left",
    ]
    return ", ".join(words)


def _accuracies(row: dict[str, Any]) -> str:
    return (
        f"Linear probe {row['linear_accuracy']:.2%}, "
        f"nearest neighbors {row['knn_accuracy']:.2%} of the test images."
    )


def _table(features: Any, suffix: str) -> bytes:
    """Rows as the bytes of a file; the columns of Parquet are f0, f1, ..."""
    from io import BytesIO

    import pyarrow as pa
    import pyarrow.parquet

    content = BytesIO()
    if suffix == ".npy":
        np.save(content, features, allow_pickle=False)
    else:
        table = pa.table({f"f{i}": column for i, column in enumerate(features.T.copy())})
        pa.parquet.write_table(table, content)
    return content.getvalue()
