"""Every command has --json: JSON alone on standard output, all else on standard error."""

import json

import numpy as np
import pytest
from typer.main import get_command

from fedjigsaw.cli._app import all_commands, app


def test_every_command_has_it():
    pytest.importorskip("flwr")
    for name, command in all_commands("", get_command(app)):
        options = [option for parameter in command.params for option in parameter.opts]
        assert hasattr(command, "commands") or "--json" in options, name


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


def test_a_round_by_file(site, run):
    def values(words):
        return json.loads(run(f"{words} --json").stdout)

    stats = values("stats bern.csv -o bern.stats")
    assert (stats["client"], stats["rows"], stats["noisy"]) == ("bern", 80, False)
    assert stats["columns"].keys() == {"age", "dose"}
    run("stats oslo.csv -o oslo.stats")
    assert values("scaler bern.stats oslo.stats -o scaler.json")["n_sites"] == 2
    (site / "columns.json").write_text('{"age": [0, 60], "dose": [0, 10]}')
    public = values("scaler --bounds columns.json -o public.json")
    assert public["columns"]["dose"]["mean"] == 5.0
    made = values("summarize bern.csv -k 2 -o bern.summary --scaler scaler.json")
    shown = values("inspect bern.summary")
    del shown["lines"]
    own = {"skipped_at_this_site": 0, "budget": None, "mean_squared_distance": None}
    assert made == {**shown, **own}
    assert made["clusters"][0].keys() == {"center", "rows", "sse"}
    sample = values("summarize bern.csv -k 2 -o part.summary --max-rows 40")
    assert sample["mean_squared_distance"] > 0
    noise = "--epsilon 5 --cells own --bounds columns.json"
    private = values(f"summarize bern.csv -k 2 -o noisy.summary {noise}")
    assert private["privacy"]["epsilon"] == 5
    assert "epsilon" in private["budget"]
    run("aggregate bern.summary -k 2 -o model")
    labels = values("assign bern.csv --model model -o labels.csv")
    assert (labels["labels"], labels["skipped"], labels["rule"]) == (80, 0, "nearest")
    page = values("report model -o page.html")
    assert (page["n_clusters"], page["sites"]) == (2, ["bern"])
    assert values("privacy set-limit oslo.csv --epsilon 4")["limit"]["epsilon"] == 4.0


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
