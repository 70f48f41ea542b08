"""What an author of a method need not write: name, rules and __init__."""

import re
from typing import ClassVar

import cloudpickle
import numpy as np
import pytest

from doubles import OneByOne
from fedjigsaw import FeCA, FederatedClusterer, Privacy, Summary
from fedjigsaw.engine import SerialEngine, default_name
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.parameters import one_of

ROWS = np.array([[0.0], [1.0], [9.0]])


class Least(FederatedClusterer):
    """The two halves, and nothing else."""

    def summarize(self, X, broadcast, rng):
        return Summary(n_samples=len(X), centers=X[:1], counts=np.array([len(X)]))

    def aggregate(self, summaries, broadcast, rng):
        return self.make_model(summaries[0].centers)


class Linked(Least):
    """One parameter more, which has no rule."""

    def __init__(self, n_clusters=8, *, linkage="ward", random_state=None):
        self.n_clusters = n_clusters
        self.linkage = linkage
        self.random_state = random_state


def test_two_functions_are_enough():
    least = Least(1, random_state=0).fit(ROWS)
    assert (least.method, least.model_.method) == ("least", "least")
    assert least.model_.params == {"n_clusters": 1, "random_state": 0}
    assert Least().get_params() == {"n_clusters": 8, "random_state": None}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_clusters": 0}, "n_clusters of Least"),
        ({"random_state": "x"}, "random_state of Least"),
    ],
)
def test_number_and_seed_are_checked_by_default(params, words):
    with pytest.raises(ParameterError, match=words):
        Least(**params).fit(ROWS)


def test_other_parameters_are_known_and_not_checked():
    for value in ("complete", 3, None):
        assert Linked.from_settings({"n_clusters": 1, "linkage": value}).linkage == value
    with pytest.raises(ParameterError, match="Linked has no parameter 'color'"):
        Linked.from_settings({"color": 1})
    with pytest.raises(ParameterError, match="Least has no parameter 'linkage'"):
        Least.from_settings({"linkage": 1})


def test_a_rule_for_one_parameter_leaves_the_others_their_defaults():
    class Checked(Linked):
        rules: ClassVar = {"linkage": one_of("ward", "average")}

    assert set(Checked.rules) == {"linkage", "n_clusters", "random_state"}
    with pytest.raises(ParameterError, match="linkage of Checked"):
        Checked(1, linkage="x").fit(ROWS)
    with pytest.raises(ParameterError, match="n_clusters of Checked"):
        Checked(-1).fit(ROWS)

    class Child(Checked):  # it inherits the rule
        def __init__(self, n_clusters=8, *, linkage="ward", depth=1, random_state=None):
            super().__init__(n_clusters, linkage=linkage, random_state=random_state)
            self.depth = depth

    with pytest.raises(ParameterError, match="linkage of Child"):
        Child(1, linkage="x").fit(ROWS)
    assert Child.rules["depth"].allowed == "any value"


def test_a_child_without_a_parameter_has_no_rule_for_it():
    class Plain(FeCA):
        def __init__(self, n_clusters=8, *, random_state=None):
            super().__init__(n_clusters, random_state=random_state)

    assert set(Plain.rules) == {"n_clusters", "random_state"}
    assert "refine" in FeCA.rules


def test_a_word_as_the_default_number_is_allowed():
    class Finds(Least):
        def __init__(self, n_clusters="auto", *, random_state=None):
            super().__init__(n_clusters, random_state=random_state)

    Finds().fit(ROWS)
    with pytest.raises(ParameterError, match="an integer >= 1 or 'auto'"):
        Finds("many").fit(ROWS)


@pytest.mark.parametrize("missing", ["n_clusters", "random_state"])
def test_a_parameter_that_every_method_has_is_asked_for(missing):
    def with_number(self, n_clusters=8):
        self.n_clusters = n_clusters

    def with_seed(self, random_state=None):
        self.random_state = random_state

    body = {"__init__": with_seed if missing == "n_clusters" else with_number}
    cls = type("Lacking", (Least,), body)
    words = rf"Lacking.__init__ has no parameter '{missing}', which every method has: def __init__"
    for ask in (lambda: cls().fit(ROWS), lambda: cls.from_settings({"n_clusters": 3})):
        with pytest.raises(ParameterError, match=words):
            ask()


def test_a_rule_for_no_parameter_is_told():
    class Wrong(Least):
        rules: ClassVar = {"linkage": one_of("ward")}

    with pytest.raises(ParameterError, match="Wrong has a rule for 'linkage', which is no parame"):
        Wrong().fit(ROWS)


@pytest.mark.parametrize("sends", ["counts", ("count",), ["counts"], None, (["counts"],)])
def test_fields_to_send_that_do_not_exist_are_told(sends):
    cls = type("Wrong", (Least,), {"sends": sends})
    words = "sends of Wrong must be a tuple of some of 'radii', 'counts', 'sse', 'tensors'.* got "
    for ask in (lambda: cls(1).fit(ROWS), lambda: cls.from_settings({"n_clusters": 1})):
        with pytest.raises(ParameterError, match=words + re.escape(repr(sends))):
            ask()


@pytest.mark.parametrize("engine", [SerialEngine, OneByOne])
@pytest.mark.parametrize(
    ("half", "found", "words"),
    [
        ("aggregate", None, r"a Model, such as self.make_model\(centers\); got None"),
        ("aggregate", ROWS, r"a Model, such as .* got an object of type ndarray"),
        ("summarize", None, r"a Summary, such as Summary\(n_samples=len\(X\), .* got None"),
        ("summarize", (ROWS, 3), r"a Summary, such as .* got an object of type tuple"),
        ("summarize_privately", ROWS, r"a Summary, such as .* got an object of type ndarray"),
    ],
)
def test_a_half_that_returns_something_else_is_named(half, found, words, engine):
    cls = type("Odd", (Least,), {half: lambda *_: found, "check_privacy": lambda *_: None})
    privacy = Privacy(1.0, bounds=(0, 9)) if half == "summarize_privately" else None
    with pytest.raises(ParameterError, match=rf"^Odd\.{half} must return {words}"):
        cls(1).fit(ROWS, clients=[0, 0, 1], engine=engine, privacy=privacy, min_clients=1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MyWard", "my-ward"),
        ("KMeansOfCenters", "k-means-of-centers"),
        ("HTTPMethod", "http-method"),
        ("Fed2Means", "fed2-means"),
        ("_own_method", "own-method"),
    ],
)
def test_default_name(name, expected):
    assert default_name(type(name, (), {})) == expected


def test_a_child_has_a_name_of_its_own_unless_it_sets_one(tmp_path):
    class Child(FeCA):
        pass

    class Named(FeCA):
        method = "given"

    class Grandchild(Named):
        pass

    assert (Child.method, Child().method, FeCA.method) == ("child", "child", "feca")
    assert (Named.method, Grandchild.method) == ("given", "grandchild")
    assert type("Linked2", (Linked,), {}).method == "linked2"
    copied = cloudpickle.loads(cloudpickle.dumps(Child))
    assert copied.method == "child"
    fitted = Child(1, random_state=0).fit(ROWS)
    fitted.save(tmp_path / "model")
    assert Child.load(tmp_path / "model").method == "child"
    with pytest.raises(MessageError, match="model of method 'child', not of FeCA"):
        FeCA.load(tmp_path / "model")
