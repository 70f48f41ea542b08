"""Operators: people who start runs from another machine than the server's, each with a key.

``CLINIC/server/operators.json`` has the public keys. ``CLINIC/NAME`` goes to the operator NAME: the
authority's certificate, the operator's private key, settings. Keys of operators and of sites are of
different kinds, so neither can be used for the other.
"""

import logging
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from fedjigsaw.errors import DataError, FederationError, ParameterError, invalid, unreadable
from fedjigsaw.flower.folders import (
    CA,
    RESERVED,
    SITE_NAME,
    ServerSettings,
    check_private,
    load_settings,
    save_settings,
    whole_folder,
    write_secret,
)
from fedjigsaw.flower.logs import told
from fedjigsaw.flower.members import changing, read_entries
from fedjigsaw.flower.operator_protocol import fingerprint
from fedjigsaw.io.atomic import version_of, write_json

logger = logging.getLogger(__name__)

OPERATORS = "operators.json"  # in the server's folder: name -> public key, and since when
OPERATOR_KEY = "operator.key"
KIND = "operator"


@dataclass(frozen=True)
class OperatorSettings:
    """Settings of an operator: a name, and where the server is."""

    name: str
    host: str
    port: int

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(**load_settings(folder, KIND, {"name": str, "host": str, "port": int}))


def is_operator_folder(folder: Path) -> bool:
    """Return whether a folder was made by `federation operator add`."""
    return (folder / OPERATOR_KEY).exists()


def load_key(folder: Path) -> Ed25519PrivateKey:
    """Read the private key of an operator's folder."""
    path = folder / OPERATOR_KEY
    check_private(path, "have the operator removed")
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise FederationError(unreadable(path, error)) from error
    except (ValueError, TypeError) as error:
        raise FederationError(f"{path} is not a private key.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise FederationError(f"{path} is not the key of an operator.")
    return key


# --------------------------------------------------------------------------- at the server's folder


def add(home: Path, name: str) -> Path:
    """Make a key for an operator, and return the folder that goes to that person.

    A running server knows the key at once. If anything fails, nothing is left behind.
    """
    settings = ServerSettings.load(home)
    allowed = "at most 64 letters, digits, '.', '_' and '-', and not the name of a site"
    taken = {*RESERVED, *map(str.lower, settings.sites)}
    if not SITE_NAME.fullmatch(name) or name.lower() in taken:
        raise ParameterError(invalid("name", "an operator", allowed, repr(name)))
    folder = home.resolve().parent / name
    with changing(home):
        before = read_operators(home)
        if name.lower() in map(str.lower, before):
            raise ParameterError(f"There is an operator {name!r} already. Remove it first.")
        if folder.exists():
            raise DataError(f"{folder} already exists and is not changed. Give another name.")
        with whole_folder(folder) as made:
            public = _fill(made, home, OperatorSettings(name, settings.host, settings.port))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            write_json(home / OPERATORS, {**before, name: {"key": public, "added": now}})
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder


def _fill(folder: Path, home: Path, settings: OperatorSettings) -> str:
    """Fill the folder of an operator; return the public key."""
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_secret(folder / OPERATOR_KEY, secret)
    (folder / CA).write_bytes((home / CA).read_bytes())
    save_settings(folder, KIND, settings)
    public = private.public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def remove(home: Path, name: str) -> None:
    """Forget the key of an operator. A running server refuses it at once, and ends its runs."""
    with changing(home):
        before = read_operators(home)
        if name not in before:
            known = ", ".join(sorted(before)) or "none"
            raise ParameterError(f"There is no operator {name!r}. Operators: {known}.")
        left = {other: entry for other, entry in before.items() if other != name}
        write_json(home / OPERATORS, left)


def read_operators(home: Path) -> dict[str, dict[str, str]]:
    """Return the operators of a server's folder: public key, and when it was added."""
    return read_entries(home / OPERATORS, _is_entry, "operators", "who is an operator")


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(n), str) for n in ("key", "added"))


# ------------------------------------------------------------------------------ at a running server


@dataclass(frozen=True)
class Operator:
    """An operator whom the server knows."""

    name: str
    public: Ed25519PublicKey


class Operators:
    """The operators of a running server, by the fingerprints of their keys.

    The file is read again whenever it was replaced. As long as it cannot be read, there are none.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._seen: object = None
        self._by_key: dict[str, Operator] = {}

    def find(self, key: str) -> Operator | None:
        """Return the operator with this key, or None: it is unknown, or was removed."""
        self._refresh()
        return self._by_key.get(key)

    def _refresh(self) -> None:
        try:
            now: object = version_of(self.home / OPERATORS)
        except OSError:
            now = None
        if now == self._seen:
            return
        self._by_key, self._seen = self._load(), now

    def _load(self) -> dict[str, Operator]:
        found = {}
        try:
            for name, entry in read_operators(self.home).items():
                public = load_pem_public_key(entry["key"].encode())
                if isinstance(public, Ed25519PublicKey):
                    found[fingerprint(public)] = Operator(name, public)
        except (FederationError, ValueError) as error:
            logger.error("no operator is served: %s", error, extra=told("no_operator_is_served"))
            return {}
        return found
