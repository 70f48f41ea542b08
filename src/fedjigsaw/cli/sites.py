"""Commands of one round by file: stats, scaler, summarize, aggregate, assign, score, inspect."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import click
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer
from rich.markup import escape

from fedjigsaw import sites
from fedjigsaw.cli._shared import (
    CLUSTERS,
    ForceFlag,
    JsonFlag,
    ParamFlag,
    check_outputs,
    count_rows,
    err,
    out,
    parse_params,
    print_json,
    split_names,
)
from fedjigsaw.errors import (
    CountsWarning,
    DataError,
    FewerClustersWarning,
    FewerRowsWarning,
    ForeignSummaryWarning,
    ParameterError,
    invalid,
)
from fedjigsaw.io import formats
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.formats import ModelFile, Score, SummaryFile
from fedjigsaw.io.tables import open_table
from fedjigsaw.kernels import scaling
from fedjigsaw.kernels.scaling import Scaler, Stats
from fedjigsaw.messages import Model
from fedjigsaw.methods import DEFAULT
from fedjigsaw.privacy.guard import COUNTS, Guard
from fedjigsaw.report.inspection import MAX_SHOWN, describe

app = typer.Typer()

Data = Annotated[Path, typer.Argument(help="CSV, Parquet, NPY or NPZ file.")]
Output = Annotated[Path, typer.Option("--out", "-o", help="Where the result goes.")]
Columns = Annotated[
    str | None, typer.Option(help="Columns to use, separated by commas. Default: all.")
]
ClientName = Annotated[
    str | None, typer.Option("--client", help="Name of this site. Default: the file's name.")
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave rows with missing values out.")
]
ModelPath = Annotated[Path, typer.Option("--model", help="A model made by `aggregate`.")]


@app.command()
def stats(
    data: Data,
    output: Output,
    columns: Columns = None,
    client: ClientName = None,
    min_cluster_size: Annotated[
        int, typer.Option(min=1, help="Guard: fewer rows than this send nothing. 1 is off.")
    ] = 5,
    drop_missing: DropMissing = False,
    force: ForceFlag = False,
) -> None:
    """At a site: count, mean and spread of each column, for a scaler common to all sites."""
    check_outputs(output, force=force, inputs=[data])
    options: dict[str, Any] = {"columns": split_names(columns), "drop_missing": drop_missing}
    with count_rows("Rows", open_table(data, **options).n_rows) as progress:
        found = sites.measure(
            data, client=client, min_rows=min_cluster_size, progress=progress, **options
        )
    formats.save(found, output)
    out.print(f"{found.n_samples:,} rows, {len(found.columns)} columns -> {escape(str(output))}")


@app.command()
def scaler(
    files: Annotated[list[Path], typer.Argument(help="Files made by `stats`, one per site.")],
    output: Output,
    force: ForceFlag = False,
) -> None:
    """At the coordinator: merge the sites' statistics into one scaler, exactly."""
    check_outputs(output, force=force, inputs=files)
    loaded = {str(path): formats.load(path, Stats) for path in files}
    _check_once(files)
    sites.check_different({name: s.client for name, s in loaded.items()})
    merged = scaling.merge(list(loaded.values()))
    formats.save_scaler(merged, output)
    out.print(f"Scaler {merged.fingerprint} of {len(loaded)} sites -> {escape(str(output))}")


