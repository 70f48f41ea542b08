"""Tables of docs/deepfeca.md, made from the rows of DeepFeCA's runs."""

import json
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

from fedjigsaw.bench.deep_runs import (
    EQUAL,
    NOT_RESULTS,
    PAPER_DATA,
    SHOWN_ELSEWHERE,
    TITLES,
    Run,
    config_of,
    configuration,
    epochs_of,
    evaluated,
    length_of,
    long_runs,
    published_cells,
    scaled_height,
    sizes_of,
    split_of,
    title_of,
    trained,
    unlike_best,
)
from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.paper import MAIN_SPLITS, PAPER_METHODS

EPOCHS = (10, 20, 50, 100, 170, 250, 400)
N_CLASSES = {"cifar10": 10, "cifar100": 100, "tiny-imagenet": 200}
# of images in commands; others are named like the data set
FOLDERS = {"cifar10": "cifar", "tiny-imagenet": "tiny-imagenet-200"}
LONGEST = "deep-fedu2"  # prefix of runs of `best` with the epochs of other methods
FIXED_PENALTY = 1e-4  # of the linear probe, before it was chosen for each network


def summary_table(runs: Mapping[str, Run]) -> str:
    """Linear probe in percent on each data set and split: the paper's, and two runs of ours.

    The first has the paper's method, and a cluster for each class. The settings of the other are
    most like those of the recipe `best`; letters stand for other settings, listed below the table.
    Of several runs it is the longest, whatever the results are.
    """
    head = ["data, split", "the paper's other methods", "the paper, DeepFeCA"]
    head += ["ours, FeCA (epochs)", "ours, `best` (epochs)"]
    lines = []
    letters: dict[str, str] = {}
    for dataset, title in PAPER_DATA.items():
        published = published_cells(dataset)
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
                other = ", ".join(f"`{n}={v}`" for n, v in unlike_best(runs, row).items())
                if other:
                    letters.setdefault(other, ascii_lowercase[len(letters)])
                ours = _percent(row) + (f" {letters[other]}" if other else "")
            lines.append([f"{title}, {name}", *paper, ours])
    notes = [f"- {letter}: {other}" for other, letter in letters.items()]
    return "\n".join([markdown_table(head, lines), *([""] if notes else []), *notes])


def _with_the_papers_method(runs: Mapping[str, Run], dataset: str, split: str) -> str:
    """Return the result of the longest run with FeCA and a cluster for each class."""
    rows = [evaluated(run)[-1] for run in long_runs(runs, dataset, split).values()]
    same = [row for row in rows if _is_the_papers(row)]
    return _percent(max(same, key=epochs_of)) if same else "-"


def _is_the_papers(row: Mapping[str, Any]) -> bool:
    """Tell whether a run has the paper's method, and a cluster for each class.

    The paper does not say how many clusters it had.
    """
    return row["method"] == "feca" and sizes_of(row) == [N_CLASSES[row["dataset"]]]


def _percent(row: Mapping[str, Any]) -> str:
    return f"{100 * row['linear_accuracy']:.1f} ({length_of(row, 'epochs')})"


def _most_like_best(runs: Mapping[str, Run], dataset: str, split: str) -> Run | None:
    """Return the run of a data set and split to be shown beside the paper's, if there is one."""
    found = []
    for name, run in long_runs(runs, dataset, split).items():
        row = evaluated(run)[-1]
        if _is_the_papers(row):  # it has a column of its own
            continue
        found.append((-len(unlike_best(runs, row)), epochs_of(row), name))
    return runs[max(found)[-1]] if found else None


def quality_table(runs: Mapping[str, Run], dataset: str = "cifar10") -> str:
    """Linear probe in percent: the paper's, then ours, one line per configuration."""
    published = published_cells(dataset)
    lines = []
    for name, cells in published.items():
        if name != "Centralized":
            values = [f"{cells[split]:.1f}" for split in MAIN_SPLITS]
            last = f"{published['Centralized']['any']:.1f}" if name == "DeepFeCA" else ""
            lines.append([f"the paper, {name}", *values, last])
    ours: dict[str, dict[str, list[str]]] = {}
    for run in long_runs(runs, dataset).values():
        row = evaluated(run)[-1]
        value = f"{100 * row['linear_accuracy']:.1f} ({length_of(row, 'rounds')} rounds)"
        ours.setdefault(configuration(row), {}).setdefault(split_of(row), []).append(value)
    for name, found in ours.items():
        values = [", ".join(found.get(split, ["-"])) for split in TITLES]
        lines.append([f"ours, {name}", *values])
    return markdown_table(["linear probe, %", *TITLES.values()], lines)


