"""Certificates and keys of a federation.

A federation has an authority of its own, which signs the server's certificate and its successors.
Only this needs the authority's private key. Each site has a key pair; the server knows the public
keys.
"""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedjigsaw.errors import FederationError, unreadable
from fedjigsaw.io.regular import read_regular

AUTHORITY_DAYS, SERVER_DAYS = 20 * 365, 3 * 365
OWN_AUTHORITY = "fedjigsaw authority"  # the name of every federation's
LOOPBACK = "127.0.0.1"
# OpenSSL's numbers
NOT_YET_VALID, HAS_EXPIRED = 9, 10
OTHER_HOST = (62, 64)  # a name, an address
OTHER_AUTHORITY = (2, 18, 19, 20, 21)
SOON_DAYS = 60  # how long before its end a certificate is warned of


def make_authority(days: float = AUTHORITY_DAYS) -> tuple[bytes, bytes]:
    """Make an authority: its certificate and its private key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(OWN_AUTHORITY)
    certificate = (
        _builder(name, name, key.public_key(), key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM), _private(key)


def make_server_key() -> bytes:
    """Make the private key of a server."""
    return _private(ec.generate_private_key(ec.SECP256R1()))


def sign_server(host: str, key: bytes, authority_key: bytes, days: float = SERVER_DAYS) -> bytes:
    """Make the certificate of a server.

    Parameters
    ----------
    host : name or address of the server; the loopback of its machine is added.
    key, authority_key : private keys (PEM) of the server and of the authority; ValueError if one is
        none.
    days : how long the certificate is valid.
    """
    public, signer = _load_private(key).public_key(), _load_private(authority_key)
    issuer, subject = _name(OWN_AUTHORITY), _name("fedjigsaw server")
    hosts = [_general_name(name) for name in dict.fromkeys([host, "localhost", LOOPBACK])]
    return (
        _builder(subject, issuer, public, signer, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


def load_certificate(path: Path) -> x509.Certificate:
    """Read the first certificate of a file; without one, it is a FederationError."""
    return _load_certificates(path)[0]


def _load_certificates(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(read_regular(path))
    except OSError as error:
        raise FederationError(unreadable(path, error)) from error
    except ValueError as error:
        raise FederationError(f"{path} is not a certificate.") from error


def check_authority(path: Path) -> None:
    """Raise a FederationError if a file is not an authority's certificate, as Flower reads it."""
    load_certificate(path)
    if not read_regular(path).isascii():
        raise FederationError(
            f"{path} has letters besides ASCII, such as in a comment, which Flower cannot read. "
            "Remove all lines that are not of a certificate."
        )


def check_server_certificate(certificate: Path, key: Path, authority: Path, host: str) -> None:
    """Raise a FederationError if a server's certificate would be refused, by sites or here.

    The file may contain more certificates: those of authorities between the server's and the
    federation's. Whether they all fit is found as sites find it, so wildcards count as well.

    Parameters
    ----------
    certificate, key, authority : files of the server.
    host : name or address by which sites reach it. Its own processes reach it by the loopback.
    """
    found = load_certificate(certificate)
    check_authority(authority)
    try:
        private = load_pem_private_key(read_regular(key), None)
    except (OSError, ValueError, TypeError) as error:
        raise FederationError(f"{key} is not a private key.") from error
    if private.public_key() != found.public_key():
        raise FederationError(f"{key} is not the key of {certificate}.")
    for name in (host, LOOPBACK):
        try:
            _shake_hands(certificate, key, authority, name)
        except ssl.SSLCertVerificationError as error:
            reason = _why_refused(error, certificate, authority, name)
            raise FederationError(f"{reason}.") from error
        except ssl.SSLError as error:
            raise FederationError(f"{certificate} cannot be used ({error.reason}).") from error


