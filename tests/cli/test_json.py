"""Every command has --json: JSON alone on standard output, all else on standard error."""

import json

import numpy as np
import pytest
from typer.main import get_command

from fedjigsaw.cli._app import all_commands, app
from fedjigsaw.io import formats


def test_every_command_has_it():
    pytest.importorskip("flwr")
    commands = [
        one for one in all_commands("", get_command(app)) if not hasattr(one[1], "commands")
    ]
    assert len(commands) > 35
    without = [
        name
        for name, command in commands
        if not any("--json" in option.opts for option in command.params)
    ]
    assert without == []


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with the data of two sites."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("bern", "oslo"):
        rows = np.repeat([[0.0, 0.0], [50.0, 9.0]], 40, axis=0) + rng.normal(size=(80, 2))
        lines = [f"{age:.3f},{dose:.3f}" for age, dose in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,dose", *lines]) + "\n")
    return tmp_path


def shape(value):
    """The names and types of JSON values; of a list, those of its first entry."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


NUMBER, TEXT, WHOLE = "float", "str", "int"
COLUMNS = {name: {"mean": NUMBER, "deviation": NUMBER} for name in ("age", "dose")}
CENTER = {"age": NUMBER, "dose": NUMBER}


def test_a_round_by_file(site, run):
    def values(*words):
        return json.loads(run(*words, "--json").stdout)

    stats = values("stats", "bern.csv", "-o", "bern.stats")
    assert shape(stats) == {
        **dict.fromkeys(("file", "kind", "client"), TEXT),
        **dict.fromkeys(("bytes", "rows", "skipped_at_this_site"), WHOLE),
        "noisy": "bool",
        "quantiles": [],
        "columns": COLUMNS,
        "inferences": [TEXT],
        **dict.fromkeys(("schema", "made_by", "privacy", "budget"), "NoneType"),
    }
    run("stats", "oslo.csv", "-o", "oslo.stats")
    scaler = values("scaler", "bern.stats", "oslo.stats", "-o", "scaler.json")
    assert scaler["columns"].keys() == {"age", "dose"}
    assert scaler["n_sites"] == 2
    bounds = '{"age": [0, 60], "dose": [0, 10]}'
    (site / "columns.json").write_text(bounds)
    public = values("scaler", "--bounds", "columns.json", "-o", "public.json")
    assert public["columns"]["dose"]["mean"] == 5.0
    made = values("summarize", "bern.csv", "-k", 2, "-o", "bern.summary", "--scaler", "scaler.json")
    shown = values("inspect", "bern.summary")
    del shown["lines"]
    own = {"skipped_at_this_site": 0, "budget": None, "mean_squared_distance": None}
    assert made == {**shown, **own}
    cluster = {"center": CENTER, "rows": WHOLE, "sse": NUMBER}
    assert shape(made["clusters"]) == [cluster]
    sample = values("summarize", "bern.csv", "-k", 2, "-o", "part.summary", "--max-rows", 40)
    assert sample["mean_squared_distance"] > 0
    private = values(
        *("summarize", "bern.csv", "-k", 2, "-o", "noisy.summary"),
        *("--epsilon", 5, "--cells", "own", "--bounds", "columns.json"),
    )
    assert private["privacy"]["epsilon"] == 5
    assert "epsilon" in private["budget"]
    run("aggregate", "bern.summary", "-k", 2, "-o", "model")
    labels = values("assign", "bern.csv", "--model", "model", "-o", "labels.csv")
    assert labels == {
        "file": "labels.csv",
        "model": "model",
        "labels": 80,
        "skipped": 0,
        "rule": "nearest",
    }
    page = values("report", "model", "-o", "page.html")
    assert page["n_clusters"] == 2
    assert page["sites"] == ["bern"]
    limit = values("privacy", "set-limit", "oslo.csv", "--epsilon", 4)
    assert limit["limit"]["epsilon"] == 4.0


def test_what_is_printed_under_privacy_has_one_exact_number(site, run):
    """As the page says: the rows that were skipped; the file does not tell them."""
    pytest.importorskip("opendp")
    path = site / "bern.csv"
    path.write_text(path.read_text() + ",1.0\n" * 3)
    words = ("--epsilon", "5", "--cells", "own", "--bounds", "0,60", "--drop-missing", "--json")
    made = run("summarize", "bern.csv", "-k", "2", "-o", "bern.summary", *words)
    assert json.loads(made.stdout)["skipped_at_this_site"] == 3
    assert formats.load(site / "bern.summary", formats.SummaryFile).n_skipped == 0


def test_a_schema(site, run):
    schema = '[[columns]]\nname = "age"\nkind = "number"\n'
    (site / "schema.toml").write_text("format = 1\n\n" + schema)
    words = ["schema", "apply", "bern.csv", "--schema", "schema.toml", "-o", "bern.parquet"]
    done = json.loads(run(*words, "--json").stdout)
    assert done["n_rows"] == 80
    assert done["copied"] == ["dose"]


@pytest.mark.federation
def test_a_federation(tmp_path, run):
    pytest.importorskip("flwr")
    folder = tmp_path / "clinic"
    made = json.loads(run("federation", "init", folder, "--sites", "bern,oslo", "--json").stdout)
    assert made["sites"] == {name: str(folder / name) for name in ("bern", "oslo")}
    assert (made["host"], made["port"]) == ("127.0.0.1", 9092)
    checked = run("federation", "server", folder, "--check-config", "--json").stdout
    assert json.loads(checked)["settings"]["folder"]["from"] == "command line"


def test_errors_go_to_standard_error(shell, tmp_path):
    done = shell("inspect", tmp_path / "nothing", "--json")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("Error: Cannot read")
