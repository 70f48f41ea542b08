"""A rehearsed year with few weeks: real processes, and everything that can happen to them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "year.py"


@pytest.mark.slow
@pytest.mark.federation
def test_a_year_in_six_weeks():
    words = [sys.executable, str(SCRIPT), "--sites", "6", "--weeks", "6", "--rows", "300"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    *weeks, year = map(json.loads, done.stdout.splitlines())
    happened = [event for week in weeks for event in week["events"]]
    assert len(happened) == 8, happened
    assert [week["sites"] for week in weeks] == [6, 6, 7, 7, 6, 6]
    assert [week["k"] for week in weeks] == [5, 5, 6, 6, 6, 6]
    assert year["ids_stayed"], year["ids"]
    assert year["alarms_as_expected"], [(week["week"], week.get("drift")) for week in weeks]
    assert year["tracebacks"] == []
