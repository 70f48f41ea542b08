"""Options about sites that lie or err, and what commands do about a site unlike all others."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from fedjigsaw.cli._shared import err, escape, out
from fedjigsaw.errors import ParameterError, StrangeSiteError
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.report.trust import lone_values, reports_of, strange_sites
from fedjigsaw.robust.support import FEWEST

PANEL = "Sites that lie or err"

LiarsOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="The result stays good if at most so many sites lie or err (jigsaw). What only such "
        "a site claims may be a lone cluster, besides the K. Default: 0, all that is valid counts, "
        "and the strangest site is reported. Example: --liars 1",
        rich_help_panel=PANEL,
    ),
]
VouchOption = Annotated[
    list[str] | None,
    typer.Option(
        help="jigsaw: let this site count in any case, and do not report it; repeat for several. "
        "Example: --vouch oslo",
        rich_help_panel=PANEL,
    ),
]
DetailOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="jigsaw: send up to so many centers for each of the K clusters, and one for every "
        "five rows at most. Default: 1, or 3 with --liars. Example: --detail 3",
        rich_help_panel=PANEL,
    ),
]
StrictFlag = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="jigsaw: publish no model if a site is unlike all others. Default: publish it. The "
        f"exit code is {StrangeSiteError.exit_code} in both cases.",
        rich_help_panel=PANEL,
    ),
]


def given(params: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """Return the parameters of -p together with those that have an option of their own."""
    own = {name: value for name, value in options.items() if value}
    for name in sorted(own.keys() & params.keys()):
        raise ParameterError(f"Give --{name} or -p {name}=..., not both.")
    return {**params, **own}


def print_strange(told: Sequence[str]) -> None:
    """Print what is strange, before anything else."""
    for text in told:
        out.print(f"[yellow]{escape(text)}[/]")


def strange_values(file: ModelFile) -> dict[str, Any]:
    """Return what is strange and who holds clusters alone, for JSON."""
    return {"strange": strange_sites(file), "lone": lone_values(file)}


def end(file: ModelFile | None, strict: bool) -> None:
    """End with an exit code of its own if there was something strange; say if none could be."""
    reports = [] if file is None else reports_of(file)
    if file is not None and strange_sites(file):
        raise typer.Exit(StrangeSiteError.exit_code)
    if strict and 0 < len(reports) < FEWEST:
        text = f"With fewer than {FEWEST} sites, nobody can tell which one is unlike the others"
        err.print(f"[yellow]Warning:[/] {text}: --strict changed nothing.")
