"""Folders of a federation: settings that are checked, and folders that are told apart."""

from pathlib import Path

import pytest

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import folders


def test_a_missing_private_key_is_an_error(clinic):
    (clinic / "bern" / "site.key").unlink()
    with pytest.raises(FederationError, match="has no site.key, the private key of site bern"):
        folders.SiteSettings.load(clinic / "bern")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 1, "kind": []}', '{"format": 2, "kind": "site"}',
     '{"format": 1, "kind": "site", "name": 3, "host": "h", "port": 1, "app": ""}'],
)  # fmt: skip
def test_other_settings_are_refused(clinic, text):
    (clinic / "bern" / "settings.json").write_text(text)
    with pytest.raises(FederationError, match="settings.json"):
        folders.SiteSettings.load(clinic / "bern")


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "", "köln.de"])
def test_a_host_that_is_no_name_is_refused_where_it_is_read(clinic, host):
    """Python would end in a UnicodeError when it connects."""
    for name, of in (("server", folders.ServerSettings), ("bern", folders.SiteSettings)):
        path = clinic / name / "settings.json"
        path.write_text(path.read_text().replace("127.0.0.1", host))
        with pytest.raises(FederationError, match=r"settings\.json has no valid 'host'"):
            of.load(clinic / name)


def test_another_folder_of_the_federation_is_named(clinic, monkeypatch):
    monkeypatch.chdir(clinic.parent)
    clinic = Path("clinic")
    with pytest.raises(FederationError) as error:
        folders.ServerSettings.load(clinic / "bern")
    text = "clinic/bern is a site's folder. Give the federation's folder, e.g. clinic."
    assert str(error.value) == text
    with pytest.raises(FederationError) as error:
        folders.SiteSettings.load(clinic / "server")
    text = "clinic/server is the server's folder. Give a site's folder, e.g. clinic/bern."
    assert str(error.value) == text
    with pytest.raises(FederationError) as error:
        folders.SiteSettings.load(clinic)
    text = "clinic is not a site's folder. Give one of clinic/bern, clinic/lyon."
    assert str(error.value) == text


def test_a_missing_file_of_settings_is_named(tmp_path):
    with pytest.raises(FederationError, match="Cannot read .*settings.json: no such file"):
        folders.ServerSettings.load(tmp_path)


def test_the_folder_of_the_server_is_found_from_outside_and_inside(clinic):
    assert folders.server_folder(clinic) == clinic / "server"
    assert folders.server_folder(clinic / "server") == clinic / "server"
