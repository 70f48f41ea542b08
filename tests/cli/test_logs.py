"""What `federation server` and `site` print with --log-format json: objects, and no data."""

import json

import pytest
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.errors import DataError

pytest.importorskip("flwr")
pytestmark = pytest.mark.federation
CELL = "Meier-4711"


def run(*words):
    return CliRunner().invoke(cli.app, ["federation", *map(str, words)])


@pytest.fixture
def headless(clinic, tmp_path):
    """A site whose file has a row of data in place of the names of columns."""
    (tmp_path / "a.csv").write_text(f"{CELL};Bern\n" + "Muster-12;Lyon\n" * 20)
    return "site", clinic / "bern", "--data", tmp_path / "a.csv", "--columns", "age"


def test_text_quotes_what_is_wrong(headless):
    done = run(*headless)
    assert isinstance(done.exception, DataError)
    assert CELL in str(done.exception)


def test_json_does_not(headless):
    done = run(*headless, "--log-format", "json")
    (line,) = map(json.loads, done.output.splitlines())
    assert done.exit_code == line["exit_code"] == DataError.exit_code
    assert (line["site"], line["level"], line["event"]) == ("bern", "error", "ended")
    assert line["exception"] == "DataError"
    assert line["file"].endswith("a.csv")
    assert "column" not in line
    assert CELL not in done.output
    assert "--check-config" in line["message"]


def test_errors_without_data_are_told(clinic, tmp_path):
    (clinic / "server" / "server.key").chmod(0o644)
    done = run("server", clinic, "--log-format", "json")
    (line,) = map(json.loads, done.output.splitlines())
    assert (done.exit_code, line["part"], line["exception"]) == (8, "server", "FederationError")
    assert "chmod 600" in line["message"]
