"""Make every number and picture of README and docs from the rows in results/.

``python -m fedjigsaw.bench.pages`` in a checkout writes them; a test compares. In a page, made text
lies between ``<!-- name -->`` and ``<!-- /name -->``; all else is written by hand.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from fedjigsaw.bench import (
    deep_picture,
    deep_runs,
    deep_tables,
    hard_tables,
    jigsaw_tables,
    peer_tables,
    privacy_attack_tables,
    privacy_tables,
    speed_picture,
    speed_tables,
)
from fedjigsaw.bench.figures import FIGURES, confidences, k_curves
from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.paper import SPLIT_TITLES, SSETS
from fedjigsaw.bench.region_cells import regions_table
from fedjigsaw.bench.shape_cells import shapes_table
from fedjigsaw.bench.split_figures import class_figure, region_figure
from fedjigsaw.bench.studies import studies
from fedjigsaw.bench.verdicts import WORDS, count_verdicts, tables, verdict
from fedjigsaw.bench.year_table import year_table, year_verdict
from fedjigsaw.comparison.measures import mean_and_std
from fedjigsaw.errors import DataError
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.rows import Row, read_rows
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.report.pictures import render

Rows = Mapping[str, list[Row]]


def build(root: Path) -> dict[Path, bytes]:
    """Return the content of every page and picture that is made from rows."""
    results, docs = root / "results", root / "docs"
    rows = {path.stem: read_rows(path) for path in results.glob("*.jsonl")}
    runs = deep_runs.read_runs(results)
    pages: dict[Path, Callable[[str, Rows], str]] = {
        root / "README.md": readme,
        docs / "reproduction.md": reproduction,
        docs / "jigsaw.md": jigsaw,
        docs / "privacy.md": privacy,
        docs / "operations.md": operations,
        docs / "performance.md": performance,
        docs / "peers.md": peers,
        docs / "deepfeca.md": lambda text, rows: deepfeca(text, runs, rows),
    }
    made = {path: make(path.read_text(), rows).encode() for path, make in pages.items()}
    figures = {docs / "reproduction" / f"{name}.svg": draw(rows) for name, draw in FIGURES.items()}
    figures[docs / "jigsaw-k.svg"] = k_curves(rows["k-curve"])
    figures[docs / "jigsaw-confidence.svg"] = confidences(rows["auto-hard"])
    figures[docs / "splits.svg"] = class_figure()
    figures[docs / "splits-regions.svg"] = region_figure()
    figures[docs / "performance.svg"] = speed_picture.seconds_over_sizes(rows["benchmarks"])
    if runs:
        figures[docs / "deepfeca.svg"] = deep_picture.accuracy_over_epochs(runs)
    return made | {path: render(figure, ".svg") for path, figure in figures.items()}


def fill(text: str, name: str, content: str) -> str:
    """Replace the text between ``<!-- name -->`` and ``<!-- /name -->``."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise DataError(f"The page needs one {start} and one {end} to put its text between.")
    before, _, rest = text.partition(start)
    return before + start + content + end + rest.partition(end)[2]


def fill_block(text: str, name: str, content: str) -> str:
    """Replace the lines between two marks."""
    return fill(text, name, f"\n{content}\n")


def readme(text: str, rows: Rows) -> str:
    """Fill in all numbers of the README."""
    benchmarks = rows["benchmarks"]
    (overhead,) = [row["ratio"] for row in benchmarks if row["benchmark"] == "overhead"]
    grouped = [row for row in benchmarks if row["benchmark"] == "aggregation"]
    times = [row["seconds"] for row in grouped if row["n_centers"] == 100_000]
    memory = [row["peak_megabytes"] for row in benchmarks if row["benchmark"] == "large_file"]
    text = fill(text, "large", f"{max(memory):.0f}")
    text = fill(text, "overhead", f"{overhead:.2f}")
    text = fill(text, "aggregation", f"{min(times):.1f} to {max(times):.1f}")
    text = fill_block(text, "demo", demo_table(rows["demo"]))
    plain = rows["ssets-sklearn"]
    ten, all_ = (mean_and_std(part)["l2"][0] / 1e4 for part in (plain[:10], plain))
    text = fill(text, "plain", f"{ten:.1f} and {all_:.1f}")
    overview = jigsaw_tables.overview_table(rows["table1"], rows["best"])
    text = fill_block(text, "overview", overview)
    return fill_block(text, "ssets", ssets_table(rows["ssets"]))


def demo_table(rows: list[Row]) -> str:
    """Write what `fedjigsaw demo` prints, without the seconds, which differ in every run."""
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
    return "\n".join(["```", "15 Gaussians, 10 clients, Dirichlet(0.3)", *text, "```"])


