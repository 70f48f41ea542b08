"""The commands `fedjigsaw federation ...`: what they say, and that their help needs no Flower."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedjigsaw import cli, sites
from fedjigsaw.cli import federation
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import FederationError, FedJigsawError, ParameterError
from fedjigsaw.io import formats

pytest.importorskip("flwr")
from fedjigsaw.flower.certificates import make_site_key

pytestmark = pytest.mark.federation

VERBS = (
    *("init", "server", "site", "run", "status", "stop", "policy"),
    *("keep", "forget"),
    *("add", "remove", "rekey", "revoke", "renew"),
)


def run(*words):
    return CliRunner().invoke(cli.app, ["federation", *map(str, words)])


WITHOUT_FLOWER = """
import json, sys
sys.modules.update(dict.fromkeys(["flwr", "httpx", "cryptography", "uvicorn", "grpc"]))
from typer.testing import CliRunner
from fedjigsaw import cli
done = [CliRunner().invoke(cli.app, words) for words in json.loads(sys.argv[1])]
print(json.dumps([(each.exit_code, each.output, str(each.exception)) for each in done]))
"""


def without_flower(*commands):
    """Run commands where neither Flower nor what comes with it can be imported."""
    words = [["federation", *command] for command in commands]
    program = [sys.executable, "-c", WITHOUT_FLOWER, json.dumps(words)]
    return json.loads(subprocess.run(program, capture_output=True, check=True, timeout=120).stdout)


def test_init(tmp_path):
    from fedjigsaw.flower import folders

    done = run("init", tmp_path / "new", "--sites", "a,b", "--host", "10.1.2.3")
    assert done.exit_code == 0, done.output
    assert "It contains the site's private" in " ".join(done.output.split())
    settings = folders.ServerSettings.load(tmp_path / "new" / "server")
    assert (settings.host, settings.port) == ("10.1.2.3", 9092)


class TestPolicy:
    @pytest.fixture
    def words(self, clinic, tmp_path):
        (tmp_path / "a.csv").write_text("x\n1\n")
        return ["site", clinic / "bern", "--data", tmp_path / "a.csv"]

    def test_it_is_shown_with_what_is_looser_than_the_default(self, clinic):
        (clinic / "bern" / "policy.toml").write_text("rounds = 7")
        assert "looser than the default" in " ".join(run("policy", clinic / "bern").output.split())
        found = json.loads(run("policy", clinic / "bern", "--json").output)
        assert (found["site"], found["policy"]["rounds"]) == ("bern", 7)
        assert list(found["looser"]) == ["rounds"]

    def test_a_wrong_file_is_an_error_here_and_the_site_does_not_start(self, clinic, words):
        (clinic / "bern" / "policy.toml").write_text("rounds = 'many'")
        for each in (["policy", clinic / "bern"], words):
            assert isinstance(run(*each).exception, ParameterError)

    def test_a_looser_policy_needs_consent_at_the_site(self, clinic, words):
        (clinic / "bern" / "policy.toml").write_text("least_cluster_size = 1\nrounds = 1000")
        done = run(*words)
        assert isinstance(done.exception, ParameterError)
        assert "Site bern was not started" in str(done.exception)
        # the folder holds no consent, and a file that claims one is a mistake
        (clinic / "bern" / "policy.toml").write_text("rounds = 2\naccept_policy = true")
        assert "unknown keys" in str(run(*words).exception)
        # with consent, or stricter rules, the next check is that of the data
        wrong = [*words, "--columns", "z"]
        (clinic / "bern" / "policy.toml").write_text("rounds = 2")
        assert "not started" not in str(run(*wrong, "--accept-policy").exception)
        (clinic / "bern" / "policy.toml").write_text("questions_per_day = 2")
        assert "not started" not in str(run(*wrong).exception)

    def test_an_option_may_not_be_laxer(self, words):
        assert isinstance(run(*words, "--min-cluster-size", 1).exception, ParameterError)


@pytest.mark.parametrize("verb", ["run", "status"])
def test_without_a_server(clinic, verb, tmp_path):
    more = ["-k", 3, "-o", tmp_path / "model"] if verb == "run" else []
    assert isinstance(run(verb, clinic, *more).exception, FederationError)
    (clinic / "server" / "running.json").write_text('{"control_port": 9, "secret": "s"}')
    error = run(verb, clinic, *more).exception
    assert isinstance(error, FederationError)
    assert "does not answer" in str(error)


def test_sites_come_and_go(clinic, tmp_path):
    def changed(*words):
        done = run(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    (tmp_path / "own.pub").write_text(make_site_key()[1])
    assert changed("add", clinic, "rome")["folder"] == str(clinic / "rome")
    changed("add", clinic, "oslo", "--public-key", tmp_path / "own.pub")
    assert changed("rekey", clinic, "lyon")["key"] == str(clinic / "lyon" / "site.key")
    assert changed("remove", clinic, "rome")["removed"] is True
    for _ in range(2):
        assert changed("revoke", clinic, "bern")["site"] == "bern"


def test_renew(clinic):
    assert run("renew", clinic, "--days", 100).exit_code == 0
    found = json.loads(run("renew", clinic, "--new-authority", "--json").stdout)
    assert (found["new_authority"], found["sites"]) == (True, ["bern", "lyon"])
    done = run("renew", clinic, "--new-authority", "--authority", clinic / "authority")
    assert isinstance(done.exception, ParameterError)


def test_bad_input(clinic, tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    for words in (
        ["server", tmp_path],
        ["site", tmp_path, "--data", tmp_path / "a.csv"],
        ["site", clinic / "bern", "--data", tmp_path / "none.csv"],
        ["site", clinic / "bern", "--data", tmp_path / "a.csv", "--columns", "z"],
        ["site", clinic / "bern", "--data", tmp_path / "a.csv", "--scaler", tmp_path / "a.csv"],
        ["run", clinic, "-k", 0, "-o", tmp_path / "m"],
        ["run", clinic, "-k", "x", "-o", tmp_path / "m"],
        ["run", clinic, "-k", 3, "-o", tmp_path / "m", "--method", "central"],
        ["run", clinic, "-k", 3, "-o", tmp_path / "m", "--min-sites", 3],
        ["run", clinic, "-k", 3, "-o", tmp_path / "m", "-p", "color=red"],
        ["run", clinic, "-k", 3, "-o", tmp_path / "a.csv"],
        ["status", tmp_path],
        ["revoke", tmp_path, "bern"],
        ["revoke", clinic, "oslo"],
        ["add", tmp_path, "rome"],
        ["add", clinic, "bern"],
        ["add", clinic, "rome", "--public-key", tmp_path / "a.csv"],
        ["remove", clinic, "oslo"],
        ["rekey", clinic, "oslo"],
        ["renew", tmp_path],
        ["renew", clinic, "--authority", tmp_path],
    ):
        done = run(*words)
        own = isinstance(done.exception, FedJigsawError)
        assert (done.exception if own else done).exit_code in (2, 3, 4, 8), words
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "words",
    [
        "--images x.npz --counts none",
        "--images x.npz --max-rows 9",
        "--images x.npz --epsilon 1",
        "--data a.csv --device cpu",
        "--data a.csv --images x.npz",
        "",
        "--data a.csv --epsilon 1",
        "--data a.csv --bounds 0,1",
        "--data a.csv --epsilon 1 --bounds 0,1 --counts none",
        "--data a.csv --epsilon 1 --bounds c.json",
        "--data a.csv --scaler scaler.json --epsilon 1 --bounds 0,1",
        "--data a.csv --scaler scaler.json --epsilon 1",
        "--data a.csv --scaler scaler.json --delta 1e-7",
        "--data a.csv --scaler scaler.json --unit site",
        "--data a.csv --scaler scaler.json --data-set new",
    ],
)
def test_options_that_do_not_go_together(clinic, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    (tmp_path / "c.json").write_text('{"y": [0, 1]}')
    schema = Schema((Column("x"),))
    stats = sites.measure(tmp_path / "a.csv", schema=schema, min_rows=1)
    formats.save_scaler(sites.common_scaler({"a": stats}, schema=schema), tmp_path / "scaler.json")
    assert isinstance(run("site", clinic / "bern", *words.split()).exception, ParameterError)


def test_the_page_has_no_option_that_does_not_exist():
    page = (Path(__file__).parents[2] / "docs" / "federation.md").read_text()
    lines = re.findall(r"fedjigsaw federation (\w+ [^`\n]*?)(?: &| \.\.\.)?(?:`|\n)", page)
    verbs = get_command(federation.app).commands
    assert {line.split()[0] for line in lines} == set(verbs) == set(VERBS)
    other = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    more = re.findall(r"^fedjigsaw federation (.*)$", other, re.MULTILINE)
    assert more
    for line in lines + more:
        verb, *words = shlex.split(line)
        verbs[verb].make_context(verb, words)


def test_help_needs_no_flower_but_the_commands_do(clinic):
    *helps, status = without_flower(
        ["--help"], *([verb, "--help"] for verb in VERBS), ["status", str(clinic)]
    )
    for code, output, error in helps:
        assert code == 0, error
        assert "Usage:" in output
    assert "fedjigsaw.flower requires flwr: pip install 'fedjigsaw[flower]'" in status[2]
