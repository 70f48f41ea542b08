"""Processes end with all their children; logs are followed; servers are waited for."""

import time
from pathlib import Path

import pytest

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import processes


def test_a_group_is_ended_as_a_whole(tmp_path, monkeypatch):
    script = "import subprocess as s, sys, time\n"
    script += "print(s.Popen(['sleep', '600']).pid, flush=True)\ntime.sleep(600)\n"
    (tmp_path / "with_child.py").write_text(script)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    log = tmp_path / "flower.log"
    with processes.running("with_child", folder=tmp_path) as process:
        while not log.read_text().strip():
            time.sleep(0.05)
        assert process.poll() is None
    assert process.returncode is not None
    child, deadline = Path(f"/proc/{int(log.read_text())}/stat"), time.monotonic() + 30
    while child.exists() and child.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_log_is_shown_as_it_grows(tmp_path):
    shown = []
    (tmp_path / "log").write_text("old\n")
    with processes.following(tmp_path / "log", shown.append), (tmp_path / "log").open("a") as file:
        file.write("new [x]\n")
    assert shown == ["new [x]"]


def test_only_one_at_a_time(tmp_path):
    with (
        processes.alone(tmp_path, "The server"),
        pytest.raises(FederationError, match="already running"),
        processes.alone(tmp_path, "The server"),
    ):
        pass
    with processes.alone(tmp_path, "The server"):
        pass


def test_only_one_at_a_time_even_if_somebody_deletes_the_lock_file(tmp_path):
    with processes.alone(tmp_path, "The server"):
        (tmp_path / "lock").unlink()
        with (
            pytest.raises(FederationError, match="already running"),
            processes.alone(tmp_path, "The server"),
        ):
            pass


def test_nothing_is_sent_anywhere_else(tmp_path):
    variables = processes.environment(tmp_path)
    assert variables["FLWR_TELEMETRY_ENABLED"] == "0"
    assert variables["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert variables["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert variables["FLWR_HOME"] == str(tmp_path / "flower")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "Cannot read"), (b"", "not a certificate"), (b"text", "not a certificate")],
)
def test_without_an_authority_there_is_nothing_to_wait_for(clinic, content, message):
    authority = clinic / "bern" / "ca.crt"
    authority.unlink() if content is None else authority.write_bytes(content)
    with pytest.raises(FederationError, match=message):
        processes.answers("127.0.0.1", processes.free_port(), authority)


def test_a_server_that_does_not_answer_is_no_error(clinic):
    port = processes.free_port()
    assert not processes.answers("127.0.0.1", port, clinic / "bern" / "ca.crt")
    assert not processes.wait_until_answers(
        "127.0.0.1", port, clinic / "bern" / "ca.crt", seconds=0.1
    )
