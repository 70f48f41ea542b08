"""Write RESULTS.md: every table, from the rows in results/ alone.

python reproduction/tables.py
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where this file is run by its path

from reproduction.deep import deep_sections
from reproduction.experiments.audit import verdict as audit_verdict
from reproduction.experiments.measures import SCORE_EDGES
from reproduction.experiments.sets import HARD_SETS, KINDS
from reproduction.studies import (
    HERE,
    MISSING,
    RESULTS,
    Plan,
    Row,
    Study,
    definitions,
    markdown,
    read,
    studies,
)

Rows = Sequence[Row]
PAGE = HERE / "RESULTS.md"
BETTER, WITHIN, WORSE = "▲", "✓", "▼"
HEAD = f"""# Results

Every table of the paper and every number that these pages claim, made from the rows in `results/`
by `make results`. Do not edit it by hand.

Ours is the mean over seeds, with the standard deviation; the paper's number follows in brackets,
and a verdict: {BETTER} better than the paper's, {WITHIN} within one standard deviation of it (or
within 0.03, for purity and NMI, which it gives without), {WORSE} worse.
To compute a table anew, which also shows it: `python reproduction/run.py NAME --out build/again`.
"""


class Number(NamedTuple):
    """How the paper shows a measure, and how far a mean may lie from one without deviation."""

    title: str
    factor: float = 1.0
    digits: int = 2
    less_is_better: bool = False
    tolerance: float = 0.03
    relative: bool = False


NUMBERS = {
    "l2": Number("center distance, l2 / 1e4", 1e-4, 1, less_is_better=True),
    "mse": Number("mean squared error / 1e6", 1e-6, 1, True, tolerance=0.1, relative=True),
    "purity": Number("purity"),
    "nmi": Number("NMI"),
    "inertia": Number("objective / 1e12", 1e-12),
    "purity_lloyd": Number("purity after one Lloyd step"),
    "nmi_lloyd": Number("NMI after one Lloyd step"),
    "sigma_below_half": Number("share below 0.5", digits=3),
    "sigma_largest": Number("largest"),
}


# ------------------------------------------------------------------------------------------ parts


def page(folder: Path = RESULTS) -> str:
    """Return RESULTS.md."""
    parts: dict[str, list[str]] = {}
    for study in studies().values():
        parts.setdefault(study.part, []).append(section(study, folder))
    parts["DeepFeCA"] = deep_sections(folder)
    for name, told in definitions()["listing"].items():
        parts.setdefault(told["part"], []).append(_listing(name, told, folder))
    texts = [text for part, found in parts.items() for text in (f"## {part}", *found)]
    return "\n\n".join([HEAD.rstrip(), _summary(folder), *texts]) + "\n"


def section(study: Study, folder: Path, n_seeds: int | None = None) -> str:
    """Return what the page says of one study."""
    rows, total = study.finished(folder, n_seeds), len(study.tasks(n_seeds))
    seeds = sorted({row["seed"] for row in rows})
    of = f"{len(rows):,} rows" if len(rows) == total else f"{len(rows):,} of {total:,} rows"
    told = [f"`results/{study.name}.jsonl`: {of}"]
    if rows:
        told.append(f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}")
        told.append("version " + ", ".join(sorted({str(row["version"]) for row in rows})))
    made = f"{', '.join(told)}. Again: `python reproduction/run.py {study.name}`."
    texts = [f"### {study.name}", f"{study.about[0].upper()}{study.about[1:]}.", study.note, made]
    if not rows:
        return "\n\n".join([*filter(None, texts), "There are no rows yet."])
    make = TABLES.get(study.name)
    tables = make(rows, folder) if make else _tables(study, rows)
    return "\n\n".join([*filter(None, texts), *tables])


def select(rows: Iterable[Row], **values: object) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row.get(n) == value for n, value in values.items())]


def mean(rows: Rows, number: str) -> float:
    """Return the mean of a measure; NaN where there is no row."""
    return float(np.mean([row[number] for row in rows])) if rows else float("nan")


def _listing(name: str, told: Mapping[str, Any], folder: Path) -> str:
    """Return a table that has a line for each row of a file, as studies.toml says."""
    rows = select(read(folder, told["file"]), **told.get("where", {}))
    rows = [row for row in rows if "needs" not in told or row.get(told["needs"])]
    where = f"`results/{told['file']}.jsonl`: {len(rows)} rows"
    versions = ", ".join(sorted({str(row["version"]) for row in rows if "version" in row}))
    again = f"Again: {told['command']}." if "command" in told else "Recorded once, by hand."
    made = f"{where}, version {versions or MISSING}. {again}"
    head = list(told["columns"])
    lines = [[_filled(form, row) for form in told["columns"].values()] for row in rows]
    texts = [f"### {name}", f"{told['about']}.", made]
    return "\n\n".join([*texts, markdown(head, lines) if rows else "There are no rows yet."])


def _filled(form: str, row: Row) -> str:
    """Fill in a row's values; what it has none of is a dash."""
    try:
        return form.format(**row)
    except (KeyError, TypeError, ValueError):
        return MISSING