@app.command()
def summarize(
    data: Data,
    output: Output,
    k: Annotated[Any, CLUSTERS],
    method: Annotated[str, typer.Option(help="`fedjigsaw methods` lists them.")] = DEFAULT,
    param: ParamFlag = None,
    columns: Columns = None,
    scaler_file: Annotated[
        Path | None, typer.Option("--scaler", help="Made by `scaler`, the same at all sites.")
    ] = None,
    client: ClientName = None,
    min_cluster_size: Annotated[
        int, typer.Option(min=1, help="Guard: no center of fewer rows leaves. 1 is off.")
    ] = 5,
    counts: Annotated[
        str | None,
        typer.Option(
            click_type=click.Choice(COUNTS),
            help="Guard: how cluster sizes leave. Default: as needed.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same at all sites.")] = 0,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Cluster a random sample of so many rows at most.")
    ] = sites.MAX_ROWS,
    drop_missing: DropMissing = False,
    force: ForceFlag = False,
) -> None:
    """At a site: cluster the rows and write the one summary that leaves."""
    check_outputs(output, force=force, inputs=[data, scaler_file])
    with (
        _warnings_told(FewerRowsWarning),
        count_rows("Rows", open_table(data).n_rows) as progress,
    ):
        file = sites.summarize(
            data,
            k,
            method=method,
            params=parse_params(param),
            client=client,
            scaler=None if scaler_file is None else formats.load_scaler(scaler_file),
            guard=Guard(min_cluster_size, counts),
            seed=seed,
            max_rows=max_rows,
            columns=split_names(columns),
            drop_missing=drop_missing,
            progress=progress,
        )
    formats.save(file, output)
    summary = file.summary
    told = f"{summary.n_samples:,} rows -> {len(summary.centers)} centers"
    told += f", {summary.merged} merged by the guard" if summary.merged else ""
    out.print(f"{told} -> {escape(str(output))} ({output.stat().st_size:,} bytes)")
    if file.n_used < summary.n_samples:
        out.print(
            f"Only {file.n_used:,} of the rows, drawn at random, were clustered (--max-rows)."
        )
        _tell_loss(data, file, drop_missing)


@app.command()
def aggregate(
    files: Annotated[list[Path], typer.Argument(help="Summaries, one per site.")],
    output: Output,
    k: Annotated[Any, CLUSTERS],
    without: Annotated[
        list[str] | None, typer.Option(help="Forget this site; repeat for several.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the server.")] = 0,
    force: ForceFlag = False,
) -> None:
    """At the coordinator: put the summaries together to a model."""
    check_outputs(output, force=force, inputs=files)
    _check_once(files)
    loaded = {str(path): formats.load(path, SummaryFile) for path in files}
    with _warnings_told(CountsWarning, FewerClustersWarning):
        model = sites.aggregate(loaded, k, without=without or (), seed=seed)
    formats.save(model, output)
    found = len(model.model.centers)
    told = f"{len(model.clients)} sites, {model.n_samples:,} rows -> {found} centers"
    out.print(f"{told} -> {escape(str(output))}")


@app.command()
def assign(
    data: Data,
    model: ModelPath,
    output: Output,
    local: Annotated[
        Path | None,
        typer.Option(help="This site's summary: rows follow its centers. Best on skewed data."),
    ] = None,
    distances: Annotated[bool, typer.Option("--distances", help="Also to the center.")] = False,
    id_column: Annotated[str | None, typer.Option("--id", help="A column to carry along.")] = None,
    drop_missing: DropMissing = False,
    force: ForceFlag = False,
) -> None:
    """At a site: the cluster of every row, in the order of the rows, as Parquet or CSV."""
    check_outputs(output, force=force, inputs=[data, model, local])
    if id_column in ("label", "distance"):
        allowed = "different from the columns of the result, label and distance"
        raise ParameterError(invalid("--id", "assign", allowed, repr(id_column)))
    file = formats.load(model, ModelFile)
    fields = [("label", pa.int64())] + [("distance", pa.float64())] * distances
    n_rows = open_table(data, columns=file.columns, id_column=id_column).n_rows
    written = 0
    with _warnings_told(ForeignSummaryWarning), count_rows("Rows", n_rows) as progress:
        parts = sites.assign(
            data,
            file,
            local=None if local is None else formats.load(local, SummaryFile),
            id_column=id_column,
            drop_missing=drop_missing,
            progress=progress,
        )
        first = next(parts)
        if first.ids is not None:
            fields = [(str(id_column), first.ids.type), *fields]
        schema = pa.schema(fields)
        with _writer(output, schema) as writer:
            for part in _chain(first, parts):
                arrays = [part.labels] + [part.distances] * distances
                arrays = arrays if part.ids is None else [part.ids, *arrays]
                writer.write_batch(pa.record_batch(arrays, schema=schema))
                written += len(part.labels)
    out.print(f"{written:,} labels -> {escape(str(output))}")


