"""The files in deploy/ fit the program: options, users, paths, metrics. No container is started."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from fedjigsaw.cli import federation
from fedjigsaw.cli._config import settable
from pages_as_code import ROOT

yaml = pytest.importorskip("yaml")
pytest.importorskip("flwr")
pytestmark = pytest.mark.federation

DEPLOY = ROOT / "deploy"
COMMANDS = get_command(federation.app).commands
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNITS = [*sorted((DEPLOY / "systemd").glob("*.service")), DEPLOY / "systemd/fedjigsaw-run.timer"]
USER = "10001"


def variables(verb):
    """The variables that a command knows."""
    own = [p.name for p in COMMANDS[verb].params]
    return {f"FEDJIGSAW_{verb}_{name}".upper() for name in own}


def check_environment(verb, given):
    """Every variable is known, and its value is one that the option takes."""
    assert set(given) <= variables(verb), set(given) - variables(verb)
    by_name = {f"FEDJIGSAW_{verb}_{p.name}".upper(): p for p in settable(COMMANDS[verb]).values()}
    for name, value in given.items():
        assert isinstance(value, str), name  # YAML makes a number of 9100 without quotes
        with COMMANDS[verb].make_context(verb, ["x"], resilient_parsing=True) as context:
            by_name[name].type_cast_value(context, value)


class TestDockerfile:
    def test_it_ends_as_an_ordinary_user_with_the_program_as_entry_point(self):
        last = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
        assert f"USER {USER}:{USER}" in last
        assert 'ENTRYPOINT ["fedjigsaw"]' in last
        assert last.index("RUN") < last.index("USER")

    def test_its_extras_and_sources_are_there(self):
        extras = re.search(r'"\.\[(.*?)\]"', DOCKERFILE)[1].split(",")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert {"flower", "metrics"} <= set(extras) <= set(project["optional-dependencies"])
        allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
            for source in [word for word in line.split()[:-1] if not word.startswith("--")]:
                assert (ROOT / source).exists()
                assert f"!{source.removeprefix('./')}" in allowed

    def test_folders_that_are_mounted_belong_to_the_user(self):
        made = re.search(r"install -d .*?\n(.*)", DOCKERFILE)[1].split()
        for service in COMPOSE["services"].values():
            for volume in service["volumes"]:
                source, target, *_ = volume.split(":")
                assert target in made or source.startswith((".", "..")), volume


class TestCompose:
    @pytest.mark.parametrize("name", COMPOSE["services"])
    def test_every_part_is_confined(self, name):
        part = COMPOSE["services"][name]
        assert part["read_only"] is True
        assert part["user"] == f"{USER}:{USER}"
        assert part["cap_drop"] == ["ALL"]
        assert part["security_opt"] == ["no-new-privileges:true"]
        assert not part.get("ports")

    def test_commands_and_variables_are_those_of_the_program(self):
        parts = {n: s for n, s in COMPOSE["services"].items() if n != "setup"}
        assert len(parts) == 4
        for part in parts.values():
            assert part["command"][0] == "federation"
            check_environment(part["command"][1], part["environment"])
            assert part["depends_on"]["setup"]["condition"] == "service_completed_successfully"

    def test_each_site_has_a_volume_of_its_own(self):
        sites = ["bern", "lyon", "oslo"]
        for name in sites:
            assert COMPOSE["services"][name]["volumes"] == [f"{name}:/site"]
        assert set(COMPOSE["volumes"]) == {"server", *sites}

    def test_files_that_are_mounted_exist(self):
        for volume in COMPOSE["services"]["setup"]["volumes"]:
            if volume.startswith("."):
                assert (DEPLOY / volume.split(":")[0]).exists(), volume

    def test_the_probe_asks_the_port_of_the_part(self):
        for name in ("server", "bern", "lyon", "oslo"):
            part = COMPOSE["services"][name]
            port = next(v for k, v in part["environment"].items() if k.endswith("METRICS_PORT"))
            assert f"http://127.0.0.1:{port}/ready" in part["healthcheck"]["test"][-1]

    def test_the_command_in_the_comment_works(self):
        text = (DEPLOY / "compose.yaml").read_text()
        words = re.search(r"exec server fedjigsaw federation run (.*)", text)[1]
        asked = COMMANDS["run"].make_context("run", shlex.split(words)).params
        assert int(asked["k"]) >= 1


class TestUnits:
    def test_systemd_accepts_them(self, tmp_path):
        """The program and the script are where the tests have them."""
        if shutil.which("systemd-analyze") is None:
            pytest.skip("systemd-analyze is not installed")
        command = Path(sys.executable).parent / "fedjigsaw"
        for path in UNITS:
            text = path.read_text()
            text = text.replace("/opt/fedjigsaw/bin/fedjigsaw-weekly", str(DEPLOY / "weekly.sh"))
            text = text.replace("/opt/fedjigsaw/bin/fedjigsaw ", f"{command} ")
            (tmp_path / path.name.replace("@", "@bern")).write_text(text)
        words = ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir())]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.parametrize("path", UNITS[:-1], ids=lambda path: path.name)
    def test_they_run_the_program_as_an_ordinary_user(self, path):
        text = path.read_text()
        assert "User=fedjigsaw\n" in text
        for line in ("ProtectSystem=strict", "NoNewPrivileges=yes", "CapabilityBoundingSet="):
            assert f"{line}\n" in text
        start = re.search(r"^ExecStart=/opt/fedjigsaw/bin/(.*)$", text, re.MULTILINE)[1].split()
        if start[0] == "fedjigsaw":
            verb, *words = start[2:]
            assert words[0] == "--config"
            assert {w.removeprefix("--") for w in words if w.startswith("--")} <= {"config"}
            assert verb in COMMANDS

    def test_options_of_the_weekly_run_exist(self):
        text = (DEPLOY / "systemd/run.env").read_text()
        options = text[text.index("-k 4") :].splitlines()[0]
        words = ["clinic", "-o", "m", *shlex.split(options)]
        assert COMMANDS["run"].make_context("run", words).params["k"] == 4

    def test_the_timer_is_weekly(self):
        text = (DEPLOY / "systemd" / "fedjigsaw-run.timer").read_text()
        assert "OnCalendar=Mon " in text


def test_alerts_ask_for_metrics_that_exist(clinic):
    from fedjigsaw.flower import metrics
    from fedjigsaw.privacy.policy import Policy

    parts = (
        metrics.ServerNumbers(clinic / "server"),
        metrics.SiteNumbers(clinic / "bern", "bern", Policy()),
    )
    known = {"fedjigsaw_site_connected"}  # once a server runs
    for part in parts:
        for kind, name, *_ in part.read():
            known.add(f"fedjigsaw_{name}" + "_total" * (kind == metrics.COUNTER))
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
    assert len(rules) >= 6
    for rule in rules:
        assert set(re.findall(r"fedjigsaw_\w+", rule["expr"])) <= known, rule
        assert rule["annotations"]["summary"]


@pytest.mark.parametrize("name", ["setup.sh", "weekly.sh"])
def test_scripts_are_valid_and_executable(name):
    subprocess.run(["sh", "-n", DEPLOY / name], check=True)
    assert (DEPLOY / name).stat().st_mode & 0o111


def test_weekly_tells_the_drift(tmp_path):
    programs, federation, models = (tmp_path / name for name in ("bin", "federation", "models"))
    programs.mkdir()
    federation.mkdir()
    models.mkdir()
    (models / "latest.model").symlink_to("old.model")
    (models / "old.model").touch()
    fake = programs / "fedjigsaw"
    fake.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    fake.chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["sh", DEPLOY / "weekly.sh", federation, models, "-k", "4"], env=env, check=True)
    run, diff = (tmp_path / "calls").read_text().splitlines()
    assert f"--like {models}/old.model -k 4" in run
    assert diff.endswith("--alarm 2")


@pytest.mark.parametrize("is_published", [True, False])
def test_the_weekly_model_of_a_run_with_a_strange_site_is_the_latest(tmp_path, is_published):
    """With --strict, there is no model."""
    programs, federation, models = (tmp_path / name for name in ("bin", "federation", "models"))
    for folder in (programs, federation, models):
        folder.mkdir()
    fake = programs / "fedjigsaw"
    publish = "touch $5\n" if is_published else ""
    fake.write_text(f"#!/bin/sh\n{publish}exit 11\n")
    fake.chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", DEPLOY / "weekly.sh", federation, models, "-k", "4"], env=env)
    assert done.returncode == 11
    assert (models / "latest.model").exists() == is_published
