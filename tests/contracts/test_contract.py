"""Every method in the table implements the contract, DeepFeCA included."""

import inspect

import pytest

from fedjigsaw import FederatedMethod
from fedjigsaw.methods import CLUSTERERS, METHODS

MEMBERS = [name for name in vars(FederatedMethod) if not name.startswith("_")] + ["random_state"]


def method_class(name):
    if METHODS[name].data_kind == "images":
        pytest.importorskip("torch")
    return METHODS[name].cls


def test_the_contract_has_the_members_that_engines_files_and_flower_use():
    assert sorted(MEMBERS) == [
        "aggregate",
        "check",
        "check_answer",
        "check_federated",
        "client_parameters",
        "configuration",
        "data_kind",
        "from_settings",
        "method",
        "pools_data",
        "random_state",
        "sends",
        "server_parameters",
        "summarize",
        "summarize_privately",
        "total_rounds",
    ]
    for name in MEMBERS[:-1]:
        assert inspect.getdoc(getattr(FederatedMethod, name)), f"{name} needs a docstring"


@pytest.mark.parametrize("name", METHODS)
def test_the_table_and_the_class_agree(name):
    cls = method_class(name)
    assert cls.method == name
    assert cls.data_kind == METHODS[name].data_kind
    assert {"n_clusters", "random_state"} <= set(cls.rules)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_of_its_own_parameters_where_they_act(name):
    cls = method_class(name)
    assert set(cls.server_parameters) <= set(cls.rules) - {"n_clusters", "random_state"}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_every_member_with_the_same_arguments(name):
    method = method_class(name).from_settings({"n_clusters": 3, "random_state": 0})
    for member in MEMBERS:
        assert hasattr(method, member)
        wanted = getattr(FederatedMethod, member, None)
        if inspect.isfunction(wanted):
            theirs = list(inspect.signature(getattr(method, member)).parameters)
            assert theirs == list(inspect.signature(wanted).parameters)[1:]


def test_sends_is_nothing_unless_a_method_says_so():
    from fedjigsaw import FederatedClusterer

    assert FederatedClusterer.sends == ()


def test_only_benchmarks_pool_data_and_no_federation_takes_them():
    pooling = [name for name, entry in CLUSTERERS.items() if entry.cls.pools_data]
    assert pooling == ["central"]
    with pytest.raises(ValueError, match="Method 'central' pools all rows, so it cannot run"):
        CLUSTERERS["central"].cls(3).check_federated()
