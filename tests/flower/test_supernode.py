"""A site's process ends when any part of it has failed, and says whether it was ever let in."""

import logging
import socket
import sys
import threading
from types import SimpleNamespace

import pytest

from fedjigsaw.flower import processes, supernode


@pytest.fixture
def ended(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(supernode, "leave", ended.set)
    return ended


def test_it_ends_with_a_thread_that_failed(ended, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", supernode.leave_after_failure)
    ending = threading.Thread(target=sys.exit)
    ending.start()
    ending.join()
    assert not ended.is_set()  # it just ended
    threading.Thread(target=lambda: 1 / 0).start()
    assert ended.wait(30)


@pytest.mark.parametrize(
    ("connected", "retry", "code"),
    [(False, False, processes.NEVER_CONNECTED), (True, False, 0), (False, True, 0)],
)
def test_the_exit_code_says_whether_the_server_let_it_in(monkeypatch, connected, retry, code):
    codes = []
    monkeypatch.setattr(supernode, "connected", connected)
    monkeypatch.setattr(supernode.os, "_exit", codes.append)
    monkeypatch.setattr(supernode.logging, "shutdown", lambda: None)
    supernode.leave(retry=retry)
    assert codes == [code]


def test_a_revocation_is_told_by_the_exit_code(monkeypatch, tmp_path):
    codes = []
    monkeypatch.setattr(supernode.os, "_exit", codes.append)
    monkeypatch.setattr(supernode.logging, "shutdown", lambda: None)
    supernode.note_answer(403, {})
    assert not codes
    supernode.note_answer(410, {})
    assert codes == [processes.WAS_REVOKED]


def test_a_lost_connection_is_one_plain_sentence(ended, caplog, capsys):
    """A restart of the server ends one of Flower's threads with an exception."""
    try:
        raise RuntimeError("401 Unauthorized")
    except RuntimeError as error:
        supernode.leave_after_failure(SimpleNamespace(exc_type=RuntimeError, exc_value=error))
    assert caplog.messages == ["the connection to the server was lost; flower.log has the details"]
    assert caplog.records[0].exc_info is None
    assert "401 Unauthorized" in capsys.readouterr().err  # goes to flower.log
    assert ended.is_set()


def test_silence_of_the_server_is_told_once_and_so_is_its_end(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(supernode, "silent", False)
    caplog.set_level(logging.INFO)
    for _ in range(3):
        supernode.note_silence()
    for _ in range(2):
        supernode.note_answer(200, {})
    supernode.note_silence()
    silence = "the server does not answer; this site goes on trying"
    assert caplog.messages == [silence, "the server answers again", silence]


def test_the_local_port_is_behind_a_gate():
    state = SimpleNamespace(get_task_by_token={"a token": "a task"}.get, claim_task=None)
    loop = SimpleNamespace(_pull_and_store_message=None)
    starter = SimpleNamespace(start=None, ended=list)
    made = supernode.guarded(loop, 9, starter, "an app", state)
    assert made.app == "an app"
    assert made.doors[9].is_task("a token")
    assert not made.doors[9].is_task("another")


def test_a_port_that_is_taken_is_no_refusal(clinic):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = str(clinic / "bern"), str(taken.getsockname()[1])
        with processes.running(
            "fedjigsaw.flower.supernode", *arguments, folder=clinic / "bern"
        ) as process:
            assert process.wait(60) not in (None, processes.NEVER_CONNECTED)
    assert "address already in use" in (clinic / "bern" / "flower.log").read_text()
