"""What differential privacy costs: private clusters beside those without privacy.

Both are found on the same data, at the same clients and with the same seeds::

    promises = [Privacy(epsilon, bounds=(0, 120)) for epsilon in (0.5, 1, 2, 4)]
    rows = privacy_cost(data, clients, 4, promises)
    print(*findings(rows), sep="\\n")
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw import metrics
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.comparison.comparing import Track
from fedjigsaw.comparison.measures import MEASURED, fit_and_measure
from fedjigsaw.datasets import Dataset
from fedjigsaw.errors import (
    ClippedRowsWarning,
    DataError,
    MessageError,
    NoiseWarning,
    NoisySummaryWarning,
    ParameterError,
    counted,
)
from fedjigsaw.io.rows import Row
from fedjigsaw.messages import OWN
from fedjigsaw.methods import CLUSTERERS, DEFAULT, make
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.report.provenance import provenance

if TYPE_CHECKING:
    from fedjigsaw.base import FederatedClusterer

SMALL = 0.05  # a cost that the findings call small


def privacy_cost(
    data: Dataset,
    clients: Ints,
    n_clusters: int | str,
    promises: Sequence[Privacy],
    *,
    method: str = DEFAULT,
    params: Mapping[str, Any] | None = None,
    runs: int = 5,
    seed: int = 0,
    track: Track = iter,
) -> list[Row]:
    """Cluster with and without privacy; return one row for each run and promise.

    Parameters
    ----------
    promises : one for each epsilon. Their noise is seeded: nothing leaves this machine, and the
        same call gives the same rows.
    method, params : a method with differential privacy, and its parameters.
    runs, seed : run r has the seed ``seed + r``, for the method and for the noise.
    track : wraps the list of fits to show progress, such as ``tqdm.tqdm``.

    Returns
    -------
    rows : sorted by epsilon, first those without privacy, whose epsilon is None. `ratio` is the
        objective over that without privacy, `agreement` the adjusted Rand index of both labels,
        `noisy_sites` the number of sites whose summaries were hardly more than noise. A row of a
        run that found no clusters has `failed`, the reason, instead of all numbers.
    """
    check_private(method)
    own = dict(params or {})
    make(method, n_clusters, 0, **own).check()
    epsilons = [promise.epsilon for promise in promises]
    if len(set(epsilons)) < len(epsilons):
        raise ParameterError(f"An epsilon is given twice: {', '.join(map(str, epsilons))}.")
    for promise in promises:
        promise.limits(data.X.shape[1])
    rows: list[Row] = []
    plain: tuple[FederatedClusterer, Row] | None = None
    jobs = [(seed + run, promise) for run in range(runs) for promise in (None, *promises)]
    for number, promise in track(jobs):
        fitted = make(method, n_clusters, number, **own)
        row: Row = {"method": method, "params": own, "seed": number}
        if promise is None:
            row |= {"epsilon": None, **fit_and_measure(fitted, data, clients)}
            plain = fitted, row
        else:
            promise = _settled(fitted, promise, data, clients)
            row |= {name: getattr(promise, name) for name in ("epsilon", "delta", "unit", "cells")}
            row |= _measure_privately(fitted, data, clients, replace(promise, insecure_seed=number))
        assert plain is not None  # every run begins without privacy
        rows.append({**row, **_relative(fitted, row, *plain), **provenance()})
    return sorted(rows, key=lambda row: row["epsilon"] or 0)


def check_private(method: str) -> None:
    """Raise a ParameterError if a method has no differential privacy."""
    from fedjigsaw.base import FederatedClusterer

    plain = FederatedClusterer.summarize_privately
    private = [n for n, entry in CLUSTERERS.items() if entry.cls.summarize_privately is not plain]
    if method in CLUSTERERS and method not in private:
        raise ParameterError(
            f"Method {method!r} has no differential privacy. Use {', '.join(private)}."
        )


def by_epsilon(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return mean and range of every number over the runs of each epsilon, in the rows' order."""
    found = []
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        group = [row for row in rows if row["epsilon"] == epsilon]
        good = [row for row in group if "failed" not in row]
        numbers = {
            name: {word: float(f([row[name] for row in good])) for word, f in RANGE.items()}
            for name in (*MEASURED, "agreement", "noisy_sites")
            if good and all(name in row for row in good)
        }
        found.append(
            {"epsilon": epsilon, "runs": len(group), "failed": len(group) - len(good), **numbers}
        )
    return found


