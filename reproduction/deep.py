"""The tables of DeepFeCA's runs, from ``results/deep.jsonl`` and files ``results/deep-*.jsonl``.

Runs need a GPU for minutes to hours, so they are no studies: ``deep train --rows`` writes a row for
each round of a run to a file of its own, of which :func:`folded` makes one row.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjigsaw.deep import DeepFeCA
from reproduction.studies import MISSING, Row, definitions, markdown, paper, read

BEST = "deep-swapped-dirichlet0.1-weight-decay"  # has the settings of the recipe `best`
TRIAL, EQUAL = "deep-try", "deep-table"  # prefixes: short runs, and those that compare methods
SPLITS = ("iid", "dirichlet(0.3)", "dirichlet(0.1)", "central")
TITLES = ("IID", "Dirichlet(0.3)", "Dirichlet(0.1)", "centralized")
DATA = {  # name in the paper, number of classes, folder of the images
    "cifar10": ("CIFAR-10", 10, "cifar"),
    "cifar100": ("CIFAR-100", 100, "cifar100"),
    "tiny-imagenet": ("Tiny-ImageNet", 200, "tiny-imagenet-200"),
}
HOW = {"compile", "capture", "lanes", "device", "random_state"}  # how, not what is computed
SHOWN = {"clusterer", "clusterer_params", "n_clusters", "n_rounds", "local_epochs", "batch_size"}
MEASURED = ("linear_accuracy", "held_out_accuracy", "knn_accuracy")
SETTINGS = set(DeepFeCA().configuration())  # of today: runs may have had others
OF_A_ROUND = ("cluster_seconds", "train_seconds", "round_seconds", "learning_rate", "collapsed")


def runs(folder: Path) -> dict[str, Row]:
    """Return the row of every run that was evaluated, by its name."""
    found = {row["run"]: row for row in read(folder, "deep") if "linear_accuracy" in row}
    for path in sorted(folder.glob("deep-*.jsonl")):
        row = folded(path.stem, read(folder, path.stem))
        if row:
            found[path.stem] = row
    return found


def folded(name: str, rows: Iterable[Row]) -> Row:
    """Return one row of a run: its last evaluation, and its best; empty if there is none."""
    own = [row for row in rows if row.get("evaluated_on", row.get("dataset")) == row.get("dataset")]
    found = [row for row in own if "linear_accuracy" in row]
    if not found:
        return {}
    best = max(found, key=lambda row: float(row["linear_accuracy"]))
    trained = [row for row in own if "evaluated_on" not in row][-1]
    last = {n: v for n, v in {**trained, **found[-1]}.items() if n not in OF_A_ROUND}
    more = {
        "best_evaluated": best["linear_accuracy"],
        "best_evaluated_rounds": best["rounds"],
        "trained_rounds": trained["rounds"],
        "views_per_second": trained["views_per_second"],
        "seconds": trained["seconds"],
    }
    return {"run": name, **last, **more}


def deep_sections(folder: Path) -> list[str]:
    """Return the tables of the page."""
    found = runs(folder)
    made = f"`results/deep.jsonl`: {len(found)} runs on one H200. Again: the commands below."
    return [
        "### deepfeca",
        "Linear probe in percent (epochs at each client). A column is the paper's method, with a "
        "cluster for each class; the next is the run most like the recipe `best`, with the "
        "settings that differ. Of several runs it is the longest, whatever the results are.",
        made,
        _summary(found) if found else "There are no rows yet.",
        "**Other methods as the clustering step** (the paper's in brackets), CIFAR-10, equal runs",
        _methods(found),
        "### deepfeca-runs",
        "All runs, with the settings that differ from those of the recipe `best`.",
        _runs(found),
        "### deepfeca-commands",
        "```sh\n" + "\n".join(_command(row, found) for row in found.values()) + "\n```",
    ]


def split_of(row: Row) -> str:
    """Return the split of a run, as the paper's tables name it."""
    return f"dirichlet({row['alpha']:g})" if "alpha" in row else str(row["split"])


def _published(dataset: str) -> dict[str, Any]:
    cells: dict[str, Any] = paper()["table3_deepfeca_linear_eval"]["cells"][DATA[dataset][0]]
    return cells


def _sizes(row: Row) -> list[int]:
    sizes: Any = row["config"]["n_clusters"]
    return sizes if isinstance(sizes, list) else [sizes]


def _epochs(row: Row) -> int:
    return int(row["rounds"] * row["config"]["local_epochs"])


def _percent(row: Row) -> str:
    return f"{100 * row['linear_accuracy']:.1f} ({_epochs(row)})"


def _differing(row: Row, other: Row, apart: Iterable[str] = ()) -> dict[str, Any]:
    """Return the settings of a run that are not those of another."""
    ours, theirs = row["config"], other["config"]
    names = (ours.keys() & theirs.keys()) - HOW - set(apart)
    return {n: ours[n] for n in sorted(names) if (ours[n] or None) != (theirs[n] or None)}


