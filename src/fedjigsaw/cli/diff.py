"""The command diff: how a model differs from the one before, and whether that is an alarm."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedjigsaw import sites
from fedjigsaw.cli._plugins import PluginFlag
from fedjigsaw.cli._shared import JsonFlag, escape, out, print_json
from fedjigsaw.errors import ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.report.difference import (
    describe_drift,
    difference_values,
    in_spreads,
    moved_columns,
    share_in_words,
)
from fedjigsaw.sites.drift import ALARM, ClusterChange, Difference, Noise

app = typer.Typer()
ALARM_CODE = 10
MAX_COLUMNS = 3  # of a cluster, those that changed most


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(help="The earlier model.")],
    new: Annotated[Path, typer.Argument(help="The later model.")],
    alarm: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help=f"End with exit code {ALARM_CODE} if a cluster is new, gone, split or merged, or "
            "if the drift is above this: how many times as much as by chance a cluster changed. "
            f"{ALARM:g} is a good choice. Default: the exit code is 0. Example: --alarm 2",
        ),
    ] = None,
    summaries: Annotated[
        list[Path] | None,
        typer.Option(
            "--summaries",
            help="A summary of the new model, to measure how much chance moves its clusters; "
            "repeat it, or give a folder of them. Default: what was stored beside the models when "
            "they were made with --like. Example: --summaries june/",
        ),
    ] = None,
    as_json: JsonFlag = False,
    plugin: PluginFlag = None,
) -> None:
    """Compare two models: which clusters moved, are new or gone, and whether that is chance.

    Drift is the largest change of a cluster, divided by what chance alone does. A site that is
    unlike all others does not count as chance.

    Example: fedjigsaw diff may.model june.model --alarm 2
    """
    before, after = formats.load(old, ModelFile), formats.load(new, ModelFile)
    noise = [_stored(old), _stored(new)]
    if summaries:
        noise[1] = sites.measure_noise(_read(summaries), after)
    limit = ALARM if alarm is None else alarm
    found = sites.compare(before, after, old_noise=noise[0], new_noise=noise[1], limit=limit)
    if alarm is not None and found.drift is None and not found.alarm:
        raise ParameterError(
            "--alarm needs to know how much chance moves the clusters. Give the summaries of the "
            "new model (--summaries), or make models with --like, where their summaries are."
        )
    if as_json:
        print_json({"old": str(old), "new": str(new), **difference_values(found, before, after)})
    else:
        _show(found, before, after)
    if alarm is not None and found.alarm:
        raise typer.Exit(ALARM_CODE)


def _stored(model: Path) -> Noise | None:
    lineage = sites.Lineage.load(model)
    return None if lineage is None else lineage.noise


def _read(paths: list[Path]) -> list[SummaryFile]:
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.summary")) if path.is_dir() else [path]
    if not files:
        raise ParameterError(f"No file in {paths[0]} ends in .summary.")
    sites.check_once(files)
    return [formats.load(path, SummaryFile) for path in files]


def _show(found: Difference, old: ModelFile, new: ModelFile) -> None:
    out.print(escape(" ".join(found.succession.sentences())))
    table = Table()
    for heading in ("cluster", "change", "by chance", "rows"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("where, before -> after", overflow="fold", ratio=1)
    for one in found.clusters:
        words = ", ".join(moved_columns(one, old, new, MAX_COLUMNS))
        numbers = _amount(one, one.change), _amount(one, one.noise)
        table.add_row(_name(one), *numbers, share_in_words(one), escape(words))
    out.print(table)
    if any(in_spreads(one, one.change) is not None for one in found.clusters):
        out.print("Changes are in spreads: typical distances of a row to the center.")
    for line in describe_drift(found):
        out.print(escape(line))


def _name(one: ClusterChange) -> str:
    if one.old is None:
        return f"{one.new} (new)"
    if one.new is None:
        return f"{one.old} (gone)"
    return str(one.new) if one.old == one.new else f"{one.old} -> {one.new}"


def _amount(one: ClusterChange, value: float | None) -> str:
    if value is None:
        return "–"
    relative = in_spreads(one, value)
    return f"{value:.3g}" if relative is None else f"{relative:.2f}"
