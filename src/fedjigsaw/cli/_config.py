"""Config files and environment variables for commands that run for long.

Every option of such a command can be given on the command line, in an environment variable, or in
a TOML file (``--config``). The first of these that has it counts. Keys of the file are the long
names of options and the names of arguments.
"""

import csv
import io
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperArgument

from fedjigsaw.cli._declared import Parameter, parameters
from fedjigsaw.cli._shared import escape, out, print_json
from fedjigsaw.errors import FedJigsawError, ParameterError, did_you_mean
from fedjigsaw.io._codec import read_bounded

MAX_CONFIG = 2**20  # bytes of a config file
PANEL = "Operation"
NOT_IN_FILE = ("config", "check_config", "help")
FILE_OR_NUMBERS = ("bounds",)  # texts that may name a file
SOURCES = {
    "COMMANDLINE": "command line",
    "ENVIRONMENT": "environment",
    "DEFAULT_MAP": "config file",
}


def load_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the values of a config file as defaults of the command's parameters."""
    if path is not None and not context.resilient_parsing:
        context.default_map = {**(context.default_map or {}), **read_config(context, path)}
    return path


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        callback=load_config,
        help="A TOML file with any of these options by their long names. Environment variables "
        "and the command line override it. Paths in it are relative to its folder. "
        "Example: --config /etc/fedjigsaw/bern.toml",
        rich_help_panel=PANEL,
    ),
]
CheckConfigFlag = Annotated[
    bool,
    typer.Option(
        "--check-config",
        help="Check everything that can be checked before the start, print the settings and where "
        "they come from, and end. Nothing is started or written.",
        rich_help_panel=PANEL,
    ),
]


def variables(command: str) -> dict[str, Any]:
    """Return the context settings by which options of a command have environment variables."""
    return {"auto_envvar_prefix": f"FEDJIGSAW_{command.upper()}"}


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether a parameter was given anywhere: command line, environment or config file."""
    source = context.get_parameter_source(name)
    return source is not None and source.name in SOURCES


# --------------------------------------------------------------------------------- reading a file


def settable(command: Any) -> dict[str, Parameter]:
    """Return the parameters that a config file may have, by their keys."""
    return {
        key_of(parameter): parameter
        for parameter in parameters(command)
        if parameter.name not in NOT_IN_FILE
    }


def key_of(parameter: Parameter) -> str:
    """Return the key of a parameter: the long name of an option, the name of an argument."""
    if isinstance(parameter, TyperArgument):
        return str(parameter.name)
    return max(parameter.opts, key=len).removeprefix("--")


def read_config(context: typer.Context, path: Path) -> dict[str, Any]:
    """Read a config file of a command. A mistake is a ParameterError with file and key."""
    known, kinds = settable(context.command), kinds_of(context.command)
    found: dict[str, Any] = {}
    for key, value in _load(path).items():
        if key not in known:
            advice = did_you_mean(key, known) or f"Known: {', '.join(sorted(known))}."
            raise ParameterError(f"{path}: unknown key {key!r}. {advice}")
        parameter = known[key]
        try:
            given = _convert(parameter, kinds[str(parameter.name)], value, path.resolve().parent)
            parameter.process_value(context, given)
        except (typer.BadParameter, FedJigsawError) as error:
            reason = error.message if isinstance(error, typer.BadParameter) else str(error)
            raise ParameterError(f"{path}: {key}: {reason}") from error
        found[str(parameter.name)] = given
    return found


def _load(path: Path) -> dict[str, Any]:
    content = read_bounded(path, MAX_CONFIG)
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{path} is not a TOML file: {error}.") from error


def _convert(parameter: Parameter, kind: str, value: Any, folder: Path) -> Any:
    """Return a value of a file as the command line would have it."""
    if parameter.multiple:
        values = value if isinstance(value, list) else [value]
        return [_convert_one(parameter, kind, each, folder) for each in values]
    return _convert_one(parameter, kind, value, folder)


def _convert_one(parameter: Parameter, kind: str, value: Any, folder: Path) -> Any:
    if kind == "text" and isinstance(value, list):
        value = _joined(value)
    if not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != TRUTH):
        raise typer.BadParameter(f"{value!r} is not {ARTICLES.get(kind, 'a')} {kind}.")
    if kind == "path" or (parameter.name in FILE_OR_NUMBERS and _may_be_a_file(value)):
        return str(folder / Path(value).expanduser())
    return value


def _joined(values: list[Any]) -> str:
    """Return a list as text with commas, in which names that have one are quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()


def _may_be_a_file(text: str) -> bool:
    try:
        [float(part) for part in text.split(",")]
    except ValueError:
        return True
    return False


TRUTH = "true or false"
KINDS: Mapping[str, Any] = {
    TRUTH: bool,
    "whole number": int,
    "number": (int, float),
    "path": str,
    "text": str,
}
ARTICLES = {TRUTH: "either"}


KIND_OF = {bool: TRUTH, int: "whole number", float: "number", Path: "path"}


def kinds_of(command: Any) -> dict[str, str]:
    """Return what the value of each parameter is, or each of its values: one of `KINDS`."""
    hints = get_type_hints(command.callback) if command.callback else {}
    return {str(each.name): _kind(hints[str(each.name)]) for each in parameters(command)}


def _kind(hint: Any) -> str:
    while parts := [part for part in get_args(hint) if part is not type(None)]:
        hint = parts[0] if len(parts) == 1 else str
    return KIND_OF.get(hint, "text")


# ------------------------------------------------------------------------------------- printing


def print_settings(context: typer.Context, checks: Iterable[str], *, as_json: bool = False) -> None:
    """Print where each setting comes from, and what was checked."""
    given = {}
    for key, parameter in settable(context.command).items():
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name in SOURCES:
            given[key] = (str(context.params[str(parameter.name)]), SOURCES[source.name])
    if as_json:
        settings = {key: {"value": value, "from": place} for key, (value, place) in given.items()}
        print_json({"settings": settings, "checks": list(checks)})
        return
    for key, (value, place) in given.items():
        out.print(escape(f"{key} = {value} ({place})"))
    for check in checks:
        out.print(escape(check))
    out.print("The configuration is in order; nothing was started.")
