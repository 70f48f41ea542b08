"""The commands about a site's privacy budget: privacy status and privacy set-limit."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedjigsaw.cli._shared import CLUSTERS, JsonFlag, escape, out, print_json, warnings_shown
from fedjigsaw.errors import DataError, counted
from fedjigsaw.privacy.dp import Privacy, factor_of
from fedjigsaw.records.budget import DEFAULT_DELTA, Account, Release, in_words, round_down
from fedjigsaw.records.fingerprints import fingerprint
from fedjigsaw.records.journal import JOURNAL, Journal, is_journal
from fedjigsaw.records.ledger import LEDGER, Ledger, default_path

app = typer.Typer(
    help="Show or limit what the releases of a site's data give away together.",
    no_args_is_help=True,
)

PLACE = "The ledger, the folder that it is in, or the data file beside it."


@app.command()
def status(
    place: Annotated[
        Path,
        typer.Argument(help=f"{PLACE} Default: this folder. Example: bern.csv"),
    ] = Path(),
    as_json: JsonFlag = False,
) -> None:
    """At a site: show what was released, what it adds up to, and what is left.

    Each data set has its own budget. Releases of data with the same name or the same content are
    added, also if the file was changed or renamed in between. Files that left without noise are
    counted only from when the ledger was begun; of a site of a federation, the journal has them.

    Example: fedjigsaw privacy status bern.csv
    """
    ledger = find_ledger(place)
    history = ledger.read()
    accounts, limit = history.accounts(), history.limits.get(None)
    journal = Journal(ledger.path.parent / JOURNAL)
    exact = _without_noise(journal)
    if as_json:
        common = {"ledger": str(ledger.path), "limit": limit and asdict(limit)}
        sets = [_as_json(account) for account in accounts]
        print_json({**common, "answers_without_noise": exact, "data_sets": sets})
        return
    if not ledger.exists():
        out.print(
            escape(
                f"There is no {ledger.path}, so nothing was counted: no release with noise, and no "
                "limit. Files without noise, such as those of stats, summarize and score, may have "
                "left; they count once there is a ledger (fedjigsaw privacy set-limit)."
            )
        )
    if exact:
        out.print(
            escape(
                f"{journal.path} has {counted(exact, 'answer')} without noise. No promise covers "
                "what they tell, and the ledger lacks those from before it was begun."
            )
        )
    if not ledger.exists():
        return
    for account in accounts:
        out.print(escape(f"Data set {' = '.join(account.names)}"))
        if account.releases:
            out.print(_table(account))
        for line in _lines(account):
            out.print(escape(line))
        out.print()
    if limit is not None:
        stated = f"epsilon {limit.epsilon:g} at delta {limit.delta:g}"
        out.print(f"Limit of every data set that has none of its own: {stated}.")
    out.print(escape(f"Ledger: {ledger.path}"))


@app.command()
def set_limit(
    place: Annotated[
        Path,
        typer.Argument(help=f"{PLACE} It is created if it does not exist. Example: bern.csv"),
    ],
    epsilon: Annotated[
        float,
        typer.Option(
            help="The largest epsilon that all releases of a data set may have together. "
            "Example: --epsilon 4"
        ),
    ],
    delta: Annotated[
        float,
        typer.Option(
            help="Added to the bound that epsilon gives; well below 1 / rows. Example: --delta 1e-7"
        ),
    ] = DEFAULT_DELTA,
    data_set: Annotated[
        str | None,
        typer.Option(
            help="The data set that it holds for; if a data file is given, also for its content "
            "under any other name. Default: every data set of the ledger that has "
            "no limit of its own, each by itself. Example: --data-set bern"
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """At a site: limit what all releases of a data set may give away together.

    A release that would pass the limit is refused, and so is any release without noise. The last
    limit counts. A limit below what was spent already is allowed: then nothing more leaves.

    Example: fedjigsaw privacy set-limit bern.csv --epsilon 4
    """
    ledger = find_ledger(place)
    known = data_set is not None and place.is_file() and place != ledger.path
    ledger.set_limit(epsilon, delta, data_set, fingerprint(place) if known else None)
    if as_json:
        limit = {"epsilon": epsilon, "delta": delta, "data_set": data_set}
        accounts = ledger.read().accounts()
        found = [_as_json(a) for a in accounts if data_set is None or data_set in a.names]
        print_json({"ledger": str(ledger.path), "limit": limit, "data_sets": found})
        return
    whose = "Every data set without a limit of its own" if data_set is None else data_set
    out.print(escape(f"{whose}: at most epsilon {epsilon:g} at delta {delta:g}."))
    if known:
        out.print(escape(f"This also holds for the content of {place} under any other name."))
    for account in ledger.read().accounts():
        if account.releases and (data_set is None or data_set in account.names):
            lines = [f"{' = '.join(account.names)}:", *_totals(account)]
            out.print(escape(" ".join(lines)))
    out.print(escape(f"Ledger: {ledger.path}"))


@app.command()
def cells(
    epsilon: Annotated[float, typer.Option(help="The epsilon of all sites. Example: --epsilon 1")],
    rows: Annotated[
        int,
        typer.Option(
            min=1,
            help="Expected rows of all sites together, which is public; a factor of two hardly "
            "matters. Example: --rows 5000",
        ),
    ],
    sites: Annotated[int, typer.Option(min=1, help="Number of sites. Example: --sites 10")],
    columns: Annotated[int, typer.Option(min=1, help="Number of columns. Example: --columns 4")],
    k: Annotated[Any, CLUSTERS],
    delta: Annotated[float, typer.Option(help="The delta of all sites.")] = DEFAULT_DELTA,
    as_json: JsonFlag = False,
) -> None:
    """At the coordinator: say which cells private summaries describe, before anything leaves.

    Tell all sites, for `summarize --cells`, or ask with `federation run --cells`. It also warns if
    the noise will drown the clusters. No data are read.

    Example: fedjigsaw privacy cells --epsilon 1 --rows 5000 --sites 10 --columns 2 -k 15
    """
    from fedjigsaw.methods import DEFAULT, make

    privacy = Privacy(epsilon, delta, bounds=(0, 1), rows=rows)
    with warnings_shown():
        settled = make(DEFAULT, k, 0).settle_privacy(privacy, columns, sites)
    if as_json:
        print_json({"cells": settled.cells})
    else:
        out.print(f"Use --cells {settled.cells} at all sites.")


def find_ledger(place: Path) -> Ledger:
    """Return the ledger that is meant by itself, by its folder, or by a data file beside it."""
    if place.is_dir():
        return Ledger(place / LEDGER)
    if place.suffix == ".jsonl" or is_journal(place):
        return Ledger(place)
    if not place.exists():
        raise DataError(f"Cannot read {place}: no such file. Give {PLACE[0].lower()}{PLACE[1:]}")
    return Ledger(default_path(place))


def _without_noise(journal: Journal) -> int:
    """Return how many answers without noise are in the journal of a site; 0 if it has none."""
    answers = (record for record in journal.records() if record["kind"] == "answer")
    return sum(not record.get("privacy") and not record.get("repeated") for record in answers)


def _table(account: Account) -> Table:
    table = Table("record", "time", "what", "to", "data", "epsilon", "delta", "protects", "result")
    for release in account.releases:
        table.add_row(*map(escape, _cells(release)))
    return table


def _cells(release: Release) -> Iterator[str]:
    yield str(release.number)
    yield release.time.partition("+")[0].replace("T", " ")
    yield release.what
    yield release.to
    yield f"{release.data_set} {release.fingerprint[:8]}"
    yield in_words(release.epsilon)
    yield "" if release.delta is None else f"{release.delta:g}"
    yield {"row": "each row", "site": "the site"}.get(release.unit or "", "nothing")
    yield "written" if release.confirmed else "not confirmed"


def _lines(account: Account) -> Iterator[str]:
    """Say in words what the releases promise, and what is left."""
    yield from _totals(account)
    if account.changed:
        yield (
            "The data changed between releases. All of them are added, since a row may have been "
            "in every version."
        )
    if not all(release.confirmed for release in account.releases):
        yield "Releases that were not confirmed count, too: their results may have left."


def _totals(account: Account) -> Iterator[str]:
    spent, delta = account.spent(), account.delta
    if spent == math.inf:
        yield "Spent: no bound, since something was released without enough noise."
    elif account.releases:
        yield (
            f"Spent: epsilon {in_words(spent)} at delta {delta:g}. With or without any one row, "
            f"any set of outputs of all releases in this ledger is at most {factor_of(spent)} "
            f"times as likely, plus {delta:g}."
        )
    for limit in account.limits:
        yield f"Limit: epsilon {limit.epsilon:g} at delta {limit.delta:g}."
    if not account.limits:
        yield "No limit is set."
    elif left := round_down(account.left()):
        yield f"Left: a release with epsilon {left:g} at delta {delta:g}."
    elif any(account.spent(limit.delta) > limit.epsilon for limit in account.limits):
        yield "More is spent than the limit allows: every further release is refused."
    else:
        yield "Nothing is left: every further release is refused."


def _as_json(account: Account) -> dict[str, Any]:
    """Return plain values; infinity: no bound for what is spent, no limit for what is left."""
    spent, left = account.spent(), account.left()
    return {
        "names": account.names,
        "releases": [asdict(release) for release in account.releases],
        "changed": account.changed,
        "delta": account.delta,
        "spent": spent,
        "factor": math.exp(spent) if spent < 700 else None,
        "limits": [asdict(limit) for limit in account.limits],
        "left": left,
    }
