"""Exports of three hospitals as they come, for docs/tables.md: no two are written alike."""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

GROUPS = {  # age, BMI, glucose in mg/dl, share of smokers, diagnosis, weights of severity
    "young, high glucose": (29, 22, 190, 0.15, "E10", (0.2, 0.6, 0.2)),
    "middle-aged smokers": (48, 25, 95, 0.95, "J44", (0.1, 0.3, 0.6)),
    "old, heavy, high glucose": (70, 35, 205, 0.05, "E11", (0.3, 0.6, 0.1)),
    "old, heart": (79, 25, 100, 0.1, "I50", (0.05, 0.1, 0.85)),
}
SHARES = {"bern": (5, 3, 1, 1), "lyon": (1, 2, 4, 3), "oslo": (1, 1, 1, 1)}
ROWS = {"bern": 900, "lyon": 600, "oslo": 30}
Row = dict[str, object]


def patients(site: str) -> tuple[list[Row], list[int]]:
    """Return invented patients of a hospital, and the group of each."""
    rng = np.random.default_rng(list(SHARES).index(site))
    share = np.array(SHARES[site]) / sum(SHARES[site])
    groups = rng.choice(len(GROUPS), size=ROWS[site], p=share)
    return [_patient(site, i, int(g), rng) for i, g in enumerate(groups)], groups.tolist()


def _patient(site: str, number: int, group: int, rng: np.random.Generator) -> Row:
    age, bmi, glucose, smokers, diagnosis, severity = list(GROUPS.values())[group]
    others = ("E10", "J44", "E11", "I50")
    row: Row = {
        "patient_id": f"{site[0].upper()}{10_000 + 7 * number}",
        "admitted": np.datetime64("2024-01-01") + int(rng.integers(0, 500)),
        "age": round(float(rng.normal(age, 4)), 1),
        "sex": str(rng.choice(["female", "male"])),
        "bmi": round(float(rng.normal(bmi, 2.5)), 1),
        "glucose": round(float(rng.normal(glucose, 12)), 1),
        "diagnosis": diagnosis if rng.random() < 0.9 else str(rng.choice(others)),
        "severity": str(rng.choice(["mild", "moderate", "severe"], p=severity)),
        "smoker": bool(rng.random() < smokers),
        "note": f"Seen by Dr. {chr(65 + number % 26)}üller, room {number}",
    }
    for name, chance in {"age": 0.03, "bmi": 0.15, "glucose": 0.04, "severity": 0.05}.items():
        if rng.random() < chance:
            row[name] = None
    return row


def _text(rows: list[Row], separator: str, end: str, write: Callable[[str, object], str]) -> str:
    lines = [separator.join(rows[0])]
    lines += [separator.join(write(name, value) for name, value in row.items()) for row in rows]
    return "".join(line + end for line in lines)


def _german(name: str, value: object) -> str:
    if value is None:
        return "k.A."
    if isinstance(value, bool):
        return "ja" if value else "nein"
    if isinstance(value, np.datetime64):
        year, month, day = str(value).split("-")
        return f"{day}.{month}.{year}"
    return str(value).replace(".", ",") if isinstance(value, float) else str(value)


def _french(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "oui" if value else "non"
    if name == "glucose" and isinstance(value, float):
        return f"{value / 18.016:.2f}"  # mmol/l
    return f'"{value}"' if isinstance(value, str) else str(value)


def _norwegian(name: str, value: object) -> str:
    return "NA" if value is None else str(value)


def write_exports(folder: Path) -> dict[str, list[int]]:
    """Write bern.csv, lyon.csv and oslo.tsv.gz; return the group of each row."""
    rows, groups = {}, {}
    for site in SHARES:
        rows[site], groups[site] = patients(site)
    order = ["sex", "glucose", "patient_id", "severity", "age", "smoker", "diagnosis"]
    lyon = [
        {name: row[name] for name in [*order, "bmi", "note", "admitted"]} for row in rows["lyon"]
    ]
    bern = _text(rows["bern"], ";", "\r\n", _german)
    (folder / "bern.csv").write_bytes(b"\xef\xbb\xbf" + bern.encode())
    (folder / "lyon.csv").write_bytes(_text(lyon, ",", "\n", _french).encode("cp1252"))
    oslo = _text(rows["oslo"], "\t", "\n", _norwegian).encode()
    (folder / "oslo.tsv.gz").write_bytes(gzip.compress(oslo, mtime=0))
    return groups


def labels_of(groups: dict[str, list[int]]) -> npt.NDArray[np.int64]:
    """Return the groups of all rows, site after site."""
    return np.concatenate([np.array(groups[site]) for site in SHARES])


if __name__ == "__main__":
    write_exports(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("bern.csv, lyon.csv, oslo.tsv.gz")
