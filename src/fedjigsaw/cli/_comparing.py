"""What the command compare reports: methods side by side, or what privacy costs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table as RichTable

from fedjigsaw._typing import Floats
from fedjigsaw.cli._config import was_given
from fedjigsaw.cli._shared import err, escape, out, warnings_shown
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.comparison import Comparison
from fedjigsaw.comparison.contenders import (
    Contender,
    named,
    params_by_method,
    supporting,
    with_own_colors,
)
from fedjigsaw.errors import ExtraError, ParameterError
from fedjigsaw.methods import DEFAULT
from fedjigsaw.number.confidence import DOUBTFUL
from fedjigsaw.privacy.dp import ROW, Privacy
from fedjigsaw.report import pictures
from fedjigsaw.report.page.view import Table

PictureFlag = Annotated[
    Path,
    typer.Option("--out", "-o", help="The picture to write: PNG, SVG or PDF. Example: -o all.svg"),
]
SeedFlag = Annotated[
    int,
    typer.Option(min=0, help="Seed of the split and of all random choices. Example: --seed 7"),
]


def drawable(context: typer.Context, picture: Path) -> Path | None:
    """Check a picture's format; return None, and say so, if it needs an extra and is not asked for.

    A command that draws by default works without its picture; one that was told to draw does not.
    """
    try:
        pictures.check_format(picture.suffix)
    except ExtraError as error:
        if was_given(context, "picture"):
            raise
        err.print(f"No picture: {escape(str(error))}")
        return None
    return picture


def print_table(table: Table) -> None:
    """Print a table with its first column at the left, all others at the right."""
    shown = RichTable(title=escape(table.caption), title_justify="left", collapse_padding=True)
    for place, heading in enumerate(table.headings):
        justify: Literal["left", "right"] = "right" if table.is_number(place) else "left"
        shown.add_column(heading, justify=justify, overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    out.print(shown)


def chosen_methods(
    methods: Sequence[str] | None,
    params: Mapping[str, Any],
    k: int | str,
    promises: Sequence[Privacy],
    n_columns: int,
    n_sites: int,
) -> list[Contender]:
    """Return the methods of a comparison; with promises, each without privacy and with each one.

    Parameters
    ----------
    params : parameters of methods; each goes to all methods that have it.
    promises : with bounds that are scaled as the rows are.
    """
    default = [DEFAULT] if promises else supporting(k)
    found = named(params_by_method(methods or default, params, k), k)
    epsilons = [promise.epsilon for promise in promises]
    if len(set(epsilons)) < len(epsilons):
        raise ParameterError(f"An epsilon is given twice: {', '.join(map(str, epsilons))}.")
    private = []
    for contender in found if promises else ():
        for promise in promises:
            with warnings_shown():
                settled = contender.estimator.settle_privacy(promise, n_columns, n_sites)
            about = f"epsilon = {settled.epsilon:g}, {settled.cells} cells"
            label = f"{contender.label}, {about}"
            private.append(replace(contender, label=label, privacy=settled))
    return with_own_colors([*found, *private])


def costs_in_words(found: Comparison) -> Iterator[str]:
    """Say how much larger the objective of each private method is than without privacy."""
    means = {label: own["inertia"]["mean"] for label, own in found.means().items()}
    plain = {one.name: means[one.label] for one in found.contenders if one.privacy is None}
    for one in found.contenders:
        noisy, exact = means[one.label], plain[one.name]
        if one.privacy is not None and noisy is not None and exact:
            yield f"{one.label}: the objective is {noisy / exact:.3f} times that without privacy."


def best_in_words(found: Comparison) -> list[str]:
    """Say which method comes closest to pooled k-means without pooling rows, and what it sends."""
    apart = [contender.label for contender in found.competitors() if not contender.pools_data]
    numbers = {label: found.means()[label] for label in apart}
    ratios = {m: own["objective_ratio"]["mean"] for m, own in numbers.items()}
    known = {label: ratio for label, ratio in ratios.items() if ratio is not None}
    if not known:
        return []
    best = min(known, key=known.__getitem__)
    return [
        f"Of the methods that leave rows where they are, {best} does best: its objective is "
        f"{known[best]:.3f} times that of k-means on all rows in one place, and each site sends "
        f"{numbers[best]['bytes_per_client']['mean']:,.0f} bytes."
    ]


def values_of(found: Comparison) -> dict[str, Any]:
    """Return all values for --json, with the names of methods in place of their labels."""
    names = {one.label: one.name if one.privacy is None else one.label for one in found.contenders}
    significance = {
        number: {
            "best": [names[label] for label in verdict.best],
            "p_values": {names[label]: p for label, p in (verdict.p_values or {}).items()},
        }
        for number, verdict in found.verdicts().items()
    }
    return {
        "rows": [{**row, "method": names[row["method"]]} for row in found.rows],
        "summary": {names[label]: own for label, own in found.means().items()},
        "significance": significance,
        "findings": best_in_words(found),
    }


def about_k(found: Comparison) -> Iterator[str]:
    """Say how sure the number of clusters is, where methods found it."""
    if len(found.seeds) == 1:
        for row in found.rows:
            told = (row["k"]["sentence"], *row["k"]["advice"]) if "k" in row else ()
            yield from (f"{row['method']}: {text}" for text in told)
        return
    for label in found.methods:
        own = [row for row in found.rows if row["method"] == label]
        unsure = sum(row.get("confidence", 1.0) < DOUBTFUL for row in own)
        if unsure:
            yield (
                f"{label}: the number of clusters is in doubt (confidence below {DOUBTFUL:g}) in "
                f"{unsure} of {len(own)} runs."
            )


def parse_epsilons(text: str | None) -> list[float]:
    """Parse numbers that are separated by commas."""
    try:
        return [] if text is None else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ParameterError(
            f"--epsilon takes numbers separated by commas, such as 0.5,1,2,4; got {text!r}."
        ) from error


def about_privacy(promise: Privacy, X: Floats, scaler: Scaler | None, k: int | str) -> list[str]:
    """Say what the numbers of a comparison with privacy do not show by themselves.

    Parameters
    ----------
    promise : with bounds that are scaled as the rows `X` are.
    """
    row = promise.unit == ROW
    who = "With or without any one row" if row else "Whatever the rows of any one site are"
    bound = f"at most e^epsilon times as likely, plus {promise.delta:g}"
    lines = [f"{who}, any set of outputs is {bound}."]
    low, high = promise.limits(X.shape[1])
    clipped = int(((low > X) | (high < X)).any(axis=1).sum())
    if clipped:
        lines.append(
            f"{clipped:,} of {len(X):,} rows lie outside the bounds and were clipped. If there are "
            "many, the bounds are too narrow."
        )
    if scaler is not None:
        lines.append("Columns were scaled without noise: what a private scaler costs is not shown.")
    if k == "auto":
        lines.append("With -k auto, objectives may be those of different numbers of clusters.")
    return lines
