"""Which keys are revoked, and which are used from two places at once."""

import json
import logging

import pytest

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import keys, members
from fedjigsaw.flower.keys import Keys, read_twins


@pytest.fixture
def home(clinic):
    return clinic / "server"


@pytest.fixture
def known(home):
    return Keys(home, {"bern": "a key", "lyon": "another"})


def test_a_site_that_restarts_has_no_twin(known, home):
    for process in (b"1", b"1", b"2", b"2", b"3", b"3"):
        assert not known.note("bern", process, "10.0.0.1")
    assert read_twins(home) == {}


def test_two_processes_that_take_turns_are_told_once(known, home, caplog):
    with caplog.at_level(logging.WARNING, logger="fedjigsaw"):
        for _ in range(5):
            known.note("bern", b"1", "10.0.0.1")
            known.note("bern", b"2", "10.0.0.9")
            known.note("lyon", b"3", "10.0.0.2")
    assert known.note("bern", b"1", "10.0.0.1")
    assert not known.note("lyon", b"3", "10.0.0.2")
    assert caplog.text.count("the key of site bern is used from two places at once") == 1
    assert "10.0.0.1, 10.0.0.9" in caplog.text
    assert list(read_twins(home)) == ["bern"]
    assert read_twins(home)["bern"]["hosts"] == ["10.0.0.1", "10.0.0.9"]


def test_a_thief_who_sends_no_word_is_a_twin_too(known):
    notes = [known.note("bern", word, "10.0.0.1") for word in (b"1", b"", b"1", b"", b"1")]
    assert notes == [False, False, False, True, True]


def test_words_that_never_come_back_fill_no_memory(known):
    for number in range(100):
        known.note("bern", b"%d" % number, "10.0.0.1")
    assert len(known.uses["bern"].hosts) == keys.MAX_PROCESSES


def test_a_new_server_has_seen_no_twins(home):
    (home / "twins.json").write_text(json.dumps({"bern": {}}))
    Keys(home, {})
    assert read_twins(home) == {}


def test_a_revocation_is_for_good(home):
    assert members.revoke(home, "bern")
    assert not members.revoke(home, "bern")
    assert list(members.read_revoked(home)) == ["bern"]
    assert Keys(home, {"bern": "a key"}).revoked == {"bern"}


@pytest.mark.parametrize("content", ["", "[]", '{"bern": 1}', "[" * 100_000])
def test_revocations_that_cannot_be_read_stop_the_server(home, content):
    (home / "revoked.json").write_text(content)
    with pytest.raises(FederationError, match="revoked"):
        Keys(home, {})