def methods_table(runs: Mapping[str, Run], dataset: str = "cifar10") -> str:
    """Linear probe in percent with each method as the clustering step, the paper's in brackets.

    All runs count that differ in the method alone from the longest one that is named for it.
    """
    published = published_cells(dataset)
    lines = []
    last = {name: evaluated(run)[-1] for name, run in runs.items()}
    last = {name: row for name, row in last.items() if row["dataset"] == dataset}
    named = [row for name, row in last.items() if name.startswith(EQUAL)]
    same = _but_for_method(max(named, key=epochs_of)) if named else None
    equal = [row for row in last.values() if _but_for_method(row) == same]
    for name, (method, params) in PAPER_METHODS.items():
        found = {
            split_of(row): 100 * row["linear_accuracy"]
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
    other = {"clusterer", "clusterer_params", *NOT_RESULTS}
    config = {n: v for n, v in config_of(row).items() if n not in other}
    return {**config, "rounds": row["rounds"]}


def runs_table(runs: Mapping[str, Run]) -> str:
    """Every run with the options in which runs differ, and its results."""
    differ = _differing(runs)
    head = ["run", "data", "split", "configuration", "rounds", *differ]
    head += ["linear", "held out", "penalty", "neighbors", "views/s", "minutes"]
    lines = []
    for name, run in runs.items():
        row, last = evaluated(run)[-1], trained(run)[-1]
        cells = [name, row["dataset"], title_of(row), configuration(row), str(last["rounds"])]
        cells += [str(config_of(row).get(option, "")) for option in differ]
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
        lines.append([name, title_of(last), *(after.get(n, "-") for n in EPOCHS)])
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
    head += ["measured rounds", "code"]
    lines = []
    for row in rows:
        if "error" in row:
            continue
        cells = [row["variant"].replace("+", ", "), str(row["sizes"][0]), str(row["local_epochs"])]
        train, cluster, ready = (row[f"{part}_seconds"] for part in ("train", "cluster", "prepare"))
        cells += [f"{row['views_per_second']:,.0f}", f"{train:.1f}", f"{cluster:.2f}"]
        cells += [f"{cluster / (train + cluster):.0%}"]
        cells += [f"{ready:.1f}", f"{row.get('peak_gigabytes', 0):.1f}"]
        cells += [str(row.get("rounds_measured", 1)), row["commit"][:8]]
        lines.append(cells)
    return markdown_table(head, lines)


def profile_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Where the server's thread was when a sampler looked, in percent of its looks."""
    lines = [[row["part"], f"{row['share']:.1%}"] for row in rows]
    return markdown_table(["the server waits for, or does", "of the time"], lines)


def averages_table(runs: Mapping[str, Run], rows: Sequence[Mapping[str, Any]]) -> str:
    """What the mean of the weights of the last rounds is worth, below those of the last one."""
    last = [evaluated(run)[-1] for name, run in runs.items() if name.startswith(LONGEST)]
    lines = []
    for row in sorted([*last, *rows], key=lambda row: (row["config"]["n_rounds"], row["seed"])):
        cells = [row["seed"], row["config"]["local_epochs"], row.get("averaged_rounds", 1)]
        cells += [f"{100 * row[f'{kind}_accuracy']:.1f}" for kind in ("linear", "held_out", "knn")]
        lines.append([*map(str, cells), f"{row['probe_decay']:g}"])
    head = ["seed", "epochs a round", "last rounds", "linear", "held out", "neighbors", "penalty"]
    return markdown_table(head, lines)


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


def commands(runs: Mapping[str, Run]) -> str:
    """Commands that make the rows of each run again, on a GPU."""
    lines = []
    for name, run in runs.items():
        row = evaluated(run)[-1]
        config = config_of(row)
        folder = FOLDERS.get(row["dataset"], row["dataset"])
        size = scaled_height(row)
        scaled = f" --size {size}" if size else ""
        words = [f"fedjigsaw deep train --data {folder}{scaled} --split", row["split"]]
        words += ["--alpha", f"{row['alpha']:g}"] if "alpha" in row else []
        words += ["--method", row["method"]] if row["split"] != "central" else []
        words += ["-k", ",".join(map(str, sizes_of(row))), "--rounds", str(config["n_rounds"])]
        words += ["--local-epochs", str(config["local_epochs"])]
        words += ["--batch-size", str(config["batch_size"])]
        words += ["--seed", str(row["seed"])] if row.get("seed") else []
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


def _differing(runs: Mapping[str, Run]) -> list[str]:
    """Return the options in which runs differ, except those shown in columns of their own."""
    configs = [config_of(evaluated(run)[-1]) for run in runs.values()]
    names = sorted({name for config in configs for name in config} - SHOWN_ELSEWHERE)
    return [n for n in names if len({json.dumps(c.get(n)) for c in configs}) > 1]
