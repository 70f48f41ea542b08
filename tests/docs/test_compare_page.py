"""The blocks of docs/compare.md run in order, and print what the page shows."""

import contextlib
import io
import re

import pytest

from pages_as_code import ROOT, page, printed_by

PAGE = page("docs/compare.md")
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")


def numbers(line):
    return [float(text.replace(",", "")) for text in NUMBER.findall(line)]


def words(line):
    """A line without numbers, and without marks that depend on small differences."""
    return " ".join(NUMBER.sub("#", line).replace("*", " ").replace("†", " ").split())


def assert_alike(shown, printed):
    """The same words, and numbers that are close; seconds, the last ones, are those of a machine."""
    assert [words(line) for line in shown] == [words(line) for line in printed]
    for line, other in zip(shown, printed, strict=True):
        n_seconds = 2 if "±" in line else 0
        kept = [found[: len(found) - n_seconds] for found in (numbers(line), numbers(other))]
        assert kept[0] == pytest.approx(kept[1], rel=0.1, abs=0.03), line


@pytest.mark.slow
def test_the_blocks_run_and_print_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = re.findall(r"^```(python|text)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert [language for language, _ in parts].count("text") == 3
    namespace, printed = {"__name__": "own"}, ""
    for language, content in parts:
        if language == "text":
            assert_alike(content.splitlines(), printed.splitlines())
            continue
        caught = io.StringIO()
        with contextlib.redirect_stdout(caught):
            exec(compile(content, "docs/compare.md", "exec"), namespace)
        printed = caught.getvalue()
    assert (tmp_path / "methods.pdf").read_bytes().startswith(b"%PDF")
    tex = (tmp_path / "methods.tex").read_text()
    assert r"\caption{Ten digits at ten clients}" in tex
    assert r"\textbf{" in tex


def test_ten_lines_are_ten():
    first = re.search(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[1]
    assert len([line for line in first.splitlines() if line.strip()]) <= 10


def test_the_command_runs(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = "\n".join(printed_by(PAGE, run))
    assert "k = 4, 5 seeds" in printed
    assert {path.suffix for path in tmp_path.glob("compare.*")} == {".png", ".tex", ".csv"}
