"""Folders of a federation: all or none, secrets for their owner alone, settings that are checked."""

import stat
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_private_key

from fedjigsaw.errors import DataError, FederationError, ParameterError
from fedjigsaw.flower import folders, operators


def test_every_site_gets_its_own_key_and_the_server_knows_it(clinic):
    settings = folders.ServerSettings.load(clinic / "server")
    assert list(settings.sites) == ["bern", "lyon"]
    privates = [
        load_ssh_private_key((clinic / name / "site.key").read_bytes(), None)
        for name in settings.sites
    ]
    publics = [load_pem_public_key(key.encode()) for key in settings.sites.values()]
    assert [key.public_key() for key in privates] == publics
    assert publics[0] != publics[1]


def test_secrets_are_for_their_owner_alone_and_each_is_in_one_folder(clinic):
    own = [clinic / name for name in ("bern", "lyon", "server", "authority")]
    for path in [*clinic.rglob("*.key"), clinic, *own]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    keys = [[path.name for path in folder.glob("*.key")] for folder in own]
    assert keys == [["site.key"], ["site.key"], ["server.key"], ["authority.key"]]


def test_sites_pin_the_app(clinic):
    settings = folders.SiteSettings.load(clinic / "bern")
    assert settings.app == sha256((clinic / "server" / "app.fab").read_bytes()).hexdigest()
    assert (settings.name, settings.host, settings.port) == ("bern", "127.0.0.1", 9092)


@pytest.mark.parametrize(
    ("sites", "host", "port"),
    [
        ([], "a.org", 1),
        (["a", "a"], "a.org", 1),
        (["a", "A"], "a.org", 1),  # one folder on some file systems
        (["server"], "a.org", 1),
        (["Authority"], "a.org", 1),
        (["../a"], "a.org", 1),
        (["a/b"], "a.org", 1),
        ([".hidden"], "a.org", 1),
        (["a" * 65], "a.org", 1),
        (["ä"], "a.org", 1),
        (["a"], "a.org:90", 1),
        (["a"], "", 1),
        (["a"], "a b", 1),
        (["a"], "a..b", 1),
        (["a"], f"{'a' * 64}.org", 1),
        (["a"], "a.org.", 1),
        (["a"], "a.org", 0),
        (["a"], "a.org", 65536),
    ],
)
def test_bad_parameters_make_nothing(sites, host, port, tmp_path):
    with pytest.raises(ParameterError):
        folders.init(tmp_path / "new", sites, host, port, b"")
    assert not list(tmp_path.iterdir())


def test_a_missing_private_key_is_an_error(clinic):
    (clinic / "bern" / "site.key").unlink()
    with pytest.raises(FederationError, match="has no site.key, the private key of site bern"):
        folders.SiteSettings.load(clinic / "bern")


def test_what_exists_is_not_changed(clinic, tmp_path):
    with pytest.raises(DataError, match="already exists and is not changed"):
        folders.init(clinic, ["a"], "a.org", 1, b"")
    assert (clinic / "bern").is_dir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="already exists and is not changed"):
        folders.init(tmp_path / "file", ["a"], "a.org", 1, b"")
    with pytest.raises(DataError, match="there is no folder"):
        folders.init(tmp_path / "no" / "new", ["a"], "a.org", 1, b"")
    (tmp_path / "empty").mkdir()
    folders.init(tmp_path / "empty", ["a"], "::1", 1, b"")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


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
    operators.add(clinic / "server", "anna")
    for name, of in (
        ("server", folders.ServerSettings),
        ("bern", folders.SiteSettings),
        ("anna", operators.OperatorSettings),
    ):
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


def test_a_site_folder_alone_has_no_federation_to_name(clinic, tmp_path):
    (clinic / "bern").rename(tmp_path / "bern")
    with pytest.raises(FederationError, match="Give the federation's folder.$"):
        folders.ServerSettings.load(tmp_path / "bern")


def test_a_missing_file_of_settings_is_named(tmp_path):
    with pytest.raises(FederationError, match="Cannot read .*settings.json: no such file"):
        folders.ServerSettings.load(tmp_path)


def test_the_folder_of_the_server_is_found_from_outside_and_inside(clinic):
    assert folders.server_folder(clinic) == clinic / "server"
    assert folders.server_folder(clinic / "server") == clinic / "server"