def ssets_table(rows: list[Row]) -> str:
    """Write FeCA's numbers on the S-sets beside the paper's, for its ten seeds and for all."""
    lines = []
    for plan in studies()["ssets"].plans:
        name, split = plan.name.split("/")
        theirs = plan.published["l2"]
        group = [row for row in rows if row["cell"] == plan.name]
        (mean, std), (mean_all, std_all) = (
            [value / 1e4 for value in mean_and_std(part)["l2"]] for part in (group[:10], group)
        )
        lines.append(
            [
                name,
                SPLIT_TITLES[split],
                "{:.1f} ± {:.1f}".format(*theirs),
                f"{mean:.2f} ± {std:.2f}",
                WORDS[verdict("l2", mean, theirs)],
                f"{mean_all:.2f} ± {std_all:.2f}",
            ]
        )
    head = ["data", "split", "paper", "ours, 10 seeds", "verdict", "ours, 100 seeds"]
    return markdown_table(head, lines)


def jigsaw(text: str, rows: Rows) -> str:
    """Fill in all tables of the page on Jigsaw."""
    best = rows["best"]
    text = fill_block(text, "ssets", jigsaw_tables.ssets_table(rows["table1"], best))
    floor = [f"{jigsaw_tables.mean(best, name, 'l2') / 1e4:.2f}" for name in SSETS]
    text = fill(text, "floor", ", ".join(floor))
    features = [*rows["table2"], *rows["table2-more"]]
    text = fill_block(text, "cifar", jigsaw_tables.cifar_table(features))
    text = fill_block(text, "auto", jigsaw_tables.auto_table(rows["auto-k"]))
    for name, make in hard_tables.TABLES.items():
        text = fill_block(text, name, make(hard_tables.HardRuns(rows["auto-hard"])))
    text = fill_block(text, "untuned", jigsaw_tables.untuned_table(rows["untuned"]))
    text = fill_block(text, "shapes", shapes_table(rows["shapes"]))
    text = fill_block(text, "regions", regions_table(rows["regions"]))
    return fill_block(text, "cost", jigsaw_tables.cost_table(rows["benchmarks"]))


def reproduction(text: str, rows: Rows) -> str:
    """Fill in every table of the paper, ours beside it, and a summary of the verdicts."""
    summary = []
    for study in studies().values():
        if not study.numbers or study.page != "reproduction":
            continue
        made = tables(study, rows[study.name])
        parts = [f"**{title}**\n\n{table}" for title, table in made.items()]
        text = fill_block(text, study.name, "\n\n".join(parts))
        counts = count_verdicts(study, rows[study.name])
        if any(counts.values()):
            summary.append([f"[{study.name}](#{study.name})", *map(str, counts.values())])
    head = ["table", "better", "within", "worse"]
    return fill_block(text, "summary", markdown_table(head, summary))


def privacy(text: str, rows: Rows) -> str:
    """Fill in what privacy costs, what other methods reach, and what attackers find out."""
    ratios = privacy_tables.Ratios(rows["privacy"])
    text = fill_block(text, "cost", privacy_tables.cost_table(ratios))
    text = fill_block(text, "s1", privacy_tables.s1_table(ratios))
    text = fill_block(text, "peers", privacy_tables.peers_table(ratios))
    for name, make in privacy_attack_tables.TABLES.items():
        text = fill_block(text, name, make(rows["privacy"]))
    return text


def operations(text: str, rows: Rows) -> str:
    """Fill in the page about operation."""
    text = fill(text, "year", year_verdict(rows["year"]))
    return fill_block(text, "year-weeks", year_table(rows["year"]))


def performance(text: str, rows: Rows) -> str:
    """Fill in what was measured about speed and memory."""
    for name, make in speed_tables.TABLES.items():
        text = fill_block(text, name, make(rows["benchmarks"]))
    text = fill_block(text, "backends", speed_tables.backends_table())
    text = fill(text, "grouping", speed_tables.grouping(rows["benchmarks"]))
    return fill(text, "growth", speed_tables.growth(rows["benchmarks"]))


def peers(text: str, rows: Rows) -> str:
    """Fill in the tables of the page on other methods."""
    for name, make in peer_tables.TABLES.items():
        text = fill_block(text, name, make(rows["peers"]))
    return fill_block(text, "authors", peer_tables.authors_table(rows["peers-authors"]))


def deepfeca(text: str, runs: Mapping[str, deep_runs.Run], rows: Rows) -> str:
    """Fill in all numbers of the page on DeepFeCA."""
    text = fill_block(text, "summary", deep_tables.summary_table(runs))
    text = fill_block(text, "quality", deep_tables.quality_table(runs))
    for dataset in ("cifar100", "tiny-imagenet"):
        table = deep_tables.quality_table(runs, dataset)
        text = fill_block(text, f"quality-{dataset}", table)
    text = fill_block(text, "methods", deep_tables.methods_table(runs))
    text = fill_block(text, "runs", deep_tables.runs_table(runs))
    text = fill_block(text, "kept", deep_tables.kept_table(runs))
    text = fill_block(text, "choice", deep_tables.choice_table(runs))
    text = fill_block(text, "progress", deep_tables.progress_table(runs))
    text = fill_block(text, "speed", deep_tables.speed_table(rows["deep-speed"]))
    text = fill_block(text, "profile", deep_tables.profile_table(rows["deep-profile"]))
    averages = deep_tables.averages_table(runs, rows["averaged-rounds"])
    text = fill_block(text, "averages", averages)
    text = fill_block(text, "wire", deep_tables.wire_table(rows["wire"]))
    return fill_block(text, "commands", deep_tables.commands(runs))


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
