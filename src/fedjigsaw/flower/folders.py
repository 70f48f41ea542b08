"""The folders of a federation: what is in them, and who may read it.

::

    DIR/server/     stays with the server: its certificate and private key, the sites' public keys,
                    the app
    DIR/authority/  is best kept offline: the private key that signs the server's certificates
    DIR/NAME/       goes to the site NAME: the authority's certificate, the site's private key,
                    settings

A site trusts the federation's own authority and nobody else. The server knows each site by its key.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from shlex import quote
from tempfile import mkdtemp
from typing import Any, Self

from fedjigsaw.errors import (
    DataError,
    FederationError,
    ParameterError,
    invalid,
    unreadable,
    unwritable,
)
from fedjigsaw.flower.certificates import (
    check_authority,
    check_server_certificate,
    check_site_key,
    is_address,
    is_own,
)
from fedjigsaw.io._codec import FORMAT
from fedjigsaw.io.atomic import write_json
from fedjigsaw.io.regular import read_regular
from fedjigsaw.records.journal import JOURNAL
from fedjigsaw.records.ledger import LEDGER
from fedjigsaw.records.policy import POLICY
from fedjigsaw.records.policy_text import default_text

SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
HOST_NAME = re.compile(r"(?!-)(?!.{254})[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*(?<!-)")
CA, CERTIFICATE, KEY = "ca.crt", "server.crt", "server.key"
SITE_KEY, APP, SETTINGS = "site.key", "app.fab", "settings.json"
AUTHORITY, AUTHORITY_KEY = "authority", "authority.key"
RESERVED = ("server", AUTHORITY)  # folders beside those of the sites
RUNNING = "running.json"  # exists while a server is running, with the secret to control it
PART_LOCK = "lock"  # in the folder of a server or site, held while it runs
MEMBERS_LOCK = "members.lock"  # in the server's folder, held while sites are added or removed
TASK_SECRET = "tasks.secret"  # what a process must know to be given the tasks of apps
CONTACT = "contact"  # in a site's folder: changed when the server answers the site
SERVER_LOG, SITE_LOG, FLOWER_LOG = "server.log", "site.log", "flower.log"
FLOWER = "flower"  # in the folder of a server or site: what Flower keeps, such as installed apps
JOURNAL_LOCK = "journal.lock"  # in a site's folder, held while a question is answered
GROUPS = "groups"  # in a site's folder: the groups of rows of each data set
# what a site adds to or makes where a link leads; all else it replaces, or only reads
WRITTEN_BY_A_SITE = (
    SITE_LOG,
    FLOWER_LOG,
    JOURNAL,
    JOURNAL_LOCK,
    GROUPS,
    LEDGER,
    f".{LEDGER}.lock",
    PART_LOCK,
    CONTACT,
)
RUNS, KEPT = "runs", "kept"  # in the server's folder: jobs, and summaries of earlier ones
FOLDERS = (FLOWER, GROUPS, RUNS, KEPT)  # of what a server or site writes
WRITTEN_BY_A_SERVER = (SERVER_LOG, FLOWER_LOG, PART_LOCK, MEMBERS_LOCK, FLOWER, RUNS, KEPT)
# SHA-256 of `bundle.build()`, the app of every federation. A site runs no other one: its
# settings come from the coordinator, and an app may do anything at the site.
OWN_APP = "aa513de12ce4c567c7412ed1b716b8a505a85382d02c61cdc821399108bfc97b"
ADVICE = "Give a folder that `fedjigsaw federation init` made."


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server.

    Parameters
    ----------
    host, port : where the sites reach the server.
    sites : public key (PEM) of each site, by name.
    """

    host: str
    port: int
    sites: Mapping[str, str]

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(**load_settings(folder, "server", {"host": str, "port": int, "sites": dict}))