@app.command()
def score(
    data: Annotated[
        list[Path], typer.Argument(help="One data file; with --merge, scores of all sites.")
    ],
    model: Annotated[Path | None, typer.Option("--model", help="Made by `aggregate`.")] = None,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the score goes.")
    ] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Add up the scores of all sites.")] = False,
    client: ClientName = None,
    drop_missing: DropMissing = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """How well a model fits: at a site for its rows; with --merge, for all sites together."""
    check_outputs(output, force=force, inputs=[*data, model])
    if merge:
        found = sites.merge_scores({str(path): formats.load(path, Score) for path in data})
    elif model is None or len(data) != 1:
        got = f"{len(data)} files" if model else "no --model"
        raise ParameterError(invalid("input", "score", "one data file and --model", got))
    else:
        file = formats.load(model, ModelFile)
        with count_rows("Rows", open_table(data[0], columns=file.columns).n_rows) as progress:
            found = sites.score(
                data[0], file, client=client, drop_missing=drop_missing, progress=progress
            )
    if output is not None:
        formats.save(found, output)
    numbers = {
        "who": found.client,
        "rows": int(found.counts.sum()),
        "inertia": float(found.sse.sum()),
        "cluster_sizes": found.counts.tolist(),
    }
    if as_json:
        print_json(numbers)
        return
    out.print(f"{numbers['who']}: {numbers['rows']:,} rows, inertia {numbers['inertia']:.10g}")
    out.print("Rows per cluster: " + ", ".join(map(str, numbers["cluster_sizes"])))


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="Any file that fedjigsaw wrote.")],
    picture: Annotated[
        Path | None,
        typer.Option(help="Of a model made with -k auto: how k was chosen, as a picture."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every center and column; --json has them in any case.")
    ] = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Everything in a file, in plain words: what leaves, and what could be inferred from it."""
    check_outputs(picture, force=force, inputs=[file])
    content: formats.Content | Scaler
    content = formats.load_scaler(file) if formats.is_json(file) else formats.load_any(file)
    if picture is not None:
        _draw_k_curve(content, file, picture)
    most = sys.maxsize if everything or as_json else MAX_SHOWN
    lines = describe(content, file.stat().st_size, most=most)
    if as_json:
        print_json({"file": str(file), "lines": lines})
        return
    for line in lines:
        out.print(escape(line))


# ----------------------------------------------------------------------------------------- parts


@contextmanager
def _warnings_told(*kinds: type[Warning]) -> Iterator[None]:
    """Warnings of these kinds become lines on the screen, once the work inside is done."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in kinds:
            warnings.simplefilter("always", kind)
        try:
            yield
        finally:
            told = [w for w in caught if issubclass(w.category, kinds)]
            for warning in told:
                err.print(f"[yellow]Warning:[/] {escape(str(warning.message))}")
    for other in caught:
        if other not in told:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)


def _check_once(files: Sequence[Path]) -> None:
    places = [file.resolve() for file in files]
    for file, place in zip(files, places, strict=True):
        if places.count(place) > 1:
            raise ParameterError(f"{file} is given twice; every site counts once.")


def _draw_k_curve(content: formats.Content | Scaler, file: Path, picture: Path) -> None:
    from fedjigsaw.report import pictures

    if not isinstance(content, ModelFile):
        raise ParameterError(f"--picture shows how a model's k was chosen; {file} is no model.")
    pictures.check_format(picture.suffix)
    figure = pictures.k_curve(content.model)
    write_whole(picture, pictures.render(figure, picture.suffix))


def _tell_loss(data: Path, file: SummaryFile, drop_missing: bool) -> None:
    """What sampling cost: the mean squared distance of all rows to the centers that leave."""
    centers = Model(file.summary.centers, feature_names=file.columns)
    model = ModelFile(centers, file.scaler, (), 0)
    with count_rows(
        "Measuring the loss", open_table(data, columns=file.columns).n_rows
    ) as progress:
        found = sites.score(data, model, drop_missing=drop_missing, progress=progress)
    mean = found.sse.sum() / found.counts.sum()
    out.print(f"Mean squared distance of all rows to the nearest of its centers: {mean:.6g}")


@contextmanager
def _writer(path: Path, schema: pa.Schema) -> Iterator[Any]:
    """A Parquet or CSV writer beside the place of the result; moved there when all is written."""
    kinds = {".parquet": pa.parquet.ParquetWriter, ".csv": pa.csv.CSVWriter}
    if path.suffix not in kinds:
        raise DataError(invalid("ending", str(path), "one of .parquet, .csv", repr(path.suffix)))
    try:
        with TemporaryDirectory(dir=path.parent, prefix=".fedjigsaw-") as folder:
            temporary = Path(folder) / path.name
            with kinds[path.suffix](str(temporary), schema) as writer:
                yield writer
            temporary.replace(path)
    except (OSError, pa.ArrowException) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(invalid("file", str(path), "one that can be written", reason)) from error


def _chain(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
