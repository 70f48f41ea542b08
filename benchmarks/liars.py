"""What sites that lie or err cost the others, by `liars`: the table of docs/security.md.

    python benchmarks/liars.py    # computes the cells that are missing, and prints the table

Each cell is a data set, a split, a setting and a seed. Its numbers are the inertia of the honest
rows with the centers of a model, over that with the centers of a model of the honest sites alone.
"""

import sys
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets as known

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fedjigsaw import Broadcast, Jigsaw, Summary, partition
from fedjigsaw.datasets import load
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.report.provenance import provenance
from fedjigsaw.robust.support import aggregate
from reproduction.studies import MISSING, RESULTS, Floats, Row, line, markdown, read

SSETS = ("s1", "s3")
SETS = ("squares", *SSETS, "iris", "wine", "breast_cancer", "digits")
LIED = ("iid", "dirichlet:0.3")  # splits with which liars are tried
SPLITS = (*LIED, "dirichlet:0.1", "column")
SETTINGS = ((5, 1, 0), (5, 1, 1), (10, 3, 3))  # sites, how many lie, the parameter `liars`
# of a model: with its k centers alone, with lone ones, number of these; liars told, others told
MEASURES = ("k", "all", "lone", "told", "accused")


class Cell(NamedTuple):
    """What is computed into one row."""

    data: str
    split: str
    n_sites: int
    n_liars: int
    liars: int
    seed: int

    @property
    def setting(self) -> tuple[int, ...]:
        return self[2:5]


