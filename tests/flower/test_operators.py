"""Keys of operators: they are added and removed while a server runs, and are no keys of sites."""

import json

import pytest

from fedjigsaw.errors import DataError, FederationError, ParameterError
from fedjigsaw.flower import folders, operators
from fedjigsaw.flower.operator_protocol import fingerprint


def test_an_operator_gets_a_folder_and_the_server_a_public_key(clinic):
    folder = operators.add(clinic / "server", "anna")
    assert folder == clinic / "anna"
    assert sorted(path.name for path in folder.iterdir()) == [
        "ca.crt",
        "operator.key",
        "settings.json",
    ]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "operator.key").stat().st_mode & 0o777 == 0o600
    assert operators.OperatorSettings.load(folder).port == 9092
    kept = (clinic / "server" / "operators.json").read_text()
    assert "BEGIN PUBLIC KEY" in kept
    assert "PRIVATE" not in kept


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


def test_a_file_that_cannot_be_read_serves_nobody(clinic):
    home = clinic / "server"
    known = operators.Operators(home)
    key = fingerprint(operators.load_key(operators.add(home, "anna")).public_key())
    assert known.find(key)
    for content in ("{", '{"anna": {"key": "no key", "added": ""}}', "[]"):
        (home / "operators.json").unlink()
        (home / "operators.json").write_text(content)
        assert known.find(key) is None, content
    with pytest.raises(FederationError, match="does not contain operators"):
        operators.add(home, "bob")
    assert not (clinic / "bob").exists()


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/b", "bern", "BERN", "server", "Authority", "a b", "x" * 65, "ä"]
)
def test_names_that_are_none(clinic, name):
    with pytest.raises(ParameterError, match="name of an operator"):
        operators.add(clinic / "server", name)
    assert not (clinic / "server" / "operators.json").exists()


def test_nothing_is_overwritten(clinic):
    home = clinic / "server"
    (clinic / "old").mkdir()
    with pytest.raises(DataError, match="already exists and is not changed"):
        operators.add(home, "old")
    operators.add(home, "anna")
    with pytest.raises(ParameterError, match="There is an operator 'Anna' already"):
        operators.add(home, "Anna")
    with pytest.raises(ParameterError, match="There is no operator 'bob'. Operators: anna."):
        operators.remove(home, "bob")
    assert not list(clinic.glob(".*"))


def test_a_private_key_is_private(clinic):
    folder = operators.add(clinic / "server", "anna")
    (folder / "operator.key").chmod(0o644)
    with pytest.raises(FederationError, match="have the operator removed"):
        operators.load_key(folder)


def test_the_folder_is_no_sites_folder(clinic):
    folder = operators.add(clinic / "server", "anna")
    with pytest.raises(FederationError, match="does not contain the settings of a site"):
        folders.SiteSettings.load(folder)


def test_keys_of_sites_are_no_keys_of_operators(clinic):
    folder = operators.add(clinic / "server", "anna")
    folders.write_secret(folder / "operator.key", (clinic / "bern" / "site.key").read_bytes())
    with pytest.raises(FederationError, match="is not"):
        operators.load_key(folder)
    # nor does a server take one for an operator, if it is in the file; the others stay
    home = clinic / "server"
    entry = {"key": folders.ServerSettings.load(home).sites["bern"], "added": ""}
    both = {"bern": entry, **operators.read_operators(home)}
    (home / "operators.json").write_text(json.dumps(both))
    assert [found.name for found in operators.Operators(home)._load().values()] == ["anna"]
