from collections import Counter

import pytest

from fedjigsaw.bench.cells import Cell
from fedjigsaw.bench.paper import paper_tables
from fedjigsaw.bench.studies import find, studies
from fedjigsaw.bench.study import tasks_of
from fedjigsaw.errors import ParameterError
from fedjigsaw.methods import make


def numbers_in(value):
    """All published numbers below a node of the file, as (mean, std or None)."""
    if isinstance(value, dict) and set(value) == {"mean", "std"}:
        return [(value["mean"], value["std"])]
    if isinstance(value, list) and len(value) == 2 and not isinstance(value[0], dict):
        return [tuple(value)]
    if isinstance(value, (int, float)):
        return [(value, None)]
    children = value.values() if isinstance(value, dict) else value
    return [number for child in children for number in numbers_in(child)]


@pytest.mark.parametrize(
    ("study", "tables"),
    [
        ("table1", ["table1_ssets_l2_e4", "appendix_ssets_purity_nmi"]),
        ("table2", ["table2_frozen_features"]),
        ("radius", ["appendix_radius_variants"]),
        ("k-prime", ["appendix_kfed_k_prime"]),
        ("clients", ["appendix_clients_5pct_each", "appendix_clients_iid_split"]),
    ],
)
def test_every_published_number_belongs_to_one_cell(study, tables):
    published = Counter(
        number for name in tables for number in numbers_in(paper_tables()[name]["cells"])
    )
    ours = Counter(number for plan in studies()[study].plans for number in plan.published.values())
    assert ours == published


def test_varying_k_and_ablation_have_their_numbers():
    cells = {p.name: p.published["mse"][0] for p in studies()["varying-k"].plans}
    assert cells["k=15, k'=10/iid"] == 34599.4
    assert cells["k=10, k'=15/dirichlet(0.1)"] == 7532.7
    assert len(cells) == 12
    assert {p.published["mse"][0] for p in studies()["ablation"].plans} == {12977.2, 6.7}


@pytest.mark.parametrize("study", studies().values(), ids=lambda study: study.name)
def test_every_cell_can_run_and_has_its_own_name(study):
    names = [plan.name for plan in study.plans]
    assert len(set(names)) == len(names)
    for plan in study.plans:
        assert len(plan.name.split("/")) == len(study.layout)
        if isinstance(plan.cell, Cell):
            make(plan.cell.method, plan.cell.n_clusters, 0, **plan.cell.params).check()


def test_a_cell_is_what_its_name_says():
    plans = {plan.name: plan.cell for plan in studies()["table1"].plans}
    cell = plans["S3/dirichlet(0.1)/FFCMv2(Rd=10)"]
    assert (cell.dataset, cell.method, cell.n_clusters, cell.n_clients) == ("s3", "fuzzy", 15, 10)
    assert (cell.split, cell.alpha, cell.min_size) == ("dirichlet", 0.1, 15)
    assert cell.params == {"version": 2, "n_rounds": 10}
    assert plans["S1/iid/k-FED"].params == {"n_local_clusters": 5}
    assert plans["S1/any/Centralized"].params == {"n_init": 1}
    few = {plan.name: plan.cell for plan in studies()["clients"].plans}["5 % each/7"]
    assert (few.n_clients, few.share) == (7, 0.35)


def test_tasks_come_seed_by_seed():
    tasks = tasks_of(studies()["radius"], 2)
    assert [task.cell.seed for task in tasks] == [0] * 6 + [1] * 6
    assert tasks[0].key == "radius/iid/theoretical/0"
    assert len(tasks_of(studies()["table2"])) == 3 * len(studies()["table2"].plans)


def test_find():
    assert [study.name for study in find(["sigma", "radius", "sigma"])] == ["sigma", "radius"]
    assert find(["all"]) == list(studies().values())
    with pytest.raises(
        ParameterError, match="Unknown table 'table9'. Choose all or one of table1, "
    ):
        find(["table9"])


def test_the_plain_study_takes_only_rows_of_its_backend():
    task = tasks_of(studies()["ssets-sklearn"])[0]
    row = {**task.cell.as_row(), "backend": "sklearn"}
    assert task.made(row)
    assert not task.made({**row, "backend": "intelex"})
