"""The last version before versions were told works with this one: as a site, and as the server."""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedjigsaw import __version__, cli
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from flower_clinic import BACKEND, PATIENCE, Clinic, make_shards, wait_for

pytestmark = [pytest.mark.federation, pytest.mark.slow, pytest.mark.long]

OLD = "869a458"
SITES = ["bern", "lyon"]


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """The source of the old version."""
    folder = tmp_path_factory.mktemp("old")
    root = Path(__file__).parents[2]
    try:
        words = ["git", "-C", str(root), "archive", OLD, "src"]
        packed = subprocess.run(words, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"the history does not have {OLD}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory, old):
    """This version's server and site lyon; bern is of the old version."""
    clinic = Clinic(tmp_path_factory.mktemp("versions"), make_shards())
    try:
        clinic.sources["bern"] = old
        clinic.start("server", "server", clinic.home)
        for name in SITES:
            clinic.start_site(name)
        for name in SITES:
            clinic.wait_to_say(name, "connected to the server")
        yield clinic
    finally:
        clinic.end()


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setenv(*BACKEND)


def test_an_old_site_works_with_this_server(clinic):
    code, printed = clinic.run("new", "--without", "oslo")
    assert code == 0, clinic.story(printed)
    assert formats.load(clinic.folder / "new", ModelFile).clients == tuple(SITES)
    words = ["federation", "status", str(clinic.home)]
    found = json.loads(CliRunner().invoke(cli.app, [*words, "--json"]).stdout)
    assert found["versions"] == {
        "bern": {"version": None, "protocol": 1},
        "lyon": {"version": __version__, "protocol": 1},
    }
    shown = " ".join(CliRunner().invoke(cli.app, words).output.split())
    assert shown.count("its version of fedjigsaw is unknown (protocol 1), the server's is") == 1
    clinic.wait_to_say("lyon", f"the server has fedjigsaw {__version__} with protocol 1")


def test_a_site_of_this_version_works_with_an_old_server(clinic, old):
    """The server is exchanged while the sites wait for it; the old one reads the new folder."""
    clinic.interrupt("server")
    clinic.sources |= {"server": old, "run old": old}
    clinic.start("server", "server", clinic.home)
    wait_for(lambda: (clinic.home / "server" / "running.json").exists(), "the old server")
    wait_for(lambda: clinic.connected() == SITES, "the sites")
    run = clinic.start_run("old", "--without", "oslo")
    assert run.wait(PATIENCE) == 0, clinic.story(clinic.output("run old"))
    models = [formats.load(clinic.folder / label, ModelFile) for label in ("new", "old")]
    assert models[0].model == models[1].model
    assert "Traceback" not in clinic.output("lyon")
