"""A server or site with files that are missing, open to others or planted does not start."""

import json
import os
import re
import socket
import subprocess
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from fedjigsaw.errors import FederationError, FedJigsawError
from fedjigsaw.flower import checks, folders, processes, serving
from fedjigsaw.flower.certificates import make_server_key
from fedjigsaw.flower.folders import OWN_APP
from flower_clinic import COMMAND, PATIENCE, without_rights_of_root


@pytest.fixture
def started(monkeypatch):
    """The processes that were started; each is interrupted at once."""
    modules = []

    def running(module, *args, **more):
        modules.append(module)
        raise KeyboardInterrupt

    monkeypatch.setattr(processes, "running", running)
    monkeypatch.setattr(processes, "answers", lambda *server: True)
    return modules


def test_a_server_whose_port_is_taken_says_so(clinic):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        path = clinic / "server" / "settings.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "port": port}))
        words = f"did not start: it cannot listen on port {port} of 127.0.0.1, where perhaps"
        with pytest.raises(FederationError, match=words):
            serving.serve(clinic)


def command(*words):
    """Run a command of a user who is not root: exit code, and what it printed."""
    done = subprocess.run(
        [COMMAND, "federation", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        preexec_fn=without_rights_of_root,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.slow
@pytest.mark.parametrize("check", [(), ("--check-config",)])
@pytest.mark.parametrize("what", ["", "site.log", "journal.jsonl", "groups"])
def test_a_site_that_cannot_write_its_folder_does_not_start(clinic, rows, what, check):
    path = clinic / "bern" / what
    if what:
        path.mkdir() if what == "groups" else path.touch()
    path.chmod(0o500)
    code, printed = command("site", clinic / "bern", "--data", rows["data"], *check)
    path.chmod(0o700)
    assert (code, f"Cannot write {path}: it belongs" in printed) == (8, True), printed
    assert not (clinic / "bern" / "lock").exists()


@pytest.fixture
def rows(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    return {"kind": "rows", "data": str(tmp_path / "a.csv")}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_private_key_is_private(clinic, started, rows, mode):
    for key in (clinic / "bern" / "site.key", clinic / "server" / "server.key"):
        key.chmod(mode)
    with pytest.raises(FederationError, match=rf"may read it \(mode {mode:04o}\). Run `chmod 600"):
        serving.serve_site(clinic / "bern", rows)
    with pytest.raises(FederationError, match=r"server.key is a private key"):
        serving.serve(clinic)
    assert not started
    (clinic / "bern" / "site.key").chmod(0o400)
    with pytest.raises(KeyboardInterrupt):
        serving.serve_site(clinic / "bern", rows)


def ssh_key(curve=ec.SECP384R1):
    key = ec.generate_private_key(curve())
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ssh_key()[:300], "not a private key"),
        (b"", "not a private key"),
        (make_server_key(), "not a private key"),
        (ssh_key(ec.SECP256R1), "another kind of key"),
    ],
    ids=["cut", "empty", "pem", "curve"],
)
def test_a_key_that_is_none_is_found_before_anything_is_started(
    clinic, started, rows, content, message
):
    """The server would only say that it does not know the key, or that the clocks differ."""
    (clinic / "bern" / "site.key").write_bytes(content)
    with pytest.raises(FederationError, match=rf"site\.key is .*{message}"):
        serving.serve_site(clinic / "bern", rows)
    with pytest.raises(FederationError, match=message):
        list(checks.check_site(clinic / "bern", rows))
    assert not started


def test_a_folder_cannot_make_a_site_run_another_app(clinic, started, rows):
    """The folder comes from the coordinator, and an app may do anything at the site."""
    place = clinic / "bern" / "settings.json"
    settings = json.loads(place.read_text())
    place.write_text(json.dumps({**settings, "app": sha256(b"another app").hexdigest()}))
    with pytest.raises(FederationError, match=r"settings.json names an app that .* does not know"):
        serving.serve_site(clinic / "bern", rows)
    assert not started
    with pytest.raises(FederationError, match="does not know"):
        list(checks.check_site(clinic / "bern", rows))


WRITTEN = ["site.log", "flower.log", "journal.jsonl", "privacy-ledger.jsonl", "journal.lock"]
WRITTEN += ["lock", "contact", "groups"]


@pytest.mark.parametrize("there", [True, False], ids=["empty", "none"])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_folder_cannot_make_a_site_add_lines_to_another_file(
    clinic, started, rows, name, there, tmp_path
):
    """A coordinator chooses some words of a log, and a shell may read them from its profile.

    The journal has these words as well, and one that is elsewhere may be gone after a restart.
    """
    profile = tmp_path / "profile"
    if there:
        profile.write_text("")
    (clinic / "bern" / name).symlink_to(profile)
    with pytest.raises(FederationError, match=f"{name} is a link to {profile}"):
        serving.serve_site(clinic / "bern", rows)
    with pytest.raises(FederationError, match="is a link"):
        list(checks.check_site(clinic / "bern", rows))
    assert not started
    assert profile.exists() == there
    assert not there or profile.read_text() == ""


@pytest.mark.parametrize("linked", [False, True])
def test_nor_can_it_bring_an_app_that_is_installed_already(clinic, started, rows, linked, tmp_path):
    """Flower runs what it finds there, whatever it contains."""
    place = (tmp_path if linked else clinic / "bern") / "flower"
    planted = place / "apps" / f"fedjigsaw.fedjigsaw-app.1.0.0.{OWN_APP[:8]}" / "client.py"
    planted.parent.mkdir(parents=True)
    planted.write_text("1 / 0")
    if linked:
        (clinic / "bern" / "flower").symlink_to(place)
    with pytest.raises(KeyboardInterrupt):
        serving.serve_site(clinic / "bern", rows)
    assert len(started) == 1
    assert not (clinic / "bern" / "flower").exists()
    assert planted.exists() == linked  # what a link leads to is not the site's


def missing(path):
    path.unlink()


def pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def folder(path):
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize("what", ["server.key", "server.crt", "ca.crt", "app.fab"])
@pytest.mark.parametrize("spoil", [missing, pipe, folder])
def test_a_server_without_its_files_names_the_file_before_anything_is_started(
    clinic, started, spoil, what
):
    spoil(clinic / "server" / what)
    if spoil is not missing:
        (clinic / "server" / what).chmod(0o700)
    for check in (serving.serve, lambda home: list(checks.check_server(home))):
        with pytest.raises(FederationError, match=re.escape(what)) as error:
            check(clinic)
        assert "estore it from a backup" in str(error.value) or what == "app.fab"
    assert not started


@pytest.mark.parametrize("spoil", [pipe, folder])
@pytest.mark.parametrize("what", [*folders.WRITTEN_BY_A_SITE, "flower", "settings.json"])
def test_a_site_does_not_wait_for_a_pipe(clinic, started, rows, what, spoil):
    """Nor does it end in a traceback: what a site writes, or reads, is named if it is no file."""
    path = clinic / "bern" / what
    spoil(path)
    if what in folders.FOLDERS and spoil is folder:
        return
    for check in (serving.serve_site, lambda *args: list(checks.check_site(*args))):
        with pytest.raises(FedJigsawError, match=re.escape(str(path))):
            check(clinic / "bern", rows)
    assert not started


def test_nothing_else_is_contacted(tmp_path):
    found = processes.environment(tmp_path)
    off = ("FLWR_DISABLE_UPDATE_CHECK", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION")
    assert found["FLWR_TELEMETRY_ENABLED"] == "0"
    assert [found[name] for name in off] == ["1", "1"]
