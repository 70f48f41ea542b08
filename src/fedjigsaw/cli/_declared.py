"""What commands and options declare, read by what all versions of Typer have in common."""

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

Command = TyperCommand | TyperGroup
Parameter = TyperArgument | TyperOption


def parameters(command: Any) -> Iterator[Parameter]:
    """Yield the arguments and options of a command."""
    for one in () if command is None else command.params:
        if isinstance(one, TyperArgument | TyperOption):
            yield one


def keep_help(command: Command) -> None:
    """Give arguments their help again, which Typer before 0.26 loses with click 8.5 and later."""
    for one in parameters(command):
        if isinstance(one, TyperArgument) and one.help is None:
            hints = get_type_hints(command.callback, include_extras=True)
            one.help = get_args(hints[str(one.name)])[1].help
