"""Tables and the picture of docs/deepfeca.md, made from the rows of DeepFeCA's runs."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.paper import MAIN_SPLITS, PAPER_METHODS, paper_tables
from fedjigsaw.io.rows import read_rows
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.report.pictures import INK, PALE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run = list[dict[str, Any]]
PAPER_BATCH = 128
PAPER_EPOCHS = 750
EPOCHS = (10, 20, 50, 100, 170, 250, 400)
TITLES = {
    "iid": "IID",
    "dirichlet(0.3)": "Dirichlet(0.3)",
    "dirichlet(0.1)": "Dirichlet(0.1)",
    "central": "centralized",
}
PAPER_DATA = {  # names of data sets in the paper
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "Tiny-ImageNet",
}
N_CLASSES = {"cifar10": 10, "cifar100": 100, "tiny-imagenet": 200}  # the paper's k
# of images in commands; others are named like the data set
FOLDERS = {"cifar10": "cifar", "tiny-imagenet": "tiny-imagenet-200"}
OWN_SIZES = {"tiny-imagenet": 64}  # of images that can be scaled
USUAL_FINAL_RATE = 0.0005  # the defaults of DeepFeCA
USUAL_WEIGHT_DECAY = 0.0001
FIXED_PENALTY = 1e-4  # of the linear probe, before it was chosen for each network
TRIAL = "deep-try"  # prefix of files of short runs that compare options
EQUAL = "deep-table"  # prefix of files of runs that compare methods
BEST = "deep-swapped-dirichlet0.1-weight-decay"  # has the settings of the recipe `best`
PANELS = 2  # beside each other in the picture; more are too small to read on a page
AGAIN = "the same"  # in the legend: another run with the same configuration


def deep_runs(results: Path) -> dict[str, Run]:
    """Read the rows of every DeepFeCA run, by the name of its file; one file is one run."""
    paths = sorted(results.glob("deep*.jsonl"), key=lambda path: _by_number(path.stem))
    found = {path.stem: read_rows(path) for path in paths}
    return {name: rows for name, rows in found.items() if evaluated(rows)}


def _by_number(name: str) -> list[tuple[str, int]]:
    """Return a key that sorts numbers inside a name by value: 9 before 10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]


def evaluated(run: Run) -> Run:
    """Return the rows of a run that have an evaluation of the features.

    `deep evaluate` adds such rows, too; those of other images do not count.
    """
    own = (row for row in run if row.get("evaluated_on", row.get("dataset")) == row.get("dataset"))
    return [row for row in own if "linear_accuracy" in row]


def trained(run: Run) -> Run:
    """Return the rows of a run that a round of training wrote."""
    return [row for row in run if "evaluated_on" not in row]


def summary_table(runs: Mapping[str, Run]) -> str:
    """Linear probe in percent on each data set and split: the paper's, and two runs of ours.

    The first has the paper's method and number of clusters. The settings of the other are most
    like those of the recipe `best`; letters stand for other settings, listed below the table. Of
    several runs it is the longest, whatever the results are.
    """
    head = ["data, split", "the paper's other methods", "the paper, DeepFeCA"]
    head += ["ours, FeCA (epochs)", "ours, `best` (epochs)"]
    lines = []
    letters: dict[str, str] = {}
    for dataset, title in PAPER_DATA.items():
        published = _published(dataset)
        for split, name in TITLES.items():
            chosen = _most_like_best(runs, dataset, split)
            if split == "central":
                paper = ["-", f"{published['Centralized']['any']:.1f}"]
            else:
                others = [cells[split] for n, cells in published.items() if n in PAPER_METHODS]
                paper = [f"{min(others):.1f} to {max(others):.1f}"]
                paper += [f"{published['DeepFeCA'][split]:.1f}"]
            paper.append(_with_the_papers_method(runs, dataset, split))
            ours = "-"
            if chosen:
                row = evaluated(chosen)[-1]
                other = ", ".join(f"`{n}={v}`" for n, v in _unlike_best(runs, row).items())
                if other:
                    letters.setdefault(other, ascii_lowercase[len(letters)])
                ours = _percent(row) + (f" {letters[other]}" if other else "")
            lines.append([f"{title}, {name}", *paper, ours])
    notes = [f"- {letter}: {other}" for other, letter in letters.items()]
    return "\n".join([markdown_table(head, lines), *([""] if notes else []), *notes])


