"""The commands of docs/privacy.md run in order, and print what the page shows, but for noise."""

import json
import re
import subprocess
import sys

import pytest

from pages_as_code import ROOT, blocks, commands, page, section

SECTIONS = ("At a site", "The scaler", "What inspect says", "The budget")
COSTS = "What privacy costs on your data"
PAGE = "\n".join(section(page("docs/privacy.md"), title) for title in SECTIONS)


def without_noise(lines):
    """Hide fingerprints, and the numbers of lines that are noisy."""
    masked = [re.sub(r"\b[0-9a-f]{16}\b", "fingerprint", line) for line in lines]
    noisy = ("About ", "Rows at the client", "Noise ")
    return [re.sub(r"\d[\d,.]*", "N", m) if m.startswith(noisy) else m for m in masked]


def test_the_commands_print_what_the_page_shows(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (bounds,) = blocks(PAGE, "json")
    (tmp_path / "columns.json").write_text(bounds)
    printed = []
    for program, *words in commands(PAGE):
        if program == "fedjigsaw":
            done = run(*words)
            assert done.exit_code == 0, (words, done.output)
        else:
            command = [sys.executable if program == "python" else program, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        printed += done.stdout.splitlines()
    shown = [line for line in "".join(blocks(PAGE, "text")).splitlines() if line != "..."]
    assert len(shown) > 20
    rest = iter(without_noise(printed))
    assert [line for line in without_noise(shown) if line not in rest] == []  # all, in this order


@pytest.mark.slow
def test_the_table_of_costs(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = section(page("docs/privacy.md"), COSTS)
    ((program, *words),) = commands(text)
    assert program == "fedjigsaw"
    stated = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.M)
    for cells, column in (("own", 1), ("shared", 2)):
        shown = run(*words, "--cells", cells, "--json", "--force").stdout
        _, *groups = json.loads(shown)["by_epsilon"]
        assert [group["epsilon"] for group in groups] == [float(row[0]) for row in stated]
        for group, row in zip(groups, stated, strict=True):
            assert group["ratio"]["mean"] == pytest.approx(float(row[column]), rel=0.1)
    assert (tmp_path / "compare.png").exists()
