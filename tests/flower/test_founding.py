"""A new federation: all folders or none, and secrets for their owner alone."""

import stat
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_private_key

from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.flower import folders, founding


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
        founding.init(tmp_path / "new", sites, host, port, b"")
    assert not list(tmp_path.iterdir())


def test_what_exists_is_not_changed(clinic, tmp_path):
    with pytest.raises(DataError, match="already exists and is not changed"):
        founding.init(clinic, ["a"], "a.org", 1, b"")
    assert (clinic / "bern").is_dir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="already exists and is not changed"):
        founding.init(tmp_path / "file", ["a"], "a.org", 1, b"")
    with pytest.raises(DataError, match="there is no folder"):
        founding.init(tmp_path / "no" / "new", ["a"], "a.org", 1, b"")
    (tmp_path / "empty").mkdir()
    founding.init(tmp_path / "empty", ["a"], "::1", 1, b"")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
