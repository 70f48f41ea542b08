"""What the site shows of all commands and options, made from their declarations."""

import sys

import pytest
from typer.main import get_command

from fedjigsaw.cli import federation
from fedjigsaw.cli._config import key_of, settable
from pages_as_code import ROOT

pytest.importorskip("flwr")


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    yield __import__("commands")
    del sys.modules["commands"]


def test_every_option_of_a_server_and_a_site(pages):
    shown, found = pages.configuration(), get_command(federation.app).commands
    for name in ("server", "site"):
        for parameter in found[name].params:
            if parameter.name != "help":
                assert f"`FEDJIGSAW_{name}_{parameter.name}`".upper() in shown
        for key, parameter in settable(found[name]).items():
            assert f"| `{key}` |" in shown
            assert key == key_of(parameter)


def test_every_command(pages):
    shown = pages.commands()
    for name in pages.top_commands():
        assert f"### fedjigsaw {name}\n" in shown
