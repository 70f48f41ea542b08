"""A CSV file of mixed columns, for the benchmark of `summarize` on real tables."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fedjigsaw import sites
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.io.formats import save_scaler

LEVELS = np.array(list("abcdef"))
SCHEMA = Schema(
    (
        *(Column(f"n{j}", scale="robust" if j < 2 else "standard") for j in range(12)),
        *(Column(f"c{j}", "category", categories=tuple(LEVELS.tolist())) for j in range(4)),
        *(Column(f"b{j}", "boolean") for j in range(2)),
        Column("seen", "date"),
        Column("stage", "ordered", categories=("low", "mid", "high")),
    )
)


def write_mixed(folder: Path, n_rows: int) -> None:
    """Write mixed.csv, 20 columns with 3 % missing values each, and scaler.json."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 8, n_rows)
    centers = rng.normal(0, 3, (12, 8))
    columns = {f"n{j}": (centers[j, group] + rng.normal(size=n_rows)).round(4) for j in range(12)}
    columns |= {f"c{j}": LEVELS[(3 * group + j + rng.integers(0, 2, n_rows)) % 6] for j in range(4)}
    columns |= {f"b{j}": np.where((group + j) % 3 == 0, "yes", "no") for j in range(2)}
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, n_rows)
    columns["seen"] = np.array(pc.strftime(pa.array(days), format="%d.%m.%Y").to_pylist())
    columns["stage"] = np.array(["low", "mid", "high"])[group % 3]
    arrays = {
        name: pa.array(values, mask=rng.random(n_rows) < 0.03) for name, values in columns.items()
    }
    pa.csv.write_csv(pa.table(arrays), folder / "mixed.csv")
    stats = sites.measure(folder / "mixed.csv", schema=SCHEMA)
    save_scaler(sites.common_scaler({"mixed": stats}, schema=SCHEMA), folder / "scaler.json")
