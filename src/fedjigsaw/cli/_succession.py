"""The option --like: a model that follows another one, and what became of its clusters."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw import sites
from fedjigsaw.cli._shared import escape, out
from fedjigsaw.errors import ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.methods import DEFAULT, METHODS
from fedjigsaw.sites import Succession
from fedjigsaw.sites.compatibility import check_has_centers

LikeModel = Annotated[
    Path | None,
    typer.Option(
        "--like",
        help="Keep the cluster ids of this earlier model: a cluster that is still there has the "
        "id that it had, a new one gets a new id. Default: ids are 0, 1, 2, ... "
        "Example: --like may.model",
    ),
]


def load_old(path: Path | None, method: str = DEFAULT) -> ModelFile | None:
    """Read the model that another one will follow, before any work is done."""
    if path is None:
        return None
    if method in METHODS and METHODS[method].data_kind == "images":
        raise ParameterError(
            f"--like cannot be used with {method}: its features change from model to model, so "
            "their clusters cannot be compared."
        )
    old = formats.load(path, ModelFile)
    check_has_centers(old)
    return old


def follow(model: ModelFile, old: ModelFile | None) -> tuple[ModelFile, Succession | None]:
    """Give a model the ids of an earlier one, if there is one."""
    return (model, None) if old is None else sites.succeed(model, old)


def succession_values(changes: Succession | None) -> dict[str, Any]:
    """Return what became of the clusters, for JSON; nothing without an earlier model."""
    return {} if changes is None else {"succession": changes.to_dict()}


def print_succession(changes: Succession | None, path: Path | None) -> None:
    """Print what became of the clusters of the earlier model."""
    if changes is not None:
        out.print(escape(f"After {path}: {' '.join(changes.sentences())}"))
