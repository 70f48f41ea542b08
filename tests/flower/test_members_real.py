"""A running server notices what changes, without a restart; a restart alarms nobody."""

import shutil
import signal
import time

import httpx
import pytest
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.flower import processes
from fedjigsaw.flower.certificates import load_certificate
from fedjigsaw.flower.folders import SiteSettings
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from flower_clinic import BACKEND, PATIENCE, POLICY, Clinic, make_shards, members, wait_for
from flower_rogues import die

pytestmark = [pytest.mark.federation, pytest.mark.slow]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """A server and one site, bern; the others are not connected."""
    clinic = Clinic(tmp_path_factory.mktemp("members"), make_shards())
    try:
        clinic.start("server", "server", clinic.home)
        clinic.start_site("bern")
        clinic.wait_to_say("bern", "connected to the server")
        yield clinic
    finally:
        clinic.end()


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setenv(*BACKEND)


def command(clinic, verb, *words):
    done = CliRunner().invoke(cli.app, ["federation", verb, str(clinic.home), *words])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    return " ".join(done.output.split())


def test_a_site_is_added_and_takes_part_and_others_are_removed(clinic):
    assert "goes to rome" in command(clinic, "add", "rome")
    (clinic.home / "rome" / "policy.toml").write_text(POLICY)
    clinic.start_site("rome", data=clinic.folder / "oslo.csv")
    clinic.wait_to_say("rome", "connected to the server")
    for name in ("lyon", "oslo"):
        command(clinic, "remove", name)
    code, printed = clinic.run("two")
    assert code == 0, clinic.story(printed)
    assert formats.load(clinic.folder / "two", ModelFile).clients == ("bern", "rome")
    wait_for(lambda: "site oslo was removed" in clinic.output("server"), "the server to notice")
    with pytest.raises(httpx.HTTPStatusError, match="410"):
        die(clinic.home / "oslo")
    command(clinic, "remove", "rome")
    assert clinic.parts.pop("rome").wait(PATIENCE) == 8
    said = " ".join(clinic.output("rome").split())
    assert "no longer accepts the key of site rome: it was revoked, removed or replaced" in said
    assert clinic.connected() == ["bern"]


def test_a_new_key_is_accepted_and_the_old_one_refused(clinic):
    copy = clinic.folder / "copy"
    shutil.copytree(clinic.home / "bern", copy)
    began = time.monotonic()
    command(clinic, "rekey", "bern")
    wait_for(lambda: "may connect with a new key" in clinic.output("server"), "the new key")
    assert time.monotonic() - began < 10  # on a busy machine
    assert clinic.parts.pop("bern").wait(PATIENCE) == 8
    with pytest.raises(httpx.HTTPStatusError, match="410"):
        die(copy)
    assert clinic.connected() == []
    clinic.start_site("bern")
    wait_for(lambda: clinic.connected() == ["bern"], "bern with its new key")


def test_a_restart_of_the_server_prints_no_traceback_at_a_site(clinic):
    """It is killed, so that it can tell nobody; the site comes back by itself."""
    clinic.seen[clinic.folder / "bern.out"] = (clinic.folder / "bern.out").stat().st_size
    clinic.interrupt("server", signal.SIGKILL)
    wait_for(lambda: not members(clinic.home / "server"), "what the server left behind")
    assert "after a restart" in command(clinic, "renew")
    clinic.start("server", "server", clinic.home)
    clinic.wait_to_say("bern", "connected to the server")
    clinic.wait_to_say("bern", "connecting again")
    for text in (clinic.output("bern"), (clinic.home / "bern" / "site.log").read_text()):
        assert "Traceback" not in text
        assert "Error" not in text
    settings = SiteSettings.load(clinic.home / "bern")
    shown = processes.greet(settings.host, settings.port, clinic.home / "bern" / "ca.crt")
    renewed = load_certificate(clinic.home / "server" / "server.crt").serial_number
    assert int(shown["serialNumber"], 16) == renewed
