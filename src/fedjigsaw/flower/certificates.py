"""Certificates and keys of a federation.

A federation has an authority of its own. It signs one certificate, the server's, and its private
key is never stored: nobody can sign another one. Each site has a key pair; the server knows the
public keys.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

YEARS = 3


def make_certificates(host: str) -> tuple[bytes, bytes, bytes]:
    """Make the authority's certificate, the server's certificate and the server's private key.

    The server's certificate is valid for `host` and for the loopback of the server's machine.
    """
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = _name("fedjigsaw authority"), _name("fedjigsaw server")
    hosts = [_general_name(name) for name in dict.fromkeys([host, "localhost", "127.0.0.1"])]
    authority = (
        _builder(subject=issuer, issuer=issuer, key=authority_key, signer=authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(subject=subject, issuer=issuer, key=key, signer=authority_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return authority.public_bytes(Encoding.PEM), certificate.public_bytes(Encoding.PEM), private


def make_site_key() -> tuple[bytes, str]:
    """Make a site's private key (OpenSSH) and its public key (PEM), in the formats of Flower."""
    private = ec.generate_private_key(ec.SECP384R1())
    return (
        private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        _public(private.public_key()),
    )


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
    return x509.IPAddress(ip_address(host)) if is_address(host) else x509.DNSName(host)
