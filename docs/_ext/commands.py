"""All commands and their options, for the site: from the declarations that their help shows."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from typer.core import TyperArgument, TyperGroup
from typer.main import get_command

from fedjigsaw.cli import _app, federation
from fedjigsaw.cli._config import NOT_IN_FILE, key_of, kinds_of
from fedjigsaw.cli._declared import Command, Parameter, parameters

COMMANDS = ("server", "site")


def configuration() -> str:
    """Return the tables of all options of a server and of a site."""
    found = dict(_app.all_commands("federation", get_command(federation.app)))
    return "\n".join(_section(name, found[f"federation {name}"]) for name in COMMANDS)


def _section(name: str, command: Command) -> str:
    head = ["| key | variable | value | meaning |", "|---|---|---|---|"]
    kinds = kinds_of(command)
    rows = (_row(name, each, kinds[str(each.name)]) for each in parameters(command))
    return f"## federation {name}\n\n" + "\n".join([*head, *rows]) + "\n"


def _row(name: str, parameter: Parameter, kind: str) -> str:
    key = f"`{key_of(parameter)}`" if parameter.name not in NOT_IN_FILE else "(not in the file)"
    variable = f"`FEDJIGSAW_{name}_{parameter.name}`".upper()
    meaning, _, example = str(getattr(parameter, "help", "")).partition(" Example: ")
    shown = f" Example: `{example}`" if example else ""
    has_default = not parameter.required and parameter.default not in (None, False)
    if has_default and "Default" not in meaning:
        shown = f" Default: {parameter.default}.{shown}"
    text = re.sub(r"\s+", " ", meaning + shown).replace("|", "\\|")
    if parameter.name in NOT_IN_FILE:
        text = f"`{max(parameter.opts, key=len)}`: {text}"
    needed = ", required" if parameter.required else ""
    return f"| {key} | {variable} | {_value(parameter, kind)}{needed} | {text} |"


def _value(parameter: Parameter, kind: str) -> str:
    """Return the kind of a value, or the names to choose from."""
    choices = re.fullmatch(r"\[(.*)\]", str(getattr(parameter, "metavar", None) or ""))
    if choices:
        return ", ".join(f"`{word}`" for word in choices[1].split("|"))
    return kind


# --------------------------------------------------------------------------------- all commands


def commands() -> str:
    """Return the tables of all commands, by the panels of ``fedjigsaw --help``."""
    parts = []
    for panel in dict.fromkeys(panel for panel, _, _ in _app.COMMANDS.values()):
        parts.append(f"## {panel}\n")
        for name, command in top_commands().items():
            if _app.COMMANDS[name][0] == panel:
                parts += _described(f"fedjigsaw {name}", command, "###")
    return "\n".join(parts)


def top_commands() -> dict[str, Command]:
    """Return the commands and groups of commands that come first after ``fedjigsaw``."""
    found = _app.all_commands("fedjigsaw", get_command(_app.app))
    return {words[1]: part for words, part in ((n.split(), p) for n, p in found) if len(words) == 2}


def _described(name: str, command: Command, level: str) -> Iterator[str]:
    for whole, part in _app.all_commands(name, command):
        yield f"{level if part is command else '####'} {whole}\n"
        if not isinstance(part, TyperGroup):
            names = [_name(one) for one in parameters(part) if isinstance(one, TyperArgument)]
            yield f"```text\n{' '.join([whole, '[OPTIONS]', *names])}\n```\n"
        if part.help:
            yield "\n\n".join(map(_paragraph, part.help.split("\n\n"))) + "\n"
        yield from _tables(part)


def _name(argument: TyperArgument) -> str:
    """Return an argument as in a line of usage: [FILES]... if it may be left out."""
    name = argument.metavar or str(argument.name).upper()
    return (name if argument.required else f"[{name}]") + "..." * (argument.nargs != 1)


def _paragraph(text: str) -> str:
    """Write a paragraph of help with one sentence per line; an example as code."""
    if "\n" in text:
        return f"```text\n{text.strip()}\n```"  # a list or a table, as the help shows it
    text, _, example = _prose(text).partition("Example: ")
    lines = re.sub(r"(?<=[a-z0-9)`][.?!]) (?=[A-Z`])", "\n", text.strip())
    return "\n".join(filter(None, [lines, f"Example: `{example}`" if example else ""]))


def _prose(text: str) -> str:
    """Write help for Markdown: angle brackets, bars and options as they are."""
    parts = re.split(r"(`[^`]*`|Example: .*)", text)
    for i, part in enumerate(parts[::2]):
        escaped = re.sub(r"([<>*_|\[\]])", r"\\\1", part)
        parts[2 * i] = re.sub(r"(?<![\w`-])(--?[a-z][\w-]*)", r"`\1`", escaped)
    return "".join(parts)


def _tables(command: Command) -> Iterator[str]:
    """Yield the tables of arguments and options, one for each panel of the help."""
    shown = [each for each in parameters(command) if not each.hidden]
    kinds = kinds_of(command)

    def panel(parameter: Parameter) -> str:
        kind = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
        return str(parameter.rich_help_panel or kind)

    places = {title: i for i, title in enumerate(dict.fromkeys(["Arguments", *map(panel, shown)]))}
    for title, group in groupby(sorted(shown, key=lambda p: places[panel(p)]), key=panel):
        head = [f"| {title.lower()} | value | meaning |", "|---|---|---|"]
        yield "\n".join([*head, *(_option_row(one, kinds[str(one.name)]) for one in group)]) + "\n"


def _option_row(parameter: Parameter, kind: str) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if isinstance(parameter, TyperArgument):
        names = [re.sub(r"[\[\]]", "", _name(parameter))]
    whole = parameter.help or ""
    meaning, *rest = re.split(r"(Examples?): ", whole, maxsplit=1)
    text = _prose(re.sub(r"\s+", " ", meaning).strip())
    default = parameter.default
    has_default = isinstance(default, (str, int, float, Path)) and not isinstance(default, bool)
    if has_default and str(default) and "Default" not in text and not parameter.required:
        text += f" Default: {default}."
    if parameter.secondary_opts:  # a flag that is on or off, such as --keep and --no-keep
        text += f" Default: `{(parameter.opts if default else parameter.secondary_opts)[0]}`."
    if rest:
        shown = re.sub(r" and (?=--)", "` and `", rest[1].strip())
        text += f" {rest[0]}: `{shown}`".replace("|", "\\|")
    needed = ", required" if parameter.required else ""
    is_flag = bool(getattr(parameter, "is_flag", False))
    value = "flag" if is_flag else _value(parameter, kind) + needed
    return f"| {', '.join(f'`{name}`' for name in names)} | {value} | {text} |"
