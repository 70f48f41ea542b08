"""The commands about people who start runs from other machines: federation operator."""

from typing import Annotated

import typer

from fedjigsaw.cli._shared import FederationFolder, JsonFlag, escape, out, print_json

operator = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the operator. Example: anna")]


@operator.callback()
def about() -> None:
    """At the coordinator: let people start runs from other machines, each with a key.

    Example: fedjigsaw federation operator add clinic anna
    """


@operator.command()
def add(folder: FederationFolder, name: Name, as_json: JsonFlag = False) -> None:
    """Make a key for an operator, in a folder to take to that person's machine.

    A running server accepts it at once.

    Example: fedjigsaw federation operator add clinic anna
    """
    from fedjigsaw.flower import folders, operators

    made = operators.add(folders.server_folder(folder), name)
    if as_json:
        print_json({"operator": name, "folder": str(made)})
        return
    out.print(f"{escape(str(made))} goes to {name}, over a channel you trust.")
    out.print("It contains a private key: anyone who has it can start runs and fetch their models.")
    out.print(f"There: fedjigsaw federation run {name} -k 4 -o clinic.model")


@operator.command()
def remove(folder: FederationFolder, name: Name, as_json: JsonFlag = False) -> None:
    """No longer accept the key of an operator, and stop the runs that it started.

    A running server refuses the key at once. The name may be added again, with another key.

    Example: fedjigsaw federation operator remove clinic anna
    """
    from fedjigsaw.flower import folders, operators

    operators.remove(folders.server_folder(folder), name)
    if as_json:
        print_json({"operator": name})
    else:
        out.print(f"Operator {name} is removed. A running server stops that operator's runs.")


@operator.command(name="list")
def show(folder: FederationFolder, as_json: JsonFlag = False) -> None:
    """List the operators, and since when they are.

    Example: fedjigsaw federation operator list clinic
    """
    from fedjigsaw.flower import folders, operators

    found = operators.read_operators(folders.server_folder(folder))
    since = {name: entry["added"] for name, entry in found.items()}
    if as_json:
        print_json({"operators": since})
    elif not since:
        out.print("There are no operators. Runs are started on the server's machine.")
    for name, added in since.items() if not as_json else ():
        out.print(escape(f"{name}: since {added}"))
