"""The option --like: a model that follows another one, and what became of its clusters."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw import sites
from fedjigsaw.cli._shared import escape, out
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.methods import DEFAULT, METHODS
from fedjigsaw.report.difference import describe_drift
from fedjigsaw.sites import Difference, Lineage, Succession
from fedjigsaw.sites.compatibility import check_has_centers
from fedjigsaw.sites.drift import Noise
from fedjigsaw.sites.lineage import check_sidecar

LikeModel = Annotated[
    Path | None,
    typer.Option(
        "--like",
        help="Keep the cluster ids of this earlier model: a cluster that is still there has the "
        "id that it had, a new one gets a new id. Also tells how much clusters changed. Default: "
        "ids are 0, 1, 2, ... Example: --like may.model",
    ),
]

NO_NOISE = (
    "How much chance moves the clusters is not known: not all summaries of this model are on this "
    "machine."
)


@dataclass(frozen=True)
class Earlier:
    """The model that another one follows, and its noise, if that was measured."""

    path: Path
    model: ModelFile
    noise: Noise | None


@dataclass(frozen=True)
class Made:
    """A new model, and what became of the clusters of the earlier one, if there is one."""

    model: ModelFile
    earlier: Earlier | None = None
    succession: Succession | None = None
    difference: Difference | None = None
    noise: Noise | None = None

    def save(self, path: Path, *, replace: bool, run: str | None = None) -> None:
        """Write the model, and where it is from beside it."""
        check_sidecar(path)
        formats.save(self.model, path, replace=replace)
        Lineage.of(
            self.model,
            parent=None if self.earlier is None else self.earlier.model,
            run=run,
            succession=self.succession,
            difference=self.difference,
            noise=self.noise,
        ).save(path)

    def values(self) -> dict[str, Any]:
        """Return what became of the clusters, for JSON; nothing without an earlier model."""
        if self.succession is None or self.difference is None:
            return {}
        found = {"succession": self.succession.to_dict(), "drift": self.difference.drift}
        return found | {"alarm": self.difference.alarm}

    def print(self) -> None:
        """Print what became of the clusters of the earlier model."""
        if self.earlier is None or self.succession is None or self.difference is None:
            return
        out.print(escape(f"After {self.earlier.path}: {' '.join(self.succession.sentences())}"))
        for line in describe_drift(self.difference, NO_NOISE):
            out.print(escape(line))


def load_earlier(like: Path | None, output: Path, method: str = DEFAULT) -> Earlier | None:
    """Read the model that another one will follow, before any work is done."""
    check_sidecar(output)
    if like is None:
        return None
    if method in METHODS and METHODS[method].data_kind == "images":
        raise ParameterError(
            f"--like cannot be used with {method}: its features change from model to model, so "
            "their clusters cannot be compared."
        )
    model = formats.load(like, ModelFile)
    check_has_centers(model)
    lineage = Lineage.load(like)
    return Earlier(like, model, None if lineage is None else lineage.noise)


def follow(model: ModelFile, earlier: Earlier | None, summaries: Iterable[SummaryFile]) -> Made:
    """Give a model the ids of an earlier one, if there is one, and measure its drift.

    Parameters
    ----------
    summaries : those that the model was made from; if some are missing, its noise is not known.
    """
    if earlier is None:
        return Made(model)
    named, succession = sites.succeed(model, earlier.model)
    try:
        noise = sites.measure_noise(list(summaries), named)
    except MessageError:
        noise = None
    difference = sites.compare(earlier.model, named, old_noise=earlier.noise, new_noise=noise)
    return Made(named, earlier, succession, difference, noise)
