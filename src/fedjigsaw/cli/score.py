"""The command score: how well a model fits, and what its clusters are like."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedjigsaw import sites
from fedjigsaw.cli._options import (
    AgreedSchema,
    BoundsOption,
    ClientName,
    DataSet,
    Decimal,
    Delta,
    DropMissing,
    Epsilon,
    LedgerOption,
    check_agreed,
    make_profile_privacy,
    open_data_file,
    print_privacy,
    refuse_with_epsilon,
)
from fedjigsaw.cli._shared import (
    ForceFlag,
    JsonFlag,
    check_outputs,
    count_rows,
    escape,
    out,
    print_json,
    warnings_shown,
)
from fedjigsaw.columns.contrasts import Contrast
from fedjigsaw.errors import (
    MessageError,
    ParameterError,
    counted,
    invalid,
)
from fedjigsaw.io import formats
from fedjigsaw.io.contents import describe_rows
from fedjigsaw.io.formats import ModelFile, Score
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.records.ledger import default_path
from fedjigsaw.report.profiles import ClusterProfile, describe_clusters
from fedjigsaw.sites.profiles import check_profile

app = typer.Typer()
MAX_SITES = 5  # with a column of their own in the table


@app.command()
def score(
    context: typer.Context,
    data: Annotated[
        list[Path],
        typer.Argument(
            help="The site's data file; with --merge, the files that `score` wrote, one from each "
            "site."
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            help="The model that `aggregate` wrote. Required for a site's data. With --merge, it "
            "adds units, dates and support to the profile. Example: --model model",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file to write the score to. Default: print it only."),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Add up scores of several sites for the same model.")
    ] = False,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Also measure what the rows of each cluster are like: mean and spread of each "
            "column, rows of each category. Default: sizes and distances only.",
        ),
    ] = False,
    min_cluster_size: Annotated[
        int,
        typer.Option(
            min=1,
            help="Guard of the profile: leave out what is about fewer rows than this; 1 turns it "
            "off. Example: --min-cluster-size 10",
        ),
    ] = 5,
    schema: AgreedSchema = None,
    client: ClientName = None,
    drop_missing: DropMissing = False,
    decimal: Decimal = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    bounds: BoundsOption = None,
    ledger: LedgerOption = None,
    data_set: DataSet = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure how well a model fits: at a site for its rows, with --merge for all sites.

    With --profile, it also tells what makes each cluster a cluster. Small clusters of a site are
    not in its profile.

    A score is exact without --epsilon. So no such file is written if the ledger of the data has a
    limit.

    Example: fedjigsaw score bern.csv --model model --profile -o bern.score

    Example: fedjigsaw score --merge bern.score lyon.score --model model
    """
    inputs = [*data, model, ledger, *map(default_path, data)]
    check_outputs(output, force=force, inputs=inputs)
    if epsilon is not None and (merge or not profile):
        raise ParameterError("--epsilon goes with --profile, at a site.")
    if merge:
        found, file, parts = _merged(data, model)
        if output is not None:
            formats.save(found, output, replace=force)
        show(found, file, parts, as_json=as_json)
        return
    if model is None or len(data) != 1:
        raise ParameterError("score needs one data file and --model, or --merge and score files.")
    file = formats.load(model, ModelFile)
    check_agreed(model, file.encoding, schema)
    privacy = make_profile_privacy(file, epsilon, delta, bounds)
    if privacy is not None:
        refuse_with_epsilon(context, "min_cluster_size")
    charge = sites.Charge.for_file(data[0], "score", ledger=ledger, data_set=data_set)
    table = open_data_file(
        data[0],
        columns=file.columns,
        drop_missing=drop_missing,
        encoding=file.encoding,
        decimal=decimal,
    )
    leaves = output is not None or privacy is not None
    if leaves and privacy is None:
        charge.spend(None, None)
    with warnings_shown(), count_rows("Rows", table.n_rows) as progress:
        found = sites.score(
            table,
            file,
            client=client,
            profile=profile,
            guard=Guard(min_cluster_size),
            privacy=privacy,
            spend=charge.spend,
            progress=progress,
        )
        if output is not None:
            formats.save(found, output, replace=force)
    if leaves:
        charge.confirm()
    show(found, file, [], as_json=as_json)
    if not as_json:
        print_privacy(privacy, charge, table.tally.skipped, public="model")


