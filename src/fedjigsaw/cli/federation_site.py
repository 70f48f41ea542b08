"""The command that serves a site of a federation: federation site."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw.cli._config import CheckConfigFlag, ConfigOption, print_settings, was_given
from fedjigsaw.cli._logs import JsonLogs, LogFormat, LogLevel, MetricsPort, Screen
from fedjigsaw.cli._options import (
    DECIMAL,
    PRIVACY,
    BoundsOption,
    Delta,
    Epsilon,
    Unit,
    make_privacy,
    open_to_cluster,
    refuse_with_epsilon,
)
from fedjigsaw.cli._shared import choice, split_names
from fedjigsaw.cli.policy import AcceptPolicyFlag
from fedjigsaw.errors import ParameterError
from fedjigsaw.io import formats
from fedjigsaw.messages import COUNTS
from fedjigsaw.sites import MAX_ROWS

GUARD, ROWS, IMAGES = "Guard: what may leave", "Only with --data", "Only with --images"
OF_ROWS = (
    *("columns", "scaler", "counts", "max_rows", "drop_missing", "decimal"),
    *("labels", "label_ids"),
    *("epsilon", "delta", "bounds", "unit", "data_set"),
)
OF_IMAGES = ("size", "device")


def site(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            help="This site's folder; may also be in the file of --config. Example: clinic/bern",
            envvar="FEDJIGSAW_SITE_FOLDER",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Rows: a CSV, Excel, Parquet or NPY file. Example: --data bern.csv"),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Images, for deepfeca: a folder or an NPZ file. Example: --images scans"),
    ] = None,
    min_cluster_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Smallest number of rows or images that a center may stand for; 1 is off. "
            "Default, and smallest value: that of policy.toml, 5 if it says nothing.",
            rich_help_panel=GUARD,
        ),
    ] = None,
    counts: Annotated[
        str | None,
        typer.Option(
            **choice(COUNTS),
            help="How the sizes of clusters leave. Default: as policy.toml allows if the method "
            "needs them, otherwise none. Only with --data.",
            rich_help_panel=GUARD,
        ),
    ] = None,
    accept_policy: AcceptPolicyFlag = False,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns to use, separated by commas. Default: all but those that look like "
            "identifiers. Example: --columns age,dose",
            rich_help_panel=ROWS,
        ),
    ] = None,
    scaler: Annotated[
        Path | None,
        typer.Option(
            help="Scaler from `fedjigsaw scaler`, the same file at all sites. One that was made "
            "by a schema prepares the columns, too. Default: no scaling.",
            rich_help_panel=ROWS,
        ),
    ] = None,
    max_rows: Annotated[
        int,
        typer.Option(
            min=1, help="Cluster a random sample of at most this many rows.", rich_help_panel=ROWS
        ),
    ] = MAX_ROWS,
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Skip rows with missing values; the log says how many there are. Default: a "
            "missing value is an error.",
            rich_help_panel=ROWS,
        ),
    ] = False,
    decimal: Annotated[str | None, typer.Option(**DECIMAL, rich_help_panel=ROWS)] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Take models of `federation run --assign`, and write the label of each row to "
            "this .csv or .parquet file, which is replaced each time. Nothing of it leaves. "
            "Example: --labels bern-labels.csv",
            rich_help_panel=ROWS,
        ),
    ] = None,
    label_ids: Annotated[
        str | None,
        typer.Option(
            help="Columns to copy to the file of --labels, separated by commas. "
            "Example: --label-ids patient",
            rich_help_panel=ROWS,
        ),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    bounds: BoundsOption = None,
    unit: Unit = None,
    data_set: Annotated[
        str | None,
        typer.Option(
            help="Name of these data, with --epsilon. Under one name, the same question gets the "
            "same answer, even if the file was changed. So give another name when the data are "
            "new. Default: the name of the site. Example: --data-set bern-2025",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=8,
            help="Height and width to scale image files to. "
            "Default: the size of the first one. Example: --size 32",
            rich_help_panel=IMAGES,
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="Torch device; auto is a GPU if there is one. Example: --device cuda:1",
            rich_help_panel=IMAGES,
        ),
    ] = "auto",
    config: ConfigOption = None,
    check_config: CheckConfigFlag = False,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    metrics_port: MetricsPort = None,
    as_json: JsonLogs = False,
) -> None:
    """At a site: serve requests from the server until Ctrl-C. May start before the server.

    The site answers what policy.toml in its folder allows; see `federation policy`.

    With --epsilon, every answer is noisy, whatever the server asks. Each new one is written down
    in privacy-ledger.jsonl in the folder. All of them together have at most this epsilon, unless
    `fedjigsaw privacy set-limit` said otherwise.

    Example: fedjigsaw federation site clinic/bern --data bern.csv
    """
    from fedjigsaw.flower import checks, serving

    if check_config:
        print_settings(context, checks.check_site(folder, _options(context)), as_json=as_json)
        return
    name, log_format = checks.site_name(folder), "json" if as_json else log_format
    screen = Screen(log_format, log_level, name)
    with screen.running("site"):
        options = _options(context)
        serving.serve_site(folder, options, **screen.sinks, metrics_port=metrics_port)


def _options(context: typer.Context) -> dict[str, Any]:
    """Return data and guard of the site, as `load_site` takes them."""
    given = context.params
    guard = {name: given[name] for name in ("min_cluster_size", "accept_policy")}
    if (given["data"] is None) == (given["images"] is None):
        raise ParameterError("Give --data or --images: a site needs data.")
    if given["data"] is not None:
        _refuse(context, OF_IMAGES, "images")
        return {**_rows(context, given), **guard}
    _refuse(context, OF_ROWS, "rows")
    place = str(Path(given["images"]).resolve())
    size, device = given["size"], given["device"]
    return {"kind": "images", "data": place, "size": size, "device": device, **guard}


def _rows(context: typer.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a site that holds rows, after a look at its data."""
    # Typer makes paths of these texts only for the function of the command
    data, columns = Path(given["data"]), split_names(given["columns"])
    scaler = None if given["scaler"] is None else Path(given["scaler"])
    options = {
        "kind": "rows",
        "data": str(data.resolve()),
        "columns": columns,
        "scaler": None if scaler is None else str(scaler.resolve()),
        **{name: given[name] for name in ("counts", "max_rows", "drop_missing", "decimal")},
        **_labels(given),
    }
    prepared = None if scaler is None else formats.load_scaler(scaler)
    table = open_to_cluster(data, columns, prepared, given["decimal"])
    encoding = None if prepared is None else prepared.encoding
    wanted = (given[name] for name in ("epsilon", "delta", "bounds", "unit"))
    privacy = make_privacy(table.columns, *wanted, encoding=encoding)
    if privacy is not None:
        refuse_with_epsilon(context, "min_cluster_size", "counts", "max_rows")
        table.check_named()
        # bounds are for these columns in this order
        own = None if scaler is not None else list(table.columns)
        return options | {
            "columns": own,
            "privacy": privacy.to_dict(),
            "version": given["data_set"],
        }
    if given["data_set"] is not None:
        raise ParameterError("--data-set needs --epsilon: without it, changed data are new.")
    return options


def _labels(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a site keeps labels, if it wants any."""
    if given["labels"] is None:
        if given["label_ids"] is not None:
            raise ParameterError("--label-ids goes with --labels.")
        return {}
    place = str(Path(given["labels"]).resolve())
    return {"labels": place, "label_ids": split_names(given["label_ids"]) or []}


def _refuse(context: typer.Context, names: Iterable[str], kind: str) -> None:
    """Raise if an option was given that only sites with the other kind of data have."""
    for name in names:
        if was_given(context, name):
            raise ParameterError(f"--{name.replace('_', '-')} is for sites that hold {kind}.")
