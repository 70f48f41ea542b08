"""Certificates are warned of before they end, and renewed while the server runs."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import (
    founding,
    processes,
    renewal,
)


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
