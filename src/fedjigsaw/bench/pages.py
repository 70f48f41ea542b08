"""Rows -> pages: every number and picture of README and docs is made here, from rows in results/.

``python -m fedjigsaw.bench.pages`` in a checkout writes them anew; a test compares.
"""

import re
from pathlib import Path
from typing import Any

from fedjigsaw.bench.cells import over_seeds
from fedjigsaw.bench.deep_tables import (
    Run,
    accuracy_over_rounds,
    commands,
    deep_runs,
    methods_table,
    progress_table,
    quality_table,
    runs_table,
    speed_table,
)
from fedjigsaw.bench.figures import FIGURES, k_curves
from fedjigsaw.bench.jigsaw_tables import (
    auto_table,
    cifar_table,
    cost_table,
    mean,
    untuned_table,
)
from fedjigsaw.bench.jigsaw_tables import ssets_table as jigsaw_ssets
from fedjigsaw.bench.runner import result_file
from fedjigsaw.bench.studies import SSETS, THREE, paper_tables, studies
from fedjigsaw.bench.verdicts import SPLITS, WORDS, count_verdicts, tables, verdict
from fedjigsaw.errors import DataError, invalid
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.rows import read_rows
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.report.pictures import render


def build(root: Path) -> dict[Path, bytes]:
    """The content of every page and picture that is made from rows."""
    results = root / "results"
    readme_file, page = root / "README.md", root / "docs" / "reproduction.md"
    made = {
        readme_file: readme(readme_file.read_text(), results).encode(),
        page: reproduction(page.read_text(), results).encode(),
    }
    page = root / "docs" / "jigsaw.md"
    made[page] = jigsaw(page.read_text(), results).encode()
    page = root / "docs" / "deepfeca.md"
    runs = deep_runs(results)
    speed = read_rows(results / "deep-speed.jsonl")
    made[page] = deepfeca(page.read_text(), runs, speed).encode()
    if runs:
        made[page.with_suffix(".svg")] = render(accuracy_over_rounds(runs), ".svg")
    rows = {name: read_rows(result_file(results, name)) for name in studies()}
    for name, draw in FIGURES.items():
        made[root / "docs" / "reproduction" / f"{name}.svg"] = render(draw(rows), ".svg")
    made[root / "docs" / "jigsaw-k.svg"] = render(k_curves(rows["k-curve"]), ".svg")
    return made


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->``."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise DataError(invalid("marks", "a page", f"one {start} and one {end}", "others"))
    before, _, rest = text.partition(start)
    return before + start + content + end + rest.partition(end)[2]


def readme(text: str, results: Path) -> str:
    """The README with all its numbers from the rows."""
    benchmarks = read_rows(results / "benchmarks.jsonl")
    (overhead,) = [row["ratio"] for row in benchmarks if row["benchmark"] == "overhead"]
    grouped = [row for row in benchmarks if row["benchmark"] == "aggregation"]
    times = [row["seconds"] for row in grouped if row["n_centers"] == 100_000]
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
            CLUSTERERS[row["method"]].label,
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
    for name in SSETS:
        for split in THREE:
            theirs = published[name]["FeCA"][split]
            stem = f"{name}-{split}".lower().replace("(", "").replace(")", "")
            rows = read_rows(folder / f"{stem}.jsonl")
            ten, all_ = (over_seeds(part)["l2"] for part in (rows[:10], rows))
            cells = [
                SPLITS[split],
                f"{theirs['mean']:.1f} ± {theirs['std']:.1f}",
                f"{ten[0] / 1e4:.2f} ± {ten[1] / 1e4:.2f}",
                WORDS[verdict("l2", ten[0] / 1e4, (theirs["mean"], theirs["std"]))],
                f"{all_[0] / 1e4:.2f} ± {all_[1] / 1e4:.2f}",
            ]
            lines.append(" | ".join([f"| {name}", *cells]) + " |")
    return "\n" + "\n".join(lines) + "\n"


def jigsaw(text: str, results: Path) -> str:
    """The page on Jigsaw with all its tables from the rows."""
    names = ("table1", "table2", "table2-more", "best", "auto-k", "untuned", "benchmarks")
    rows = {name: read_rows(result_file(results, name)) for name in names}
    text = fill(text, "ssets", jigsaw_ssets(rows["table1"], rows["best"]))
    floor = [f"{mean(rows['best'], name, 'l2') / 1e4:.2f}" for name in SSETS]
    text = fill(text, "floor", ", ".join(floor))
    text = fill(text, "cifar", cifar_table([*rows["table2"], *rows["table2-more"]]))
    text = fill(text, "auto", auto_table(rows["auto-k"]))
    text = fill(text, "untuned", untuned_table(rows["untuned"]))
    return fill(text, "cost", cost_table(rows["benchmarks"]))


def reproduction(text: str, results: Path) -> str:
    """The page that shows every table of the paper, ours beside it."""
    summary = ["| table | better | within | worse |", "|---|---|---|---|"]
    for study in studies().values():
        if not study.numbers:
            continue
        rows = read_rows(result_file(results, study.name))
        parts = [f"**{title}**\n\n{table}" for title, table in tables(study, rows).items()]
        text = fill(text, study.name, "\n" + "\n\n".join(parts) + "\n")
        counts = count_verdicts(study, rows)
        if any(counts.values()):
            anchor = f"[{study.name}](#{study.name})"
            summary.append(" | ".join([f"| {anchor}", *map(str, counts.values())]) + " |")
    return fill(text, "summary", "\n" + "\n".join(summary) + "\n")


def deepfeca(text: str, runs: dict[str, Run], speed: Run) -> str:
    """The page on DeepFeCA with all its numbers from the rows."""
    text = fill(text, "quality", quality_table(runs))
    text = fill(text, "methods", methods_table(runs))
    text = fill(text, "runs", runs_table(runs))
    text = fill(text, "progress", progress_table(runs))
    text = fill(text, "speed", speed_table(speed))
    return fill(text, "commands", commands(runs))


# matplotlib names clip paths and markers by a hash of their coordinates
_HASHED = re.compile(rb'(?<=["#])([a-z]*)[0-9a-f]{10}(?=[")])')
_NUMBER = re.compile(rb"(\d+\.\d+|\d+)")
_ROUNDING = 1e-5  # of a point: less than any digit of a label, and than any eye can see


def same_content(one: bytes, other: bytes) -> bool:
    """Compare two pages or pictures, apart from how a processor rounds an SVG's coordinates.

    Pages must be equal. In an SVG, the last digit of a coordinate may differ, and with it the
    generated names; everything that is drawn or written must be equal.
    """
    if not one.startswith(b"<?xml"):
        return one == other
    first, second = (_NUMBER.split(_numbered(content)) for content in (one, other))
    return len(first) == len(second) and all(
        a == b or (place % 2 == 1 and abs(float(a) - float(b)) < _ROUNDING)
        for place, (a, b) in enumerate(zip(first, second, strict=True))
    )


def _numbered(content: bytes) -> bytes:
    """Replace each generated name by its place among all such names."""
    places: dict[bytes, int] = {}

    def numbered(match: re.Match[bytes]) -> bytes:
        return b"%b%d" % (match[1], places.setdefault(match[0], len(places)))

    return _HASHED.sub(numbered, content)


if __name__ == "__main__":  # pragma: no cover
    for path, content in build(Path()).items():
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or not same_content(path.read_bytes(), content):
            write_whole(path, content)
