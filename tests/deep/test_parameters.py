"""Settings in objects and by flat names are the same settings."""

from dataclasses import fields

import pytest
from sklearn.base import clone

from fedjigsaw.deep import Augmentation, DeepFeCA, Execution, Objective, Schedule
from fedjigsaw.deep.client import view_seed
from fedjigsaw.deep.parameters import GROUPS
from fedjigsaw.errors import ParameterError


@pytest.mark.parametrize("cls", GROUPS.values())
def test_every_setting_has_a_rule_that_its_default_passes_and_a_line_of_documentation(cls):
    made = cls()
    assert [f.name for f in fields(cls)] == list(cls.rules)
    documented = cls.__doc__.partition("----------")[2]
    for name, rule in cls.rules.items():
        assert rule.accepts(getattr(made, name)), name
        assert name in documented.replace(",", " ").replace(":", " ").split(), name


def test_no_two_objects_share_a_name():
    names = [f.name for cls in GROUPS.values() for f in fields(cls)]
    assert len(names) == len(set(names))
    assert set(names) < set(DeepFeCA.rules)


def test_flat_names_set_the_fields_of_the_objects():
    deep = DeepFeCA.from_settings(
        {"n_clusters": [6, 4], "network": "small", "views": 3, "ema": 0.5, "lanes": 2}
    )
    same = DeepFeCA(
        [6, 4],
        objective=Objective(network="small"),
        augmentation=Augmentation(views=3),
        schedule=Schedule(ema=0.5),
        execution=Execution(lanes=2),
    )
    assert deep.get_params() == same.get_params()
    assert deep.configuration() == same.configuration()


def test_configuration_is_flat_json_and_makes_the_same_estimator():
    deep = DeepFeCA(5, schedule=Schedule(n_rounds=3), random_state=7)
    config = deep.configuration()
    assert config.keys() == DeepFeCA.rules.keys()
    assert config["n_rounds"] == 3
    assert DeepFeCA.from_settings(config).configuration() == config


def test_scikit_learn_can_clone_and_set():
    deep = DeepFeCA(5, schedule=Schedule(n_rounds=3), random_state=7)
    again = clone(deep)
    assert again is not deep
    assert again.get_params() == deep.get_params()
    again.set_params(n_clusters=4, n_rounds=9, device="cpu")
    assert (again.n_clusters, again.schedule.n_rounds, again.execution.device) == (4, 9, "cpu")
    assert deep.schedule.n_rounds == 3
    assert clone(deep).set_params(**deep.get_params()).get_params() == deep.get_params()
    assert "Schedule(n_rounds=3" in repr(deep)


def test_unknown_names():
    with pytest.raises(ParameterError, match="DeepFeCA has no setting 'x'. It has: n_clusters"):
        DeepFeCA.from_settings({"x": 1})
    with pytest.raises(ParameterError, match="'learning_rat'"):
        DeepFeCA().set_params(learning_rat=1)


def test_an_object_of_another_kind():
    with pytest.raises(ParameterError, match="schedule of DeepFeCA"):
        DeepFeCA(schedule={"n_rounds": 3}).check()


def test_clustered_views_are_the_same_in_a_round_and_differ_between_rounds():
    assert view_seed(3, 0) == view_seed(3, 0) != view_seed(3, 1)
    assert view_seed(3, 0) != view_seed(4, 0)
