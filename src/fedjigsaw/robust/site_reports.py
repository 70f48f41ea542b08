"""Reports about each client: what it sent, its influence, and what is strange about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import ConspicuousSiteWarning, MessageError, invalid, warn
from fedjigsaw.messages import LONE_SITES, Model
from fedjigsaw.robust.support import HEAVY, LIMITED, OUTSIDE, ROWS, UNSUPPORTED, Screened

REASONS = {
    ROWS: f"it has more than {HEAVY:g} times the rows of the next site",
    LIMITED: "it claims many times the rows of the next site, and counts for no more than that",
    UNSUPPORTED: "its centers lie where no other site has any, and cost {costs} times what all "
    "others cost",
    OUTSIDE: "centers that too few other sites support stay out of the clusters of all",
}
LARGE = " (so large a site may well be the only one with some groups)"
UNLIKE = " (another unit, columns in another order, or a group that only it has?)"
PREFIX = "site_"


@dataclass(frozen=True)
class SiteReport:
    """What the server knows about one client.

    Attributes
    ----------
    client : its name.
    rows : number of rows that it claims.
    clusters : number of clusters that it takes part in.
    alone : number of clusters that no other client takes part in.
    influence : float or None
        The objective of the other clients' rows with this client, relative to without it: 1 if it
        makes no difference to them. None if it was not computed.
    reason : what is strange about its summary; empty if nothing is.
    """

    client: str
    rows: int
    clusters: int
    alone: int
    influence: float | None
    reason: str


def warn_of_sites(
    screened: Screened, clients: Sequence[str], liars: int, *, can_protect: bool
) -> None:
    """Warn of those that are unlike all others: why, and what can be done.

    Parameters
    ----------
    can_protect : whether `liars` can be used with these parameters and summaries.
    """
    for client, note, costs in zip(clients, screened.notes, screened.costs, strict=True):
        if not note:
            continue
        reason = _reason(int(note), float(costs))
        advice = f"If its data are right, use vouch=[{client!r}]"
        if not liars:
            protect = ", or protect the others with liars=1" if can_protect else ""
            advice += f"; if not, leave it out{protect}"
        warn(f"Client {client!r} is unlike the others: {reason}. {advice}.", ConspicuousSiteWarning)
    if screened.too_few:
        warn(
            f"More clients than liars={liars} allows for hold groups that too few others share. "
            "Choose a smaller number of liars, or read lone clusters as clusters.",
            ConspicuousSiteWarning,
        )


def _reason(note: int, costs: float) -> str:
    found = "; ".join(
        text.format(costs=f"{costs:.1f}" if costs < 10 else f"{costs:,.0f}")
        for one, text in REASONS.items()
        if note & one
    )
    if not note & (UNSUPPORTED | OUTSIDE):
        return found
    return found + (LARGE if note & (ROWS | LIMITED) else UNLIKE)


def site_tensors(known: Mapping[str, np.ndarray], table: Floats) -> dict[str, np.ndarray]:
    """Return what a model keeps about each client.

    Parameters
    ----------
    known : `rows`, and `notes` and `costs` if something can be told, an array over clients each.
    table : shape (n_clients, k), rows of each client in each cluster.
    """
    present = table > 0
    alone = present & (present.sum(axis=0) == 1)
    tensors = {
        "notes": np.zeros(len(table), dtype=np.int64),
        **known,
        "rows": np.rint(known["rows"]).astype(np.int64),
        "clusters": present.sum(axis=1),
        "alone": alone.sum(axis=1),
    }
    return {f"{PREFIX}{name}": tensor for name, tensor in tensors.items()}


def site_reports(model: Model, clients: Sequence[str]) -> list[SiteReport] | None:
    """Return a report about each client, or None if the model has none.

    Nor does the model of several rounds, in the last of which some clients were missing.

    Parameters
    ----------
    clients : names, in the order in which their summaries were aggregated.
    """
    names = ("rows", "clusters", "alone", "notes")
    found = {name: model.tensors.get(f"{PREFIX}{name}") for name in (*names, "costs", "influence")}
    if any(found[name] is None for name in names):
        return None
    if len(model.tensors[f"{PREFIX}rows"]) != len(clients):
        return None
    columns: dict[str, Any] = {name: t if t is None else t.tolist() for name, t in found.items()}
    return [
        SiteReport(
            client,
            int(columns["rows"][i]),
            int(columns["clusters"][i]),
            int(columns["alone"][i]),
            None if columns["influence"] is None else float(columns["influence"][i]),
            _reason(int(columns["notes"][i]), columns["costs"][i] if columns["costs"] else 0.0),
        )
        for i, client in enumerate(clients)
    ]


def lone_clients(model: Model, clients: Sequence[str]) -> list[str]:
    """Return the client of each lone cluster of a model.

    Parameters
    ----------
    clients : names, in the order in which their summaries were aggregated.
    """
    sites = model.tensors.get(LONE_SITES, np.zeros(0, dtype=np.int64))
    if not np.isin(sites, np.arange(len(clients))).all():
        raise MessageError(invalid(LONE_SITES, "a model", "numbers of its clients", sites))
    return [clients[site] for site in sites.tolist()]
