"""A rehearsed year with few weeks: what can happen to a federation, and what has to hold."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from builders import write_table
from flower_clinic import BACKEND

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "year.py"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.federation
def test_a_year_in_six_weeks(monkeypatch):
    monkeypatch.setenv(*BACKEND)
    words = [sys.executable, str(SCRIPT), "--sites", "6", "--weeks", "6", "--rows", "300"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    *weeks, year = map(json.loads, done.stdout.splitlines())
    happened = [event for week in weeks for event in week["events"]]
    assert len(happened) == 7, happened
    assert [week["sites"] for week in weeks] == [6, 6, 7, 7, 6, 6]
    assert [week["k"] for week in weeks] == [5, 5, 6, 6, 6, 6]
    assert year["ids_stayed"], year["ids"]
    assert year["alarms_as_expected"], [(week["week"], week.get("drift")) for week in weeks]
    assert year["tracebacks"] == []


@pytest.fixture(scope="module")
def year():
    spec = importlib.util.spec_from_file_location("year", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["year"] = module  # its dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_ids_stay_and_only_the_new_cluster_alarms_by_file(year, run, tmp_path, monkeypatch):
    """The weeks of the rehearsal without its mishaps: sites carry their summaries as files."""
    monkeypatch.setenv(*BACKEND)
    calendar, last, rows = year.Calendar(3), None, []
    for week in (1, 2, 3):
        new = week >= calendar.new_cluster
        summaries = []
        for site in range(1, 5 if week == 1 else 6):  # one joins
            data = year.rows_of(site, week, 300, new=new)
            table = write_table(tmp_path / f"{site}.csv", **dict(zip("abc", data.T, strict=True)))
            summaries.append(tmp_path / f"{site}-{week}.summary")
            run("summarize", table, "-k", 8, "--client", site, "-o", summaries[-1])
        model = tmp_path / f"{week}.model"
        like = [] if last is None else ["--like", last]
        run("aggregate", *summaries, "-k", "auto", "-o", model, *like)
        row = {"week": week, "ids": year.ids_by_cluster(model)}
        if last is not None:
            done = run("diff", last, model, "--json", "--alarm", year.LEVEL)
            row["alarm"] = done.exit_code == year.ALARM
        rows.append(row)
        last = model
    assert [sum(i is not None for i in row["ids"]) for row in rows] == [5, 6, 6]
    found = year.verdict(rows, calendar)
    assert found["ids_stayed"], found["ids"]
    assert found["alarms"] == [calendar.new_cluster] == [2]
