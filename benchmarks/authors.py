"""Compare methods of this package with their authors' own code, on the same rows and clients.

Run by hand, with the folders of the authors' repositories, which are not part of this one::

    python benchmarks/authors.py --mufc FOLDER --fkm FOLDER \\
        -o results/peers-authors.jsonl

Their random numbers are others, so means over seeds are compared. Every row is the objective
relative to k-means on the pooled rows.
"""

import argparse
import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fedjigsaw.io.rows import Row, write_rows
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.methods import make
from fedjigsaw.report.provenance import provenance

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from reproduction.experiments.peers import PublishedMufc, best, federation, ratios

Side = Callable[[int], float]  # seed -> ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mufc", type=Path, help="checkout of github.com/thupchnsky/mufc")
    parser.add_argument("--fkm", type=Path, help="checkout of github.com/swiergarst/fedKMeans")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    rows: list[Row] = []
    folders = {
        with_mufc: options.mufc,
        with_fkm: options.fkm,
    }
    for compare, folder in folders.items():
        if folder is not None:
            with imported_from(folder):
                for row in compare(options.runs):
                    rows.append(row)
                    print(row["label"], row["data"], row["side"], f"{row['ratio']:.4f}")
    write_rows(options.out, rows, replace=True)


@contextlib.contextmanager
def imported_from(folder: Path) -> Iterator[None]:
    """Let modules of a folder be imported; they were written for older versions of NumPy."""
    np.__dict__.setdefault("Infinity", np.inf)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def both(label: str, data: str, source: str, runs: int, theirs: Side, ours: Side) -> Iterator[Row]:
    for seed in range(runs):
        np.random.seed(seed)  # noqa: NPY002 (their code draws from it)
        for side, compute in (("authors", theirs), ("ours", ours)):
            with contextlib.redirect_stdout(io.StringIO()):
                ratio = float(compute(seed))
            yield {
                "label": label, "data": data, "side": side, "seed": seed, "ratio": ratio,
                "source": source, **provenance(),
            }  # fmt: skip


def with_mufc(runs: int) -> Iterator[Row]:
    """MUFC, DC-k-means and k-FED as in the repository of MUFC, on its example."""
    model, theirs = import_module("model"), import_module("utils")
    kfed, dc = import_module("kfed"), import_module("dc_kmeans")
    X, clients = federation("celltype", "as published", 0)
    shards = [X[clients == m] for m in np.unique(clients)]
    k, least, width = 4, best("celltype"), 1 / np.sqrt(len(X))
    source = "github.com/thupchnsky/mufc"

    def mufc(seeds_only: bool) -> float:
        from sklearn.cluster import KMeans

        points = []
        for shard in shards:
            local = model.MyKmeans(k=k, max_iters=300)
            run = local.run_kpp_only if seeds_only else local.run
            _, labels, _ = run(shard)
            bins = local.quantize_centroids(width)
            points += [theirs.sample_points_in_bin(bins[j], 1, width) for j in labels]
        server = KMeans(k, max_iter=300, n_init=10).fit(np.concatenate(points))
        return float(theirs.clustering_loss(X, server.cluster_centers_)) / least

    def dc_kmeans(_: int) -> float:
        tree = dc.DCKmeans([k, k], [1, len(shards)], iters=300, n_init=10)
        data = {f"client_{m}": shard for m, shard in enumerate(shards)}
        with contextlib.redirect_stderr(io.StringIO()):
            _, _, loss = tree.run({"full_data": X.copy(), **data})
        return float(loss) / least

    def ours(method: Any, number: str) -> float:
        return ratios(method.fit(X, clients=clients), X, clients, least)[number]

    options: dict[str, Any] = {"bin_width": width}
    pairs: dict[str, tuple[Side, Side]] = {
        "MUFC, seeds": (
            lambda seed: mufc(seeds_only=True),
            lambda seed: ours(PublishedMufc(k, random_state=seed, **options), "ratio"),
        ),
        "MUFC, 300 steps": (
            lambda seed: mufc(seeds_only=False),
            lambda seed: ours(make("mufc", k, seed, max_iter=300, **options), "ratio"),
        ),
        "DC-k-means, local labels": (
            dc_kmeans,
            lambda seed: ours(make("dc", k, seed), "ratio_local"),
        ),
        "k-FED, local labels": (
            lambda seed: float(kfed.kfed(shards, k, k, max_iters=300)[2]) / least,
            lambda seed: ours(make("kfed", k, seed, n_init=1), "ratio_local"),
        ),
    }
    for label, (their_side, our_side) in pairs.items():
        yield from both(label, "celltype", source, runs, their_side, our_side)


def with_fkm(runs: int) -> Iterator[Row]:
    """FKM as in the repository of its authors: the start and five rounds."""
    fkm = import_module("fed_kmeans")
    n_rounds, k = 5, 15

    def run_theirs(name: str, split: str, seed: int) -> float:
        X, clients = federation(name, split, seed)
        members = [
            fkm.client_FKM(X[clients == m], None, k)
            for m in np.unique(clients)
        ]  # fmt: skip
        server = fkm.server_FKM(k)
        found = [(member.means, member.sample_amts) for member in members]
        for _ in range(n_rounds + 1):
            means, sizes = (np.concatenate(parts) for parts in zip(*found, strict=True))
            centers = server.aggregate(means, sizes)
            found = []
            for member in members:
                member.means = np.copy(centers)
                found.append(member.det_local_clusters()[:2])
        distances = nearest_centers(X, centers)[1]
        return float(distances @ distances) / best(name)

    def run_ours(name: str, split: str, seed: int) -> float:
        X, clients = federation(name, split, seed)
        method = make("lloyd", k, seed, n_rounds=n_rounds, step="kmeans")
        return method.fit(X, clients=clients).inertia_ / best(name)

    for name, split in (("s1", "iid"), ("s1", "dirichlet(0.3)"), ("s4", "dirichlet(0.3)")):
        yield from both(
            "FKM, 6 rounds",
            f"{name.upper()}, {split}",
            "github.com/swiergarst/fedKMeans",
            runs,
            partial(run_theirs, name, split),
            partial(run_ours, name, split),
        )


if __name__ == "__main__":
    main()