def _merged(
    data: Sequence[Path], model: Path | None
) -> tuple[Score, ModelFile | None, list[Score]]:
    """Return the merged score, the model if it is given, and the scores of the sites."""
    sites.check_once(data)
    loaded = {str(path): formats.load(path, Score) for path in data}
    found = sites.merge_scores(loaded)
    if model is None:
        return found, None, list(loaded.values())
    file = formats.load(model, ModelFile)
    known = formats.fingerprint(formats.encode(file))
    if known != found.model:
        allowed = f"that of the scores, {found.model}"
        raise MessageError(invalid("model", str(model), allowed, known))
    for name, part in loaded.items():
        check_profile(name, part.profile, file)
    return found, file, list(loaded.values())


def show(found: Score, file: ModelFile | None, parts: Sequence[Score], *, as_json: bool) -> None:
    """Print a score, and the clusters that it describes."""
    rows, sizes, inertia = found.n_rows, found.counts.tolist(), float(found.sse.sum())
    known = bool(found.sse.any()) or found.privacy is None
    clusters = describe_clusters(file, found, parts) if found.profile is not None else []
    if as_json:
        values: dict[str, Any] = {"who": found.client, "rows": rows, "skipped": found.n_skipped}
        values |= {"noise": found.n_noise} if found.n_noise else {}
        values |= {"inertia": inertia if known else None, "cluster_sizes": sizes}
        values["cluster_ids"] = list(found.cluster_ids)
        if parts:
            values["sites"] = {part.client: part.counts.tolist() for part in parts}
        if clusters:
            values["clusters"] = [_values(cluster) for cluster in clusters]
        print_json(values)
        return
    about = "" if found.privacy is None else "about "
    text = f"{escape(found.client)}: {about}{describe_rows(rows, found.n_skipped)}"
    out.print(text + (f", inertia {inertia:.10g}" if known else ""))
    if found.n_noise:
        more = counted(found.n_noise, "more row is", "more rows are")
        out.print(f"{more} in no cluster (label -1), or left out by a guard.")
    if not clusters:
        named = [f"{i}: {n}" for i, n in zip(found.ids, sizes, strict=False)]
        out.print("Rows per cluster: " + ", ".join(named or map(str, sizes)))
        return
    out.print(_table(clusters, parts))
    without = [part.client for part in parts if part.profile is None]
    if without:
        out.print(escape(f"Without a profile: {', '.join(without)}."))


def _table(clusters: Sequence[ClusterProfile], parts: Sequence[Score]) -> Table:
    """Return a table of clusters: size, size at each site, and what sets them apart."""
    named = [part.client for part in parts] if 1 < len(parts) <= MAX_SITES else []
    table = Table()
    for heading in ("cluster", "rows", *map(escape, named)):
        table.add_column(heading, justify="right")
    if parts and not named:
        table.add_column("sites", justify="right")
    table.add_column("what sets it apart", overflow="fold", ratio=1)
    for cluster in clusters:
        words = "\n".join(cluster.phrases) or cluster.sentence.partition(": ")[2]
        at = [f"{cluster.by_site.get(name, 0):,}" for name in named]
        at += [str(len(cluster.by_site))] if parts and not named else []
        table.add_row(str(cluster.cluster), f"{cluster.rows:,}", *at, escape(words))
    return table


def _values(cluster: ClusterProfile) -> dict[str, Any]:
    """Return a cluster as values for JSON."""
    return {
        "cluster": cluster.cluster,
        "rows": cluster.rows,
        "rows_by_site": dict(cluster.by_site),
        "sentence": cluster.sentence,
        "apart": [
            {"column": one.column, "category": one.category, "words": words}
            for one, words in zip(cluster.apart, cluster.phrases, strict=True)
        ],
        "support": cluster.support,
        "nearest": cluster.nearest,
        "distance": cluster.distance,
        "columns": [_contrast(one) for one in cluster.contrasts],
    }


def _contrast(one: Contrast) -> dict[str, Any]:
    return {name: value for name, value in vars(one).items() if name != "cluster"}
