"""The folders of a federation: certificates, keys, settings and the app, made once by `init`.

::

    DIR/server/   stays with the server: certificate and its key, the sites' public keys, the app
    DIR/NAME/     goes to the site NAME: the authority's certificate, its own key, settings

The authority signs one certificate, the server's, and its own key is thrown away: nobody can sign
another one. A site trusts that authority and nobody else; the server knows each site by its key.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedjigsaw.errors import DataError, FederationError, ParameterError, invalid

FORMAT = 1
YEARS = 3
SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
CA, CERTIFICATE, KEY = "ca.crt", "server.crt", "server.key"
SITE_KEY, APP, SETTINGS = "site.key", "app.fab", "settings.json"
RUNNING = "running.json"  # there while a server is


@dataclass(frozen=True)
class ServerSettings:
    """What a server must know: where sites reach it, and the public key of each (PEM)."""

    host: str
    port: int
    sites: Mapping[str, str]

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(**_load(folder, "server", {"host": str, "port": int, "sites": dict}))


@dataclass(frozen=True)
class SiteSettings:
    """What a site must know: its name, where the server is, and the one app that it will run."""

    name: str
    host: str
    port: int
    app: str

    @classmethod
    def load(cls, folder: Path) -> Self:
        settings = cls(**_load(folder, "site", {"name": str, "host": str, "port": int, "app": str}))
        if not (folder / SITE_KEY).is_file():
            raise FederationError(
                invalid("file", str(folder / SITE_KEY), "the key of the site", "none")
            )
        return settings


def server_folder(folder: Path) -> Path:
    """The server's own folder, whether it or the one around it is given."""
    return folder / "server" if (folder / "server").is_dir() else folder


def init(folder: Path, sites: Sequence[str], host: str, port: int, app: bytes) -> None:
    """Make all folders of a federation, or none.

    Parameters
    ----------
    sites : their names, which become folders; what the transcript shows.
    host, port : where the sites reach the server; the certificate holds for this name or address.
    app : the Flower app bundle; sites run no other one.
    """
    _check(sites, host, port)
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise DataError(f"{folder} is already there and is kept. Name a new folder.")
    if not folder.resolve().parent.is_dir():
        raise DataError(f"There is no folder {folder.resolve().parent} that can be written to.")
    made = Path(mkdtemp(dir=folder.resolve().parent, prefix=".fedjigsaw-"))
    try:
        _fill(made, sites, host, port, app)
        if folder.exists():
            folder.rmdir()
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _check(sites: Sequence[str], host: str, port: int) -> None:
    bad = [name for name in sites if not SITE_NAME.fullmatch(name) or name == "server"]
    if bad or not sites or len({name.lower() for name in sites}) < len(sites):
        allowed = (
            "at least one, each once: letters, digits, '.', '_' and '-', at most 64, not 'server'"
        )
        raise ParameterError(invalid("sites", "a federation", allowed, bad or list(sites)))
    if not _is_address(host) and not HOST_NAME.fullmatch(host):
        allowed = "a host name or an IP address, without a port"
        raise ParameterError(invalid("host", "a federation", allowed, repr(host)))
    if not 1 <= port <= 65535:
        raise ParameterError(invalid("port", "a federation", "from 1 to 65535", port))


def _fill(folder: Path, sites: Sequence[str], host: str, port: int, app: bytes) -> None:
    authority, certificate, key = make_certificates(host)
    server = folder / "server"
    server.mkdir(mode=0o700)
    publics = {}
    for name in sites:
        site = folder / name
        site.mkdir(mode=0o700)
        private = ec.generate_private_key(ec.SECP384R1())
        publics[name] = (
            private.public_key()
            .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )
        _write_secret(
            site / SITE_KEY,
            private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        )
        (site / CA).write_bytes(authority)
        _save(site, "site", SiteSettings(name, host, port, sha256(app).hexdigest()))
    (server / CA).write_bytes(authority)
    (server / CERTIFICATE).write_bytes(certificate)
    _write_secret(server / KEY, key)
    (server / APP).write_bytes(app)
    (server / "runs").mkdir()
    _save(server, "server", ServerSettings(host, port, publics))
    folder.chmod(0o700)


# ------------------------------------------------------------------------------------ certificates


def make_certificates(host: str) -> tuple[bytes, bytes, bytes]:
    """An authority's certificate, the server's certificate for `host`, and the server's key."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = _name("fedjigsaw authority"), _name("fedjigsaw server")
    known_by = [_general_name(name) for name in dict.fromkeys([host, "localhost", "127.0.0.1"])]
    authority = (
        _builder(subject=issuer, issuer=issuer, key=authority_key, signer=authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(subject=subject, issuer=issuer, key=key, signer=authority_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(known_by), critical=False)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return authority.public_bytes(Encoding.PEM), certificate.public_bytes(Encoding.PEM), private


def _builder(
    *,
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=365 * YEARS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(by, critical=False)
    )


def _usage(**wanted: bool) -> x509.KeyUsage:
    names = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment"]
    names += ["key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]
    return x509.KeyUsage(**{name: wanted.get(name, False) for name in names})


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(host)) if _is_address(host) else x509.DNSName(host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------------------------- settings


def _save(folder: Path, kind: str, settings: ServerSettings | SiteSettings) -> None:
    content = {"format": FORMAT, "kind": kind, **asdict(settings)}
    (folder / SETTINGS).write_text(json.dumps(content, indent=1) + "\n")


def _load(folder: Path, kind: str, fields: Mapping[str, type]) -> dict[str, Any]:
    path = folder / SETTINGS
    advice = "Name a folder that `fedjigsaw federation init` made."
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        reason = type(error).__name__
        allowed = f"the settings of a {kind}"
        raise FederationError(invalid("file", str(path), allowed, reason, advice)) from error
    good = isinstance(content, dict) and content.get("kind") == kind
    if not good or content.get("format") != FORMAT:
        allowed = f"the settings of a {kind}, in format {FORMAT}"
        raise FederationError(invalid("file", str(path), allowed, "others", advice))
    if not all(type(content.get(name)) is of for name, of in fields.items()):
        allowed = "with " + ", ".join(fields)
        raise FederationError(invalid("file", str(path), allowed, sorted(content)))
    return {name: content[name] for name in fields}


def _write_secret(path: Path, content: bytes) -> None:
    """Readable by its owner alone, from the first moment on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
