"""What sets clusters apart: the value of every column in every cluster, beside that of all rows."""

from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.kernels.scaling import merge
from fedjigsaw.report.page.run import Run
from fedjigsaw.report.page.words import measured, short


@dataclass(frozen=True)
class Traits:
    """Columns that describe clusters.

    Attributes
    ----------
    names : of m columns; a category has one for each level.
    difference : shape (k, m), from all rows in standard deviations; NaN where nothing is known.
    values, spreads : of each cluster, k lists of m texts.
    overall : of all rows, m texts.
    note : where the numbers are from.
    """

    names: tuple[str, ...]
    difference: Floats
    values: list[list[str]]
    spreads: list[list[str]]
    overall: list[str]
    note: str

    def strongest(self) -> list[int]:
        """Return the columns, those first in which clusters differ most."""
        known = np.nan_to_num(np.abs(self.difference))
        return [int(j) for j in np.argsort(-known.max(axis=0), kind="stable")]

    def of_cluster(self, i: int, most: int) -> list[int]:
        """Return the columns that set one cluster apart, the strongest first."""
        known = np.nan_to_num(np.abs(self.difference[i]))
        order = np.argsort(-known, kind="stable")[:most]
        return [j for j in order.tolist() if known[j] > 0]


def traits_of_centers(run: Run, sizes: Floats | None) -> Traits:
    """Describe clusters by their centers, as far as the model knows them.

    Parameters
    ----------
    sizes : rows of each cluster; None if they are not known.
    """
    model = run.model
    centers = model.model.centers
    values = centers if model.scaler is None else model.scaler.unscale(centers)
    mean, deviation, note = _reference(run, values, sizes)
    return Traits(
        tuple(short(name) for name in model.columns),
        (values - mean) / deviation,
        [[measured(v, d) for v, d in zip(row, deviation, strict=True)] for row in values.tolist()],
        [[""] * len(model.columns) for _ in values],
        [measured(v, d) for v, d in zip(mean.tolist(), deviation, strict=True)],
        note,
    )


def _reference(run: Run, values: Floats, sizes: Floats | None) -> tuple[Floats, Floats, str]:
    """Return mean and deviation of all rows, as well as the files tell, and where they are from."""
    source = run.model.scaler or (merge(run.stats) if run.stats else None)
    if source is not None:
        places = [source.columns.index(name) for name in run.model.columns]
        note = "Differences are in standard deviations of all rows."
        return source.mean[places], source.deviation[places], note
    weights = np.ones(len(values)) if sizes is None or not sizes.sum() else sizes
    mean = np.average(values, axis=0, weights=weights)
    deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
    note = (
        "The data were not scaled, and no statistics were given: differences are in standard "
        "deviations of the centers, which makes them look larger than those of rows."
    )
    return mean, np.where(deviation > 0, deviation, 1.0), note
