"""Sites accept the server of their federation alone; certificates end, and are renewed."""

import shutil
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import (
    founding,
    processes,
    renewal,
)
from fedjigsaw.flower.certificates import (
    check_server_certificate,
)


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@pytest.fixture
def company(tmp_path):
    """The files of a server whose certificate is from a company: root, authority below, server."""

    def make(days=9, with_chain=True):
        now = datetime.now(UTC)
        keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
        host = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        found = []
        for level, key in enumerate(keys):
            upper = max(level - 1, 0)
            usage = [False] * 9
            usage[0 if level == 2 else 5] = True  # signs connections, or certificates
            built = x509.CertificateBuilder(name(f"level {upper}"), name(f"level {level}"))
            built = built.public_key(key.public_key()).serial_number(x509.random_serial_number())
            built = built.not_valid_before(now - timedelta(days=30))
            built = built.not_valid_after(now + timedelta(days=[99, 99, days][level]))
            for extension in (
                x509.BasicConstraints(level < 2, None),
                x509.KeyUsage(*usage),
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
                x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[upper].public_key()),
                *((use, host) if level == 2 else ()),
            ):
                built = built.add_extension(
                    extension, critical=isinstance(extension, x509.BasicConstraints)
                )
            found.append(built.sign(keys[upper], hashes.SHA256()).public_bytes(Encoding.PEM))
        home = tmp_path / "company"
        home.mkdir()
        private = keys[2].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (home / "ca.crt").write_bytes(found[0])
        (home / "server.crt").write_bytes(found[2] + found[1] * with_chain)
        (home / "server.key").write_bytes(private)
        return home

    return make


def check(home, host="127.0.0.1"):
    check_server_certificate(home / "server.crt", home / "server.key", home / "ca.crt", host)


def test_a_certificate_of_a_company_with_the_authorities_in_between(company, tls_server):
    home = company()
    check(home)
    assert processes.answers("127.0.0.1", tls_server(home), home / "ca.crt")
    with pytest.raises(FederationError, match="not valid for the host"):
        check(home, "fed.example.org")


def test_a_certificate_without_the_authority_in_between(company, tls_server):
    home = company(with_chain=False)
    with pytest.raises(FederationError, match="nor an authority whose certificate follows"):
        check(home)
    with pytest.raises(FederationError, match="is not the server of this federation"):
        processes.answers("127.0.0.1", tls_server(home), home / "ca.crt")


def test_a_certificate_that_has_ended_is_told_before_the_start(company):
    with pytest.raises(FederationError, match="has ended"):
        check(company(days=-1))


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


@pytest.fixture
def home(clinic):
    return clinic / "server"


def make(tmp_path, days):
    founding.init(tmp_path / "short", ["bern"], "127.0.0.1", 9092, b"an app", days)
    return tmp_path / "short"


@pytest.mark.parametrize(("days", "text"), [(59, "ends in 59 days, on 20"), (-0.1, "has ended")])
def test_an_end_is_told_sixty_days_ahead(tmp_path, days, text):
    (warning,) = renewal.ending(make(tmp_path, days) / "server")
    assert warning.startswith(f"the server's certificate {text}")
    assert "`federation renew`" in warning


def test_a_site_says_that_a_certificate_has_ended(tmp_path, tls_server):
    folder = make(tmp_path, -0.1)
    port = tls_server(folder / "server")
    with pytest.raises(FederationError, match="has ended, or this machine's clock is wrong"):
        processes.answers("127.0.0.1", port, folder / "bern" / "ca.crt")


def test_sites_accept_a_renewed_certificate_as_they_are(tmp_path, tls_server):
    folder = make(tmp_path, -0.1)
    end = renewal.renew(folder / "server")
    assert end > datetime.now(UTC) + timedelta(days=1000)
    port = tls_server(folder / "server")
    assert processes.answers("127.0.0.1", port, folder / "bern" / "ca.crt")


def test_an_authority_that_is_kept_elsewhere(clinic, home, tmp_path):
    (clinic / "authority").rename(tmp_path / "stick")
    with pytest.raises(FederationError, match="give its folder with --authority"):
        renewal.renew(home)
    renewal.renew(home, tmp_path / "stick")
    other = make(tmp_path, 9)
    before = (home / "server.crt").read_bytes()
    with pytest.raises(FederationError, match="is not the authority of"):
        renewal.renew(home, other / "authority")
    (tmp_path / "stick" / "authority.key").write_text("no key")
    with pytest.raises(FederationError, match="is not a private key"):
        renewal.renew(home, tmp_path / "stick")
    assert (home / "server.crt").read_bytes() == before


def test_a_federation_whose_authority_is_lost_gets_a_new_one(clinic, home, tls_server, tmp_path):
    shutil.rmtree(clinic / "authority")
    (clinic / "lyon").rename(tmp_path / "lyon")  # it is at its site
    with pytest.raises(FederationError, match="--new-authority makes another one"):
        renewal.renew(home)
    assert renewal.renew_authority(home) == ["bern"]
    renewal.renew(home)
    port = tls_server(home)
    assert processes.answers("127.0.0.1", port, clinic / "bern" / "ca.crt")
    with pytest.raises(FederationError, match="is not the server of this federation"):
        processes.answers("127.0.0.1", port, tmp_path / "lyon" / "ca.crt")
