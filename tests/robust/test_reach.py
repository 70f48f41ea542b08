"""What liars cost the others, and honest sites: the bounds of the table in docs/security.md."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("liars", ROOT / "benchmarks" / "liars.py")
liars = importlib.util.module_from_spec(spec)
spec.loader.exec_module(liars)
TOLD, ONE, THREE = liars.SETTINGS


@pytest.fixture(scope="module", params=["rows", "computed"])
def rows(request):
    """The rows behind the table, ten seeds each; and a few cells of other seeds, computed now."""
    if request.param == "rows":
        return liars.read(liars.RESULTS, "support")
    places = [("iris", "iid"), ("squares", "dirichlet:0.3"), ("breast_cancer", "dirichlet:0.3")]
    return [
        liars.compute(liars.Cell(*place, *setting, seed))
        for place in places
        for setting in liars.SETTINGS
        for seed in (100, 101)
    ]


def values(rows, setting, key, splits=liars.LIED, *, honest):
    own = [r for r in rows if liars.cell_of(r).setting == setting and r["split"] in splits]
    return liars.figures(own, key, honest=honest)


def above(found, bound):
    return (found > bound).mean()


@pytest.mark.slow
def test_by_default_an_honest_model_is_the_one_without_checks(rows):
    assert (values(rows, TOLD, "k", liars.SPLITS, honest=True) == 1).all()


def test_honest_sites_are_rarely_told(rows):
    for setting in liars.SETTINGS:
        told = values(rows, setting, "accused", honest=True)
        assert (told > 0).sum() <= max(1, 0.05 * len(told))


def test_by_default_harm_is_mostly_told_and_hardly_anybody_else(rows):
    harm = values(rows, TOLD, "all", honest=False) > 1.05
    assert (values(rows, TOLD, "told", honest=False)[harm] > 0).mean() > 0.8
    assert (values(rows, TOLD, "accused", honest=False) > 0).mean() < 0.05


def test_honest_sites_lose_little_by_liars_1(rows):
    assert above(values(rows, ONE, "k", honest=True), 1.02) <= 0.05
    assert values(rows, ONE, "all", honest=True).max() <= 1.05


@pytest.mark.parametrize(
    ("setting", "key", "bound", "share"),
    [
        (ONE, "all", 1.12, 0.02),
        (ONE, "k", 1.15, 0.02),
        (THREE, "all", 1.25, 0.02),
        (THREE, "k", 1.4, 0.05),
    ],
)
def test_what_a_lie_costs_the_others(rows, setting, key, bound, share):
    assert above(values(rows, setting, key, honest=False), bound) <= share


def test_a_lone_cluster_among_honest_sites_is_rare(rows):
    for setting in (ONE, THREE):
        lone = values(rows, setting, "lone", honest=True)
        assert (lone > 0).mean() < 0.05


def test_the_page_shows_the_rows():
    page = (ROOT / "docs" / "security.md").read_text()
    shown = page.partition("<!-- reach -->\n")[2].partition("\n<!-- /reach -->")[0]
    assert shown == liars.table(liars.read(liars.RESULTS, "support"))
