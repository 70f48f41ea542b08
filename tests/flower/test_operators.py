"""Keys of operators: they are added and removed while a server runs, and are no keys of sites."""

import pytest

from fedjigsaw.errors import ParameterError
from fedjigsaw.flower import operators
from fedjigsaw.flower.operator_protocol import fingerprint


def test_a_running_server_notices_who_is_added_and_removed(clinic):
    home = clinic / "server"
    known = operators.Operators(home)
    key = fingerprint(operators.load_key(operators.add(home, "anna")).public_key())
    assert known.find(key).name == "anna"
    assert known.find("0" * 64) is None
    operators.remove(home, "anna")
    assert known.find(key) is None
    (clinic / "anna").rename(clinic / "old")
    operators.add(home, "anna")  # the same name with another key
    assert known.find(key) is None


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/b", "bern", "BERN", "server", "Authority", "a b", "x" * 65, "ä"]
)
def test_names_that_are_none(clinic, name):
    with pytest.raises(ParameterError, match="name of an operator"):
        operators.add(clinic / "server", name)
    assert not (clinic / "server" / "operators.json").exists()
