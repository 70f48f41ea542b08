"""What the server knows about each site: its reports, and its influence on the others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fedjigsaw._received import Received, receive
from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.kernels.solver import improve
from fedjigsaw.messages import LONE_SITES, MAX_RATIO, OF_SITES, Model, Summary
from fedjigsaw.number.cells import sends_cells
from fedjigsaw.privacy.summaries import has_cells

EXACT_SITES, EXACT_CENTERS = 64, 1280  # up to here, each site is left out in turn
SMALLEST = 1e-6  # objective that counts, relative to that of one center
HEAVY = 8.0  # times the rows of the next largest site, from which on it is reported

UNSUPPORTED, ROWS, OUTSIDE, LIMITED = 1, 2, 4, 8  # notes about a site; the last two with `liars`
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


class SiteFindings:
    """Attributes of a fitted method about its clients, made when they are asked for."""

    model_: Model
    summaries_: tuple[Summary, ...]
    _file: Any

    @property
    def sites_(self) -> list[SiteReport]:
        """What is known about each client: rows, clusters, influence, and what is strange."""
        clients, model = self._clients, self.model_
        if self._file is None:
            fitted = cast(Any, self).from_settings(dict(model.params))  # they may have changed
            fitted.backend = cast(Any, self).backend
            model = with_influences(fitted, self.summaries_, model)
        return site_reports(model, clients) or []

    @property
    def lone_clients_(self) -> list[str]:
        """The client of each lone cluster, which it alone claims."""
        return lone_clients(clients=self._clients, model=self.model_)

    @property
    def _clients(self) -> list[str]:
        from sklearn.utils.validation import check_is_fitted  # not for who reads reports only

        check_is_fitted(self)
        if self._file is not None:
            return list(self._file.clients)
        return [summary.client for summary in self.summaries_]


def reason_of(note: int, costs: float) -> str:
    """Say what is strange about a site."""
    number = f"{costs:.1f}" if costs < 10 else f"{costs:,.0f}"
    found = "; ".join(text.format(costs=number) for one, text in REASONS.items() if note & one)
    if not note & (UNSUPPORTED | OUTSIDE):
        return found
    return found + (LARGE if note & (ROWS | LIMITED) else UNLIKE)


def site_reports(model: Model, clients: Sequence[str]) -> list[SiteReport] | None:
    """Return a report about each client, or None if the model has none.

    Nor does the model of several rounds, in the last of which some clients were missing.

    Parameters
    ----------
    clients : names, in the order in which their summaries were aggregated.
    """
    found: dict[str, Any] = {
        name.removeprefix(PREFIX): model.tensors[name].tolist()
        for name in OF_SITES
        if name in model.tensors
    }
    columns = [found.get(name, []) for name in ("rows", "clusters", "alone")]
    n = len(clients)
    if {len(column) for column in columns} != {n} or "notes" not in found:
        return None
    reasons = map(reason_of, found["notes"], found.get("costs", [0.0] * n))
    rows = zip(clients, *columns, found.get("influence", [None] * n), reasons, strict=True)
    return [SiteReport(*values) for values in rows]


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


def with_influences(method: Any, summaries: Sequence[Summary], model: Model) -> Model:
    """Return a model with the influence of each client, unless noise or rounds hide it."""
    hidden = model.n_lone or not hasattr(method, "vouch") or method.n_rounds > 1
    if hidden or any(map(has_cells, summaries)):
        return model
    found = influences(method, receive(summaries), model.centers)
    return replace(model, tensors={**model.tensors, f"{PREFIX}influence": found})


def influences(method: Any, received: Received, centers: Floats) -> Floats:
    """Return the influence of each site: the objective of the others with it, over without it.

    Of many sites, the influence is estimated: each cluster's rows stay together.
    """

    def again(received: Received) -> Floats:
        # clusters that were found as a mixture stay those clusters: no moves to other optima
        n_tries = 0 if method.n_clusters == "auto" else 10
        options = {"max_iter": method.max_iter, "n_tries": n_tries, "backend": method.backend}
        return improve(received.centers, received.weights, centers, **options)

    if sends_cells(vars(method)):  # means of a mixture, not of k-means: compare like with like
        centers = again(received)
    if received.n_sites == 1:
        return np.ones(1)
    if len(received.centers) > EXACT_CENTERS or received.n_sites > EXACT_SITES:
        return _estimated(received, centers)
    found = np.ones(received.n_sites)
    for site in range(len(found)):
        others = received.select(received.owners != site)
        # where all rows lie at centers, the smallest difference would be an endless ratio
        mean = np.average(others.centers, axis=0, weights=others.counts)[None]
        least = SMALLEST * _objective(others, mean)
        own = _objective(others, again(others)) + least
        ratio = (_objective(others, centers) + least) / own if own > 0 else 1.0
        found[site] = np.clip(ratio, 1.0, MAX_RATIO)
    return found


def _objective(received: Received, centers: Floats) -> float:
    """Return the summed squared distance of all rows to the centers of their local clusters."""
    distances = nearest_centers(received.centers, centers)[1]
    return float(received.sse.sum() + received.counts @ distances**2)


def _estimated(received: Received, centers: Floats) -> Floats:
    """Return 1 + what moving each center to the others' mean gains them, over their objective."""
    k, n_sites = len(centers), received.n_sites
    labels, distances = nearest_centers(received.centers, centers)
    cells = received.owners * k + labels
    rows = np.bincount(cells, received.counts, minlength=n_sites * k).reshape(n_sites, k)
    costs = received.per_site(received.sse + received.counts * distances**2)
    theirs = rows.sum(axis=0) - rows
    theirs[theirs < 0.5] = 0.0
    moved = np.zeros((n_sites, k))
    for column in range(centers.shape[1]):
        offset = received.counts * (received.centers[:, column] - centers[labels, column])
        sums = np.bincount(cells, offset, minlength=n_sites * k).reshape(n_sites, k)
        moved += (sums / np.where(theirs > 0, theirs, 1.0)) ** 2
    gain = (theirs * moved).sum(axis=1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found: Floats = np.nan_to_num(1 + gain / (costs.sum() - costs), nan=1.0)
    return np.clip(found, 1.0, MAX_RATIO)
