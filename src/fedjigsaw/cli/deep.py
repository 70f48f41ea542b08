"""The commands ``fedjigsaw deep``: train, evaluate, embed, export. Torch is loaded on demand."""

from pathlib import Path
from typing import Annotated

import typer

from fedjigsaw.cli._images import Data, Device, SizeAsTrained, load_for
from fedjigsaw.cli._shared import (
    ForceFlag,
    JsonFlag,
    check_outputs,
    choice,
    count_rows,
    escape,
    out,
    print_json,
)
from fedjigsaw.cli.deep_train import train
from fedjigsaw.errors import DataError, counted

app = typer.Typer(
    help="Learn features from images that stay at their sites (requires torch).",
    no_args_is_help=True,
)

app.command()(train)

CheckpointFile = Annotated[Path, typer.Argument(help="Checkpoint written by `deep train`.")]


@app.command()
def evaluate(
    file: CheckpointFile,
    data: Data,
    size: SizeAsTrained = None,
    device: Device = "auto",
    rows_file: Annotated[
        Path | None,
        typer.Option("--rows", help="File of rows of `deep train`, to which a JSON line is added."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Evaluate frozen features on labeled images: linear probe and nearest neighbors.

    Without test images, every fifth image is held out for that; of fewer, the last.

    Example: fedjigsaw deep evaluate run.st --data cifar
    """
    from fedjigsaw.deep.execution import check_device
    from fedjigsaw.deep.progress import accuracies
    from fedjigsaw.deep.session import evaluate_checkpoint

    check_outputs(rows_file, force=True, inputs=[file, Path(data)])
    check_device(device)
    found = load_for(file, data, size)
    with count_rows("Embedding images", len(found.train) + len(found.test)) as progress:
        row = evaluate_checkpoint(file, found, device=device, rows=rows_file, progress=progress)
    if as_json:
        print_json(row)
    else:
        out.print(accuracies(row, has_test=found.has_test))


@app.command()
def embed(
    data: Annotated[str, typer.Argument(help="Images, as for `deep train --data`.")],
    model: Annotated[
        str,
        typer.Option(
            help="Checkpoint, or timm:NAME with --weights. Example: --model timm:resnet50"
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="File for the features: .npy, or .parquet, which has the file of each image in "
            "the column image_id, too.",
        ),
    ],
    weights: Annotated[
        Path | None, typer.Option(help="File with the weights of a timm network.")
    ] = None,
    part: Annotated[
        str, typer.Option(**choice(["train", "test"]), help="Images to embed.")
    ] = "train",
    size: SizeAsTrained = None,
    device: Device = "auto",
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Compute features of images, one row per image, for `fedjigsaw summarize`.

    Example: fedjigsaw deep embed photos --model run.st -o features.parquet
    """
    from fedjigsaw.deep import backbones, images
    from fedjigsaw.deep.execution import check_device

    check_outputs(output, force=force, inputs=[weights, Path(model), Path(data)])
    check_device(device)
    backbones.check_ending(output)
    found = load_for(Path(model) if backbones.is_checkpoint(model) else None, data, size)
    shown, files = (
        (found.train, found.train_files) if part == "train" else (found.test, found.test_files)
    )
    if not len(shown):
        raise DataError(f"{data} has no {part} images.")
    with count_rows("Embedding images", len(shown)) as progress:
        features = backbones.embed(shown, model, weights=weights, device=device, progress=progress)
    names = None if files is None else images.names_in(data, files)
    backbones.save_features(features, output, names)
    if as_json:
        n_images, n_features = features.shape
        print_json({"file": str(output), "images": n_images, "features": n_features})
        return
    n_images = counted(len(features), "image")
    out.print(f"{n_images}, {features.shape[1]} features -> {escape(str(output))}")


@app.command()
def export(
    file: CheckpointFile,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="File for the network: .safetensors.")
    ],
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write the network of a checkpoint in a format of other programs.

    Example: fedjigsaw deep export run.st -o network.safetensors
    """
    from fedjigsaw.deep import checkpoint

    check_outputs(output, force=force, inputs=[file])
    checkpoint.check_export(output)
    checkpoint.export(checkpoint.load(file), output)
    if as_json:
        print_json({"file": str(output), "bytes": output.stat().st_size})
        return
    out.print(f"{output.stat().st_size:,} bytes -> {escape(str(output))}")
