"""The commands and the Python of docs/over-time.md run, and print what the page shows."""

import contextlib
import io

import pytest

from pages_as_code import ROOT, blocks, page, printed_by

PAGE = page("docs/over-time.md")


def split(lines):
    """Separate plain lines from those of tables."""
    tables = [line for line in lines if line.startswith(tuple("┏┃┡│└"))]
    return [line for line in lines if line not in tables], tables


def words(table):
    return sorted(word for line in table for word in line.split() if word.strip("┏┃┡│└━┳┓╇┩─┴┘"))


@pytest.mark.slow
def test_the_page(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/mlruns")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = printed_by(PAGE, run)
    shown = [line for line in "".join(blocks(PAGE, "text")).splitlines() if line != "..."]
    assert len(shown) > 10
    lines, tables = split(shown)
    rest = iter(printed)
    assert [line for line in lines if line not in rest] == []  # all, in this order
    assert words(tables) == words(split(printed)[1])  # however wide the terminal is
    assert run("diff", "june.model", "july.model", "--alarm", "2").exit_code == 10
    assert run("diff", "may.model", "june.model", "--alarm", "2").exit_code == 0

    first, second = blocks(PAGE, "python")
    names: dict[str, object] = {}
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(first, "docs/over-time.md", "exec"), names)
    assert told.getvalue() == "(0, 1, 2, 3) False\n"
    pytest.importorskip("mlflow")
    exec(compile(second, "docs/over-time.md", "exec"), names)
    assert names["model"] == names["june"]
    assert names["mlflow"].get_run(names["run"].info.run_id).data.metrics["sites"] == 6
