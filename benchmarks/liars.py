"""What sites that lie or err cost the others, by `liars`: the table of docs/security.md.

    python benchmarks/liars.py results/support.jsonl           # computes the cells that are missing
    python benchmarks/liars.py results/support.jsonl --table   # prints the table

Each cell is a data set, a split, a setting and a seed. Its numbers are the inertia of the honest
rows with the centers of a model, over that with the centers of a model of the honest sites alone.
"""

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets as known

from fedjigsaw import Broadcast, Jigsaw, Summary, partition
from fedjigsaw.datasets import load
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.report.provenance import provenance

SSETS = ("s1", "s3")
SETS = ("squares", *SSETS, "iris", "wine", "breast_cancer", "digits")
LIED = ("iid", "dirichlet:0.3")  # splits with which liars are tried
SPLITS = (*LIED, "dirichlet:0.1", "column")


class Setting(NamedTuple):
    n_sites: int
    n_liars: int  # that lie
    liars: int  # the parameter


Place = tuple[str, str, Setting, int]
SETTINGS = (Setting(5, 1, 0), Setting(5, 1, 1), Setting(10, 3, 3))


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
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


def sites_of(X: np.ndarray, y: np.ndarray, n: int, split: str, seed: int) -> list[np.ndarray]:
    """Deal rows to sites."""
    kind, _, alpha = split.partition(":")
    if kind == "column":
        return [X[own] for own in np.array_split(np.argsort(X[:, seed % X.shape[1]]), n)]
    if kind == "iid":
        clients = partition.iid(len(X), n, rng=seed)
    else:
        clients = partition.dirichlet(
            y, n, alpha=float(alpha), rng=seed, min_size=min(8, len(X) // (4 * n))
        )
    return [X[clients == name] for name in np.unique(clients)]


def lies(X: np.ndarray, A: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
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


def cell(name: str, split: str, setting: Setting, seed: int) -> dict[str, Any]:
    """Compute a cell: what honest sites and each lie come to, and who is told."""
    X, y = rows_of(name)
    k, rng = len(np.unique(y)), np.random.default_rng(seed)
    sites = sites_of(X, y, setting.n_sites, split, seed)
    who = rng.permutation(len(sites))[: setting.n_liars].tolist()
    method = Jigsaw(k, liars=setting.liars, random_state=seed)
    plain = Jigsaw(k, detail=3 if setting.liars else 1, random_state=seed)
    sent = [summary(method, rows, i, seed) for i, rows in enumerate(sites)]
    honest = [rows for i, rows in enumerate(sites) if i not in who]
    best = inertia(honest, model(plain, [s for i, s in enumerate(sent) if i not in who]).centers)
    found: dict[str, Any] = {
        "honest": measured(method, sent, sites, inertia(sites, model(plain, sent).centers))
    }
    place: dict[str, Any] = {"data": name, "split": split, **setting._asdict(), "seed": seed}
    if split not in LIED:
        return {**place, "lies": found}
    told = [lies(sites[i], X, rng) for i in who]
    shifts = (0, 1) if len(who) > 1 else (0,)  # liars that agree, and liars that do not
    for (at, lie), shift in product(enumerate(told[0]), shifts):
        names = [list(told[0])[(at + shift * j) % len(told[0])] for j in range(len(who))]
        claimed = {i: told[j][names[j]] for j, i in enumerate(who)}
        lied = [
            summary(method, claimed[i], i, seed) if i in claimed else s for i, s in enumerate(sent)
        ]
        found[lie + ", each another" * shift] = measured(method, lied, honest, best, who)
    return {**place, "lies": found}


def summary(method: Jigsaw, rows: np.ndarray, site: int, seed: int) -> Summary:
    """Summarize the rows of a site."""
    rng = np.random.default_rng([seed, site])
    rows = np.ascontiguousarray(rows)
    made = method.summarize(rows, Broadcast(0, seed), rng)
    return Summary(len(rows), made.centers, counts=made.counts, sse=made.sse, client=f"{site:02}")


def model(method: Jigsaw, sent: Sequence[Summary]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.aggregate(sent, Broadcast(0, 0), np.random.default_rng(0))


def inertia(sites: Sequence[np.ndarray], centers: np.ndarray) -> float:
    return float((nearest_centers(np.concatenate(sites), centers)[1] ** 2).sum())


def measured(
    method: Jigsaw,
    sent: Sequence[Summary],
    honest: Sequence[np.ndarray],
    best: float,
    who: Sequence[int] = (),
) -> dict[str, Any]:
    """Return inertia with the k centers alone and with lone ones, and who was told rightly."""
    made = model(method, sent)
    told = np.flatnonzero(made.tensors["site_notes"]).tolist()
    return {
        "k": inertia(honest, made.centers[: len(made.centers) - made.n_lone]) / best,
        "all": inertia(honest, made.centers) / best,
        "lone": made.n_lone,
        "told": len(set(told) & set(who)),
        "accused": len(set(told) - set(who)),
    }


def compute(path: Path, places: Sequence[Place]) -> None:
    """Append the cells that are missing."""
    done = {place_of(row) for row in read(path)}
    missing = [place for place in places if place not in done]
    for number, place in enumerate(missing, 1):
        with path.open("a", encoding="utf-8") as file:
            row = {**rounded(cell(*place)), **provenance()}
            row["lies"] = {name: brief(found) for name, found in row["lies"].items()}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
        print(f"{number} of {len(missing)}: {place}", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for row in rows:
        row["lies"] = {lie: {"all": m["k"], **NOTHING, **m} for lie, m in row["lies"].items()}
    return rows


NOTHING = {"lone": 0, "told": 0, "accused": 0}


def brief(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what :func:`read` fills in."""
    usual = {"all": found["k"], **NOTHING}
    return {name: value for name, value in found.items() if usual.get(name) != value}


def place_of(row: dict[str, Any]) -> Place:
    setting = Setting(*(row[name] for name in Setting._fields))
    return row["data"], row["split"], setting, row["seed"]


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table: worst, and how many in a hundred are above the reach."""
    heads = [f"`liars={s.liars}`, {s.n_liars} of {s.n_sites} lie" for s in SETTINGS]
    yield f"| split | measure | {' | '.join(heads)} |"
    yield "|---" * (2 + len(heads)) + "|"
    for split in SPLITS:
        for label, shown in MEASURES.items():
            if split not in LIED and label.startswith("lies"):
                continue
            own_rows = [r for r in rows if r["split"] == split]
            cells = [[r for r in own_rows if place_of(r)[2] == s] for s in SETTINGS]
            yield f"| {split} | {label} | {' | '.join(shown(own) for own in cells)} |"


def figures(rows: Sequence[dict[str, Any]], key: str, honest: bool) -> np.ndarray:
    """Return a measure of all honest runs of some cells, or of all lies."""
    return np.array([
        m[key] for r in rows for lie, m in r["lies"].items() if (lie == "honest") == honest
    ])  # fmt: skip


def spread(values: np.ndarray) -> str:
    if not len(values):
        return "-"
    return f"{np.median(values):.2f}; 98 %: {np.quantile(values, 0.98):.2f}; {values.max():.2f}"


def share_told(rows: Sequence[dict[str, Any]]) -> str:
    values = figures(rows, "accused", honest=True)
    return f"{(values > 0).sum()} of {len(values)}" if len(values) else "-"


def harmful_told(rows: Sequence[dict[str, Any]]) -> str:
    harm = figures(rows, "all", honest=False) > 1.05
    told = figures(rows, "told", honest=False)[harm] > 0
    accused = figures(rows, "accused", honest=False) > 0
    return f"{told.sum()} of {len(told)}; others reported in {accused.sum()} of {len(harm)}"


MEASURES = {
    "honest, the k alone": lambda rows: spread(figures(rows, "k", honest=True)),
    "honest, with lone clusters": lambda rows: spread(figures(rows, "all", honest=True)),
    "honest, something is reported": share_told,
    "lies, the k alone": lambda rows: spread(figures(rows, "k", honest=False)),
    "lies, with lone clusters": lambda rows: spread(figures(rows, "all", honest=False)),
    "lies that cost more than 5 %, reported": harmful_told,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    if given.table:
        print("\n".join(table(read(given.rows))))
        return
    seeds = range(given.seeds)
    places = [
        (name, split, setting, seed)
        for seed, name, split, setting in product(seeds, SETS, SPLITS, SETTINGS)
    ]
    compute(given.rows, places)


if __name__ == "__main__":
    main()
