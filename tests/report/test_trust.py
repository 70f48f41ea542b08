"""A site that was set aside is no part of the model, and does not count as one."""

from datetime import date

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.cli import federation_run
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.report.inspection import describe
from fedjigsaw.report.page.build import build_report
from fedjigsaw.report.page.run import read_run
from fedjigsaw.report.trust import part_of

GROUPS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


def model_of(n_far):
    """Return a model of seven sites, some of which measure in another unit."""
    rng = np.random.default_rng(0)
    files = {}
    for i in range(7):
        rows = GROUPS[rng.integers(4, size=100)] + rng.normal(size=(100, 2))
        rows = rows * 100 + 5000 if i < n_far else rows
        files[f"s{i}"] = sites.summarize(from_array(rows, ("a", "b")), 4, client=f"s{i}")
    return sites.aggregate(files, 4)


@pytest.mark.parametrize(
    ("n_far", "words"),
    [(0, ""), (1, " (1 more site was set aside)"), (2, " (2 more sites were set aside)")],
)
def test_sites_that_were_set_aside_do_not_count(n_far, words, tmp_path, capsys):
    model = model_of(n_far)
    left = 7 - n_far
    assert part_of(model) == (left, 100 * left, words)
    assert len(model.clients) == 7  # the file lists them all, with the reports
    names = ", ".join(f"s{i}" for i in range(n_far, 7))
    formats.save(model, tmp_path / "model")
    made = f"Made from {left} sites: {names}; {left}00 rows in all{words}."
    assert made in describe(model, 1)
    federation_run.report(model, {"rounds": []}, [], tmp_path / "m", as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{left} sites, {left}00 rows{words} -> 4 centers" in shown
    page = build_report(read_run([tmp_path / "model"]), today=date(2026, 1, 1))
    assert {fact.label: fact.value for fact in page.facts}["sites"] == str(left)
    assert page.short[0] == f"{left}00 rows at {left} sites{words} fall into 4 clusters."
