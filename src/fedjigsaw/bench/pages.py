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


def verdict(mean: float, theirs: dict[str, float]) -> str:
    """Our mean beside the paper's mean and standard deviation; smaller is better."""
    if mean < theirs["mean"] - theirs["std"]:
        return "better"
    return "within one std" if mean <= theirs["mean"] + theirs["std"] else "worse"


if __name__ == "__main__":  # pragma: no cover
    page = Path("README.md")
    write_whole(page, readme(page.read_text(), Path("results")).encode())
