"""Parts that commands share: consoles, options and their parsers, progress, checks of outputs."""

import csv
import json
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich import markup
from rich.console import Console

from fedjigsaw import cli, errors
from fedjigsaw._steps import listener
from fedjigsaw.cli._declared import parameters as declared
from fedjigsaw.errors import DataError, ParameterError, unwritable
from fedjigsaw.io.regular import check_regular
from fedjigsaw.kernels.compiled import COMPILING, on_compiling

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
OTHER_NAMES = {  # parameters of functions and methods that commands call by another name
    "clusterer": "method",
    "date_formats": "date_format",
    "factors": "factor",
    "levels": "map",
    "min_rows": "min_cluster_size",
    "missing_in": "missing",
    "n_rounds": "rounds",
    "names": "rename",
    "random_state": "seed",
    "replace": "force",
}

# a pipe has no width, and numbers must not be cut
PIPE_WIDTH = 140 if "COLUMNS" not in os.environ else None
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True)
# those of the package; all are in one module
WARNINGS = tuple(
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Warning)
)


def print_error(error: Exception) -> None:
    """Print an error of fedjigsaw as one line."""
    err.print(f"[bold red]Error:[/] {escape(_with_option(error))}")


def _with_option(told: object) -> str:
    """Return a message, and the option of the running command that sets its parameter."""
    option = option_of(getattr(told, "parameter", ""))
    return f"{told} ({option})" if option and option not in str(told) else str(told)


def option_of(parameter: str) -> str:
    """Return the option of the running command for a parameter; empty if it has none."""
    if not parameter or cli.running is None:
        return ""
    own = {name.lstrip("-"): one.opts[0] for one in declared(cli.running) for name in one.opts}
    called = OTHER_NAMES.get(parameter, parameter).replace("_", "-")
    if called in own:
        return f"option {own[called]}"
    from fedjigsaw.methods import CLUSTERERS

    of_methods = any(parameter in entry.cls.rules for entry in CLUSTERERS.values())
    if of_methods and "param" in own:
        return f"option -p {parameter}=..."
    return f"option -s {parameter}=..." if "set" in own else ""


def cluster_count(text: str | int) -> int | str:
    """Parse a number of clusters, or "auto", which lets the method find it."""
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
    """Parse one number of clusters, or one for each head of a network: "300,300"."""
    counts = [cluster_count(part) for part in text.split(",")]
    return counts if len(counts) > 1 else counts[0]


CLUSTERS = typer.Option(
    "-k",
    "--n-clusters",
    parser=cluster_count,
    metavar="K",
    help="Number of clusters in all data; auto lets the method find it (jigsaw). Example: -k 4",
)


def clusters_by_head(words: str, panel: str | None = None) -> Any:
    """Return the option -k for a network, where each head may have its own number of clusters."""
    return typer.Option(
        "-k",
        "--n-clusters",
        parser=cluster_counts,
        metavar="K",
        help=f"{words}; for several heads: 300,300,300.",
        rich_help_panel=panel,
    )


def choice(names: Collection[str]) -> dict[str, Any]:
    """Return the arguments of `typer.Option` for one of several names."""

    def parse(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}.")
        return text

    return {"parser": parse, "metavar": f"[{'|'.join(names)}]"}


