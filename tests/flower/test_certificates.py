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
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import checks, folders, founding, processes, renewal
from fedjigsaw.flower.certificates import (
    authority_ends,
    check_server_certificate,
    days_until,
    ends,
    make_authority,
    make_server_key,
    sign_server,
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


def test_a_wildcard_stands_for_one_part_of_a_name(company):
    home = company("*.example.org", "127.0.0.1")
    check(home, "fed.example.org")
    for host in ("example.org", "a.fed.example.org", "fed.example.com"):
        with pytest.raises(FederationError, match=f"not valid for the host {host}"):
            check(home, host)


def test_a_server_must_know_itself_by_the_loopback(company):
    with pytest.raises(
        FederationError, match=r"host 127\.0\.0\.1, by which .* No public authority"
    ):
        check(company("fed.example.org"), "fed.example.org")


def test_a_certificate_that_has_ended_is_told_before_the_start(company):
    with pytest.raises(FederationError, match="has ended"):
        check(company("fed.example.org", "127.0.0.1", days=-1), "fed.example.org")


def test_what_a_site_on_a_later_python_refuses_is_refused(company):
    """Sites on Python 3.13 want more; those on earlier ones do not trust an authority below."""
    with pytest.raises(FederationError, match="Missing Authority Key Identifier"):
        check(company("fed.example.org", "127.0.0.1", strict=False), "fed.example.org")
    home = company("fed.example.org", "127.0.0.1")
    below = (home / "server.crt").read_bytes().rpartition(b"-----BEGIN")[2]
    (home / "ca.crt").write_bytes(b"-----BEGIN" + below)
    with pytest.raises(FederationError, match=r"ca\.crt did not sign .*get issuer"):
        check(home, "fed.example.org")


def test_letters_that_flower_cannot_read_are_refused_on_both_sides(clinic):
    """Files of companies often have comments; in others, Flower's processes end without a word."""
    for home in (clinic / "server", clinic / "bern"):
        authority = home / "ca.crt"
        authority.write_bytes(b"# the company's root\n" + authority.read_bytes())
    check(clinic / "server", "127.0.0.1")
    settings = folders.SiteSettings.load(clinic / "bern")
    settings.check_folder(clinic / "bern")
    for home in (clinic / "server", clinic / "bern"):
        authority = home / "ca.crt"
        authority.write_bytes("# gültig\n".encode() + authority.read_bytes())
    text = r"ca\.crt has letters besides ASCII.* Remove all lines"
    with pytest.raises(FederationError, match=text):
        check(clinic / "server", "127.0.0.1")
    with pytest.raises(FederationError, match=text):
        settings.check_folder(clinic / "bern")


def test_the_end_of_an_authority_in_between_counts(company):
    home = company("127.0.0.1", days=90, above=20)
    check(home, "127.0.0.1")
    assert "server's certificate ends in 20 days" in next(renewal.ending(home))
    assert checks.describe_days(ends(home / "server.crt"), "It", "x").startswith(
        "It is valid for 20 "
    )
    home = company("127.0.0.1", days=90, above=-1)
    assert "has ended" in renewal.why_invalid(home)


def test_an_old_root_beside_a_new_one_is_no_matter(tmp_path):
    """As in a file of a company, or while a root is replaced."""
    for days, wanted in (((-0.5, 900), 900), ((900, 30), 30), ((-0.5, -0.9), -0.5)):
        (tmp_path / "ca.crt").write_bytes(b"".join(make_authority(n)[0] for n in days))
        left = days_until(authority_ends(tmp_path / "ca.crt"))
        assert left == pytest.approx(wanted, abs=0.01)


def test_a_company_is_asked_for_its_own_certificate(company, clinic):
    """Another authority of the federation would take the place of the company's."""
    home = company("127.0.0.1", days=-1)
    for missing in (None, "server.crt", "ca.crt"):
        if missing is not None:
            (home / missing).rename(home / "away")
        with pytest.raises(FederationError, match="sk whoever signed it") as error:
            folders.check_server_files(home, "127.0.0.1")
        assert "federation renew" not in str(error.value)
        if missing is not None:
            (home / "away").rename(home / missing)
    assert "the authority that signed it" in next(renewal.ending(home))
    assert "the authority that signed it" in renewal.why_invalid(home)
    (clinic / "server" / "server.crt").write_bytes(b"nothing")
    with pytest.raises(FederationError, match="federation renew`, with --new-authority"):
        folders.check_server_files(clinic / "server", "127.0.0.1")


def test_a_wrong_purpose_is_not_a_wrong_authority(company):
    home = company("fed.example.org", "127.0.0.1", purpose="CLIENT_AUTH")
    with pytest.raises(FederationError, match="purpose") as error:
        check(home, "fed.example.org")
    assert "did not sign" not in str(error.value)


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
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    bare = (
        x509.CertificateBuilder(authority.subject, name("bare"), key.public_key(), 1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=9))
        .add_extension(by, critical=False)
        .sign(signer, hashes.SHA256())
    )
    files[0].write_bytes(bare.public_bytes(Encoding.PEM))
    with pytest.raises(
        FederationError, match=r"server\.crt is not valid for the host 127\.0\.0\.1"
    ):
        check_server_certificate(*files, "127.0.0.1")
