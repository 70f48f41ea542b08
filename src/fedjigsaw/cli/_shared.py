"""What all commands share: consoles, progress, JSON, and care with output files."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from fedjigsaw.errors import DataError, ParameterError, invalid

T = TypeVar("T")

# a pipe has no width of its own, and must not cut numbers
PIPE_WIDTH = 140 if "COLUMNS" not in os.environ else None
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def cluster_count(text: str | int) -> int | str:
    """A number of clusters, or "auto" where the method is to find it."""
    if text == "auto":
        return "auto"
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise typer.BadParameter(f"{text!r} is neither a number >= 1 nor auto.")
    return number


def cluster_counts(text: str) -> int | str | list[int | str]:
    """The same, or several numbers separated by commas: one for each head of a network."""
    counts = [cluster_count(part) for part in text.split(",")]
    return counts if len(counts) > 1 else counts[0]


def head_sizes(text: str) -> int | list[int]:
    """Numbers of clusters >= 2, one for each head of a network; no `auto`."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 1 for part in parts):
        raise typer.BadParameter(f"{text!r} is neither a number >= 2 nor several, as 300,300.")
    sizes = [int(part) for part in parts]
    return sizes if len(sizes) > 1 else sizes[0]


CLUSTERS = typer.Option(
    "-k",
    "--n-clusters",
    parser=cluster_count,
    metavar="K",
    help="Clusters in all data; `auto` where the method finds their number (jigsaw).",
)


def clusters_by_head(words: str, parser: Callable[[str], Any] = cluster_counts) -> Any:
    """The same option where each head of a network may have a number of its own."""
    return typer.Option(
        "-k",
        "--n-clusters",
        parser=parser,
        metavar="K",
        help=f"{words}; several heads: 300,300,300.",
    )


def choice(names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of `typer.Option` for one of several names."""

    def parse(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}.")
        return text

    return {"parser": parse, "metavar": f"[{'|'.join(names)}]"}


JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
ParamFlag = Annotated[
    list[str] | None,
    typer.Option("-p", "--param", help="A parameter of the method, e.g. -p n_init=20; repeat."),
]


def parse_params(texts: Sequence[str] | None, flag: str = "--param") -> dict[str, Any]:
    """Texts of the form name=value, with the value in JSON or Python spelling, else as text."""
    return dict(_parse_param(text, flag) for text in texts or [])


def _parse_param(text: str, flag: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ParameterError(invalid(flag, "a command", "name=value", repr(text)))
    spelled = {"True": "true", "False": "false", "None": "null"}
    try:
        return name, json.loads(spelled.get(value, value))
    except ValueError:
        return name, value


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def say(text: str) -> None:
    """A line of a command that goes on: a pipe gets it now, not at the end."""
    out.print(escape(text))
    out.file.flush()


def track(items: Iterable[T], label: str) -> Iterator[T]:
    """Progress over a list with the time left, on a terminal only."""
    with _progress() as progress:
        yield from progress.track(list(items), description=label)


@contextmanager
def count_steps(label: str, total: int) -> Iterator[Callable[[], object]]:
    """Progress over steps that end in any order."""
    with _progress() as progress:
        task = progress.add_task(label, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def count_rows(label: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Progress over the rows of a file, with the time left where their number is known."""
    with _progress() as progress:
        task = progress.add_task(label, total=total)
        yield lambda n_rows: progress.advance(task, n_rows)


def _progress() -> Progress:
    return Progress(console=err, transient=True, disable=not err.is_terminal)


def split_names(names: str | None) -> list[str] | None:
    """Names separated by commas; a name that holds a comma goes into double quotes."""
    return None if names is None else next(csv.reader([names], skipinitialspace=True))


def check_outputs(*paths: Path | None, force: bool, inputs: Sequence[Path | None] = ()) -> None:
    """Say what is wrong with the places for results before the work starts, not after."""
    given = [path.resolve() for path in paths if path is not None]
    if len(set(given)) < len(given):
        raise DataError(f"Two results cannot both go to {given[0]}.")
    sources = {path.resolve() for path in inputs if path is not None}
    for path in given:
        if path in sources:
            raise DataError(f"{path} is an input; its result must go elsewhere.")
        if path.is_dir():
            raise DataError(f"{path} is a folder; name a file.")
        if path.exists() and not force:
            raise DataError(f"{path} is already there and is kept. Use --force to overwrite it.")
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise DataError(f"There is no folder {path.parent} that can be written to.")
