"""What commands and options declare, read by what all versions of Typer have in common."""

from collections.abc import Iterator
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

Command = TyperCommand | TyperGroup
Parameter = TyperArgument | TyperOption


def parameters(command: Any) -> Iterator[Parameter]:
    """Yield the arguments and options of a command."""
    for one in () if command is None else command.params:
        if isinstance(one, TyperArgument | TyperOption):
            yield one
