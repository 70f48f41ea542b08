"""Invented patients of six hospitals in May, June and July, for docs/over-time.md."""

import sys
from pathlib import Path

import numpy as np

SITES = ("bern", "graz", "lyon", "oslo", "rome", "turku")
GROUPS = np.array([[25, 1.0], [45, 3.5], [65, 1.5], [80, 4.0]])
NEW = np.array([[35, 6.0]])  # in July
SPREAD = np.array([3.0, 0.25])


def write_patients(folder: Path) -> None:
    """Write a file for each month and site; in July there is one more group of patients."""
    rng = np.random.default_rng(0)
    for month, groups in (("may", GROUPS), ("june", GROUPS), ("july", np.vstack([GROUPS, NEW]))):
        for site in SITES:
            group = rng.integers(len(groups), size=200)
            rows = groups[group] + SPREAD * rng.normal(size=(200, 2))
            name = folder / f"{site}-{month}.csv"
            np.savetxt(name, rows, "%.3f", ",", header="age,dose", comments="")


if __name__ == "__main__":
    write_patients(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print(f"Wrote a file for each of {len(SITES)} hospitals in May, June and July.")
