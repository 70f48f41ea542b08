"""Recipes are settings that DeepFeCA accepts, and the command line knows them."""

import pytest

from fedjigsaw.deep import DeepFeCA, Execution
from fedjigsaw.deep.recipes import RECIPES
from reproduction.deep import BEST, runs
from reproduction.studies import RESULTS


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_arrives(name):
    found = DeepFeCA.from_settings(RECIPES[name]).configuration()
    assert {setting: found[setting] for setting in RECIPES[name]} == RECIPES[name]


def test_the_paper_is_the_default():
    assert DeepFeCA.from_settings(RECIPES["paper"]).configuration() == DeepFeCA().configuration()


def test_the_best_is_what_its_rows_were_made_with():
    last = runs(RESULTS)[BEST]
    config = DeepFeCA.from_settings(RECIPES["best"]).configuration()
    others = {*Execution.rules, "random_state", "clusterer_params"}
    assert last["rounds"] == config["n_rounds"]
    # a setting that came later had its default then; others were removed
    then = {**DeepFeCA().configuration(), **last["config"]}
    compared = config.keys() - others
    assert {n: then[n] for n in compared} == {n: config[n] for n in compared}
