"""The commands of docs/report.md run on the files that they name."""

import subprocess
import sys
from glob import glob

from fedjigsaw.report.page.build import MAX_GLANCE
from pages_as_code import ROOT, commands, page

PAGE = page("docs/report.md")


def test_the_commands_run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, ROOT / "examples/three_hospitals.py", "."], check=True)
    files = {"bern": "bern.csv", "lyon": "lyon.parquet", "oslo": "oslo.csv"}
    for name, file in files.items():
        columns = ("--columns", "age,dose")
        assert run("stats", file, "-o", f"{name}.stats", *columns).exit_code == 0
        made = run("summarize", file, "-k", "4", "-o", f"{name}.summary", *columns)
        assert made.exit_code == 0
    assert run("aggregate", *glob("*.summary"), "-k", "4", "-o", "model").exit_code == 0
    for name, file in files.items():
        made = run("score", file, "--model", "model", "--profile", "-o", f"{name}.score")
        assert made.exit_code == 0
    for program, *words in commands(PAGE):
        if program == "fedjigsaw":
            done = run(*(each for word in words for each in (glob(word) or [word])))
            assert done.exit_code == 0, (words, done.output)
    assert all((tmp_path / name).exists() for name in ("report.html",))


def test_it_says_how_many_clusters_are_listed_at_the_top():
    assert f"of up to {MAX_GLANCE} clusters, each in one line" in PAGE
