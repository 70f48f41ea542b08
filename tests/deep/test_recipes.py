"""Recipes are settings that DeepFeCA accepts, and the command line knows them."""

from pathlib import Path

import pytest

from fedjigsaw.deep import DeepFeCA, Execution
from fedjigsaw.deep.recipes import RECIPES
from fedjigsaw.io.rows import read_rows


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_arrives(name):
    found = DeepFeCA.from_settings(RECIPES[name]).configuration()
    assert {setting: found[setting] for setting in RECIPES[name]} == RECIPES[name]


def test_the_paper_is_the_default():
    assert DeepFeCA.from_settings(RECIPES["paper"]).configuration() == DeepFeCA().configuration()


def test_the_best_is_what_its_rows_were_made_with():
    path = Path(__file__).parents[2] / "results" / "deep-swapped-dirichlet0.1-weight-decay.jsonl"
    last = read_rows(path)[-1]
    config = DeepFeCA.from_settings(RECIPES["best"]).configuration()
    others = {*Execution.rules, "random_state", "clusterer_params"}
    assert last["rounds"] == config["n_rounds"]
    # a setting that came later had its default then; others were removed
    then = {**DeepFeCA().configuration(), **last["config"]}
    compared = config.keys() - others
    assert {n: then[n] for n in compared} == {n: config[n] for n in compared}