@dataclass(frozen=True)
class SiteSettings:
    """Settings of a site.

    Parameters
    ----------
    name : name of the site.
    host, port : where it reaches the server.
    app : SHA-256 of the app that the server will send.
    """

    name: str
    host: str
    port: int
    app: str

    @classmethod
    def load(cls, folder: Path) -> Self:
        settings = cls(
            **load_settings(folder, "site", {"name": str, "host": str, "port": int, "app": str})
        )
        if not (folder / SITE_KEY).is_file():
            raise FederationError(
                f"{folder} has no {SITE_KEY}, the private key of site {settings.name}. {ADVICE}"
            )
        check_private(folder / SITE_KEY)
        check_site_key(folder / SITE_KEY)
        return settings

    def check_folder(self, folder: Path) -> None:
        """Raise a FederationError if the folder would make the site run or write something else.

        It comes from the coordinator, who also chooses words of the logs and of the journal: in the
        profile of a shell, such words are commands.
        """
        if self.app != OWN_APP:
            raise FederationError(
                f"{folder / SETTINGS} names an app that this version of fedjigsaw does not know, "
                f"and which could do anything here. Do not use this folder. {ADVICE}"
            )
        for name in WRITTEN_BY_A_SITE:
            if (folder / name).is_symlink():
                raise FederationError(
                    f"{folder / name} is a link to {(folder / name).readlink()}, which the site "
                    "would change. Remove it: a site writes in its own folder."
                )
        check_writable(folder, (*WRITTEN_BY_A_SITE, FLOWER))
        try:
            check_authority(folder / CA)
        except FederationError as error:
            raise FederationError(
                f"{error} It came from the coordinator with the folder: put it back, or ask for it."
            ) from error


def beside(home: Path, name: str) -> Path:
    """Return a folder that lies beside the server's, such as that of a site."""
    return (home.parent if home.name else home.resolve().parent) / name


def server_folder(folder: Path) -> Path:
    """Return the server's folder, given that folder or the one around it."""
    return folder / "server" if (folder / "server").is_dir() else folder


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a new folder to fill, which only its owner can read; at the end, give it its name.

    If the block raises, nothing is left behind.
    """
    made = Path(mkdtemp(dir=folder.resolve().parent, prefix=".fedjigsaw-"))
    try:
        yield made
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def is_host(host: str) -> bool:
    """Return whether this can be a host: a name or an address, without a port."""
    return is_address(host) or HOST_NAME.fullmatch(host) is not None


def check_names(sites: Sequence[str]) -> None:
    """Raise a ParameterError if these cannot all be names of sites."""
    for name in sites:
        if not SITE_NAME.fullmatch(name) or name.lower() in RESERVED:
            words = " or ".join(map(repr, RESERVED))
            allowed = f"at most 64 letters, digits, '.', '_' and '-', and not {words}"
            raise ParameterError(invalid("name", "a site", allowed, repr(name)))
        # some file systems do not tell upper from lower case
        if sum(name.lower() == other.lower() for other in sites) > 1:
            raise ParameterError(f"Two sites have the name {name!r}. Give each a name of its own.")


def fill_authority(folder: Path, certificate: bytes, key: bytes) -> None:
    """Write the authority's certificate and private key."""
    folder.mkdir(mode=0o700, exist_ok=True)
    write_secret(folder / AUTHORITY_KEY, key)
    (folder / CA).write_bytes(certificate)


