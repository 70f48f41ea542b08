"""A site accepts the server of its federation and no other one."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import folders, processes
from fedjigsaw.flower.certificates import (
    check_server_certificate,
    make_authority,
    make_server_key,
    sign_server,
)


def test_the_server_is_known_by_its_host_and_on_its_own_machine(clinic, tls_server):
    port = tls_server(clinic / "server")
    assert processes.answers("127.0.0.1", port, clinic / "bern" / "ca.crt")
    assert processes.answers("localhost", port, clinic / "bern" / "ca.crt")


def test_a_host_that_is_not_in_the_certificate(clinic, tls_server):
    port = tls_server(clinic / "server", "127.0.0.2")
    with pytest.raises(FederationError, match="certificate is not valid here"):
        processes.answers("127.0.0.2", port, clinic / "bern" / "ca.crt")


def test_another_authority_is_refused(clinic, tls_server, tmp_path):
    folders.init(tmp_path / "other", ["bern"], "127.0.0.1", 9092, b"")
    port = tls_server(tmp_path / "other" / "server")
    with pytest.raises(FederationError, match="is not the server of this federation"):
        processes.answers("127.0.0.1", port, clinic / "bern" / "ca.crt")


def test_names_and_addresses_are_told_apart():
    names = x509.SubjectAlternativeName
    for host, kind in (("fed.example.org", x509.DNSName), ("fe80::1", x509.IPAddress)):
        content = sign_server(host, make_server_key(), make_authority()[1])
        certificate = x509.load_pem_x509_certificate(content)
        found = certificate.extensions.get_extension_for_class(names).value
        assert host in map(str, found.get_values_for_type(kind))


def test_only_the_authority_may_sign():
    signed, key = make_authority()
    server = sign_server("a.org", make_server_key(), key)
    for content, authority in ((signed, True), (server, False)):
        certificate = x509.load_pem_x509_certificate(content)
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert found.ca is authority


def test_a_certificate_for_no_host_is_refused_by_name(tmp_path):
    """As of an authority that writes the host elsewhere: browsers and sites do not look there."""
    content, signing = make_authority()
    authority, signer = x509.load_pem_x509_certificate(content), load_pem_private_key(signing, None)
    files = [tmp_path / name for name in ("server.crt", "server.key", "ca.crt")]
    files[1].write_bytes(make_server_key())
    files[2].write_bytes(content)
    key = load_pem_private_key(files[1].read_bytes(), None)
    now = datetime.now(UTC)
    bare = (
        x509.CertificateBuilder(authority.subject, authority.subject, key.public_key(), 1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=9))
        .sign(signer, hashes.SHA256())
    )
    files[0].write_bytes(bare.public_bytes(Encoding.PEM))
    with pytest.raises(
        FederationError, match=r"server\.crt is not valid for the host 127\.0\.0\.1"
    ):
        check_server_certificate(*files, "127.0.0.1")
