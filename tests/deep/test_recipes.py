"""Recipes are settings that DeepFeCA accepts, and the command line knows them."""

import pytest

from fedjigsaw.cli import deep as commands
from fedjigsaw.deep import DeepFeCA
from fedjigsaw.deep.recipes import RECIPES


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_arrives(name):
    found = DeepFeCA.from_settings(RECIPES[name]).configuration()
    assert {setting: found[setting] for setting in RECIPES[name]} == RECIPES[name]


def test_the_paper_is_the_default():
    assert DeepFeCA.from_settings(RECIPES["paper"]).configuration() == DeepFeCA().configuration()


def test_the_command_line_offers_them_all():
    assert list(RECIPES) == commands.RECIPES