def fill_site(folder: Path, settings: SiteSettings, authority: bytes, key: bytes | None) -> None:
    """Fill the folder of a site; without a key, the site puts its own one there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if key is not None:
        write_secret(folder / SITE_KEY, key)
    (folder / CA).write_bytes(authority)
    (folder / POLICY).write_text(default_text())
    save_settings(folder, "site", settings)


def save_settings(folder: Path, kind: str, settings: Any) -> None:
    """Write the settings of a folder of some kind, which are a dataclass."""
    write_json(folder / SETTINGS, {"format": FORMAT, "kind": kind, **asdict(settings)})


def load_settings(folder: Path, kind: str, fields: Mapping[str, type]) -> dict[str, Any]:
    """Read the settings of a folder of some kind; check that these fields have these types."""
    path = folder / SETTINGS
    try:
        content = json.loads(read_regular(path))
    except OSError as error:
        if kind == "site" and (inside := _site_folders(folder)):
            raise FederationError(
                f"{folder} is not a site's folder. Give one of {', '.join(inside)}."
            ) from error
        raise FederationError(f"{unreadable(path, error)} {ADVICE}") from error
    except (ValueError, RecursionError) as error:
        raise FederationError(f"{path} is not JSON. {ADVICE}") from error
    found = content.get("kind") if isinstance(content, dict) else None
    if found != kind and found in ("server", "site"):
        raise FederationError(_other_folder(folder, kind))
    if found != kind:
        raise FederationError(f"{path} does not contain the settings of a {kind}. {ADVICE}")
    if content.get("format") != FORMAT:
        raise FederationError(
            f"{path} has format {content.get('format')!r}; this version of fedjigsaw reads "
            f"format {FORMAT}."
        )
    for name, of in fields.items():
        if type(content.get(name)) is not of:
            raise FederationError(f"{path} has no valid {name!r}. {ADVICE}")
    if "host" in fields and not is_host(content["host"]):
        raise FederationError(f"{path} has no valid 'host': {content['host']!r}. {ADVICE}")
    return {name: content[name] for name in fields}


def _other_folder(folder: Path, kind: str) -> str:
    """Say which kind of folder this is, and which one to give instead."""
    around = folder.parent if folder.parent.name else folder.resolve().parent
    if kind == "server":
        example = f", e.g. {around}" if (around / "server").is_dir() else ""
        return f"{folder} is a site's folder. Give the federation's folder{example}."
    found = _site_folders(around)
    example = f", e.g. {found[0]}" if found else ""
    return f"{folder} is the server's folder. Give a site's folder{example}."


def _site_folders(folder: Path) -> list[str]:
    """Return the folders of sites in a federation's folder."""
    return sorted(str(path.parent) for path in folder.glob(f"*/{SITE_KEY}"))


# ---------------------------------------------------------------------------------------- secrets


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, at any moment; replace an old one."""
    temporary = path.parent / f".{path.name}.{token_hex(4)}"
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
            f.write(content)
        temporary.replace(path)
    except OSError as error:
        raise DataError(unwritable(path, error)) from error
    finally:
        temporary.unlink(missing_ok=True)


def new_task_secret(folder: Path) -> bytes:
    """Make the secret of the processes that start apps, anew each time."""
    secret = token_hex(32).encode()
    write_secret(folder / TASK_SECRET, secret)
    return secret


NEW_SERVER_KEY = "make new keys with `fedjigsaw federation renew --new-authority`"


def check_private(key: Path, remedy: str = "have the site revoked") -> None:
    """Raise if others than its owner may read a private key.

    This is an error and no warning, as with SSH: nobody reads the log of a service that works, and
    it is mended by one command. `remedy` says what to do if the key may have been copied.
    """
    try:
        mode = key.stat().st_mode & 0o777
    except OSError as error:
        raise FederationError(f"{unreadable(key, error)} Restore it from a backup.") from error
    if os.name == "posix" and mode & 0o077:
        raise FederationError(
            f"{key} is a private key, and others than its owner may read it (mode {mode:04o}). "
            f"Run `chmod 600 {quote(str(key))}`. If others have had access to it, {remedy}."
        )


def check_writable(folder: Path, names: Sequence[str]) -> None:
    """Raise if a folder, or one of what a server or site writes in it, cannot be written.

    Found at the start, since a site that cannot keep its journal could answer nothing, and one that
    writes to a pipe would wait forever. Nothing is written to find it.
    """
    for path in (folder, *(folder / name for name in names)):
        is_folder = path == folder or path.name in FOLDERS
        if path.exists() and not (path.is_dir() if is_folder else path.is_file()):
            what = "folder" if is_folder else "regular file"
            raise FederationError(f"Cannot write {path}: it is no {what}. Remove it.")
        if path.exists() and not os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0)):
            raise FederationError(
                f"Cannot write {path}: it belongs to another user, or is read-only. Give the user "
                "who starts this the right to write it."
            )


def check_server_files(home: Path, host: str) -> None:
    """Raise if a server's app is missing, or its certificate, key and authority do not fit."""
    if not (home / APP).is_file():
        raise FederationError(f"{home} has no {APP}, the app of the federation.")
    try:
        check_server_certificate(home / CERTIFICATE, home / KEY, home / CA, host)
    except FederationError as error:
        advice = (
            "make a new one: `fedjigsaw federation renew`, with --new-authority if it is the key "
            "or the authority's certificate"
        )
        if not is_own(home / CERTIFICATE, home / CA):
            advice = 'ask whoever signed it: "A certificate of your company" in docs/federation.md'
        raise FederationError(f"{error} Restore it from a backup, or {advice}.") from error
