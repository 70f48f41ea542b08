"""Messages of the package in the words of the command line: --cells shared, not cells='shared'.

The package speaks to those who call it from Python. A command prints its messages with the options
that do the same, as far as there are some, and calls a client a site.
"""

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from os.path import abspath, realpath
from typing import Any

from typer.core import TyperOption

from fedjigsaw.cli._declared import Command, parameters
from fedjigsaw.errors import ExtraError

PYTHON = {"True": True, "False": False}
OPEN = "..."  # a value that is left to the reader
VALUE = rf"'[^']*'(?: or '[^']*')*|True|False|{re.escape(OPEN)}|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
# a word that is set to a value; not the first one in quotes, nor a part of the name of a file
SET = re.compile(rf"(?:(?<=\s)|(?<=\s\()|^)([a-z]+(?:_[a-z]+)*)( ?= ?)({VALUE})(?![\w/]|\.\w)")
GIVEN = re.compile(r"(^|\s)--?[a-z-]+ $")  # an option that the message has spelled itself
CLIENT = re.compile(r"(?<![-\w./\\=])([Cc])lient(s?)(?![-\w/\\=]|\.\w)")
# what messages quote: names, with escapes as Python writes them, and commands
NAME = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
QUOTED = rf"(?<!\w)(?:{NAME}|`[^`]*`)(?!\w)"
# a path, which may have blanks: to its last separator, and on to the ending of the name of a file
SIGN = r"(?:(?!\. )[^:;,='\"`\n])"
PATH = rf"(?<![^\s(])[^\s'\"`(]*[/\\](?:{SIGN}*[/\\])?(?:{SIGN}*?\.\w+|[^\s:;,'\"`]*)"
SETTERS = ("-p", "--param", "-s", "--set")
SITE = "summarize"  # a server tells of what sites must do
OTHER_NAMES = {"min_rows": "min_cluster_size", "replace": "force"}  # parameter -> that of commands
# field of `sites.Changes` -> the option of `schema apply`, and its value for a column
CHANGES = {
    "names": ("--rename", "...={}"),
    "factors": ("--factor", "{}=..."),
    "levels": ("--map", "{}:...=..."),
    "date_formats": ("--date-format", "{}=..."),
    "missing": ("--missing", "..."),
    "missing_in": ("--missing", "{}:..."),
    "empty": ("--empty", "{}"),
}
CHANGE = re.compile(rf"\bChanges\.({'|'.join(CHANGES)})\b(?:\[({NAME})\])?")


def as_options(text: str, command: Command | None, words: Sequence[str] = ()) -> str:
    """Spell what a message says about parameters as options of a command, or of those of a site.

    A value of a parameter that only methods have becomes ``-p name=value``. What is no parameter
    stays as it is, and so do words of the command line: a file may be named k=5.

    Examples
    --------
    >>> as_options("Use cells='shared' at all sites.", command_of(["aggregate"]))
    'Use --cells shared at all sites.'
    """
    options = dict(_options(command))
    typed = [word for before, word in pairwise(["", *words]) if before not in SETTERS]

    def spell(found: re.Match[str]) -> str:
        name, equals, value = found.groups()
        formula = equals != "=" and "_" not in name  # delta = 0.1: people write so, too
        if formula or GIVEN.search(text[: found.start()]):
            return found[0]
        called = OTHER_NAMES.get(name, name)
        if "set" in options and name in _of_networks():
            own = _of_networks()[name]
            return f"-s {_pair(name, value)}" if own is None else f"{own} {_bare(value)}"
        option = options.get(called) or _of_site().get(called)
        if option is not None:
            return _spelled(option, value) or found[0]
        if "param" in options and name in _of_methods():
            return f"-p {_pair(name, value)}"
        return found[0]

    text = _rewrite(SET, spell, text, typed)
    return _rewrite(CHANGE, _change, text, typed)


def _rewrite(
    pattern: re.Pattern[str],
    replace: Callable[[re.Match[str]], str],
    text: str,
    words: Sequence[str],
) -> str:
    """Replace what a pattern finds in the package's own words, not in names of the user's.

    These are texts in quotation marks, paths, words of the command line, and the current folder.
    """
    given = {word.split("=", 1)[-1] if word.startswith("-") else word for word in words}
    given |= {place(word) for word in ("", *given) for place in (abspath, realpath)}
    names = sorted(filter(pattern.search, given), key=len, reverse=True)
    both = "|".join((*map(re.escape, names), pattern.pattern, QUOTED, PATH))
    return re.sub(both, lambda found: found[0] if found[1] is None else replace(found), text)


def _change(found: re.Match[str]) -> str:
    """Return the option that makes a change of a file, for one column if it is named."""
    option, value = CHANGES[found[1]]
    if found[2] is None:
        return option
    return f"{option} {shlex.quote(value.format(ast.literal_eval(found[2])))}"


def as_sites(text: str, command: Command | None, words: Sequence[str] = ()) -> str:
    """Call clients sites, unless a command splits data among clients, as those for papers do.

    Examples
    --------
    >>> as_sites("Client 'my client' sent no counts.", None)
    "Site 'my client' sent no counts."
    """
    if "clients" in dict(_options(command)):
        return text
    return _rewrite(CLIENT, lambda m: f"{'S' if m[1] == 'C' else 's'}ite{m[2]}", text, words)


def _spelled(option: TyperOption, value: str) -> str:
    """Return an option with its value; nothing if it cannot have this one."""
    if value == OPEN and not option.is_flag:
        return option.opts[0]
    if value not in PYTHON:
        return "" if option.is_flag else f"{option.opts[0]} {_bare(value)}"
    if not option.is_flag:
        return ""
    return next(iter(option.opts if PYTHON[value] else option.secondary_opts), "")


def _pair(name: str, value: str) -> str:
    """Return a parameter and its value, as for -p and -s."""
    return f"{name}={json.dumps(PYTHON[value]) if value in PYTHON else _bare(value)}"


def _bare(value: str) -> str:
    return value.replace("'", "")


def _options(command: Command | None) -> Iterator[tuple[str, TyperOption]]:
    for option in parameters(command):
        if isinstance(option, TyperOption):
            for name in (option.name or "", *option.opts):
                yield name.lstrip("-").replace("-", "_"), option


@cache
def _of_site() -> dict[str, TyperOption]:
    return dict(_options(command_of([SITE])))


@cache
def _of_methods() -> set[str]:
    from fedjigsaw.methods import CLUSTERERS

    return {name for entry in CLUSTERERS.values() for name in entry.cls.rules}


@cache
def _of_networks() -> dict[str, str | None]:
    """Return the option of each setting of DeepFeCA; None for those that only -s sets."""
    from fedjigsaw.cli.deep_train import OPTIONS

    try:
        from fedjigsaw.deep.parameters import DeepParameters
    except ExtraError:  # without torch there is no error about its settings
        return {}
    return {name: OPTIONS.get(name) for name in DeepParameters.rules}


def command_of(words: list[str]) -> Command:
    """Return the command that the words of a command line begin with."""
    from typer.main import get_command

    from fedjigsaw.cli._app import Later, app

    found: Any = get_command(app)
    for word in words:
        if word in getattr(found, "commands", ()):
            found = found.commands[word]
            found = found.command if isinstance(found, Later) else found
    command: Command = found
    return command
