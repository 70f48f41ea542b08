"""Config files, environment variables and --check-config of `federation server` and `site`."""

import json

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.cli import federation
from fedjigsaw.cli._config import settable
from fedjigsaw.errors import DataError, FederationError, FedJigsawError, ParameterError

pytest.importorskip("flwr")
pytestmark = pytest.mark.federation

COMMANDS = get_command(federation.app).commands


def run(*words, **variables):
    return CliRunner().invoke(cli.app, ["federation", *map(str, words)], env=variables)


def text_of(done):
    assert done.exit_code == 0, (done.output, done.exception)
    return " ".join(done.output.split())


@pytest.fixture
def site(clinic, tmp_path):
    """A config file of the site bern, with data of 30 rows."""
    (tmp_path / "bern.csv").write_text("age,dose\n" + "".join(f"{n},{n % 7}\n" for n in range(30)))
    path = tmp_path / "bern.toml"
    folder = json.dumps(str(clinic / "bern"))
    path.write_text(f'folder = {folder}\ndata = "bern.csv"\ncolumns = ["age", "dose"]\n')
    return path


def add(path, text):
    path.write_text(path.read_text() + text + "\n")
    return path


class TestWhichValueCounts:
    def test_the_file(self, site):
        text = text_of(run("site", "--config", add(site, "max-rows = 7"), "--check-config"))
        assert "max-rows = 7 (config file)" in text
        assert "columns = age,dose (config file)" in text
        assert "30 rows, columns age, dose" in text

    def test_a_variable_before_the_file_and_the_command_line_before_both(self, site):
        add(site, "max-rows = 7")
        words = ("site", "--config", site, "--check-config")
        variables = {"FEDJIGSAW_SITE_MAX_ROWS": "8"}
        assert "max-rows = 8 (environment)" in text_of(run(*words, **variables))
        assert "max-rows = 9 (command line)" in text_of(run(*words, "--max-rows", 9, **variables))

    def test_all_of_it_in_variables(self, clinic, site):
        variables = {
            "FEDJIGSAW_SITE_FOLDER": str(clinic / "bern"),
            "FEDJIGSAW_SITE_DATA": str(site.parent / "bern.csv"),
            "FEDJIGSAW_SITE_COLUMNS": "dose",
            "FEDJIGSAW_SITE_CHECK_CONFIG": "1",
        }
        assert "30 rows, columns dose" in text_of(run("site", **variables))

    def test_the_file_of_a_server(self, clinic, tmp_path):
        (tmp_path / "server.toml").write_text(f'folder = "{clinic}"\nlisten = "127.0.0.1"\n')
        text = text_of(run("server", "--config", tmp_path / "server.toml", "--check-config"))
        assert "listen = 127.0.0.1 (config file)" in text
        assert "certificate, key and authority belong together" in text

    def test_paths_are_relative_to_the_file(self, site, monkeypatch):
        monkeypatch.chdir("/")
        assert "30 rows" in text_of(run("site", "--config", site, "--check-config"))

    def test_options_that_exclude_each_other_do_so_in_a_file_too(self, site):
        done = run("site", "--config", add(site, 'device = "cpu"'), "--check-config")
        assert "--device is for sites that hold images" in str(done.exception)
        site.write_text(site.read_text().replace("device", "#"))
        bounds = site.parent / "bounds.json"
        bounds.write_text('{"age": [0, 99], "dose": [0, 9]}')
        add(site, 'epsilon = 1\nbounds = "bounds.json"\ncounts = "none"')
        done = run("site", "--config", site, "--check-config")
        assert "--counts has no meaning with --epsilon" in str(done.exception)

    def test_every_parameter_of_both_commands_has_a_key_and_a_variable(self):
        for name in ("server", "site"):
            own = {p.name for p in COMMANDS[name].params} - {"config", "check_config", "help"}
            assert {p.name for p in settable(COMMANDS[name]).values()} == own
            assert all("_" not in key for key in settable(COMMANDS[name]))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("max_rows = 7", "unknown key 'max_rows'. Did you mean max-rows?"),
        ("colums = 'x'", "unknown key 'colums'. Did you mean columns?"),
        ("zzz = 1", "unknown key 'zzz'. Known: accept-policy, bounds,"),
        ("config = 'x'", "unknown key 'config'"),
        ("max-rows = 'many'", "max-rows: 'many' is not a whole number."),
        ("max-rows = true", "max-rows: True is not a whole number."),
        ("max-rows = 0", "max-rows: 0 is not in the range x>=1."),
        ("drop-missing = 'yes'", "drop-missing: 'yes' is not either true or false."),
        ("counts = 'some'", "counts: 'some' is not one of exact, rounded, none."),
        ("scaler = 3", "scaler: 3 is not a path."),
        ("[data-set]\nx = 1", "data-set: {'x': 1} is not a text."),
        ("max-rows = ", "bern.toml is not a TOML file: Invalid value (at line 4"),
        ("data = 'twice.csv'", "bern.toml is not a TOML file: Cannot overwrite a value"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(site, text, reason):
    done = run("site", "--config", add(site, text), "--check-config")
    assert isinstance(done.exception, ParameterError), done.output
    assert str(site) in str(done.exception)
    assert reason in str(done.exception)


def test_a_file_that_is_not_there(tmp_path):
    done = run("site", "--config", tmp_path / "none.toml")
    assert isinstance(done.exception, FedJigsawError)
    assert "none.toml: no such file" in str(done.exception)


class TestChecks:
    def test_a_decimal_sign_that_no_value_tells_is_said(self, clinic, tmp_path):
        (tmp_path / "bern.csv").write_text("age;dose\n7.470;1\n" + "1;2\n" * 30)
        words = ("site", clinic / "bern", "--data", tmp_path / "bern.csv")
        assert "7.47 or 7470" in self.failure(DataError, *words)
        assert "31 rows" in text_of(run(*words, "--decimal", ",", "--check-config"))

    def failure(self, kind, *words):
        done = run(*words, "--check-config")
        assert isinstance(done.exception, kind), (done.output, done.exception)
        return str(done.exception)

    def test_nothing_is_written_or_started(self, clinic, site):
        def files():
            return {path: path.read_bytes() for path in clinic.rglob("*") if path.is_file()}

        bounds = add(site, 'epsilon = 1\nbounds = "0,99"')
        before = files()
        text_of(run("site", "--config", bounds, "--check-config"))
        text_of(run("server", clinic, "--check-config"))
        assert files() == before

    def test_every_row_is_read(self, site):
        rows = site.parent / "bern.csv"
        rows.write_text(rows.read_text() + "40,many\n")
        assert "row 31" in self.failure(DataError, "site", "--config", site)

    def test_the_key_is_private(self, clinic, site):
        (clinic / "bern" / "site.key").chmod(0o644)
        assert "chmod 600" in self.failure(FederationError, "site", "--config", site)
        (clinic / "server" / "server.key").chmod(0o644)
        assert "chmod 600" in self.failure(FederationError, "server", clinic)

    def test_the_policy_is_in_order_and_accepted(self, clinic, site):
        (clinic / "bern" / "policy.toml").write_text("rounds = 7")
        assert "was not started" in self.failure(ParameterError, "site", "--config", site)
        text = text_of(run("site", "--config", add(site, "accept-policy = true"), "--check-config"))
        assert "policy is looser than the default, and accepted" in text

    def test_the_certificate_fits_the_key_the_authority_and_the_host(self, clinic, tmp_path):
        home = clinic / "server"
        other = tmp_path / "other"
        assert run("init", other, "--sites", "a", "--host", "10.9.8.7").exit_code == 0
        for name, reason in (
            ("server.key", "server.key is not the key of"),
            ("ca.crt", "ca.crt did not sign"),
        ):
            before = (home / name).read_bytes()
            (home / name).write_bytes((other / "server" / name).read_bytes())
            assert reason in self.failure(FederationError, "server", clinic)
            (home / name).write_bytes(before)
        settings = (home / "settings.json").read_text()
        (home / "settings.json").write_text(settings.replace("127.0.0.1", "fed.example.org"))
        text = self.failure(FederationError, "server", clinic)
        assert "server.crt is not valid for the host fed.example.org" in text
        (home / "settings.json").write_text(settings)
        (home / "ca.crt").write_text("nothing")
        assert "ca.crt is not a certificate" in self.failure(FederationError, "server", clinic)

    def test_the_address_to_listen_on(self, clinic):
        text = self.failure(ParameterError, "server", clinic, "--listen", "192.0.2.1")
        assert "IP address of this machine" in text
