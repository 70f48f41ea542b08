"""Tables of docs/privacy.md about attacks and the audit, from rows of the study "privacy"."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.privacy_attacks import PROTECTIONS
from fedjigsaw.bench.privacy_audit import MECHANISMS, verdict

Row = Mapping[str, Any]
FALSE_ALARMS = 0.01
TITLES = {
    "own": "one answer, a site's own cells",
    "rounds": "three rounds together",
    "shared": "shared cells",
    "site": "shared cells, unit \"site\"",
}  # fmt: skip


def of_attack(rows: Iterable[Row], attack: str, protection: str, **values: object) -> list[Row]:
    """Return the rows of one attack on one kind of protection, of all seeds."""
    wanted = {"attack": attack, "protection": protection, **values}
    return [row for row in rows if all(row.get(key) == wanted[key] for key in wanted)]


def differencing_table(rows: Sequence[Row]) -> str:
    """How far from a row the guess is, and how many rows are recovered."""
    data = ("mixture", "digits")
    lines = []
    for protection in PROTECTIONS:
        cells = []
        for name in data:
            found = of_attack(rows, "differencing", protection, data=name)
            errors = [error for row in found for error in row["errors"]]
            total = sum(row["patients"] for row in found)
            recovered = sum(row["recovered"] for row in found)
            cells += [_error(errors), f"{recovered} of {total}" if found else "–"]
        lines.append([protection, *cells])
    blind = []
    for name in data:
        found = of_attack(rows, "differencing", "nothing", data=name)
        blind += [_error([error for row in found for error in row["blind"]]), "–"]
    lines.append(["(guess without a summary: the mean)", *blind])
    head = [text for name in data for text in (f"{name}: error", f"{name}: recovered")]
    return markdown_table(["protection", *head], lines)


def membership_table(rows: Sequence[Row]) -> str:
    """How much better than chance an attacker tells whether a row is there."""
    lines = []
    for protection in PROTECTIONS:
        cells = [_advantage(of_attack(rows, name, protection)) for name in _MEMBERSHIP]
        lines.append([protection, *cells[0], _bound(protection), *cells[1]])
    head = [
        "protection", "all but one: advantage", "found at 1 %", "bound on the advantage",
        "population: advantage", "found at 1 %",
    ]  # fmt: skip
    return markdown_table(head, lines)


_MEMBERSHIP = ("all but one", "population")


def _advantage(found: Sequence[Row]) -> list[str]:
    """Return advantage at the best threshold in theory, and the share found with few errors."""
    if not found:
        return ["–", "–"]
    with_, without = (np.array([s for row in found for s in row[k]]) for k in ("with", "without"))
    advantage = float((with_ > 0).mean() - (without > 0).mean())
    limit = np.quantile(without, 1 - FALSE_ALARMS, method="higher")
    return [f"{advantage:.2f}", f"{100 * float((with_ > limit).mean()):.0f} %"]


def _bound(protection: str, delta: float = 1e-6) -> str:
    """Return the largest advantage that the promise allows."""
    if not protection.startswith("epsilon"):
        return "none"
    odds = math.exp(float(protection.removeprefix("epsilon ")))
    return f"{(odds - 1 + 2 * delta) / (odds + 1):.2f}"


def rounds_table(rows: Sequence[Row]) -> str:
    """How many of the rows that moved between rounds are recovered."""
    lines = []
    for protection in PROTECTIONS:
        cells = []
        for n_rounds in (3, 5):
            found = of_attack(rows, "rounds", protection, n_rounds=n_rounds)
            recovered, moved = (sum(row[key] for row in found) for key in ("recovered", "moved"))
            noise = max((row["count_noise"] for row in found), default=0.0)
            cells += [
                f"{recovered} of {moved:,}" if found else "–",
                f"{noise:.1f}" if noise else "–",
            ]
        lines.append([protection, *cells])
    head = [
        "protection", "3 rounds: recovered", "noise on a count", "5 rounds: recovered",
        "noise on a count",
    ]  # fmt: skip
    return markdown_table(head, lines)


def audit_table(rows: Sequence[Row]) -> str:
    """What the audit proves about each mechanism, as it is and with half its noise."""
    lines = []
    for name in MECHANISMS:
        for strength, what in ((1.0, "all"), (0.5, "half")):
            found = [
                row
                for row in rows
                if (row.get("mechanism"), row.get("strength")) == (name, strength)
            ]
            if not found:
                lines.append([TITLES[name], what, *["–"] * 6])
                continue
            shown, claim = verdict(found), found[0]["epsilon"]
            lines.append(
                [
                    TITLES[name],
                    what,
                    f"{shown.runs:,}",
                    f"{claim:g}",
                    f"{shown.estimate:.2f}",
                    f"{shown.lower:.2f}",
                    f"{shown.plain:.2f}",
                    "broken" if shown.lower > claim else "kept",
                ]
            )
    head = [
        "mechanism", "noise", "runs", "claim", "estimate", "at least", "by rates alone", "promise",
    ]  # fmt: skip
    return markdown_table(head, lines)


def _error(errors: Sequence[float]) -> str:
    if not errors:
        return "–"
    middle = float(np.median(errors))
    return f"{middle:.2f}" if middle >= 0.005 or not middle else f"{middle:.0e}"


TABLES: dict[str, Callable[[Sequence[Row]], str]] = {  # by their names on the page
    "differencing": differencing_table,
    "membership": membership_table,
    "rounds": rounds_table,
    "audit": audit_table,
}
