"""Federations are founded, and members change, whole or not at all; no old key comes back."""

import json
import stat

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
    load_ssh_private_key,
)

from fedjigsaw.errors import DataError, FederationError, ParameterError
from fedjigsaw.flower import folders, founding, members
from fedjigsaw.flower.certificates import make_site_key
from fedjigsaw.flower.folders import ServerSettings, SiteSettings
from fedjigsaw.flower.keys import Keys
from fedjigsaw.io.tables import from_array
from fedjigsaw.sites import summarize
from fedjigsaw.sites.keeping import Kept


@pytest.fixture
def home(clinic):
    return clinic / "server"


def sites(home):
    return dict(ServerSettings.load(home).sites)


def public_of(folder):
    key = load_ssh_private_key((folder / "site.key").read_bytes(), None).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def files_of(folder):
    """Everything in a folder but locks: path -> content."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path.relative_to(folder): path.read_bytes() for path in found}


@pytest.mark.parametrize("name", ["bern", "Bern", "server", "../rome", ""])
def test_a_bad_name_changes_nothing(clinic, home, name):
    before = files_of(clinic)
    with pytest.raises(ParameterError):
        members.add(home, name)
    assert files_of(clinic) == before


def test_a_site_is_added_whole_or_not_at_all(clinic, home, monkeypatch):
    """The disk is full when the server's settings are written."""
    before = files_of(clinic)

    def fail(*args, **more):
        raise DataError("no space left")

    monkeypatch.setattr(members, "write_json", fail)
    with pytest.raises(DataError):
        members.add(home, "rome")
    assert files_of(clinic) == before
    assert not (clinic / "rome").exists()


def test_a_key_that_the_site_made_itself(clinic, home, tmp_path):
    key = ec.generate_private_key(ec.SECP384R1()).public_key()
    file = tmp_path / "site.key.pub"
    file.write_bytes(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b" ada@rome\n")
    folder = members.add(home, "rome", file)
    assert load_pem_public_key(sites(home)["rome"].encode()) == key
    assert not list(folder.glob("*.key"))
    with pytest.raises(FederationError, match="has no site.key"):
        SiteSettings.load(folder)
    with pytest.raises(ParameterError, match="is the key of site rome already"):
        members.add(home, "oslo", file)


def bad_keys():
    private, public = make_site_key()
    encoding = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    yield b""
    yield b"ecdsa-sha2-nistp384 AAAA"
    yield public.encode()[:-40]
    yield private  # it must not be here at all
    yield ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(*encoding)
    yield rsa.generate_private_key(65537, 2048).public_key().public_bytes(*encoding)


def test_other_keys_are_refused(clinic, home, tmp_path):
    before = files_of(clinic)
    for content in bad_keys():
        (tmp_path / "key").write_bytes(content)
        for change, name in ((members.add, "rome"), (members.rekey, "bern")):
            with pytest.raises(DataError, match="is not a public key on the curve P-384"):
                change(home, name, tmp_path / "key")
    with pytest.raises(DataError, match="no such file"):
        members.add(home, "rome", tmp_path / "none")
    assert files_of(clinic) == before


def test_a_name_is_free_again_but_its_key_is_not(clinic, home, tmp_path):
    (tmp_path / "old.pub").write_text(sites(home)["bern"])
    (clinic / "bern").rename(tmp_path / "bern")
    members.remove(home, "bern")
    assert set(sites(home)) == {"lyon"}
    for name in ("bern", "rome"):
        with pytest.raises(ParameterError, match="no longer accepted here"):
            members.add(home, name, tmp_path / "old.pub")
    assert public_of(members.add(home, "bern")) != public_of(tmp_path / "bern")


def test_a_revoked_site_that_is_removed_and_added_is_not_revoked(clinic, home, tmp_path):
    members.revoke(home, "bern")
    (clinic / "bern").rename(tmp_path / "bern")
    members.remove(home, "bern")
    members.add(home, "bern")
    assert members.read_revoked(home) == {}


