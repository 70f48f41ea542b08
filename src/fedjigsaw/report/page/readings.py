"""Centers of prepared tables beside all rows, in the units and categories of the files."""

from collections.abc import Iterator

import numpy as np

from fedjigsaw.columns.contrasts import Contrast
from fedjigsaw.columns.encoding import Encoder
from fedjigsaw.columns.schema import ABSENT, CATEGORY, OTHER
from fedjigsaw.report.centers import Reading, centers_table, read_centers
from fedjigsaw.report.page.run import Run


def center_contrasts(run: Run) -> list[list[Contrast]]:
    """Compare each center with all rows: clusters in order, in each the columns of the file.

    Differences are those of the features, in their scaled units.
    """
    model = run.model
    assert model.scaler is not None
    assert model.encoding is not None
    everyone = _everyone(run)
    by_column = model.encoding.by_column(model.model.centers)
    widths = model.encoding.by_column(model.scaler.deviation)
    return [
        [
            one
            for e in model.encoding.encoders
            for one in _of_column(
                e,
                (c, by_column[e.column.name][c], float(widths[e.column.name][0])),
                own[e.column.name],
                everyone[e.column.name],
            )
        ]
        for c, own in enumerate(centers_table(model))
    ]


def missing_by_scaler(run: Run) -> dict[str, float]:
    """Return the share of missing values of each column that has an indicator of them."""
    if run.model.encoding is None:
        return {}
    everyone = _everyone(run)
    return {
        e.column.name: everyone[e.column.name].missing
        for e in run.model.encoding.encoders
        if ABSENT in e.parts
    }


def _everyone(run: Run) -> dict[str, Reading]:
    """Read the center of all rows, which is 0 in scaled units."""
    middle = np.zeros((1, len(run.model.columns)))
    return read_centers(middle, run.model.columns, run.model.scaler)[0]


def _of_column(
    encoder: Encoder, place: tuple[int, np.ndarray, float], own: Reading, everyone: Reading
) -> Iterator[Contrast]:
    (cluster, scaled, width), column = place, encoder.column
    if column.kind == CATEGORY:
        for part, z in zip(encoder.parts, scaled.tolist(), strict=True):
            if part != ABSENT:
                yield Contrast(
                    cluster,
                    column.name,
                    part,
                    0,
                    z,
                    0.0 if part == OTHER else abs(z),
                    share=_share(own, part),
                    all_share=_share(everyone, part),
                )
        return
    z = float(scaled[0])
    spread = abs(everyone.value) if column.scale == "log" else width * column.weight
    yield Contrast(
        cluster, column.name, None, 0, z, abs(z),
        mean=own.value, all_mean=everyone.value, all_std=spread,
    )  # fmt: skip


def _share(reading: Reading, part: str) -> float:
    """Return the share of a category among the rows that have a value."""
    there = 1 - reading.missing
    return min(1.0, reading.shares[part] / there) if there > 0 else float("nan")