def _why_refused(
    error: ssl.SSLCertVerificationError, certificate: Path, authority: Path, host: str
) -> str:
    if error.verify_code in OTHER_HOST:
        reason = f"{certificate} is not valid for the host {host}"
        own = (
            ", by which its own processes reach the server. No public authority signs this address"
        )
        return reason + own if host == LOOPBACK else reason
    if error.verify_code == HAS_EXPIRED:
        return f"{certificate} has ended, or an authority's above it, or this clock is wrong"
    if error.verify_code == NOT_YET_VALID:
        return f"{certificate} is not valid yet, or this clock is behind"
    if error.verify_code in OTHER_AUTHORITY:
        return (
            f"{authority} did not sign {certificate}, nor an authority whose certificate follows "
            f"in the same file ({error.verify_message})"
        )
    return f"sites would refuse {certificate} ({error.verify_message})"


def _shake_hands(certificate: Path, key: Path, authority: Path, host: str) -> None:
    """Connect a server and a site in memory; an SSLError says why the site would refuse."""
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(certificate, key)
    trust = ssl.create_default_context(cafile=authority)
    # sites on Python 3.13 are strict, and on earlier ones, an authority in between is not trusted
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    trust.verify_flags &= ~ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_site = ssl.MemoryBIO(), ssl.MemoryBIO()
    site = trust.wrap_bio(to_site, to_server, server_hostname=host)
    server = shown.wrap_bio(to_server, to_site, server_side=True)
    for side in (site, server, site):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()


def is_own(*paths: Path) -> bool:
    """Return whether authorities of federations signed these certificates, if they can be read.

    Otherwise, a company did.
    """
    for path in paths:
        with suppress(FederationError):
            if load_certificate(path).issuer != _name(OWN_AUTHORITY):
                return False
    return True


def ends(path: Path) -> datetime:
    """Return when a server's certificate ends, or that of an authority in between, if earlier."""
    return min(found.not_valid_after_utc for found in _load_certificates(path))


def authority_ends(path: Path) -> datetime:
    """Return when an authority's certificate ends.

    If the file contains several, it is the first one that has not ended yet: old ones do no harm.
    """
    found = [found.not_valid_after_utc for found in _load_certificates(path)]
    return min((end for end in found if days_until(end) > 0), default=max(found))


def days_until(end: datetime) -> float:
    return (end - datetime.now(UTC)).total_seconds() / 86400


def make_site_key() -> tuple[bytes, str]:
    """Make a site's private key (OpenSSH) and its public key (PEM), in the formats of Flower."""
    private = ec.generate_private_key(ec.SECP384R1())
    content = private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return content, _public(private.public_key())


def read_public_key(content: bytes) -> str:
    """Return a site's public key, given in PEM or OpenSSH format, as PEM; ValueError if it is none.

    A private key is none either: it must not leave the site.
    """
    try:
        ssh = content.startswith(b"ecdsa-")
        key = load_ssh_public_key(content) if ssh else load_pem_public_key(content)
    except UnsupportedAlgorithm as error:
        raise ValueError("unknown algorithm") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise ValueError("not a key on the curve P-384")
    return _public(key)


def check_site_key(path: Path) -> None:
    """Raise a FederationError if a file is not a site's private key, as Flower reads it."""
    try:
        key = load_ssh_private_key(read_regular(path), None)
    except OSError as error:
        raise FederationError(unreadable(path, error)) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FederationError(
            f"{path} is not a private key of OpenSSH without a passphrase, or it is damaged. "
            "Restore it, or ask the coordinator for a new one (`federation rekey`)."
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
        raise FederationError(
            f"{path} is another kind of key. Make one with `ssh-keygen -t ecdsa -b 384`."
        )


def _public(key: ec.EllipticCurvePublicKey) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def is_address(host: str) -> bool:
    """Return whether a host is an IP address and not a name.

    Examples
    --------
    >>> is_address("::1"), is_address("fed.example.org")
    (True, False)
    """
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _load_private(content: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(content, None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError("not a private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not a private key on an elliptic curve")
    return key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePrivateKey,
    days: float,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(by, critical=False)
    )


def _usage(**wanted: bool) -> x509.KeyUsage:
    names = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment"]
    names += ["key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]
    return x509.KeyUsage(**{name: wanted.get(name, False) for name in names})


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(host)) if is_address(host) else x509.DNSName(host)
