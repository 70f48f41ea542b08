"""Reports about each client: what it sent, its influence, and what was set aside and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.messages import Model
from fedjigsaw.trust.plausibility import Note

REASONS = {
    Note.STRANGE: "its centers lie where no other site has any, and they harm the others",
    Note.FAR: "some centers are far outside the range of the other sites",
    Note.ROWS: "it claims many times the rows of a typical site, and counts as one",
    Note.SPREAD: "its spread is many times that of the others; theirs is used",
    Note.RADIUS: "some radii are many times those of the other sites; theirs are used",
    Note.REPEATED: "its centers repeat each other, which no clustering does",
    Note.LONG: "its update is many times as long as those of the others; it is shortened",
    Note.NOT_FINITE: "its weights have NaN or infinity",
}
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
        makes no difference to them. For a client that was set aside, what it would have been. None
        if it was not computed.
    set_aside : whether nothing of its summary was used.
    reason : what is wrong with its summary; empty if nothing is.
    """

    client: str
    rows: int
    clusters: int
    alone: int
    influence: float | None
    set_aside: bool
    reason: str


def site_tensors(
    rows: Floats, table: Floats, notes: Ints, influence: Floats | None
) -> dict[str, np.ndarray]:
    """Return what a model keeps about each client.

    Parameters
    ----------
    table : shape (n_clients, k), rows of each client in each cluster.
    """
    present = table > 0
    alone = present & (present.sum(axis=0) == 1)
    tensors = {
        "rows": np.rint(rows).astype(np.int64),
        "clusters": present.sum(axis=1),
        "alone": alone.sum(axis=1),
        "notes": notes,
    }
    if influence is not None:
        tensors["influence"] = influence
    return {f"{PREFIX}{name}": tensor for name, tensor in tensors.items()}


def site_reports(model: Model, clients: Sequence[str]) -> list[SiteReport] | None:
    """Return a report about each client, or None if the model has none.

    Nor does the model of several rounds, in the last of which some clients were missing.

    Parameters
    ----------
    clients : names, in the order in which their summaries were aggregated.
    """
    names = ("rows", "clusters", "alone", "notes")
    found = {name: model.tensors.get(f"{PREFIX}{name}") for name in (*names, "influence")}
    if any(found[name] is None for name in names):
        return None
    shapes = {tensor.shape for tensor in found.values() if tensor is not None}
    if len(shapes) > 1 or len(shape := shapes.pop()) != 1:
        raise MessageError(invalid("reports", "a model", "one number per client", found.keys()))
    for name, tensor in found.items():
        if tensor is not None and not (np.isfinite(tensor) & (tensor >= 0)).all():
            raise MessageError(invalid(f"{PREFIX}{name}", "a model", ">= 0", tensor.min()))
    if shape != (len(clients),):
        return None
    columns: dict[str, Any] = {name: t if t is None else t.tolist() for name, t in found.items()}
    return [
        SiteReport(
            client,
            int(columns["rows"][i]),
            int(columns["clusters"][i]),
            int(columns["alone"][i]),
            None if columns["influence"] is None else float(columns["influence"][i]),
            columns["clusters"][i] == 0,
            "; ".join(text for note, text in REASONS.items() if int(columns["notes"][i]) & note),
        )
        for i, client in enumerate(clients)
    ]
