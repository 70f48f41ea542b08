"""The command that shows what a site answers: federation policy."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedjigsaw.cli._shared import JsonFlag, escape, out, print_json
from fedjigsaw.records.journal import JOURNAL
from fedjigsaw.records.policy import POLICY
from fedjigsaw.records.policy_text import describe

AcceptPolicyFlag = Annotated[
    bool,
    typer.Option(
        "--accept-policy",
        help="Agree to rules of policy.toml that allow more than the default ones. Without it, a "
        "site with such rules does not start, and lists them.",
        rich_help_panel="Guard: what may leave",
    ),
]


def show_policy(
    folder: Annotated[Path, typer.Argument(help="A site's folder. Example: clinic/bern")],
    as_json: JsonFlag = False,
) -> None:
    """At a site: show which questions it answers, how many, and what may leave.

    The rules are in policy.toml in the site's folder, which a site reads with every question: a
    change there counts from the next one on. Rules that allow more than the default ones are
    marked: with them, `site` must be started again with --accept-policy.

    Example: fedjigsaw federation policy clinic/bern
    """
    from fedjigsaw.flower.folders import SiteSettings
    from fedjigsaw.flower.site import load_policy

    settings = SiteSettings.load(folder)
    policy = load_policy(folder)
    path, rules, looser = folder / POLICY, describe(policy), policy.looser()
    if as_json:
        meanings = {name: meaning for name, _, meaning in rules}
        values = {name: getattr(policy, name) for name in meanings}
        place = {"site": settings.name, "file": str(path)}
        print_json({**place, "policy": values, "means": meanings, "looser": looser})
        return
    source = f"rules of {path}" if path.exists() else f"default rules; there is no {path}"
    out.print(escape(f"Site {settings.name}: {source}."))
    table = Table("rule", "value", "meaning")
    for name, value, meaning in rules:
        mark = " (looser than the default)" if name in looser else ""
        table.add_row(name, escape(value + mark), escape(meaning))
    out.print(table)
    if looser:
        out.print("Rules are looser than the default: the site starts with --accept-policy only.")
    out.print(escape(f"Every question and answer is in {folder / JOURNAL}."))