def _summary(found: Mapping[str, Row]) -> str:
    lines = []
    for dataset, (title, n_classes, _) in DATA.items():
        published = _published(dataset)
        for split, name in zip(SPLITS, TITLES, strict=True):
            own = [
                row
                for run, row in found.items()
                if (row["dataset"], split_of(row)) == (dataset, split)
                and not run.startswith((TRIAL, EQUAL))
            ]
            is_paper = [row["method"] == "feca" and _sizes(row) == [n_classes] for row in own]
            same = [row for row, is_same in zip(own, is_paper, strict=True) if is_same]
            rest = [row for row, is_same in zip(own, is_paper, strict=True) if not is_same]
            if split == "central":
                theirs = [MISSING, f"{published['Centralized']['any']:.1f}"]
            else:
                others = [c[split] for n, c in published.items() if split in c and n != "DeepFeCA"]
                theirs = [f"{min(others):.1f} to {max(others):.1f}"]
                theirs += [f"{published['DeepFeCA'][split]:.1f}"]
            cells = [_percent(max(same, key=_epochs)) if same else MISSING]
            cells += _most_like(found[BEST], rest) if rest else [MISSING, ""]
            lines.append([f"{title}, {name}", *theirs, *cells])
    head = ["data, split", "the paper's other methods", "the paper, DeepFeCA"]
    return markdown([*head, "ours, FeCA", "ours, `best`", "but for"], lines)


def _most_like(best: Row, rows: Sequence[Row]) -> list[str]:
    apart = {"n_clusters", "n_rounds", "clusterer_params"}

    def differ(row: Row) -> dict[str, Any]:
        return _differing(
            row, best, apart | ({"clusterer"} if row["split"] == "central" else set())
        )

    row = min(rows, key=lambda row: (len(differ(row)), -_epochs(row)))
    return [_percent(row), _told(differ(row))]


def _told(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in settings.items())


def _methods(found: Mapping[str, Row]) -> str:
    cifar = {name: row for name, row in found.items() if row["dataset"] == "cifar10"}
    named = [row for name, row in cifar.items() if name.startswith(EQUAL)]
    if not named:
        return "There are no rows yet."
    like, apart = max(named, key=_epochs), {"clusterer", "clusterer_params"}
    equal = [
        row
        for row in cifar.values()
        if row["rounds"] == like["rounds"] and not _differing(row, like, apart)
    ]
    published = {**_published("cifar10")}
    published["FeCA"] = published.pop("DeepFeCA")
    lines = []
    for name, method in definitions()["axes"]["methods"].items():
        params = {} if name == "k-FED" else method.get("params", {})
        cells = []
        for split in SPLITS[:3]:
            values = [
                100 * row["linear_accuracy"]
                for row in equal
                if (row["method"], split_of(row)) == (method["method"], split)
                and (row["config"].get("clusterer_params") or {}) == params
            ]
            theirs = published.get(name, {}).get(split)
            text = f"{np.mean(values):.1f}" if values else MISSING
            cells.append(text if theirs is None or not values else f"{text} ({theirs:.1f})")
        lines += [] if cells == [MISSING] * 3 else [[name, *cells]]
    return markdown(["clustering step", *TITLES[:3]], lines)


def _runs(found: Mapping[str, Row]) -> str:
    lines = []
    for name, row in found.items():
        early = "" if row["rounds"] == row["trained_rounds"] else f" of {row['trained_rounds']}"
        sizes, config = _sizes(row), row["config"]
        cells = [name, row["dataset"], split_of(row), row["method"], f"{row.get('seed', 0)}"]
        cells += [f"{sizes[0]}" + f" x {len(sizes)}" * (len(sizes) > 1)]
        cells += [f"{row['rounds']}{early} x {config['local_epochs']}"]
        cells += [_number(row, measure) for measure in MEASURED]
        cells += [f"{_number(row, 'best_evaluated')} ({row['best_evaluated_rounds']})"]
        cells += [f"{row['nmi']:.2f}" if "nmi" in row else MISSING, f"{row['seconds'] / 60:.0f}"]
        differ = _told(_differing(row, found[BEST], SHOWN - {"batch_size"}))
        lines.append([*cells, str(row["version"]), differ])
    head = ["run", "data", "split", "method", "seed", "clusters", "rounds x epochs", "linear"]
    head += ["held out", "neighbors", "best evaluated (round)", "NMI", "minutes", "version"]
    return markdown([*head, "settings"], lines)


def _number(row: Row, name: str) -> str:
    return f"{100 * row[name]:.1f}" if name in row else MISSING


def _command(row: Row, found: Mapping[str, Row]) -> str:
    """Return the command that makes a run again, with the settings in which runs differ."""
    config, name = row["config"], row["run"]
    told = [{n: json.dumps(v) for n, v in other["config"].items()} for other in found.values()]
    same = {n for n in config if len({other[n] for other in told if n in other}) == 1}
    words = [f"fedjigsaw deep train --data {DATA[row['dataset']][2]} --split {row['split']}"]
    if row["dataset"] == "tiny-imagenet" and row["image_size"][0] != 64:
        words += [f"--size {row['image_size'][0]}"]
    if row["n_images"] < 50_000:
        words += [f"--subset {row['n_images']}"]
    words += [f"--alpha {row['alpha']:g}"] if "alpha" in row else []
    words += [f"--method {row['method']}"] if row["split"] != "central" else []
    words += [f"-k {','.join(map(str, _sizes(row)))} --rounds {config['n_rounds']}"]
    words += [f"--local-epochs {config['local_epochs']} --batch-size {config['batch_size']}"]
    words += [f"--seed {row['seed']}"] if row.get("seed") else []
    differ = sorted((SETTINGS & config.keys()) - same - SHOWN - {"random_state"})
    words += [f"-s {n}={json.dumps(config[n])}" for n in differ]
    words += [f"-p {n}={json.dumps(v)}" for n, v in (config.get("clusterer_params") or {}).items()]
    usual = {n: Counter(o.get(n) for o in told).most_common(1)[0][0] for n in config}
    gone = [n for n in config if n not in SETTINGS and json.dumps(config[n]) != usual[n]]
    words += [f"-o {name}.st --rows {name}.jsonl", *(f"# it had {n}={config[n]}" for n in gone)]
    return " ".join(words)
