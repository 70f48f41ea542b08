"""Config files, environment variables and --check-config of `federation server` and `site`."""

import json

import pytest
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.errors import DataError, FederationError, FedJigsawError, ParameterError

pytest.importorskip("flwr")
pytestmark = pytest.mark.federation


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
    def test_the_file(self, site, monkeypatch):
        monkeypatch.chdir("/")  # paths are relative to the file
        text = text_of(run("site", "--config", add(site, "max-rows = 7"), "--check-config"))
        assert "max-rows = 7 (config file)" in text
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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max_rows = 7", "'max_rows'. Did you mean max-rows?"),
        ("zzz = 1", "unknown key 'zzz'"),
        ("config = 'x'", "unknown key 'config'"),
        ("max-rows = 'many'", "max-rows"),
        ("max-rows = true", "max-rows"),
        ("max-rows = 0", "max-rows"),
        ("drop-missing = 'yes'", "drop-missing"),
        ("counts = 'some'", "counts"),
        ("scaler = 3", "scaler"),
        ("[data-set]\nx = 1", "data-set"),
        ("max-rows = ", "line 4"),
        ("data = 'twice.csv'", "TOML"),
        ('device = "cpu"', "--device"),  # options that exclude each other
        ('epsilon = 1\nbounds = "0,99"\ncounts = "none"', "--counts"),
    ],
)
def test_a_mistake_is_named_with_file_or_option(site, text, told):
    done = run("site", "--config", add(site, text), "--check-config")
    assert isinstance(done.exception, ParameterError), done.output
    assert told in str(done.exception)
    assert str(site) in str(done.exception) or told.startswith("--")


def test_a_file_that_is_not_there(tmp_path):
    done = run("site", "--config", tmp_path / "none.toml")
    assert isinstance(done.exception, FedJigsawError)
    assert "none.toml" in str(done.exception)


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
        home, other = clinic / "server", tmp_path / "other"
        assert run("init", other, "--sites", "a", "--host", "10.9.8.7").exit_code == 0
        settings = (home / "settings.json").read_bytes()
        for name, content in (
            ("server.key", (other / "server" / "server.key").read_bytes()),
            ("ca.crt", (other / "server" / "ca.crt").read_bytes()),
            ("ca.crt", b"nothing"),
            ("settings.json", settings.replace(b"127.0.0.1", b"fed.example.org")),
        ):
            before = (home / name).read_bytes()
            (home / name).write_bytes(content)
            told = self.failure(FederationError, "server", clinic)
            assert (name if name != "settings.json" else "fed.example.org") in told
            (home / name).write_bytes(before)

    def test_the_address_to_listen_on(self, clinic):
        text = self.failure(ParameterError, "server", clinic, "--listen", "192.0.2.1")
        assert "IP address of this machine" in text
