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


def test_the_image_ends_as_an_ordinary_user_with_the_program_as_entry_point():
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert f"USER {USER}:{USER}" in last
    assert 'ENTRYPOINT ["fedjigsaw"]' in last
    extras = re.search(r'"\.\[(.*?)\]"', DOCKERFILE)[1].split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"flower", "metrics"} <= set(extras) <= set(project["optional-dependencies"])
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        for source in [word for word in line.split()[:-1] if not word.startswith("--")]:
            assert (ROOT / source).exists()
            assert f"!{source.removeprefix('./')}" in allowed


def test_every_part_of_compose_is_confined_and_its_variables_are_those_of_the_program():
    made = re.search(r"install -d .*?\n(.*)", DOCKERFILE)[1].split()
    for name, part in COMPOSE["services"].items():
        assert part["read_only"] is True
        assert part["user"] == f"{USER}:{USER}"
        assert part["cap_drop"] == ["ALL"]
        assert not part.get("ports")
        for volume in part["volumes"]:
            source, target, *_ = volume.split(":")
            assert target in made or (DEPLOY / source).exists(), volume
        if name == "setup":
            continue
        check_environment(part["command"][1], part["environment"])
        port = next(v for k, v in part["environment"].items() if k.endswith("METRICS_PORT"))
        assert f"http://127.0.0.1:{port}/ready" in part["healthcheck"]["test"][-1]


def test_systemd_accepts_the_units(tmp_path):
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
def test_units_run_the_program_as_an_ordinary_user(path):
    text = path.read_text()
    for line in ("User=fedjigsaw", "ProtectSystem=strict", "NoNewPrivileges=yes"):
        assert f"{line}\n" in text
    start = re.search(r"^ExecStart=/opt/fedjigsaw/bin/(.*)$", text, re.MULTILINE)[1].split()
    if start[0] == "fedjigsaw":
        assert (start[2] in COMMANDS, start[3]) == (True, "--config")


@pytest.mark.parametrize(
    ("file", "found"), [("compose.yaml", r"federation run (.*)"), ("systemd/run.env", r"(-k 4.*)")]
)
def test_the_runs_that_are_shown_exist(file, found):
    words = shlex.split(re.search(found, (DEPLOY / file).read_text())[1])
    words = words if "-o" in words else ["clinic", "-o", "m", *words]
    assert COMMANDS["run"].make_context("run", words).params["k"]


def test_alerts_ask_for_metrics_that_exist(clinic):
    from fedjigsaw.flower import metrics
    from fedjigsaw.records.policy import Policy

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


@pytest.fixture
def weekly(tmp_path):
    """Run the weekly script with another program; return its exit code, models and calls."""
    programs, federation, models = (tmp_path / name for name in ("bin", "federation", "models"))

    def do(script):
        for folder in (programs, models, federation):
            folder.mkdir()
        (models / "old.model").touch()
        (models / "latest.model").symlink_to("old.model")
        fake = programs / "fedjigsaw"
        fake.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}')
        fake.chmod(0o755)
        env = {"PATH": f"{programs}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", DEPLOY / "weekly.sh", federation, models, "-k", "4"], env=env)
        return done.returncode, models, (tmp_path / "calls").read_text().splitlines()

    return do


def test_weekly_tells_the_drift(weekly):
    code, models, (run, diff) = weekly("")
    assert code == 0
    assert f"--like {models}/old.model -k 4" in run
    assert diff.endswith("--alarm 2")


@pytest.mark.parametrize(("publish", "is_published"), [("touch $5\n", True), ("", False)])
def test_the_weekly_model_of_a_run_with_a_strange_site_is_the_latest(weekly, publish, is_published):
    """With --strict, there is no model."""
    code, models, _ = weekly(f'[ "$2" = run ] || exit 0\n{publish}exit 11\n')
    assert code == 11
    assert (os.readlink(models / "latest.model") != "old.model") == is_published
