"""A site unlike all others is told; one that is in no cluster does not count."""

import re
from datetime import date

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.cli import federation_run
from fedjigsaw.errors import StrangeSiteError
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.report.inspection import describe
from fedjigsaw.report.page.build import build_report
from fedjigsaw.report.page.run import read_run
from fedjigsaw.report.trust import check_strict, part_of, strange_sites

GROUPS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
pytestmark = pytest.mark.filterwarnings("ignore::fedjigsaw.errors.ConspicuousSiteWarning")


def model_of(n_far, k=4, **params):
    """Return a model of seven sites, some of which measure in another unit."""
    rng = np.random.default_rng(0)
    files = {}
    for i in range(7):
        rows = GROUPS[rng.integers(4, size=100)] + rng.normal(size=(100, 2))
        rows = rows * 2 if i < n_far else rows
        files[f"s{i}"] = sites.summarize(
            from_array(rows, ("a", "b")), k, client=f"s{i}", params={"detail": 3}
        )
    return sites.aggregate(files, k, params=params)


def texts_of(model, tmp_path):
    """Return all that people see of a model: inspection, page, and what a run prints last."""
    formats.save(model, tmp_path / "model")
    page = build_report(read_run([tmp_path / "model"]), today=date(2026, 1, 1))
    return describe(model, 1), page


def test_without_a_strange_site_nothing_is_told(tmp_path):
    model = model_of(0)
    assert strange_sites(model) == []
    check_strict(model, strange_sites(model), strict=True)
    assert part_of(model) == (7, 700, "")


@pytest.mark.parametrize("liars", [0, 1])
def test_the_strange_site_is_told_and_nobody_else(liars, tmp_path, capsys):
    model = model_of(1, liars=liars)
    (told,) = strange_sites(model)
    assert told.startswith("s0 ")
    assert ("--liars 1" in told) == (liars == 0)
    words, page = texts_of(model, tmp_path)
    assert told in words
    assert told in page.trust
    federation_run.report(model, {"rounds": []}, [], tmp_path / "m", as_json=False)
    assert capsys.readouterr().out.startswith("s0 ")
    with pytest.raises(StrangeSiteError) as error:
        check_strict(model, [told], strict=True)
    assert error.value.exit_code == 11


def test_a_site_that_is_vouched_for_is_not_told():
    assert strange_sites(model_of(1, vouch=["s0"])) == []


def test_too_many_sites_with_groups_of_their_own_are_told():
    """Each of five sites has its own place, and one of them may lie."""
    rng = np.random.default_rng(0)
    files = {}
    for i in range(5):
        rows = GROUPS[[i % 4]] * 9 ** (i // 4 + 1) + rng.normal(size=(60, 2))
        files[f"s{i}"] = sites.summarize(from_array(rows), 4, client=f"s{i}", params={"detail": 3})
    told = strange_sites(sites.aggregate(files, 4, params={"liars": 1}))
    assert any("--liars" in text for text in told)
    assert not re.search(r"\b1 (sites|others)\b", " ".join(told))


def test_a_site_in_no_cluster_does_not_count(tmp_path):
    """What it claims beside the clusters of others neither is lone nor draws any center."""
    rng = np.random.default_rng(1)
    files = {}
    for i in range(6):
        rows = GROUPS[rng.integers(4, size=200)] + rng.normal(size=(200, 2))
        rows = GROUPS[[0] * 12] + [2.6, -2.6] + 0.05 * rng.normal(size=(12, 2)) if not i else rows
        files[f"s{i}"] = sites.summarize(from_array(rows), 4, client=f"s{i}")
    model = sites.aggregate(files, 4, params={"liars": 1})
    out = [site for site in model_reports(model) if not site.clusters]
    part = part_of(model)
    assert part.n_sites == 6 - len(out)
    assert part.n_rows == 1012 - sum(site.rows for site in out)


def model_reports(model):
    from fedjigsaw.report.trust import reports_of

    return reports_of(model)
