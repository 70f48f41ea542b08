"""Rows -> pages: every number in the README is filled in here, from rows in results/.

``python -m fedjigsaw.bench.pages`` in a checkout writes the README anew; a test compares.
"""

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedjigsaw.bench.cells import over_seeds
from fedjigsaw.errors import DataError, complaint
from fedjigsaw.formats import write_whole
from fedjigsaw.methods import METHODS

SPLITS = {"iid": "iid", "dirichlet(0.3)": "dirichlet0.3", "dirichlet(0.1)": "dirichlet0.1"}


@cache
def paper_tables() -> dict[str, Any]:
    """Every number of the paper's tables."""
    text = files("fedjigsaw.bench").joinpath("paper_tables.json").read_text()
    tables: dict[str, Any] = json.loads(text)
    return tables


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->``."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise DataError(complaint("marks", "a page", f"one {start} and one {end}", "others"))
    before, _, rest = text.partition(start)
    return before + start + content + end + rest.partition(end)[2]


def readme(text: str, results: Path) -> str:
    """The README with all its numbers from the rows."""
    benchmarks = read_rows(results / "benchmarks.jsonl")
    (overhead,) = [row["ratio"] for row in benchmarks if row["benchmark"] == "overhead"]
    times = [row["seconds"] for row in benchmarks if row.get("n_centers") == 100_000]
    memory = [row["peak_megabytes"] for row in benchmarks if row["benchmark"] == "large_file"]
    text = fill(text, "large", f"{max(memory):.0f}")
    text = fill(text, "overhead", f"{overhead:.2f}")
    text = fill(text, "aggregation", f"{min(times):.1f} to {max(times):.1f}")
    text = fill(text, "demo", demo_table(read_rows(results / "demo.jsonl")))
    plain = read_rows(results / "ssets" / "s1-dirichlet0.3-sklearn.jsonl")
    ten, all_ = (over_seeds(part)["l2"][0] / 1e4 for part in (plain[:10], plain))
    text = fill(text, "plain", f"{ten:.1f} and {all_:.1f}")
    return fill(text, "ssets", ssets_table(results / "ssets"))


def demo_table(rows: list[dict[str, Any]]) -> str:
    """What `fedjigsaw demo` prints, without the seconds, which nobody else will see again."""
    lines = [["method", "centers", "l2 / 1e4", "purity", "nmi", "bytes per client"]]
    lines += [
        [
            METHODS[row["method"]].label,
            f"{row['n_found']}",
            f"{row['l2'] / 1e4:.2f}",
            f"{row['purity']:.3f}",
            f"{row['nmi']:.3f}",
            f"{row['bytes_per_client']:,.0f}",
        ]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        first.ljust(widths[0])
        + "".join(f"{cell:>{width + 3}}" for cell, width in zip(rest, widths[1:], strict=True))
        for first, *rest in lines
    ]
    return "\n".join(["\n```", "15 Gaussians, 10 clients, Dirichlet(0.3)", *text, "```\n"])


def ssets_table(folder: Path) -> str:
    """FeCA on the S-sets, the paper's numbers beside ours."""
    published = paper_tables()["table1_ssets_l2_e4"]["cells"]
    lines = ["| data | split | paper | ours, 10 seeds | verdict | ours, 100 seeds |"]
    lines.append("|---|---|---|---|---|---|")
    for name in ("S1", "S2", "S3", "S4"):
        for split, stem in SPLITS.items():
            theirs = published[name]["FeCA"][split]
            rows = read_rows(folder / f"{name.lower()}-{stem}.jsonl")
            ten, all_ = (over_seeds(part)["l2"] for part in (rows[:10], rows))
            cells = [
                "IID" if split == "iid" else split.capitalize(),
                f"{theirs['mean']:.1f} ± {theirs['std']:.1f}",
                f"{ten[0] / 1e4:.2f} ± {ten[1] / 1e4:.2f}",
                verdict(ten[0] / 1e4, theirs),
                f"{all_[0] / 1e4:.2f} ± {all_[1] / 1e4:.2f}",
            ]
            lines.append(" | ".join([f"| {name}", *cells]) + " |")
    return "\n" + "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------- DeepFeCA

Run = list[dict[str, Any]]