def test_a_new_key_leaves_the_rest_of_the_folder(clinic, home):
    (clinic / "bern" / "journal.jsonl").write_text("a journal")
    (clinic / "bern" / "policy.toml").write_text("rounds = 1")
    before, old = files_of(clinic / "bern"), sites(home)["bern"]
    assert members.rekey(home, "bern") == clinic / "bern" / "site.key"
    after = files_of(clinic / "bern")
    assert {path.name for path in after if after[path] != before[path]} == {"site.key"}
    assert sites(home)["bern"] == public_of(clinic / "bern") != old
    ((fingerprint, entry),) = members.read_former(home).items()
    assert fingerprint == members.fingerprint(old.encode())
    assert (entry["site"], entry["why"]) == ("bern", "replaced")


def test_a_failure_leaves_no_old_key_accepted(clinic, home, monkeypatch):
    def fail(*args, **more):
        raise DataError("no space left")

    monkeypatch.setattr(members, "_save_sites", fail)
    old = sites(home)["bern"].encode()
    with pytest.raises(DataError):
        members.rekey(home, "bern")
    known = Keys(home, sites(home))
    assert (known.is_refused(old), old in known.names) == (True, False)


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', "[" * 100_000])
def test_former_keys_that_cannot_be_read_stop_every_change(home, content):
    (home / "former.json").write_text(content)
    for change in (members.remove, members.rekey):
        with pytest.raises(FederationError, match=r"former"):
            change(home, "bern")
    assert set(sites(home)) == {"bern", "lyon"}


class TestKeptSummaries:
    """Those of a revoked key, or of another site with the same name, must not count again."""

    @pytest.fixture
    def kept(self, home):
        kept = Kept(home / folders.KEPT)
        rows = np.repeat([[0.0], [9.0]], 5, axis=0)
        for name in ("bern", "lyon"):
            kept.add(summarize(from_array(rows), 2, client=name))
        return kept

    def test_of_a_site_that_had_the_name_before(self, clinic, home, kept):
        members.remove(home, "bern")
        assert kept.sites() == {"bern", "lyon"}
        (clinic / "bern").rename(clinic / "old")
        members.add(home, "bern")
        assert kept.sites() == {"lyon"}

    def test_of_a_key_that_was_revoked(self, home, kept):
        members.revoke(home, "bern")
        members.rekey(home, "bern")
        assert kept.sites() == {"lyon"}

    def test_of_a_key_that_was_only_replaced_stay(self, home, kept):
        members.rekey(home, "bern")
        assert kept.sites() == {"bern", "lyon"}


SITE = {"format": 1, "kind": "site", "name": "bern", "host": "h", "port": 1, "app": ""}
BAD_SETTINGS = ["", "[]", "{}", *(json.dumps(SITE | bad) for bad in (
    {"kind": []}, {"format": 2}, {"name": 3}, {"host": "a..b"}, {"host": "köln.de"},
))]  # fmt: skip


@pytest.mark.parametrize("text", BAD_SETTINGS)
def test_other_settings_are_refused(clinic, text):
    (clinic / "bern" / "settings.json").write_text(text)
    with pytest.raises(FederationError, match="settings.json"):
        folders.SiteSettings.load(clinic / "bern")


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


BAD_NAMES = ["server", "Authority", "../a", "a/b", ".hidden", "a" * 65, "ä"]
BAD_HOSTS = ["a.org:90", "", "a b", "a..b", f"{'a' * 64}.org", "a.org."]


@pytest.mark.parametrize(
    ("sites", "host", "port"),
    [
        *(([name], "a.org", 1) for name in BAD_NAMES),
        *(
            (names, "a.org", 1) for names in ([], ["a", "a"], ["a", "A"])
        ),  # one folder on some disks
        *((["a"], host, 1) for host in BAD_HOSTS),
        *((["a"], "a.org", port) for port in (0, 65536)),
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