RANGE: dict[str, Callable[[list[float]], Any]] = {
    "mean": np.mean,
    "least": np.min,
    "greatest": np.max,
}


def findings(rows: Sequence[Row]) -> list[str]:
    """Say in plain words what the rows show."""
    costs = {
        group["epsilon"]: group["ratio"]["mean"] - 1
        for group in by_epsilon(rows)
        if group["epsilon"] is not None and group["runs"] > group["failed"]
    }
    lines = []
    small = [epsilon for epsilon, cost in costs.items() if cost <= SMALL]
    if small:
        lines.append(f"At epsilon = {small[0]:g} the clusters cost {_cost(costs[small[0]])}.")
    elif costs:
        cheapest = min(costs, key=costs.__getitem__)
        lines.append(f"Even at epsilon = {cheapest:g} the clusters cost {_cost(costs[cheapest])}.")
    return lines + _about_cells(rows, max(costs.values(), default=0)) + _without_result(rows)


def clipped_rows(X: Floats, promise: Privacy) -> int:
    """Return the number of rows that lie outside the bounds."""
    low, high = promise.limits(X.shape[1])
    return int(((low > X) | (high < X)).any(axis=1).sum())


def _settled(method: FederatedClusterer, promise: Privacy, data: Dataset, clients: Ints) -> Privacy:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # what noise costs is in the rows
        return method.settle_privacy(promise, data.X.shape[1], len(np.unique(clients)))


def _measure_privately(
    method: FederatedClusterer, data: Dataset, clients: Ints, promise: Privacy
) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", ClippedRowsWarning)  # the same rows in every run
        warnings.simplefilter("ignore", NoiseWarning)
        warnings.simplefilter("always", NoisySummaryWarning)
        try:
            numbers = fit_and_measure(method, data, clients, privacy=promise)
        except MessageError as error:  # nothing stands out from the noise: a result, too
            numbers = {"failed": str(error)}
    noisy: set[str] = set()
    for told in caught:
        if isinstance(told.message, NoisySummaryWarning):
            noisy |= set(told.message.clients)
        else:
            warnings.warn_explicit(told.message, told.category, told.filename, told.lineno)
    return numbers | {"noisy_sites": len(noisy)}


def _relative(
    fitted: FederatedClusterer, row: Row, plain: FederatedClusterer, plain_row: Row
) -> dict[str, float]:
    if "failed" in row:
        return {}
    if not plain_row["inertia"]:
        raise DataError(
            "Without privacy, every row is at its center: there are at least as many clusters as "
            "distinct rows. Use fewer clusters, or more rows."
        )
    agreement = metrics.ari(fitted.labels_, plain.labels_)
    return {"ratio": row["inertia"] / plain_row["inertia"], "agreement": agreement}


def _cost(cost: float) -> str:
    if cost >= 1:
        return f"{cost + 1:.1f} times as much as without privacy"
    if round(abs(cost), 3) == 0:
        return "the same as without privacy"
    return f"{100 * abs(cost):.1f} % {'more' if cost > 0 else 'less'} than without privacy"


def _about_cells(rows: Sequence[Row], highest: float) -> list[str]:
    """Advise shared cells where sites that search for themselves pay much."""
    most: dict[float, int] = {}
    for row in rows:
        if row.get("cells") == OWN:
            most[row["epsilon"]] = max(most.get(row["epsilon"], 0), row["noisy_sites"])
    noisy = [f"{e:g} ({counted(n, 'site')})" for e, n in most.items() if n]
    if noisy:
        return [
            "Some sites have so few rows that their summaries are hardly more than noise at "
            f"epsilon = {', '.join(noisy)}. Shared cells may help (--cells shared)."
        ]
    if most and highest > SMALL:
        return ["Where sites have few rows, shared cells may cost less (--cells shared)."]
    return []


def _without_result(rows: Sequence[Row]) -> list[str]:
    failed = [group for group in by_epsilon(rows) if group["failed"]]
    if not failed:
        return []
    reason = next(row["failed"] for row in rows if "failed" in row)
    parts = [f"{g['failed']} of {g['runs']} runs at epsilon = {g['epsilon']:g}" for g in failed]
    return [f"No clusters were found in {', '.join(parts)}. {reason}"]