def rows_of(name: str) -> tuple[Floats, np.ndarray]:
    """Return rows and true classes of a data set; columns of different units are standardized."""
    if name in SSETS:
        data = load(name)
        return data.X, data.y
    if name == "squares":
        rng, y = np.random.default_rng(0), np.repeat(np.arange(4), 500)
        return 4.0 * np.c_[y % 2, y // 2] + rng.uniform(-1, 1, (2000, 2)), y
    X, y = getattr(known, f"load_{name}")(return_X_y=True)
    if name in ("wine", "breast_cancer"):
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, y


def sites_of(X: Floats, y: np.ndarray, cell: Cell) -> list[Floats]:
    """Deal rows to sites."""
    n, (kind, _, alpha) = cell.n_sites, cell.split.partition(":")
    if kind == "column":
        order = np.argsort(X[:, cell.seed % X.shape[1]])
        return [X[own] for own in np.array_split(order, n)]
    least = min(8, len(X) // (4 * n))
    shares = float(alpha or 1)  # of Dirichlet alone
    clients = partition.split(kind, y, n, rng=cell.seed, alpha=shares, min_size=least)
    return [X[clients == name] for name in np.unique(clients)]


def lies(X: Floats, A: Floats, rng: np.random.Generator) -> dict[str, Floats]:
    """Return what a liar with rows X may claim, if it knows about where all rows A are."""
    low, high, sd = A.min(axis=0), A.max(axis=0), A.std(axis=0)
    widest = np.arange(A.shape[1]) == sd.argmax()
    step = np.where(sd > 0, sd, 1)
    far = high + (high - low)
    n, d = X.shape
    return {
        "-X": -X,
        "2X": 2 * X,
        "3X": 3 * X,
        "-3X": -3 * X,
        "columns reversed": X[:, ::-1],
        "a column mirrored": np.where(widest, low + high - X, X),
        "a column in another unit": np.where(widest, 10 * X, X),
        "a far group": np.r_[X, far + 0.05 * sd * rng.normal(size=(max(10, n // 3), d))],
        "all far": far + 0.3 * sd * rng.normal(size=(n, d)),
        "shifted": X + 2 * sd,
        "false places": rng.uniform(low, high, (n, d)),
        "blurred": X + sd * rng.normal(size=(n, d)),
        "half true": np.where(rng.random((n, 1)) < 0.5, X, -X),
        "rounded": np.round(X / step) * step,
        "20 times the rows": np.repeat(X, 20, axis=0),
    }


def compute(cell: Cell) -> Row:
    """Compute a cell: what honest sites and each lie come to, and who is told."""
    X, y = rows_of(cell.data)
    k, seed, rng = len(np.unique(y)), cell.seed, np.random.default_rng(cell.seed)
    sites = sites_of(X, y, cell)
    who = rng.permutation(len(sites))[: cell.n_liars].tolist()
    honest = [rows for i, rows in enumerate(sites) if i not in who]
    method = Jigsaw(k, liars=cell.liars, random_state=seed)
    plain = Jigsaw(k, detail=3 if cell.liars else 1, random_state=seed)
    sent = [_summary(method, rows, i, seed) for i, rows in enumerate(sites)]
    true = [summary for i, summary in enumerate(sent) if i not in who]
    least = _inertia(honest, _model(plain, true).centers)
    unchecked = _inertia(sites, _model(plain, sent).centers)
    found = {"honest": _measured(method, sent, sites, unchecked)}
    told = [lies(sites[i], X, rng) for i in who] if cell.split in LIED else [{}]
    shifts = (0, 1) if len(who) > 1 else (0,)  # liars that agree, and liars that do not
    for (at, lie), shift in product(enumerate(told[0]), shifts):
        claimed = list(sent)
        for j, i in enumerate(who):
            rows = list(told[j].values())[(at + shift * j) % len(told[j])]
            claimed[i] = _summary(method, rows, i, seed)
        name = lie + ", each another" * shift
        found[name] = _measured(method, claimed, honest, least, who)
    return {**cell._asdict(), "lies": found, **provenance()}


def _summary(method: Jigsaw, rows: Floats, site: int, seed: int) -> Summary:
    rng = np.random.default_rng([seed, site])
    made = method.summarize(np.ascontiguousarray(rows), Broadcast(0, seed), rng)
    return Summary(len(rows), made.centers, counts=made.counts, sse=made.sse, client=f"{site:02}")


def _model(method: Jigsaw, sent: Sequence[Summary]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return aggregate(method, sent, Broadcast(0, 0), np.random.default_rng(0))


def _inertia(sites: Sequence[Floats], centers: Floats) -> float:
    return float((nearest_centers(np.concatenate(sites), centers)[1] ** 2).sum())


def _measured(
    method: Jigsaw,
    sent: Sequence[Summary],
    honest: Sequence[Floats],
    least: float,
    who: Sequence[int] = (),
) -> list[float]:
    """Return the MEASURES of a model."""
    made = _model(method, sent)
    told = set(np.flatnonzero(made.tensors["site_notes"]).tolist())
    centers = made.centers[: len(made.centers) - made.n_lone]
    over = [_inertia(honest, places) / least for places in (centers, made.centers)]
    return [*over, made.n_lone, len(told & set(who)), len(told - set(who))]


def cell_of(row: Row) -> Cell:
    return Cell(*(row[name] for name in Cell._fields))


def figures(rows: Sequence[Row], measure: str, honest: bool) -> np.ndarray:
    """Return a measure of all honest runs of some rows, or of all lies."""
    place = MEASURES.index(measure)
    found = [row["lies"].items() for row in rows]
    return np.array([m[place] for one in found for lie, m in one if (lie == "honest") == honest])


def table(rows: Sequence[Row]) -> str:
    """Return the table: median, 98th percentile and worst, and how often sites are reported."""
    heads = [f"`liars={liars}`, {n_liars} of {n} lie" for n, n_liars, liars in SETTINGS]
    lines = []
    for split, honest in [*product(LIED, (True, False)), *product(SPLITS[len(LIED) :], (True,))]:
        own = [row for row in rows if row["split"] == split]
        cells = [[r for r in own if cell_of(r).setting == setting] for setting in SETTINGS]
        who = "honest" if honest else "lies"
        for measure, told in (("k", "the k alone"), ("all", "with lone clusters")):
            spreads = [_spread(figures(found, measure, honest)) for found in cells]
            lines.append([split, f"{who}, {told}", *spreads])
        last = (
            "honest, something is reported" if honest else "lies that cost more than 5 %, reported"
        )
        lines.append([split, last, *(_reported(found, honest) for found in cells)])
    return markdown(["split", "measure", *heads], lines)


def _spread(values: np.ndarray) -> str:
    if not len(values):
        return MISSING
    return f"{np.median(values):.2f}; 98 %: {np.quantile(values, 0.98):.2f}; {values.max():.2f}"


def _reported(rows: Sequence[Row], honest: bool) -> str:
    accused = figures(rows, "accused", honest) > 0
    if honest:
        return f"{accused.sum()} of {len(accused)}"
    harmful = figures(rows, "all", honest) > 1.05
    told = figures(rows, "told", honest)[harmful] > 0
    return f"{told.sum()} of {len(told)}; others reported in {accused.sum()} of {len(accused)}"


if __name__ == "__main__":
    done = {cell_of(row) for row in read(RESULTS, "support")}
    asked = product(range(10), SETS, SPLITS, SETTINGS)
    cells = [Cell(name, split, *setting, seed) for seed, name, split, setting in asked]
    for cell in cells:
        if cell not in done:
            made = line(compute(cell))
            with (RESULTS / "support.jsonl").open("a", encoding="utf-8") as file:
                file.write(made)
    print(table(read(RESULTS, "support")))
