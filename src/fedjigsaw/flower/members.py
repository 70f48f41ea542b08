"""The sites of a federation over time: add, remove and revoke them, and give them new keys.

A running server reads all of this again within about a second. A key that was accepted once, and no
longer is, goes to ``former.json`` and is never accepted again, whatever else is changed or fails.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedjigsaw.errors import (
    DataError,
    FederationError,
    ParameterError,
    invalid,
    unreadable,
    unwritable,
)
from fedjigsaw.flower.certificates import make_site_key, read_public_key
from fedjigsaw.flower.folders import (
    APP,
    CA,
    KEPT,
    MEMBERS_LOCK,
    SETTINGS,
    SITE_KEY,
    ServerSettings,
    SiteSettings,
    beside,
    check_names,
    fill_site,
    whole_folder,
    write_secret,
)
from fedjigsaw.io.atomic import write_json
from fedjigsaw.io.regular import read_regular
from fedjigsaw.records.locks import locked

# in the server's folder
FORMER = "former.json"  # keys that are no longer accepted
REVOKED = "revoked.json"  # when a site's key was revoked, by name


def fingerprint(key: bytes) -> str:
    """Return the SHA-256 of a public key (PEM)."""
    return sha256(key).hexdigest()


@contextmanager
def changing(home: Path) -> Iterator[None]:
    """Wait until nobody else changes who takes part in a federation; then keep others waiting."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(home / MEMBERS_LOCK, wait=True))
        except OSError as error:
            raise DataError(unwritable(home / MEMBERS_LOCK, error)) from error
        yield


def check_known(settings: ServerSettings, site: str) -> None:
    """Raise a ParameterError if a federation has no such site."""
    known = sorted(settings.sites)
    if site not in known:
        raise ParameterError(invalid("name", "a site", f"one of {', '.join(known)}", repr(site)))


def add(home: Path, name: str, public_key: Path | None = None) -> Path:
    """Add a site and return its new folder, which is beside the server's.

    Parameters
    ----------
    home : the server's folder.
    name : name of the new site.
    public_key : file with the public key of a key pair that the site made itself; None makes one.
    """
    with changing(home):
        settings = ServerSettings.load(home)
        if name in settings.sites:
            raise ParameterError(
                f"There is a site {name!r} already. `federation rekey` gives it a new key."
            )
        check_names([*settings.sites, name])
        private, public = _key_pair(home, settings, public_key)
        folder = beside(home, name)
        _make_folder(home, settings, folder, private)
        _forget_summaries(home, name)  # of another site, which had this name before
        try:
            _save_sites(home, {**settings.sites, name: public})
        except BaseException:
            shutil.rmtree(folder)
            raise
        return folder


def remove(home: Path, name: str) -> None:
    """Remove a site: its key is no longer accepted, and its name is free for a new one."""
    with changing(home):
        settings = ServerSettings.load(home)
        check_known(settings, name)
        _retire(home, name, settings.sites[name], "removed")
        _save_sites(home, {other: key for other, key in settings.sites.items() if other != name})
        _forgive(home, name)


def rekey(home: Path, name: str, public_key: Path | None = None) -> Path:
    """Give a site a new key; return the file that has it, or the site's folder without a key.

    The old key is refused at once. The new one is written to the site's folder if that is beside
    the server's, and to a new such folder otherwise. Parameters are as for `add`.
    """
    with changing(home):
        settings = ServerSettings.load(home)
        check_known(settings, name)
        private, public = _key_pair(home, settings, public_key)
        folder = beside(home, name)
        if folder.exists() and not is_folder_of(folder, name):
            raise DataError(f"{folder} is not the folder of site {name}. Move it away first.")
        _retire(home, name, settings.sites[name], "replaced")
        if not folder.exists():
            _make_folder(home, settings, folder, private)
        elif private is not None:
            write_secret(folder / SITE_KEY, private)
        if name in read_revoked(home):  # whoever had the key may have sent them
            _forget_summaries(home, name)
        _save_sites(home, {**settings.sites, name: public})
        _forgive(home, name)
        return folder if private is None else folder / SITE_KEY


def revoke(home: Path, site: str) -> bool:
    """Revoke a site's key for good; return whether it was valid before."""
    with changing(home):
        check_known(ServerSettings.load(home), site)
        before = read_revoked(home)
        if site not in before:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            write_json(home / REVOKED, {**before, site: now})
        return site not in before