def deep_runs(results: Path) -> dict[str, Run]:
    """The evaluated rows of every DeepFeCA run, by the name of its file; one file is one run."""
    runs = {}
    for path in sorted(results.glob("deep*.jsonl")):
        rows = [row for row in read_rows(path) if "linear_accuracy" in row]
        if rows:
            runs[path.stem] = rows
    return runs


def deepfeca(text: str, results: Path) -> str:
    """The page on DeepFeCA with all its numbers from the rows."""
    runs = deep_runs(results)
    text = fill(text, "quality", quality_table(runs))
    return fill(text, "runs", runs_table(runs))


def quality_table(runs: dict[str, Run], dataset: str = "cifar10") -> str:
    """Linear probe in percent, ours under the paper's, one line per configuration."""
    published = paper_tables()["table3_deepfeca_linear_eval"]["cells"]["CIFAR-10"]
    columns = [*SPLITS, "central"]
    lines = ["| | IID | Dirichlet(0.3) | Dirichlet(0.1) | centralized |", "|---|---|---|---|---|"]
    for name, cells in published.items():
        if name != "Centralized":
            values = [f"{cells[split]:.1f}" for split in SPLITS]
            last = f"{published['Centralized']['any']:.1f}" if name == "DeepFeCA" else ""
            lines.append(" | ".join([f"| the paper, {name}", *values, last]) + " |")
    ours: dict[str, dict[str, list[str]]] = {}
    for run in runs.values():
        row = run[-1]
        if row["dataset"] == dataset:
            split = f"dirichlet({row['alpha']:g})" if "alpha" in row else row["split"]
            value = f"{100 * row['linear_accuracy']:.1f} ({row['rounds']} rounds)"
            ours.setdefault(_configuration(row), {}).setdefault(split, []).append(value)
    for name, found in ours.items():
        values = [", ".join(found.get(split, ["-"])) for split in columns]
        lines.append(" | ".join([f"| ours, {name}", *values]) + " |")
    return "\n" + "\n".join(lines) + "\n"


def runs_table(runs: dict[str, Run]) -> str:
    """Every run with the options in which they differ: what was tried, and what came of it."""
    configs = [run[-1]["config"] for run in runs.values()]
    names = sorted({name for config in configs for name in config} - _SAID_ELSEWHERE)
    differ = [n for n in names if len({json.dumps(c.get(n)) for c in configs}) > 1]
    head = ["run", "configuration", "rounds", *differ, "linear", "neighbors", "views/s", "minutes"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, run in runs.items():
        row = run[-1]
        cells = [name, _configuration(row), str(row["rounds"])]
        cells += [str(row["config"].get(option, "")) for option in differ]
        cells += [f"{100 * row['linear_accuracy']:.1f}", f"{100 * row['knn_accuracy']:.1f}"]
        cells += [f"{row['views_per_second']:,.0f}", f"{row['seconds'] / 60:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n" + "\n".join(lines) + "\n"


_SAID_ELSEWHERE = {
    "clusterer", "n_clusters", "local_epochs", "n_rounds", "random_state", "device",
}  # fmt: skip


def _configuration(row: dict[str, Any]) -> str:
    """A configuration in a few words: method, clusters, local epochs."""
    config = row["config"]
    sizes = (
        config["n_clusters"] if isinstance(config["n_clusters"], list) else [config["n_clusters"]]
    )
    told = f"{METHODS[row['method']].label}, k = {sizes[0]}"
    told += f" in {len(sizes)} heads" if len(sizes) > 1 else ""
    return f"{told}, {config['local_epochs']} epochs a round"


def verdict(mean: float, theirs: dict[str, float]) -> str:
    """Our mean beside the paper's mean and standard deviation; smaller is better."""
    if mean < theirs["mean"] - theirs["std"]:
        return "better"
    return "within one std" if mean <= theirs["mean"] + theirs["std"] else "worse"


if __name__ == "__main__":  # pragma: no cover
    from fedjigsaw.bench import pictures

    results = Path("results")
    page = Path("README.md")
    write_whole(page, readme(page.read_text(), results).encode())
    page = Path("docs/deepfeca.md")
    write_whole(page, deepfeca(page.read_text(), results).encode())
    if deep_runs(results):
        figure = pictures.accuracy_over_rounds(deep_runs(results))
        write_whole(Path("docs/deepfeca.svg"), pictures.render(figure, ".svg"))