# ----------------------------------------------------------------------------- beside the paper's


def verdict(number: str, value: float, published: tuple[float, float | None]) -> str:
    """Judge our mean: better than the paper's, within one standard deviation, or worse."""
    kind, (theirs, std) = NUMBERS[number], published
    reach = std if std is not None else kind.tolerance * (theirs if kind.relative else 1)
    if abs(value - theirs) <= reach + 1e-9:
        return WITHIN
    return BETTER if (value < theirs) == kind.less_is_better else WORSE


def _judged(plan: Plan, number: str, rows: Rows) -> tuple[str, str]:
    """Return ours, the paper's in brackets, and the verdict; and the verdict alone."""
    kind = NUMBERS[number]
    values = np.array([row[number] for row in rows]) * kind.factor
    ours, std = (f"{v:.{kind.digits}f}" if v < 1e5 else f"{v:.0e}" for v in _spread(values))
    if number not in plan.published:
        return f"{ours} ± {std}", ""
    theirs, their_std = plan.published[number]
    sign = verdict(number, float(values.mean()), (theirs, their_std))
    paper = f"{theirs:.{kind.digits}f}"
    if their_std is not None:
        paper += f" ± {their_std:.{kind.digits}f}"
    return f"{ours} ± {std} ({paper}) {sign}", sign


def _spread(values: Any) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values))


def _outcomes(study: Study, rows: Rows) -> list[tuple[str, Plan, str, str]]:
    """Return number, cell, text and verdict of everything that a study shows."""
    by_cell: dict[str, list[Row]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], []).append(row)
    return [
        (number, plan, *_judged(plan, number, by_cell[plan.name]))
        for number in study.numbers
        for plan in study.plans
        if plan.name in by_cell
    ]


def _tables(study: Study, rows: Rows) -> list[str]:
    """Return a table for each number, and for each label that is laid out as a table."""
    found: dict[str, dict[str, dict[str, str]]] = {}  # title -> line -> column -> text
    for number, plan, text, _ in _outcomes(study, rows):
        where = dict(zip(study.layout, map(_title, plan.labels), strict=True))
        title, column = where.get("table", ""), where.get("column", "")
        if column:
            title = ", ".join(filter(None, [title, NUMBERS[number].title]))
        else:
            column = NUMBERS[number].title
        found.setdefault(title, {}).setdefault(where["line"], {})[column] = text
    return [
        "\n\n".join([f"**{title}**"] * bool(title) + [_table(study.corner, lines)])
        for title, lines in found.items()
    ]


def _table(corner: str, lines: Mapping[str, Mapping[str, str]]) -> str:
    """Write a table; a value for any split goes to the first column."""
    columns = list(dict.fromkeys(c for line in lines.values() for c in line if c != "any"))
    body = []
    for name, line in lines.items():
        cells = [line.get(column, "") for column in columns]
        body.append([name, line.get("any", cells[0]), *cells[1:]])
    return markdown([corner, *columns], body)


def _title(label: str) -> str:
    return {"iid": "IID"}.get(label, label.replace("dirichlet", "Dirichlet"))


def _summary(folder: Path) -> str:
    lines = []
    for study in studies().values():
        signs = Counter(sign for *_, sign in _outcomes(study, study.finished(folder)) if sign)
        if signs:
            counts = [str(signs[sign]) for sign in (BETTER, WITHIN, WORSE)]
            lines.append([f"[{study.name}](#{study.name})", *counts])
    return markdown(["table", "better", "within", "worse"], lines)


