"""The page docs/configuration.md, written by ``python -m fedjigsaw.cli.reference``.

The help of a command, its config file and this page have one source, the declarations of its
options.
"""

import re
from pathlib import Path

import click
from typer.main import get_command

from fedjigsaw.cli import federation
from fedjigsaw.cli._config import NOT_IN_FILE, key_of, kind_of
from fedjigsaw.io.atomic import write_whole

PAGE = Path("docs") / "configuration.md"
COMMANDS = ("server", "site")
HEAD = """\
# Configuration of a server and of a site

`fedjigsaw federation server` and `fedjigsaw federation site` take every option in three ways:

1. on the command line: `--max-rows 100000`,
2. in an environment variable: `FEDJIGSAW_SITE_MAX_ROWS=100000`,
3. in a TOML file that `--config` names: `max-rows = 100000`.

The first of these that has a value counts.
`--check-config` checks all of it, prints where each value comes from, and starts nothing.
[Operation](operations.md) shows how these files are used.

This page is made from the commands' own options by `make docs`.

## The files

```toml
# server.toml: fedjigsaw federation server --config server.toml
folder = "clinic"
```

```toml
# bern.toml: fedjigsaw federation site --config bern.toml
folder = "clinic/bern"
data = "bern.csv"
columns = ["age", "dose"]
```

Paths in a file are relative to the folder of that file; those on the command line and in variables are relative to the working directory.
A list such as `columns` may also be one text, `"age,dose"`.
An unknown key is an error that names the file and the nearest key, and so is a value of another kind.
A flag is `true` or `false`; in a variable, `1` or `0`.
What a site answers is not here but in [policy.toml](federation.md#what-a-site-answers), which belongs to the site's folder.
"""  # noqa: E501


def configuration_page() -> str:
    """Return the page."""
    verbs = get_command(federation.app)
    assert isinstance(verbs, click.Group)
    return "\n".join([HEAD, *(_section(name, verbs.commands[name]) for name in COMMANDS)])


def _section(name: str, command: click.Command) -> str:
    head = ["| key | variable | value | meaning |", "|---|---|---|---|"]
    rows = (_row(name, each) for each in command.params if each.name != "help")
    return f"## federation {name}\n\n" + "\n".join([*head, *rows]) + "\n"


def _row(name: str, parameter: click.Parameter) -> str:
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
    return f"| {key} | {variable} | {_value(parameter)}{needed} | {text} |"


def _value(parameter: click.Parameter) -> str:
    """Return the kind of a value, or the names to choose from."""
    choices = re.fullmatch(r"\[(.*)\]", str(getattr(parameter, "metavar", None) or ""))
    if choices:
        return ", ".join(f"`{word}`" for word in choices[1].split("|"))
    return kind_of(parameter)


if __name__ == "__main__":
    write_whole(PAGE, configuration_page().encode())
