"""The policy file of a site: strict by default, and strict about itself."""

import os
import tomllib
from dataclasses import replace

import pytest

from fedjigsaw.errors import ParameterError
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.records.policy import Policy, RefusedError
from fedjigsaw.records.policy_text import default_text, describe

KNOWN = ("jigsaw", "feca", "kfed", "match", "fuzzy", "deepfeca")


def load(tmp_path, text):
    (tmp_path / "policy.toml").write_text(text)
    return Policy.load(tmp_path, known=KNOWN)


def test_the_file_that_is_written_has_the_defaults(tmp_path):
    assert load(tmp_path, default_text()) == Policy()
    names = {name for name, _, _ in describe(Policy())}
    assert set(tomllib.loads(default_text())) == names
    assert all(len(line) <= 100 for line in default_text().splitlines())


def test_without_a_file_there_are_the_defaults(tmp_path):
    assert Policy.load(tmp_path, known=KNOWN) == Policy()


def test_a_limit_that_is_not_named_keeps_its_default(tmp_path):
    policy = load(tmp_path, "rounds = 3\n[at_most]\nn_clusters = 7")
    assert (policy.rounds, policy.at_most["n_clusters"]) == (3, 7)
    assert policy.at_most["n_init"] == Policy().at_most["n_init"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rounds = ", "is not a TOML file"),
        ("rounds = 1\nrounds = 2", "is not a TOML file"),
        ("#" + "x" * 70_000, "is not a TOML file: it is larger than"),
        ("round = 1", "has unknown keys: 'round'. Known: methods, at_most, rounds"),
        ("rounds = 0", "rounds of .*policy.toml"),
        ("questions_in_all = inf", "questions_in_all of"),
        ("least_cluster_size = 0", "least_cluster_size of"),
        ("methods = []", "methods of"),
        ("methods = 'jigsaw'", "methods of"),
        ("methods = ['jigsaw', 'central']", "each one of jigsaw, feca"),
        ("at_most = 5", "at_most of"),
        ("[at_most]\nn_cluster = 5", "must be a table of integers >= 1 for some of n_clusters"),
        ("scores = 'all'", "must be one of 'derived', 'any', 'none'"),
        ("counts = 'some'", "must be one of 'exact', 'rounded', 'none'"),
        ("privacy = 'dp'", "must be one of 'none', 'required'"),
        ("largest_epsilon = 0", "must be a finite number > 0"),
        ("least_cluster_size = 1\ncounts = 'rounded'", "must be greater than 1 for rounded counts"),
    ],
)
def test_a_mistake_is_an_error_that_says_where_and_what_to_do(tmp_path, text, words):
    with pytest.raises(ParameterError, match=words) as caught:
        load(tmp_path, text)
    assert str(tmp_path / "policy.toml") in str(caught.value)
    assert any(word in str(caught.value) for word in ("Correct the file", "Known:"))


def test_in_python_too_a_limit_that_is_not_named_keeps_its_default():
    policy = Policy(methods=["jigsaw"], at_most={"n_clusters": 7})
    assert policy == replace(Policy(methods=("jigsaw",)), at_most={"n_clusters": 7})
    assert Policy(methods={"jigsaw", "feca"}).methods == ("feca", "jigsaw")
    assert policy.at_most == Policy().at_most | {"n_clusters": 7}


def test_a_file_that_cannot_be_read_is_not_the_default(tmp_path):
    (tmp_path / "policy.toml").mkdir()
    with pytest.raises(ParameterError, match="Cannot read"):
        Policy.load(tmp_path, known=KNOWN)
    (tmp_path / "policy.toml").rmdir()
    (tmp_path / "policy.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match="is not a TOML file"):
        Policy.load(tmp_path, known=KNOWN)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_neither_a_pipe_nor_a_link_to_nothing_is_the_default(tmp_path, make):
    make(tmp_path / "policy.toml")
    with pytest.raises(ParameterError, match="it is not a regular file"):
        Policy.load(tmp_path, known=KNOWN)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (default_text(), []),
        ("methods = ['feca']\nquestions_per_day = 1\nquestions_in_all = 1", []),
        ("least_cluster_size = 50\ncounts = 'none'\nsums = 'none'\n[at_most]\nn_init = 1", []),
        ("methods = ['jigsaw', 'deepfeca']", ["methods"]),
        ("rounds = 2", ["rounds"]),
        ("later_models = 'any'", ["later_models"]),
        ("scores = 'any'", ["scores"]),
        ("scores = 'none'\nstatistics = 'none'", []),
        ("questions_per_day = 11", ["questions_per_day"]),
        ("questions_in_all = 21", ["questions_in_all"]),
        ("least_cluster_size = 4", ["least_cluster_size"]),
        ("[at_most]\nn_clusters = 101", ["at_most"]),
        ("rounds = 9\nleast_cluster_size = 1", ["rounds", "least_cluster_size"]),
        ("privacy = 'required'\nlargest_epsilon = 9", []),  # stricter than none at all
    ],
)
def test_which_rules_are_looser(tmp_path, text, rules):
    policy = load(tmp_path, text)
    assert list(policy.looser()) == rules
    policy.check_accepted("bern", accepted=True)
    if rules:
        with pytest.raises(ParameterError, match=rules[0]):
            policy.check_accepted("bern", accepted=False)
    else:
        policy.check_accepted("bern", accepted=False)