# ----------------------------------------------------------------------------------------- Jigsaw

SPLITS = ("iid", "dirichlet(0.3)", "dirichlet(0.1)")
SSETS = ("S1", "S2", "S3", "S4")


def _best(rows: Rows, folder: Path) -> list[str]:
    """Beside the best solutions: the objective of all one-shot methods over them."""
    table1, least = studies()["table1"].finished(folder), {r["cell"]: r["inertia"] for r in rows}
    lines = []
    for method in ("Jigsaw", "Jigsaw (detail=4)", "FeCA", "k-FED", "M-Avg", "FFCMv2(Rd=1)"):
        cells = []
        for split in SPLITS:
            names = [f"{name}/{split}/{method}" for name in SSETS]
            each = [mean(select(table1, cell=name), "inertia") for name in names]
            over = [value / least[name] for name, value in zip(SSETS, each, strict=True)]
            cells.append(f"{np.mean(over):.3f}")
        lines.append([method, *cells])
    head = ["objective over the best, mean of S1 to S4", *map(_title, SPLITS)]
    return [*_tables(studies()["best"], rows), markdown(head, lines)]


def _features(rows: Rows, folder: Path) -> list[str]:
    """Purity / NMI by both rules for labels, with the seeds of Table 2."""
    rows = [*studies()["table2"].finished(folder), *rows]
    splits = ("iid", "dirichlet(1.0)", "dirichlet(0.3)", "dirichlet(0.1)")
    lines = []
    for name, method in product(("CIFAR-10", "CIFAR-100"), ("FeCA", "k-FED", "Jigsaw")):
        for rule in ("nearest", "local"):
            found = [select(rows, cell=f"{name}/{split}/{method}") for split in splits]
            numbers = [[mean(r, f"{n}_{rule}") for n in ("purity", "nmi")] for r in found]
            cells = [f"{purity:.2f} / {nmi:.2f}" for purity, nmi in numbers]
            lines.append([f"{name}, {method}, {rule}", *cells])
    return [markdown(["purity / NMI, labels by", *map(_title, splits)], lines)]


def _untuned(rows: Rows, folder: Path) -> list[str]:
    plans = studies()["untuned"].plans
    columns = list(dict.fromkeys(plan.labels[1:] for plan in plans))
    lines = []
    for name in dict.fromkeys(plan.labels[0] for plan in plans):
        least = min(row["inertia"] for row in rows if row["cell"].startswith(f"{name}/"))
        found = [select(rows, cell="/".join((name, *column))) for column in columns]
        lines.append([name, *(f"{mean(r, 'inertia') / least:.3f}" for r in found)])
    return [markdown(["data", *(f"{m}, {_title(s)}" for s, m in columns)], lines)]