FederationFolder = Annotated[
    Path, typer.Argument(help="Folder that `federation init` made. Example: clinic")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table or text.")]
ForceFlag = Annotated[
    bool, typer.Option("--force", help="Overwrite existing files. Default: keep them.")
]


def parameters(panel: str | None = None) -> Any:
    """Return the option -p, in a panel of the help."""
    return typer.Option(
        "-p",
        "--param",
        help="Set a parameter of the method; repeat it for several. `fedjigsaw methods` lists "
        "them. Example: -p n_init=20",
        rich_help_panel=panel,
    )


Without = Annotated[
    list[str] | None,
    typer.Option(
        help="Leave this site out: its file does not count; repeat for several. "
        "Example: --without oslo"
    ),
]
ParamFlag = Annotated[list[str] | None, parameters()]
RECIPES = ["paper", "best"]  # as in fedjigsaw.deep.recipes, which needs torch


def parse_params(
    texts: Sequence[str] | None, flag: str = "--param", example: str = "n_init=20"
) -> dict[str, Any]:
    """Parse texts of the form name=value; a value is JSON, True, False, None, or else text."""
    return dict(_parse_param(text, flag, example) for text in texts or [])


def _parse_param(text: str, flag: str, example: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ParameterError(f"{flag} takes name=value, such as {example}; got {text!r}.")
    spelled = {"True": "true", "False": "false", "None": "null"}
    try:
        return name, json.loads(spelled.get(value, value))
    except ValueError:
        return name, value


def escape(text: str) -> str:
    """Make a text safe to print: no markup, and no control character, also in a file's name."""
    plain = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    return markup.escape(plain)


def print_json(value: Any) -> None:
    """Print a value as JSON, with null for numbers that JSON does not know."""
    sys.stdout.write(json.dumps(_finite(value), indent=2) + "\n")


def _finite(value: Any) -> Any:
    """Return values with None in place of NaN and infinity."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def say(text: str) -> None:
    """Print a line at once, also into a pipe: for commands that run for long."""
    out.print(escape(text))
    out.file.flush()


def compiling_told() -> AbstractContextManager[None]:
    """Say once, on the error stream, if code is compiled in the block, which takes long."""
    return on_compiling(cache(partial(err.print, COMPILING)))


def track(items: Iterable[T], label: str) -> Iterator[T]:
    """Show progress over a list and the time left; only on a terminal."""
    with progress_bar() as progress:
        yield from progress.track(list(items), description=label)


@contextmanager
def count_rows(label: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Show progress over the rows of a file, with the time left if their number is known."""
    with progress_bar() as progress:
        task = progress.add_task(label, total=total)
        yield lambda n_rows: progress.advance(task, n_rows)


@contextmanager
def count_rows_then(
    label: str, total: int | None, then: str
) -> Iterator[tuple[Callable[[int], object], Callable[[int], object]]]:
    """Show progress over the rows of a file, and then over the work on them.

    Yields two functions: one to call for rows that were read, one to call when the work starts. The
    time that is left of the work is known once a kernel tells its steps, such as restarts.
    """
    with progress_bar() as progress:
        task = progress.add_task(label, total=total)
        started = perf_counter()

        def start(n_rows: int) -> None:
            nonlocal task, started
            progress.remove_task(task)
            task, started = progress.add_task(f"{then} {n_rows:,} rows", total=None), perf_counter()

        def show(done: int, total: int) -> None:
            now = perf_counter()
            end = now + (now - started) / done * (total - done)
            progress.update(task, completed=done, total=total, end=end)

        token = listener.set(show)
        try:
            yield lambda n_rows: progress.advance(task, n_rows), start
        finally:
            listener.reset(token)


def progress_bar() -> "Progress":
    """Make a progress bar that shows nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import Progress, Task, TimeElapsedColumn, TimeRemainingColumn
    from rich.text import Text

    class TimeLeft(TimeRemainingColumn):
        """The time to the expected end of a task that has one."""

        def render(self, task: Task) -> Text:
            if "end" not in task.fields:
                return super().render(task)
            left = max(0.0, task.fields["end"] - perf_counter())
            return Text(about(left), style="progress.remaining")

    columns = (*Progress.get_default_columns()[:-1], TimeLeft(), TimeElapsedColumn())
    # rich before 14.3 ends even a disabled bar by an empty line
    console = err if err.is_terminal else Console(quiet=True)
    return Progress(*columns, console=console, transient=True, disable=not err.is_terminal)


def about(seconds: float) -> str:
    """Write the time that is left, no more exactly than it is known.

    Examples
    --------
    >>> about(0.2), about(43.7), about(400)
    ('about 1 s left', 'about 44 s left', 'about 7 min left')
    """
    if seconds < 100:
        return f"about {max(1, round(seconds))} s left"
    return f"about {round(seconds / 60)} min left"


def split_names(names: str | None) -> list[str] | None:
    """Split names at commas; a name that contains a comma goes into double quotes."""
    return None if names is None else next(csv.reader([names], skipinitialspace=True))


def check_outputs(
    *paths: Path | None, force: bool, inputs: Sequence[Path | None] = (), hint: str = ""
) -> None:
    """Check before the work starts that these files can be written.

    Parameters
    ----------
    hint : what else than --force can be used if a file exists.
    """
    try:
        _check_outputs(paths, force=force, inputs=inputs, hint=hint)
    except PermissionError as error:  # from a question about a file in a closed folder
        raise DataError(unwritable(error.filename, error)) from error


def _check_outputs(
    paths: Sequence[Path | None], *, force: bool, inputs: Sequence[Path | None], hint: str
) -> None:
    from fedjigsaw.records.journal import is_journal  # lazy: help needs no NumPy

    given = [path.resolve() for path in paths if path is not None]
    if twice := [path for path in given if given.count(path) > 1]:
        raise DataError(f"Two results cannot be written to one file, {twice[0]}.")
    for path in paths:
        if path is not None and path.is_symlink() and not force:  # even if it leads nowhere
            raise DataError(_already_there(path, hint))
    sources = {path.resolve() for path in inputs if path is not None}
    for path in given:
        if path in sources:
            raise DataError(f"{path} is an input; write the result to another file.")
        check_regular(path)
        if is_journal(path):  # what left would count no more
            raise DataError(f"{path} is a ledger or a journal; write the result to another file.")
        if path.exists() and not force:
            raise DataError(_already_there(path, hint))
        if not path.parent.is_dir():
            raise DataError(f"Cannot write {path}: there is no folder {path.parent}.")
        if not os.access(path.parent, os.W_OK):
            raise DataError(f"Cannot write {path}: permission denied in {path.parent}.")


def _already_there(path: Path, hint: str) -> str:
    return f"{path} already exists. Use {hint}--force to overwrite it."


@contextmanager
def warnings_shown(*, but: Sequence[type[Warning]] = ()) -> Iterator[None]:
    """Print the package's warnings at the end of the block, each once; raise those of others again.

    Parameters
    ----------
    but : warnings about what a command prints itself, which are hidden.
    """
    with warnings.catch_warnings(record=True) as caught:
        for kind in WARNINGS:
            warnings.simplefilter("ignore" if kind in but else "always", kind)
        try:
            yield
        finally:
            shown = [w for w in caught if issubclass(w.category, WARNINGS)]
            for text in dict.fromkeys(_with_option(w.message) for w in shown):
                err.print(f"[yellow]Warning:[/] {escape(text)}")
    for other in caught:
        if other not in shown:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