def check(policy, method="jigsaw", total_rounds=1, number=0, model=False, **params):
    policy.check_question(method, params, total_rounds=total_rounds, number=number, model=model)


def test_what_the_default_allows():
    check(Policy(), n_clusters=100, n_local_clusters=None, detail=2)
    check(Policy(), n_clusters="auto", max_clusters=None)
    check(Policy(), n_clusters="auto", max_clusters=50, n_local_clusters=200)
    check(Policy(), "feca", n_clusters=4)


@pytest.mark.parametrize("params", [{"shape": "any"}, {"noise": True}, {"n_clusters": "auto"}])
def test_questions_about_shapes_ask_for_many_centers(params):
    policy = replace(Policy(), at_most={"n_local_clusters": 199})
    check(policy, n_clusters=4)
    with pytest.raises(RefusedError, match="n_local_clusters = 200 is more than 199"):
        check(policy, **{"n_clusters": 4, **params})


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"method": "fuzzy"}, "method fuzzy is not among: jigsaw, feca"),
        ({"method": "deepfeca"}, "method deepfeca is not among"),
        ({"n_clusters": 101}, "n_clusters = 101 is more than 100"),
        ({"n_clusters": [20, 101]}, "is more than 100"),
        ({"n_local_clusters": 201}, "is more than 200"),
        ({"method": "kfed", "n_local_clusters": {"a": 1, "b": 999}}, "is more than 200"),
        ({"detail": 3}, "detail = 3 is more than 2"),
        ({"max_clusters": 10**9}, "is more than 100"),
        ({"n_init": 10**9}, "is more than 100"),
        ({"max_iter": 10**9}, "is more than 1000"),
        ({"total_rounds": 2}, "2 rounds are more than 1"),
        ({"number": 1, "model": True}, "2 rounds are more than 1"),
        ({"number": 0, "model": True}, "a model in the first round"),
    ],
)
def test_what_the_default_refuses(question, words):
    with pytest.raises(RefusedError, match=words):
        check(Policy(), **question)


def test_a_later_round_needs_a_model():
    with pytest.raises(RefusedError, match="no model in a later round"):
        check(Policy(rounds=5), total_rounds=3, number=1, model=False)


@pytest.mark.parametrize(("per_day", "in_all"), [(10, 10), (0, 20), (10**9, 10**9)])
def test_no_question_too_many(per_day, in_all):
    Policy().check_budget(9, 19)
    with pytest.raises(RefusedError, match="questions were answered"):
        Policy().check_budget(per_day, in_all)


class TestGuard:
    def test_a_command_may_be_stricter(self):
        assert Policy().guard(None, None) == Guard(5)
        assert Policy().guard(9, "none") == Guard(9, "none")
        assert Policy(least_cluster_size=20).guard(None, None) == Guard(20)

    def test_a_command_may_not_be_laxer(self):
        with pytest.raises(ParameterError, match="4 is less than least_cluster_size = 5"):
            Policy().guard(4, None)
        with pytest.raises(ParameterError, match="counts='exact' tells more than .*'rounded'"):
            Policy(counts="rounded").guard(None, "exact")
        with pytest.raises(ParameterError, match="counts='rounded' tells more than"):
            Policy(counts="none").guard(None, "rounded")

    @pytest.mark.parametrize(
        ("allowed", "asked", "needed", "found"),
        [
            ("exact", None, ("counts",), None),
            ("rounded", None, ("counts",), "rounded"),
            ("rounded", None, (), None),
            ("none", None, ("counts",), "none"),
            ("rounded", "none", ("counts",), "none"),
            ("rounded", "exact", ("counts",), "rounded"),
        ],
    )
    def test_counts(self, allowed, asked, needed, found):
        assert Policy(counts=allowed).tighten(Guard(5, asked), needed).counts == found

    def test_sums(self):
        assert Policy().tighten(Guard(), ("sse",)).sums
        assert not Policy(sums="none").tighten(Guard(), ("sse",)).sums
