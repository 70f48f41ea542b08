"""The commands of docs/privacy.md run in order, and print what the page shows, but for noise."""

import json
import re

import pytest

from fedjigsaw.io.rows import read_rows
from fedjigsaw.privacy.accounting import epsilon_of, multiplier_for
from pages_as_code import ROOT, blocks, commands, page, printed_by, section
from reproduction.experiments.privacy import projections

SECTIONS = ("At a site", "The scaler", "What inspect says", "The budget")
IMAGES = "Images: what DeepFeCA cannot promise"
COSTS = "What privacy costs on your data"
PAGE = "\n".join(section(page("docs/privacy.md"), title) for title in SECTIONS)


def without_noise(lines):
    """Hide the numbers of lines that are noisy."""
    noisy = ("About ", "Rows at the site", "Noise ")
    return [re.sub(r"\d[\d,.]*", "N", x) if x.startswith(noisy) else x for x in lines]


def test_the_commands_print_what_the_page_shows(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (bounds,) = blocks(PAGE, "json")
    (tmp_path / "columns.json").write_text(bounds)
    printed = printed_by(PAGE, run)
    shown = [line for line in "".join(blocks(PAGE, "text")).splitlines() if line != "..."]
    assert len(shown) > 20
    rest = iter(without_noise(printed))
    assert [line for line in without_noise(shown) if line not in rest] == []  # all, in this order


def test_a_row_that_is_changed():
    text = section(page("docs/privacy.md"), "What inspect says")
    stated = re.findall(r"([\d.]+) instead of ([\d.]+)", text)
    assert len(stated) == 2
    for changed, epsilon in stated:
        half = multiplier_for(float(epsilon), 1e-6) / 2
        assert f"{epsilon_of(half, 1e-6):.2f}" == changed
        assert float(changed) > 2 * float(epsilon)


@pytest.mark.slow
def test_when_shared_cells_cost_less(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = section(page("docs/privacy.md"), COSTS)
    ((program, *words),) = commands(text)
    assert program == "fedjigsaw"
    (least,) = re.findall(r"costs less than own cells from epsilon = ([\d.]+) on; below", text)
    cost = {}
    for cells in ("own", "shared"):
        shown = run(*words, "--cells", cells, "--json", "--force").stdout
        _, *groups = json.loads(shown)["by_epsilon"]
        cost[cells] = {group["epsilon"]: group["ratio"]["mean"] for group in groups}
    assert len(cost["own"]) == 4
    for epsilon, own in cost["own"].items():
        assert (cost["shared"][epsilon] < own) == (epsilon >= float(least))
    assert (tmp_path / "compare.png").exists()


def test_what_noisy_centers_of_projections_are_worth():
    text = section(page("docs/privacy.md"), IMAGES)
    rows = read_rows(ROOT / "results" / "private-projections.jsonl")
    stated = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.M)
    assert len(stated) == len({(row["n_clusters"], row["releases"]) for row in rows})
    for k, releases, *numbers in stated:
        for epsilon, number in zip((None, 8.0, 1.0), numbers, strict=True):
            cell = (int(k), int(releases), epsilon)
            found = [
                row["purity"]
                for row in rows
                if (row["n_clusters"], row["releases"], row.get("epsilon")) == cell
            ]
            assert len(found) == 3
            assert f"{sum(found) / 3:.2f}" == number
    best = recipes()["best"]
    heads = best["n_clusters"]
    assert (heads[0], best["n_rounds"] * len(heads)) in {
        (row["n_clusters"], row["releases"]) for row in rows
    }


def test_the_noise_that_weights_would_need():
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting import rdp

    text = section(page("docs/privacy.md"), IMAGES)
    stated = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.M)
    for name, steps, *multipliers in stated:
        recipe = recipes()[name]
        n_steps = recipe["n_rounds"] * recipe["local_epochs"] * (5000 // recipe["batch_size"])
        assert n_steps == int(steps.replace(",", ""))
        for epsilon, multiplier in zip((8, 1), multipliers, strict=True):
            noise = accounting.GaussianDpEvent(float(multiplier))
            event = accounting.PoissonSampledDpEvent(recipe["batch_size"] / 5000, noise)
            found = rdp.RdpAccountant().compose(event, n_steps).get_epsilon(1e-6)
            assert found == pytest.approx(epsilon, rel=0.03)
    assert len(stated) == 2


def recipes():
    pytest.importorskip("torch")
    from fedjigsaw.deep.recipes import RECIPES

    return RECIPES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of noisy sites, which are meant
def test_noise_costs_purity():
    budgets = (None, 8.0, 1.0)
    plain, weak, strong = (
        projections("digits", 10, 1, 0, epsilon)["purity"] for epsilon in budgets
    )
    assert plain > weak > strong
