"""A site accepts the server of its federation and no other one."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import founding, processes
from fedjigsaw.flower.certificates import (
    check_server_certificate,
)


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@pytest.fixture
def company(tmp_path):
    """The files of a server whose certificate is from a company: root, authority below, server."""

    def make(*hosts, days=9, above=99, with_chain=True, strict=True, purpose="SERVER_AUTH"):
        now = datetime.now(UTC)
        keys = [ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)]
        keys.append(rsa.generate_private_key(65537, 2048))
        found = []
        for level, key in enumerate(keys):
            upper = max(level - 1, 0)
            by = x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[upper].public_key())
            own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
            usage = [False] * 9
            usage[0 if level == 2 else 5] = True  # signs connections, or certificates
            built = (
                x509.CertificateBuilder(name(f"level {upper}"), name(f"level {level}"))
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - timedelta(days=30))
                .not_valid_after(now + timedelta(days=[99, above, days][level]))
                .add_extension(x509.BasicConstraints(level < 2, None), critical=True)
                .add_extension(x509.KeyUsage(*usage), critical=True)
            )
            if strict:
                built = built.add_extension(own, critical=False).add_extension(by, critical=False)
            if level == 2:
                use = x509.ExtendedKeyUsage([getattr(ExtendedKeyUsageOID, purpose)])
                built = built.add_extension(use, critical=False)
                names = x509.SubjectAlternativeName(
                    [
                        x509.IPAddress(ip_address(host))
                        if host[0].isdigit()
                        else x509.DNSName(host)
                        for host in hosts
                    ]
                )
                built = built.add_extension(names, critical=False)
            signed = built.sign(keys[upper], hashes.SHA256())
            found.append(signed.public_bytes(Encoding.PEM))
        home = tmp_path / "company"
        home.mkdir(exist_ok=True)
        private = keys[2].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (home / "ca.crt").write_bytes(found[0])
        (home / "server.crt").write_bytes(found[2] + found[1] * with_chain)
        (home / "server.key").write_bytes(private)
        (home / "app.fab").write_bytes(b"an app")
        return home

    return make


def check(home, host):
    check_server_certificate(home / "server.crt", home / "server.key", home / "ca.crt", host)


def test_a_certificate_of_a_company_with_the_authorities_in_between(company, tls_server):
    home = company("fed.example.org", "127.0.0.1")
    check(home, "fed.example.org")
    assert processes.answers("127.0.0.1", tls_server(home), home / "ca.crt")


def test_a_certificate_without_the_authority_in_between(company, tls_server):
    home = company("fed.example.org", "127.0.0.1", with_chain=False)
    with pytest.raises(FederationError, match="nor an authority whose certificate follows"):
        check(home, "fed.example.org")
    with pytest.raises(FederationError, match="is not the server of this federation"):
        processes.answers("127.0.0.1", tls_server(home), home / "ca.crt")


def test_a_certificate_that_has_ended_is_told_before_the_start(company):
    with pytest.raises(FederationError, match="has ended"):
        check(company("fed.example.org", "127.0.0.1", days=-1), "fed.example.org")


def test_the_server_is_known_by_its_host_and_on_its_own_machine(clinic, tls_server):
    port = tls_server(clinic / "server")
    assert processes.answers("127.0.0.1", port, clinic / "bern" / "ca.crt")
    assert processes.answers("localhost", port, clinic / "bern" / "ca.crt")


def test_a_host_that_is_not_in_the_certificate(clinic, tls_server):
    port = tls_server(clinic / "server", "127.0.0.2")
    with pytest.raises(FederationError, match="certificate is not valid here"):
        processes.answers("127.0.0.2", port, clinic / "bern" / "ca.crt")


def test_another_authority_is_refused(clinic, tls_server, tmp_path):
    founding.init(tmp_path / "other", ["bern"], "127.0.0.1", 9092, b"")
    port = tls_server(tmp_path / "other" / "server")
    with pytest.raises(FederationError, match="is not the server of this federation"):
        processes.answers("127.0.0.1", port, clinic / "bern" / "ca.crt")