def _with_the_papers_method(runs: Mapping[str, Run], dataset: str, split: str) -> str:
    """Return the result of the longest run with FeCA and a cluster for each class."""
    rows = [evaluated(run)[-1] for run in _long_runs(runs, dataset, split).values()]
    same = [row for row in rows if _is_the_papers(row)]
    return _percent(max(same, key=_epochs)) if same else "-"


def _is_the_papers(row: Mapping[str, Any]) -> bool:
    """Tell whether a run has the paper's method and number of clusters."""
    return row["method"] == "feca" and _sizes(row) == [N_CLASSES[row["dataset"]]]


def _percent(row: Mapping[str, Any]) -> str:
    return f"{100 * row['linear_accuracy']:.1f} ({_length(row, 'epochs')})"


def _most_like_best(runs: Mapping[str, Run], dataset: str, split: str) -> Run | None:
    """Return the run of a data set and split to be shown beside the paper's, if there is one."""
    found = []
    for name, run in _long_runs(runs, dataset, split).items():
        row = evaluated(run)[-1]
        if _is_the_papers(row):  # it has a column of its own
            continue
        found.append((-len(_unlike_best(runs, row)), _epochs(row), name))
    return runs[max(found)[-1]] if found else None


def _long_runs(runs: Mapping[str, Run], dataset: str, split: str | None = None) -> dict[str, Run]:
    """Return the runs of a data set that do not only compare options or methods."""
    found = {}
    for name, run in runs.items():
        row = evaluated(run)[-1]
        here = row["dataset"] == dataset and split in (None, _split(row))
        if here and not name.startswith((TRIAL, EQUAL)):
            found[name] = run
    return found


