"""The tutorials run, and print what their pages show."""

import contextlib
import io

from typer.main import get_command

from fedjigsaw.cli import federation
from pages_as_code import ROOT, blocks, commands, page, printed_by

BY_FILE = page("docs/tutorials/by-file.md")
IN_PYTHON = page("docs/tutorials/in-python.md")
FEDERATION = page("docs/tutorials/federation.md")


def test_first_steps_by_file(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = iter(printed_by(BY_FILE, run))
    shown = [line for line in "".join(blocks(BY_FILE, "text")).splitlines() if line != "..."]
    assert len(shown) > 15
    assert [line for line in shown if line not in printed] == []  # all, in this order


def test_first_steps_in_python():
    printed = io.StringIO()
    names = {"__name__": "__main__"}
    with contextlib.redirect_stdout(printed):
        for code in blocks(IN_PYTHON, "python"):
            exec(compile(code, "docs/tutorials/in-python.md", "exec"), names)
    assert printed.getvalue() == "".join(blocks(IN_PYTHON, "text"))


def test_the_commands_of_a_federation_exist():
    verbs = get_command(federation.app).commands
    found = [
        words[2:] for words in commands(FEDERATION) if words[:2] == ["fedjigsaw", "federation"]
    ]
    assert [verb for verb, *_ in found] == [
        "init",
        "site",
        "site",
        "site",
        "server",
        "status",
        "run",
    ]
    for verb, *words in found:
        verbs[verb].make_context(verb, words)
