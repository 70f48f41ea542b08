"""The commands `fedjigsaw federation ...`: what they say, and that their help needs no Flower."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedjigsaw import cli, sites
from fedjigsaw.choice.findings import Doubt
from fedjigsaw.cli import federation, federation_run
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import FederationError, FedJigsawError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.messages import Model
from report_files import k_findings

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
    assert "goes to b" in done.output
    words = " ".join(done.output.split())
    assert (
        "Send each site its folder over a channel you trust. It contains the site's private"
        in words
    )
    assert "Keep it offline: anyone who has it can pose as the server." in words
    settings = folders.ServerSettings.load(tmp_path / "new" / "server")
    assert (settings.host, settings.port) == ("10.1.2.3", 9092)


class TestPolicy:
    def test_it_is_shown_in_words(self, clinic):
        done = run("policy", clinic / "bern")
        words = " ".join(done.output.replace("│", " ").split())
        assert done.exit_code == 0, done.output
        assert "Site bern: rules of" in words
        assert "questions_in_all 20 Different questions that are answered" in words
        (clinic / "bern" / "policy.toml").unlink()
        assert "default rules" in " ".join(run("policy", clinic / "bern").output.split())

    def test_as_json(self, clinic):
        (clinic / "bern" / "policy.toml").write_text("rounds = 7")
        found = json.loads(run("policy", clinic / "bern", "--json").output)
        assert (found["site"], found["policy"]["rounds"]) == ("bern", 7)
        assert found["policy"].keys() == found["means"].keys()

    def test_a_wrong_file_is_an_error_here_and_the_site_does_not_start(self, clinic, tmp_path):
        (tmp_path / "a.csv").write_text("x\n1\n")
        (clinic / "bern" / "policy.toml").write_text("rounds = 'many'")
        for words in (["policy"], ["site", "--data", tmp_path / "a.csv"]):
            done = run(words[0], clinic / "bern", *words[1:])
            assert isinstance(done.exception, ParameterError)
            assert "rounds of" in str(done.exception)
            assert "policy.toml must be an integer >= 1; got 'many'" in str(done.exception)

    def test_a_looser_policy_needs_consent_at_the_site(self, clinic, tmp_path):
        (tmp_path / "a.csv").write_text("x\n1\n")
        words = ["site", clinic / "bern", "--data", tmp_path / "a.csv"]
        (clinic / "bern" / "policy.toml").write_text("least_cluster_size = 1\nrounds = 1000")
        done = run(*words)
        assert isinstance(done.exception, ParameterError)
        text = str(done.exception)
        assert "Site bern was not started" in text
        assert "least_cluster_size = 1 (default: at least 5)" in text
        assert "rounds = 1000 (default: at most 1)" in text
        assert "--accept-policy" in text
        # the folder holds no consent, and a file that claims one is a mistake
        (clinic / "bern" / "policy.toml").write_text("rounds = 2\naccept_policy = true")
        assert "unknown keys" in str(run(*words).exception)
        # with consent, or stricter rules, the next check is that of the data
        wrong = [*words, "--columns", "z"]
        (clinic / "bern" / "policy.toml").write_text("rounds = 2")
        assert "not started" not in str(run(*wrong, "--accept-policy").exception)
        (clinic / "bern" / "policy.toml").write_text("questions_per_day = 2")
        assert "not started" not in str(run(*wrong).exception)

    def test_looser_rules_are_marked(self, clinic):
        assert "looser than" not in run("policy", clinic / "bern").output
        (clinic / "bern" / "policy.toml").write_text("rounds = 7")
        assert "looser than the default" in " ".join(run("policy", clinic / "bern").output.split())
        found = json.loads(run("policy", clinic / "bern", "--json").output)
        assert list(found["looser"]) == ["rounds"]

    def test_of_a_folder_that_is_no_site(self, clinic):
        assert isinstance(run("policy", clinic / "server").exception, FederationError)

    def test_an_option_may_not_be_laxer(self, clinic, tmp_path):
        (tmp_path / "a.csv").write_text("x\n1\n")
        done = run("site", clinic / "bern", "--data", tmp_path / "a.csv", "--min-cluster-size", 1)
        assert isinstance(done.exception, ParameterError)
        assert "less than least_cluster_size = 5 in policy.toml" in str(done.exception)


@pytest.mark.parametrize("verb", ["run", "status"])
def test_without_a_server(clinic, verb, tmp_path):
    more = ["-k", 3, "-o", tmp_path / "model"] if verb == "run" else []
    done = run(verb, clinic, *more)
    assert isinstance(done.exception, FederationError)
    assert "is not running on this machine" in str(done.exception)
    (clinic / "server" / "running.json").write_text('{"control_port": 9, "secret": "s"}')
    done = run(verb, clinic, *more)
    assert "does not answer" in str(done.exception)
    assert f"Start it with `fedjigsaw federation server {clinic}`." in str(done.exception)


def test_commands_in_errors_can_be_copied_whatever_the_name_of_the_folder(clinic):
    """A shell must read the folder as one word."""
    odd = clinic.rename(clinic.with_name("klinik ö $x"))
    told = [str(run("status", odd).exception)]
    (odd / "server" / "server.key").chmod(0o644)
    told.append(str(run("server", odd).exception))
    start, mend = (shlex.split(re.search("`(.*?)`", text)[1]) for text in told)
    assert start == ["fedjigsaw", "federation", "server", str(odd)]
    assert mend == ["chmod", "600", str(odd / "server" / "server.key")]


def test_revoke(clinic):
    done = run("revoke", clinic, "bern")
    assert done.exit_code == 0
    assert "Site bern is revoked." in done.output
    assert "Site bern was revoked before, on 20" in run("revoke", clinic, "bern").output
    assert json.loads(run("revoke", clinic, "bern", "--json").stdout)["site"] == "bern"


def test_sites_come_and_go(clinic, tmp_path):
    done = run("add", clinic, "rome")
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "clinic/rome goes to rome, over a channel you trust." in words
    assert "contains the site's private key" in words
    (tmp_path / "own.pub").write_text(make_site_key()[1])
    words = ["--public-key", tmp_path / "own.pub"]
    done = run("add", clinic, "oslo", *words)
    assert "The site puts its own private key there" in " ".join(done.output.split())
    assert "Site lyon has a new key" in run("rekey", clinic, "lyon").output
    found = json.loads(run("rekey", clinic, "lyon", "--json").stdout)
    assert found == {"site": "lyon", "key": str(clinic / "lyon" / "site.key")}
    assert "Site bern is removed" in run("remove", clinic, "bern").output
    assert json.loads(run("remove", clinic, "rome", "--json").stdout)["removed"] is True
    found = json.loads(run("add", clinic, "turin", "--json").stdout)
    assert found == {"site": "turin", "folder": str(clinic / "turin")}


def test_status_tells_of_certificates_that_end(capsys):
    found = {"host": "h", "port": 1, "connected": {"bern": True, "lyon": True, "oslo": False}}
    warnings = ["the server's certificate ends in 9 days"]
    found |= {"revoked": {}, "twins": {}, "runs": {}, "warnings": warnings}
    federation.print_status(found)
    words = " ".join(capsys.readouterr().out.split())
    assert "bern: connected lyon: connected oslo: not connected" in words
    assert words.endswith("Warning: the server's certificate ends in 9 days.")


def test_renew(clinic):
    done = run("renew", clinic, "--days", 100)
    assert done.exit_code == 0, done.output
    assert "The server's certificate is valid until 20" in done.output
    found = json.loads(run("renew", clinic, "--new-authority", "--json").stdout)
    assert (found["new_authority"], found["sites"]) == (True, ["bern", "lyon"])
    words = " ".join(run("renew", clinic, "--new-authority").output.split())
    assert "server/ca.crt to every site, over a channel" in words
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
    ("words", "message"),
    [
        (["--images", "x.npz", "--counts", "none"], "--counts is for sites that hold rows"),
        (["--images", "x.npz", "--max-rows", "9"], "--max-rows is for sites that hold rows"),
        (["--data", "x.csv", "--device", "cpu"], "--device is for sites that hold images"),
        (["--data", "x.csv", "--images", "x.npz"], "Give --data or --images"),
        (["--images", "x.npz", "--epsilon", "1"], "--epsilon is for sites that hold rows"),
        ([], "Give --data or --images"),
    ],
)
def test_options_of_the_other_kind_are_refused(clinic, words, message):
    done = run("site", clinic / "bern", *words)
    assert isinstance(done.exception, ParameterError)
    assert message in str(done.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epsilon", "1"], "--epsilon needs --bounds"),
        (["--bounds", "0,1"], "--bounds is about differential privacy"),
        (["--epsilon", "1", "--bounds", "0,1", "--counts", "none"], "--counts has no meaning"),
        (["--epsilon", "1", "--bounds", "c.json"], "c.json has no bounds for column 'x'"),
    ],
)
def test_options_of_privacy(clinic, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "c.json").write_text('{"y": [0, 1]}')
    done = run("site", clinic / "bern", "--data", "a.csv", *words)
    assert isinstance(done.exception, ParameterError)
    assert message in str(done.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epsilon", "1", "--bounds", "0,1"], "Leave --bounds out: the schema has the range"),
        (["--epsilon", "1"], "Column 'x' has no range in the schema"),
        (["--delta", "1e-7"], "--delta is about differential privacy"),
        (["--unit", "site"], "--unit is about differential privacy"),
        (["--data-set", "new"], "--data-set needs --epsilon"),
    ],
)
def test_options_of_privacy_with_a_schema(clinic, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    schema = Schema((Column("x"),))
    stats = sites.measure(tmp_path / "a.csv", schema=schema, min_rows=1)
    formats.save_scaler(sites.common_scaler({"a": stats}, schema=schema), tmp_path / "scaler.json")
    done = run("site", clinic / "bern", "--data", "a.csv", "--scaler", "scaler.json", *words)
    assert isinstance(done.exception, ParameterError)
    assert message in str(done.exception)


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


def test_every_command_has_an_example_and_every_option_a_help_text():
    for verb, command in get_command(federation.app).commands.items():
        inner = getattr(command, "commands", {verb: command}).items()
        for name, each in inner:
            words = verb if name == verb else f"{verb} {name}"
            assert f"Example: fedjigsaw federation {words} clinic" in each.help
            for parameter in each.params:
                assert parameter.help, parameter.name


@pytest.fixture
def model():
    return formats.ModelFile(Model([[1.0]], "feca", {}, ("x",)), None, ("bern", "lyon"), 5)


def report(model, capsys, *, n_rounds=1, as_json=False):
    first = {"number": 0, "bytes_up": {"bern": 8, "lyon": 8}, "failures": {"oslo": "it hung"}}
    others = [
        {"number": i, "bytes_up": {"bern": 8, "lyon": 8}, "failures": {}}
        for i in range(1, n_rounds)
    ]
    sites = ("bern", "lyon", "oslo")
    federation_run.report(model, {"rounds": [first, *others]}, sites, Path("m"), as_json)
    return capsys.readouterr()


def test_a_report_says_who_is_missing(model, capsys):
    assert json.loads(report(model, capsys, as_json=True).out)["missing"] == ["oslo"]
    shown = report(model, capsys).out
    assert "Site oslo did not take part." in shown
    assert "it hung" in shown
    assert "2 sites, 5 rows -> 1 center -> m" in shown
    assert "missed some rounds" not in shown
    shown = report(replace(model, partly=("lyon",)), capsys).out
    assert "Site lyon missed some rounds. The model lists the sites." in shown


def test_a_report_of_many_rounds_has_sums(model, capsys):
    shown = report(model, capsys, n_rounds=20).out
    assert shown.count("in 20 of 20 rounds") == 2
    assert "160" in shown
    assert "it hung" in shown


def test_a_report_says_that_there_are_fewer_clusters(model, capsys):
    fewer = replace(model, model=replace(model.model, params={"n_clusters": 3}))
    assert "Only 1 of 3 clusters were found" in report(fewer, capsys).err


def test_a_report_says_how_sure_the_number_of_clusters_is(model, capsys):
    assert json.loads(report(model, capsys, as_json=True).out)["k"] is None
    tensors = k_findings(2, confidence=0.3, doubts=Doubt.LEFT_OUT, background=0.1).tensors()
    two = np.array([[1.0], [2.0]])
    unsure = replace(model, model=replace(model.model, centers=two, tensors=tensors))
    found = json.loads(report(unsure, capsys, as_json=True).out)["k"]
    assert found["confidence"] == 0.3
    shown = report(unsure, capsys)
    assert "The number of clusters is in doubt: 2 clusters (confidence 0.30)" in shown.out
    assert "- About 10% of the rows lie outside of all clusters." in shown.out
    assert found["sentence"] in " ".join(shown.out.split())