def _unlike_best(runs: Mapping[str, Run], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that are not those of the recipe `best`.

    The number of clusters goes with the data, and the number of epochs has a column of its own.
    Pooled training has no choice of a clustering step.
    """
    best = _config(evaluated(runs[BEST])[-1]) if BEST in runs else {}
    compared = {"clusterer", "local_epochs", "batch_size"}  # elsewhere, they have columns
    compared -= {"clusterer"} if _split(row) == "central" else set()
    others = _SHOWN_ELSEWHERE - compared | _NOT_RESULTS
    config = _config(row)
    return {n: v for n, v in config.items() if n in best and n not in others and v != best[n]}


def quality_table(runs: Mapping[str, Run], dataset: str = "cifar10") -> str:
    """Linear probe in percent: the paper's, then ours, one line per configuration."""
    published = _published(dataset)
    lines = []
    for name, cells in published.items():
        if name != "Centralized":
            values = [f"{cells[split]:.1f}" for split in MAIN_SPLITS]
            last = f"{published['Centralized']['any']:.1f}" if name == "DeepFeCA" else ""
            lines.append([f"the paper, {name}", *values, last])
    ours: dict[str, dict[str, list[str]]] = {}
    for run in _long_runs(runs, dataset).values():
        row = evaluated(run)[-1]
        value = f"{100 * row['linear_accuracy']:.1f} ({_length(row, 'rounds')} rounds)"
        ours.setdefault(_configuration(row), {}).setdefault(_split(row), []).append(value)
    for name, found in ours.items():
        values = [", ".join(found.get(split, ["-"])) for split in TITLES]
        lines.append([f"ours, {name}", *values])
    return markdown_table(["linear probe, %", *TITLES.values()], lines)


def methods_table(runs: Mapping[str, Run], dataset: str = "cifar10") -> str:
    """Linear probe in percent with each method as the clustering step, the paper's in brackets.

    All runs count that differ in the method alone from the longest one that is named for it.
    """
    published = _published(dataset)
    lines = []
    last = {name: evaluated(run)[-1] for name, run in runs.items()}
    last = {name: row for name, row in last.items() if row["dataset"] == dataset}
    named = [row for name, row in last.items() if name.startswith(EQUAL)]
    same = _but_for_method(max(named, key=_epochs)) if named else None
    equal = [row for row in last.values() if _but_for_method(row) == same]
    for name, (method, params) in PAPER_METHODS.items():
        found = {
            _split(row): 100 * row["linear_accuracy"]
            for row in equal
            if row["method"] == method and (row["config"].get("clusterer_params") or {}) == params
        }
        theirs = published.get("DeepFeCA" if name == "FeCA" else name, {})
        paper = {s: f" ({theirs[s]:.1f})" if s in theirs else "" for s in MAIN_SPLITS}
        cells = [f"{found[s]:.1f}{paper[s]}" if s in found else "-" for s in MAIN_SPLITS]
        lines += [[name, *cells]] if found else []
    return markdown_table(["clustering step", *(TITLES[s] for s in MAIN_SPLITS)], lines)


def _but_for_method(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a network was trained, but for the method of its clustering step."""
    other = {"clusterer", "clusterer_params", *_NOT_RESULTS}
    config = {n: v for n, v in _config(row).items() if n not in other}
    return {**config, "rounds": row["rounds"]}


def runs_table(runs: Mapping[str, Run]) -> str:
    """Every run with the options in which runs differ, and its results."""
    differ = _differing(runs)
    head = ["run", "data", "split", "configuration", "rounds", *differ]
    head += ["linear", "held out", "penalty", "neighbors", "views/s", "minutes"]
    lines = []
    for name, run in runs.items():
        row, last = evaluated(run)[-1], trained(run)[-1]
        cells = [name, row["dataset"], _title(row), _configuration(row), str(last["rounds"])]
        cells += [str(_config(row).get(option, "")) for option in differ]
        early = "" if row["rounds"] == last["rounds"] else f" (after {row['rounds']})"
        linear, near = (f"{100 * row[f'{kind}_accuracy']:.1f}{early}" for kind in ("linear", "knn"))
        held = row.get("held_out_accuracy")
        cells += [linear, "-" if held is None else f"{100 * held:.1f}"]
        cells += [f"{row.get('probe_decay', FIXED_PENALTY):g}", near]
        cells += [f"{last['views_per_second']:,.0f}", f"{last['seconds'] / 60:.1f}"]
        lines.append(cells)
    return markdown_table(head, lines)


def progress_table(runs: Mapping[str, Run]) -> str:
    """NMI of clusters and classes after some numbers of epochs at each client."""
    head = ["run", "split", *(f"{n} epochs" for n in EPOCHS)]
    lines = []
    for name, run in runs.items():
        if name.startswith(EQUAL):  # they have a table of their own
            continue
        last = evaluated(run)[-1]
        n_epochs = last["config"]["local_epochs"]
        after = {row["rounds"] * n_epochs: f"{row['nmi']:.3f}" for row in run if "nmi" in row}
        lines.append([name, _title(last), *(after.get(n, "-") for n in EPOCHS)])
    return markdown_table(head, lines)


def choice_table(runs: Mapping[str, Run]) -> str:
    """What rounds tell without labels, beside the evaluation, where a run has both."""
    head = ["run", "round", "loss", "validation loss", "information", "agreement"]
    head += ["NMI with classes", "linear", "neighbors"]
    lines = []
    for name, run in runs.items():
        for row in evaluated(run):
            if "information" not in row:
                continue
            cells = [name, f"{row['rounds']} of {row['config']['n_rounds']}"]
            cells += [f"{row[n]:.2f}" for n in ("loss", "validation_loss", "information")]
            cells += [f"{row['agreement']:.2f}" if "agreement" in row else "-"]
            cells += [f"{row['nmi']:.3f}"]
            cells += [f"{100 * row[f'{kind}_accuracy']:.1f}" for kind in ("linear", "knn")]
            lines.append(cells)
    return markdown_table(head, lines)


def kept_table(runs: Mapping[str, Run]) -> str:
    """Linear probe in percent of the round that `--keep best` kept, and of the best evaluated."""
    lines = []
    for name, run in runs.items():
        for row in evaluated(run):
            if "best_linear_accuracy" not in row:
                continue
            best = max(evaluated(run), key=lambda row: row["linear_accuracy"])
            cells = [name, str(row["best_round"]), f"{100 * row['best_linear_accuracy']:.1f}"]
            lines.append([*cells, str(best["rounds"]), f"{100 * best['linear_accuracy']:.1f}"])
    return markdown_table(["run", "round kept", "linear", "best evaluated", "linear"], lines)


def speed_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Results of benchmarks/deep_speed.py."""
    head = ["batch x lanes", "clusters a head", "epochs a round", "views/s"]
    head += ["training, s", "clustering, s", "of the round", "to get ready, s", "memory, GB"]
    lines = []
    for row in rows:
        if "error" in row:
            continue
        cells = [row["variant"].replace("+", ", "), str(row["sizes"][0]), str(row["local_epochs"])]
        train, cluster, ready = (row[f"{part}_seconds"] for part in ("train", "cluster", "prepare"))
        cells += [f"{row['views_per_second']:,.0f}", f"{train:.1f}", f"{cluster:.1f}"]
        cells += [f"{cluster / (train + cluster):.0%}"]
        cells += [f"{ready:.1f}", f"{row.get('peak_gigabytes', 0):.1f}"]
        lines.append(cells)
    return markdown_table(head, lines)


def profile_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Where the server's thread was when a sampler looked, in percent of its looks."""
    lines = [[row["part"], f"{row['share']:.1%}"] for row in rows]
    return markdown_table(["the server waits for, or does", "of the time"], lines)


def wire_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """What weights in fewer bytes cost: one line per kind, with the results of all seeds."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(row["config"]["wire"], []).append(row)
    lines = []
    for kind, found in kinds.items():
        linear, near = (
            ", ".join(f"{100 * row[name]:.1f}" for row in found)
            for name in ("linear_accuracy", "knn_accuracy")
        )
        lines.append([f"`{kind}`", f"{found[0]['bytes_up']:,}", linear, near])
    return markdown_table(["`wire`", "bytes to the server a round", "linear", "neighbors"], lines)


def robust_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Results of benchmarks/deep_liars.py: nearest neighbors in percent, and NMI."""
    lies = list(dict.fromkeys(row["lie"] for row in rows))
    cells: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        cells.setdefault(row["rule"], {}).setdefault(row["lie"], []).append(row)
    lines = [
        [f"`{rule}`", *(_robust_cell(of.get(lie, [])) for lie in lies)]
        for rule, of in cells.items()
    ]
    return markdown_table(["robust_average", *lies], lines)


def _robust_cell(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the means over seeds, or that training failed."""
    if not rows or any("error" in row for row in rows):
        return "failed" if rows else "-"
    knn, nmi = (sum(row[name] for row in rows) / len(rows) for name in ("knn_accuracy", "nmi"))
    return f"{100 * knn:.1f}, {nmi:.2f}"


def commands(runs: Mapping[str, Run]) -> str:
    """Commands that make the rows of each run again, on a GPU."""
    lines = []
    for name, run in runs.items():
        row = evaluated(run)[-1]
        config = _config(row)
        folder = FOLDERS.get(row["dataset"], row["dataset"])
        size = _scaled(row)
        scaled = f" --size {size}" if size else ""
        words = [f"fedjigsaw deep train --data {folder}{scaled} --split", row["split"]]
        words += ["--alpha", f"{row['alpha']:g}"] if "alpha" in row else []
        words += ["--method", row["method"]] if row["split"] != "central" else []
        words += ["-k", ",".join(map(str, _sizes(row))), "--rounds", str(config["n_rounds"])]
        words += ["--local-epochs", str(config["local_epochs"])]
        words += ["--batch-size", str(config["batch_size"])]
        words += [
            f"-s {option}={json.dumps(config[option])}"
            for option in _differing(runs)
            if option in config
        ]
        inner = config.get("clusterer_params") or {}
        words += [f"-p {option}={json.dumps(value)}" for option, value in inner.items()]
        words += [f"-o {name}.st --rows {name}.jsonl"]
        lines.append(" ".join(words))
        if "evaluated_on" in row:
            images = f"--data {folder}{scaled}"
            lines.append(f"fedjigsaw deep evaluate {name}.st {images} --rows {name}.jsonl")
    return "```sh\n" + "\n".join(lines) + "\n```"


_SHOWN_ELSEWHERE = {
    "clusterer", "clusterer_params", "n_clusters", "local_epochs", "n_rounds",
    "random_state", "device", "batch_size",
}  # fmt: skip
_NOT_RESULTS = {"compile", "capture", "lanes"}  # how a result is computed, not what it is
# parameters that only some runs have, with the values that describe all others
_NOT_IN_ALL = {
    "capture": True, "centered": False, "compile": False, "lanes": 1, "targets": "stored",
    "target_softness": 0.25, "target_balance": "own", "stored_share": 0.0, "teacher_momentum": 0.99,
    "validation_share": 0.0, "robust_average": "mean", "wire": "float32",
    "stored_falls": False,  # was removed
}  # fmt: skip


def _config(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**_NOT_IN_ALL, **row["config"]}


def _differing(runs: Mapping[str, Run]) -> list[str]:
    """Return the options in which runs differ, except those shown in columns of their own."""
    configs = [_config(evaluated(run)[-1]) for run in runs.values()]
    names = sorted({name for config in configs for name in config} - _SHOWN_ELSEWHERE)
    return [n for n in names if len({json.dumps(c.get(n)) for c in configs}) > 1]


def _sizes(row: Mapping[str, Any]) -> list[int]:
    sizes: Any = row["config"]["n_clusters"]
    return sizes if isinstance(sizes, list) else [sizes]


def _configuration(row: dict[str, Any]) -> str:
    """Describe a configuration in a few words: method, clusters, local epochs, batches."""
    sizes = _sizes(row)
    inner = row["config"].get("clusterer_params") or {}
    text = ", ".join([CLUSTERERS[row["method"]].label, *(f"{n} = {v}" for n, v in inner.items())])
    text += f", k = {sizes[0]}"
    text += f" in {len(sizes)} heads" if len(sizes) > 1 else ""
    n_epochs = row["config"]["local_epochs"]
    text += f", {n_epochs} epoch{'s' * (n_epochs > 1)} a round"
    size, momentum = row["config"]["batch_size"], row["config"].get("server_momentum", 0)
    text += "" if size == PAPER_BATCH else f", batches of {size}"
    text += f", server momentum {momentum:g}" if momentum else ""
    targets = row["config"].get("targets", "stored")
    text += "" if targets == "stored" else f", {targets} targets"
    rate = row["config"].get("final_learning_rate", USUAL_FINAL_RATE)
    text += "" if rate == USUAL_FINAL_RATE else f", final rate {rate:g}"
    decay = row["config"].get("weight_decay", USUAL_WEIGHT_DECAY)
    text += "" if decay == USUAL_WEIGHT_DECAY else f", weight decay {decay:g}"
    size = _scaled(row)
    return text + (f", {size} x {size} pixels" if size else "")


def _scaled(row: Mapping[str, Any]) -> int | None:
    """Return the height that a run scaled its images to; None if they have their own size."""
    if row["dataset"] not in OWN_SIZES:
        return None
    height: int = row["image_size"][0]
    return None if height == OWN_SIZES[row["dataset"]] else height


def accuracy_over_epochs(runs: Mapping[str, Run], dataset: str = "cifar10") -> Figure:
    """Draw the linear probe over epochs of DeepFeCA, one panel per split, one line per run.

    Parameters
    ----------
    runs : rows of each run by name.
    """
    from matplotlib.transforms import ScaledTranslation

    by_split: dict[str, list[Run]] = {}
    for run in _long_runs(runs, dataset).values():
        rows = evaluated(run)
        by_split.setdefault(_split(rows[-1]), []).append(rows)
    published = _published(dataset)
    labels = {split: _legend(found) for split, found in by_split.items()}
    longest = max(sum(text.count("\n") + 1 for text in texts) for texts in labels.values())
    n_beside = min(PANELS, len(by_split))
    n_below = -(-len(by_split) // n_beside)
    figure = new_figure(3.4 * n_beside, n_below * (3.0 + 0.14 * longest))
    panels = figure.subplots(n_below, n_beside, sharey=True, squeeze=False)
    order = [*TITLES, *by_split]
    for axes, split in zip(panels.flat, sorted(by_split, key=order.index), strict=False):
        theirs = {**published["DeepFeCA"], "central": published["Centralized"]["any"]}
        if split in theirs:
            axes.axhline(
                theirs[split],
                color=INK,
                linewidth=0.8,
                linestyle=":",
                label=f"the paper, {PAPER_EPOCHS} epochs",
            )
        # lines of one color differ by these
        markers: dict[str, Iterator[str]] = defaultdict(lambda: iter("osD^vP*"))
        for rows, label in zip(by_split[split], labels[split], strict=True):
            color = CLUSTERERS[rows[-1]["method"]].color
            soft = rows[-1]["config"].get("targets", "stored") != "stored"
            dashes = "--" if label.startswith(AGAIN) else "-." if soft else "-"
            line = next(markers[color], "X") + dashes
            percent = {_epochs(row): 100 * row["linear_accuracy"] for row in rows}  # the latest
            axes.plot(*zip(*percent.items(), strict=True), line, ms=4, color=color, label=label)
        axes.set_title(_title(by_split[split][0][-1]))
        axes.set_xlabel("epochs")
        axes.set_xlim(left=0)
        axes.grid(color=PALE, linewidth=0.5)
        # a fixed way below the panel, however high that is
        below = axes.transAxes + ScaledTranslation(0, -0.45, figure.dpi_scale_trans)
        axes.legend(
            fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below
        )
    for axes in panels[:, 0]:
        axes.set_ylabel("linear probe, %")
    for axes in panels.flat[len(by_split) :]:
        axes.remove()
    return figure


def _legend(runs: Sequence[Run]) -> list[str]:
    """Return the words for each run of a panel: its configuration, or that it is the same again."""
    texts = [fill(_configuration(run[-1]), 36) for run in runs]
    return [
        f"{AGAIN}, {_length(run[-1], 'epochs')} epochs" if text in texts[:i] else text
        for i, (run, text) in enumerate(zip(runs, texts, strict=True))
    ]


def _split(row: Mapping[str, Any]) -> str:
    """Return the split of a run, as the paper's tables name it."""
    return f"dirichlet({row['alpha']:g})" if "alpha" in row else str(row["split"])


def _title(row: Mapping[str, Any]) -> str:
    return TITLES.get(_split(row), _split(row))


def _epochs(row: Mapping[str, Any]) -> int:
    """Return the number of epochs that a run has trained when it is evaluated."""
    return int(row["rounds"] * row["config"]["local_epochs"])


def _length(row: Mapping[str, Any], unit: str) -> str:
    """Return the number of rounds or epochs, of how many if a run ended before its schedule did."""
    each = row["config"]["local_epochs"] if unit == "epochs" else 1
    done, planned = each * row["rounds"], each * row["config"]["n_rounds"]
    return str(planned) if done == planned else f"{done} of {planned}"


def _published(dataset: str) -> dict[str, Any]:
    """Return the paper's linear probes on a data set, by method and split."""
    tables: dict[str, Any] = paper_tables()["table3_deepfeca_linear_eval"]["cells"]
    cells: dict[str, Any] = tables[PAPER_DATA[dataset]]
    return cells