def _shapes(rows: Rows, folder: Path) -> list[str]:
    options = list(dict.fromkeys(row["option"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        found = [select(rows, dataset=name, option=option) for option in options]
        cells = [f"{mean(r, 'ari'):.3f}, {_right(r)}" for r in found]
        lines.append([f"{name}: {HARD_SETS[name].about}", *cells])
    return [markdown(["data", *(f"`{option}`" for option in options)], lines)]


def _regions(rows: Rows, folder: Path) -> list[str]:
    groupings = ("random", "alike")
    lines = []
    for name, split in dict.fromkeys((row["dataset"], row["split"]) for row in rows):
        known = select(rows, dataset=name, split=split, n_clusters=None)
        auto = select(rows, dataset=name, split=split, n_clusters="auto")
        cells = []
        for factor in (1, 2, 4):
            losses = [row[f"loss_{g}_{factor}"] for row in known for g in groupings] or [np.nan]
            cells.append(f"{min(losses):.3f} to {max(losses):.3f} %")
        same = [row["found_flat"] == row[f"found_{g}"] for row in auto for g in groupings]
        lines.append([name, _title(split), *cells, f"{sum(same)} of {len(same)}"])
    return [markdown(["data", "split", "k centers", "2k centers", "4k centers", "`auto`"], lines)]


# ------------------------------------------------------------------------- the number of clusters

EDGES = (0.0, 0.25, 0.5, 0.7, 0.9, 1.0)  # of the bins of confidences
POOLED = ("silhouette", "BIC", "HDBSCAN")


def _right(rows: Rows) -> str:
    return f"{sum(row['n_found'] == row['true_k'] for row in rows)} of {len(rows)}"


def _answers(rows: Rows) -> str:
    """Write the different numbers that were found, the most frequent one first."""
    counts = Counter(sorted(row["n_found"] for row in rows))
    return ", ".join(str(k) for k, _ in counts.most_common())


def _median(rows: Rows, number: str) -> str:
    known = [row[number] for row in rows if row[number] is not None]
    return f"{np.median(known):.2f}" if known else ""


def _auto_k(rows: Rows, folder: Path) -> list[str]:
    rows = [{**row, "true_k": 15} for row in rows]
    lines = []
    for name in SSETS:
        found = [select(rows, cell=f"{name}/{split}") for split in SPLITS]
        own = [row for part in found for row in part]
        wrong = [f"{r['n_found']} ({r['confidence']:.2f})" for r in own if r["n_found"] != 15]
        cells = [*map(_right, found), _right(own), _median(own, "confidence")]
        lines.append([name, *cells, ", ".join(wrong)])
    head = [*map(_title, SPLITS), "all", "confidence", "other answers (confidence)"]
    return [markdown(["data", *head], lines)]


def _auto_hard(rows: Rows, folder: Path) -> list[str]:
    pooled = studies()["auto-hard-pooled"].finished(folder)
    ten = [row for row in rows if row["split"] in SPLITS]
    small = [row for row in rows if row["split"] not in SPLITS]
    names = {kind: [n for n, one in HARD_SETS.items() if one.kind == kind] for kind in KINDS}
    longer = [row["seconds"] / row["seconds_given"] for row in ten]
    few, splits = ([*dict.fromkeys(row[n] for row in small)] for n in ("dataset", "split"))
    return [
        _totals(ten, pooled),
        "Processor time over that of a fit with the number given: "
        f"{np.median(longer):.1f} (median), {np.quantile(longer, 0.9):.1f} (90 %).",
        *(f"**{kind}**\n\n{_sets(names[kind], SPLITS, ten, pooled)}" for kind in KINDS),
        f"**Clients with few rows**\n\n{_sets(few, splits, small)}",
        _bins("confidence", EDGES, {"ten clients": _sure(ten), "small clients": _sure(small)}),
        _bins("separation", SCORE_EDGES, {"all clusters": _scored(rows)}),
    ]


def _totals(rows: Rows, pooled: Rows) -> str:
    groups = {kind: {n for n, s in HARD_SETS.items() if s.kind == kind} for kind in KINDS}
    groups["all"] = set(HARD_SETS)
    groups["of which held out (*)"] = {n for n, s in HARD_SETS.items() if s.held_out}
    lines = []
    for title, names in groups.items():
        ours = [row for row in rows if row["dataset"] in names]
        theirs = [row for row in pooled if row["dataset"] in names]
        cells = [_right(select(ours, split=split)) for split in SPLITS]
        beside = [_right(select(theirs, method=method)) for method in POOLED]
        lines.append([title, str(len(names)), *cells, _right(ours), *beside])
    return markdown(["data", "sets", *map(_title, SPLITS), "all", *map(_pooled, POOLED)], lines)


def _pooled(method: str) -> str:
    return f"pooled {method}"


def _sets(names: Iterable[str], splits: Sequence[str], rows: Rows, pooled: Rows = ()) -> str:
    """Show what was found on every set, and by pooled methods beside it."""
    methods = POOLED if pooled else ()
    lines = []
    for one in map(HARD_SETS.__getitem__, names):
        own, theirs = select(rows, dataset=one.name), select(pooled, dataset=one.name)
        cells = [_answers(select(own, split=split)) for split in splits]
        cells += [_median(own, "confidence"), _median(own, "ari")]
        cells += [_answers(select(theirs, method=method)) for method in methods]
        lines.append([f"{one.name}: {one.about}{'*' * one.held_out}", str(one.k), *cells])
    titles = [*map(_title, splits), "confidence", "ARI", *map(_pooled, methods)]
    return markdown(["data", "true k", *titles], lines)


def _sure(rows: Rows) -> list[tuple[int, int]]:
    """Count the runs of each bin of confidences, and those that are right."""
    found = np.zeros((len(EDGES) - 1, 2), dtype=int)
    for row in rows:
        place = min(int(np.searchsorted(EDGES, row["confidence"], side="right")), len(found)) - 1
        found[place] += [1, row["n_found"] == row["true_k"]]
    return [(int(n), int(hits)) for n, hits in found]


def _scored(rows: Rows) -> list[tuple[int, int]]:
    """Count the clusters of each bin of scores, and those that are real."""
    real = np.sum([row["scored_real"] for row in rows], axis=0)
    false = np.sum([row["scored_false"] for row in rows], axis=0)
    return [(int(a + b), int(a)) for a, b in zip(real, false, strict=True)]


def _bins(title: str, edges: Sequence[float], parts: Mapping[str, list[tuple[int, int]]]) -> str:
    lines = []
    for i, (low, high) in enumerate(pairwise(edges)):
        cells = [f"{hits} of {n}" for n, hits in (counts[i] for counts in parts.values())]
        lines.append([f"{low:g} and more" if high == 1 else f"{low:g} to {high:g}", *cells])
    return markdown([title, *(f"{name}: right" for name in parts)], lines)


# ---------------------------------------------------------------------------------------- privacy


def _ratio(rows: Rows) -> str:
    value = mean(rows, "ratio")
    return MISSING if np.isnan(value) else f"{value:.3f}" if value < 2 else f"{value:.1f}"


def _privacy(rows: Rows, folder: Path) -> list[str]:
    def table(head: Sequence[str], places: Sequence[str], groups: Sequence[Rows]) -> str:
        lines = []
        for place in places:
            cells = []
            for group in groups:
                own = [row for row in group if row["cell"].endswith(place)]
                each = [_ratio(select(own, split=s)) for s in ("iid", "dirichlet")]
                cells.append(" / ".join(text for text in each if text != MISSING) or MISSING)
            lines.append([place.strip("/"), *cells])
        return markdown(head, lines)

    mixtures = [f"/{name}" for name in definitions()["axes"]["mixtures"]]
    ours = [row for row in rows if row["width"] != "s1" and row["method"] == "jigsaw"]
    s1 = select(rows, width="s1")
    names = list(dict.fromkeys(p.labels[2] for p in studies()["privacy"].plans))
    one = {n: [r for r in rows if f"1.0/{r['split']}/{n}/" in r["cell"]] for n in names}
    shown = {n: group for n, group in one.items() if not n.endswith("cells")}
    levels = sorted({row["epsilon"] for row in ours})
    worst = {e: max(select(ours, epsilon=e), key=lambda row: float(row["ratio"])) for e in levels}
    said = [f"{row['ratio']:.3f} at epsilon {e:g} ({row['cell']})" for e, row in worst.items()]
    cells = ("/Jigsaw, own cells/S1", "/Jigsaw, shared cells/S1")
    return [
        table(
            ["Jigsaw", *(f"epsilon {e:g}" for e in levels)],
            mixtures,
            [select(ours, epsilon=e) for e in levels],
        ),
        f"The worst runs: {'; '.join(said)}.",
        table(["S1", "epsilon 1", "epsilon 4"], cells, [select(s1, epsilon=e) for e in (1.0, 4.0)]),
        table(["epsilon 1", *shown], mixtures, list(shown.values())),
    ]


def _attacks(rows: Rows, folder: Path) -> list[str]:
    protections = definitions()["axes"]["protections"]["values"]

    def table(head: Sequence[str], cells: Callable[[Rows], list[str]]) -> str:
        own = ([p, *cells(select(rows, protection=p))] for p in protections)
        return markdown(["protection", *head], own)

    def differencing(own: Rows) -> list[str]:
        found = [select(own, attack="differencing", data=name) for name in ("mixture", "digits")]
        return [
            text
            for r in found
            for text in (f"{mean(r, 'error'):.2g}", _share(r, "recovered", "patients"))
        ]

    def membership(own: Rows) -> list[str]:
        found = [select(own, attack=name) for name in ("all but one", "population")]
        return [
            text
            for r in found
            for text in (f"{mean(r, 'advantage'):.2f}", f"{mean(r, 'found'):.0%}")
        ]

    def rounds(own: Rows) -> list[str]:
        found = [select(own, attack="rounds", n_rounds=n) for n in (3, 5)]
        return [_share(r, "recovered", "moved") for r in found]

    blind = mean(select(rows, data="mixture", attack="differencing"), "blind_error")
    return [
        "**Two summaries, before and after one row was added**: error of the best guess in mean "
        f"distances of two rows (the mean as a guess: {blind:.2g}), and rows recovered.",
        table(
            ["mixture: error", "recovered", "digits: error", "recovered"],
            differencing,
        ),
        "**Is a row in it?** Advantage over chance, and share found with 1 % false alarms, of an "
        "attacker who knows all other rows, and of one who knows the population.",
        table(["all but one: advantage", "found", "population: advantage", "found"], membership),
        "**Several rounds**: rows that moved between clusters and were recovered.",
        table(["3 rounds", "5 rounds"], rounds),
    ]


def _share(rows: Rows, part: str, whole: str) -> str:
    return f"{sum(row[part] for row in rows)} of {sum(row[whole] for row in rows):,}"


def _audit(rows: Rows, folder: Path) -> list[str]:
    lines = []
    for plan in studies()["audit"].plans:
        found = select(rows, cell=plan.name)
        if found:
            shown, claim = audit_verdict(found), found[0]["epsilon"]
            numbers = [f"{n:.2f}" for n in (claim, shown.estimate, shown.lower, shown.plain)]
            kept = "broken" if shown.lower > claim else "kept"
            lines.append([*plan.labels, f"{shown.runs:,}", *numbers, kept])
    head = ["mechanism", "noise", "runs", "claim", "estimate", "at least", "by rates alone"]
    return [markdown([*head, "promise"], lines)]


# ---------------------------------------------------------------------------------- other methods


def _peers(rows: Rows, folder: Path) -> list[str]:
    labels = list(dict.fromkeys(row["label"] for row in rows))
    places = list(dict.fromkeys((row["dataset"], row["split"]) for row in rows))

    def cell(found: Rows) -> str:
        worst = max((row["ratio"] for row in found), default=0.0)
        return f"{mean(found, 'ratio'):.4f} ({worst:.4f})" if found else MISSING

    lines = [
        [label, *(cell(select(rows, label=label, dataset=d, split=s)) for d, s in places)]
        for label in labels
    ]
    costs = []
    for label in labels:
        own = select(rows, label=label, dataset="celltype")
        if own:
            numbers = [f"{mean(own, n):.4f}" for n in ("ratio", "ratio_local")]
            sent = [f"{mean(own, 'rounds'):.0f}", f"{mean(own, 'bytes_per_client'):,.0f}"]
            seconds = np.median([row["cpu_seconds"] for row in own])  # the first one compiles
            costs.append([label, *numbers, *sent, f"{seconds:.2f}"])
    head = ["celltype", "ratio", "local labels", "rounds", "bytes per client", "CPU seconds"]
    named = ["method", *(f"{d}, {_title(s)}" for d, s in places)]
    return [markdown(named, lines), markdown(head, costs)]


def _drift(rows: Rows, folder: Path) -> list[str]:
    events = ("new", "gone", "moved", "split", "merged")
    head = ["population", "weeks", "alarms", "ids unsettled", "largest drift", *events]
    lines = []
    for row in rows:
        drifts = [row["largest"], *(row[f"drift_{event}"] for event in events)]
        cells = [str(row["weeks"]), str(row["alarms"]), str(row["unsettled"])]
        lines.append([row["cell"], *cells, *(f"{drift:.1f}" for drift in drifts)])
    return [markdown(head, lines)]


TABLES: dict[str, Callable[[Rows, Path], list[str]]] = {
    "best": _best,
    "table2-more": _features,
    "untuned": _untuned,
    "shapes": _shapes,
    "regions": _regions,
    "auto-k": _auto_k,
    "auto-hard": _auto_hard,
    "privacy": _privacy,
    "attacks": _attacks,
    "audit": _audit,
    "peers": _peers,
    "drift": _drift,
}

if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
