"""Invented patients of three hospitals, for docs/sites.md."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet


def write_patients(folder: Path) -> None:
    """Four groups of patients over three hospitals, each of which sees some groups more often."""
    rng = np.random.default_rng(0)
    groups = np.array([[25, 1.0], [45, 3.5], [65, 1.5], [80, 4.0]])
    spread = np.array([3.0, 0.25])
    shares = {"bern": [6, 3, 1, 1], "lyon": [1, 5, 5, 1], "oslo": [1, 1, 4, 6]}
    for number, (name, share) in enumerate(shares.items()):
        group = rng.choice(4, size=400, p=np.array(share) / sum(share))
        rows = groups[group] + spread * rng.normal(size=(400, 2))
        table = pa.table(
            {
                "patient": [f"{name}-{i:03}" for i in range(400)],
                "age": rows[:, 0].round(1),
                "dose": rows[:, 1].round(3),
            }
        )
        if number == 2:  # the third hospital has its columns in another order
            table = table.select(["dose", "patient", "age"])
        if name == "lyon":
            pa.parquet.write_table(table, folder / f"{name}.parquet")
        else:
            pa.csv.write_csv(table, folder / f"{name}.csv")


if __name__ == "__main__":
    write_patients(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("bern.csv, lyon.parquet, oslo.csv")
