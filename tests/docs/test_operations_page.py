"""docs/operations.md names commands, files, metrics and messages that exist."""

import re
import shlex
import signal
import tomllib

import pytest
from typer.main import get_command

from fedjigsaw.cli import federation
from fedjigsaw.cli._config import settable
from fedjigsaw.cli.diff import ALARM_CODE
from fedjigsaw.errors import FedJigsawError
from pages_as_code import ROOT, page, section

PAGE = page("docs/operations.md")
SOURCE = "".join(p.read_text() for p in sorted((ROOT / "src" / "fedjigsaw").rglob("*.py")))


def test_every_command_has_these_options():
    found = re.findall(r"fedjigsaw federation (\w+ [^`\n|]*)", PAGE)
    assert len(found) > 10
    commands = get_command(federation.app).commands
    for line in found:
        verb, *words = shlex.split(line.replace("...", "x"), comments=True)
        words = [word for word in words if word != "--check-config"]
        command = commands[verb]
        if "--config" in words:
            continue  # the file is not here; the options of files are checked below
        command.make_context(verb, words)


@pytest.mark.parametrize("number", range(2))
def test_the_config_files_have_keys_that_exist(number):
    verb = ("server", "site")[number]
    text = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[number]
    assert set(tomllib.loads(text)) <= set(settable(get_command(federation.app).commands[verb]))


def test_every_metric_is_listed_and_no_other(clinic):
    from fedjigsaw.flower import metrics
    from fedjigsaw.privacy.policy import Policy

    parts = (
        metrics.ServerNumbers(clinic / "server"),
        metrics.SiteNumbers(clinic / "bern", "bern", Policy()),
    )
    known = {
        f"fedjigsaw_{name}" + "_total" * (kind == metrics.COUNTER)
        for part in parts
        for kind, name, *_ in part.read()
    }
    later = {"fedjigsaw_site_connected", "fedjigsaw_epsilon_left"}  # with a server, with a ledger
    assert set(re.findall(r"fedjigsaw_\w+", PAGE)) == known | later


def test_files_exist():
    for name in re.findall(r"deploy/[\w./@-]*\w", PAGE):
        assert list(ROOT.glob(name)), name


def test_messages_at_night_are_those_of_the_program():
    night = PAGE[PAGE.index("## At 3 a.m.") : PAGE.index("## What was tested")]
    quoted = re.findall(r'"([^"]+)"', "\n".join(re.findall(r"^\| (.*?) \|", night, re.MULTILINE)))
    assert len(quoted) >= 8
    code = re.sub(r'"\s*\n\s*f?"', "", SOURCE)  # texts over several lines
    code = re.sub(r"\{\w+\}", "9100", code)
    for text in quoted:
        assert text in code, text


def test_every_exit_code_is_listed_and_no_other():
    listed = re.findall(r"^\| (\d+) \|", section(PAGE, "Exit codes"), re.MULTILINE)
    kinds = (FedJigsawError, *FedJigsawError.__subclasses__())
    stopped = {128 + number for number in (signal.SIGINT, signal.SIGTERM)}
    assert sorted(map(int, listed)) == sorted(
        {0, ALARM_CODE, *stopped, *(kind.exit_code for kind in kinds)}
    )