def _key_pair(home: Path, settings: ServerSettings, file: Path | None) -> tuple[bytes | None, str]:
    """Make a key pair, or read the public key of one; refuse a key that was ever used here."""
    if file is None:
        return make_site_key()
    try:
        public = read_public_key(file.read_bytes())
    except OSError as error:
        raise DataError(unreadable(file, error)) from error
    except ValueError as error:
        raise DataError(
            f"{file} is not a public key on the curve P-384 in PEM or OpenSSH format. "
            "`ssh-keygen -t ecdsa -b 384 -N '' -f site.key` makes one: send site.key.pub."
        ) from error
    if owner := next((name for name, key in settings.sites.items() if key == public), None):
        raise ParameterError(f"{file} is the key of site {owner} already. Give each its own.")
    if fingerprint(public.encode()) in read_former(home):
        raise ParameterError(f"{file} has a key that is no longer accepted here. Make a new one.")
    return None, public


def _make_folder(home: Path, settings: ServerSettings, folder: Path, key: bytes | None) -> None:
    """Make the folder of a site whole or not at all."""
    if folder.exists():
        raise DataError(f"{folder} already exists and is not changed. Move it away first.")
    try:
        app, authority = (home / APP).read_bytes(), (home / CA).read_bytes()
    except OSError as error:
        raise FederationError(unreadable(Path(error.filename), error)) from error
    site = SiteSettings(folder.name, settings.host, settings.port, sha256(app).hexdigest())
    with whole_folder(folder) as made:
        fill_site(made, site, authority, key)


def is_folder_of(folder: Path, name: str) -> bool:
    """Return whether a folder is that of the site with this name."""
    try:
        content = json.loads((folder / SETTINGS).read_text())
        return bool(content["kind"] == "site" and content["name"] == name)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _retire(home: Path, name: str, key: str, why: str) -> None:
    """Never accept a key again. This comes first, so that no failure leaves it accepted."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {fingerprint(key.encode()): {"site": name, "since": since, "why": why}}
    write_json(home / FORMER, {**read_former(home), **entry})


def _forgive(home: Path, name: str) -> None:
    """Take a name out of the revoked ones: the key that was revoked is a former one now."""
    if name in (revoked := read_revoked(home)):
        left = {other: time for other, time in revoked.items() if other != name}
        write_json(home / REVOKED, left)


def _forget_summaries(home: Path, name: str) -> None:
    """Delete the kept summaries of a name, so that runs ask whoever has it now."""
    from fedjigsaw.sites.keeping import Kept  # needs what servers do not

    Kept(home / KEPT).forget(name)


def _save_sites(home: Path, sites: Mapping[str, str]) -> None:
    """Write the sites to the server's settings, and leave everything else there as it is."""
    path = home / SETTINGS
    write_json(path, {**json.loads(path.read_text()), "sites": dict(sites)})


# ---------------------------------------------------------------------- in the server's folder


def read_revoked(home: Path) -> dict[str, str]:
    """Return the revoked sites of a server's folder, and when they were revoked."""
    path, unknown = home / REVOKED, "who is revoked"
    return read_entries(path, lambda time: isinstance(time, str), "revoked sites", unknown)


def read_former(home: Path) -> dict[str, dict[str, str]]:
    """Return the keys that are no longer accepted, by fingerprint: whose, since when, and why."""
    path, unknown = home / FORMER, "which keys are no longer accepted"
    return read_entries(path, lambda entry: isinstance(entry, dict), "former keys", unknown)


def read_entries(
    path: Path, is_entry: Callable[[object], bool], what: str, unknown: str
) -> dict[str, Any]:
    """Return what a file of a server's folder says by name; nothing if there is no such file.

    A file that cannot be read is an error: who may take part is never guessed.

    Parameters
    ----------
    is_entry : whether a value can be an entry.
    what : what the file contains, for the text of an error.
    unknown : what nobody knows if it cannot be read.
    """
    try:
        found = json.loads(read_regular(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise FederationError(f"{path} cannot be read: nobody knows {unknown}.") from error
    if not isinstance(found, dict) or not all(map(is_entry, found.values())):
        raise FederationError(f"{path} does not contain {what}.")
    return found
