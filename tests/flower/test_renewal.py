"""Certificates are warned of before they end, and renewed while the server runs."""

import shutil
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from fedjigsaw._locks import locked
from fedjigsaw.errors import FederationError
from fedjigsaw.flower import (
    certificates,
    folders,
    founding,
    jobs,
    metrics,
    processes,
    renewal,
    serving,
    status,
)
from fedjigsaw.flower.certificates import (
    ends,
    make_authority,
    make_server_key,
)


@pytest.fixture
def home(clinic):
    return clinic / "server"


def make(tmp_path, days):
    founding.init(tmp_path / "short", ["bern"], "127.0.0.1", 9092, b"an app", days)
    return tmp_path / "short"


def test_a_server_is_certified_for_three_years_and_its_authority_for_twenty(home):
    for name, years in (("server.crt", 3), ("ca.crt", 20)):
        wanted = datetime.now(UTC) + timedelta(days=365 * years)
        assert abs(ends(home / name) - wanted) < timedelta(hours=1)
    assert list(renewal.ending(home)) == []


@pytest.mark.parametrize(("days", "text"), [(1, r"\(ConnectError\)"), (-0.1, "federation renew")])
def test_a_server_whose_certificate_has_ended_is_not_just_silent(tmp_path, days, text):
    """What asks it on its own machine, `run` and `status`, looks at the certificate, too."""
    home = make(tmp_path, days) / "server"
    (home / "running.json").write_text('{"control_port": 9, "secret": "s"}')
    with pytest.raises(FederationError, match=f"does not answer .*{text}"), jobs.control(home) as c:
        c.online()


@pytest.mark.parametrize("name", ["server.crt", "ca.crt"])
def test_nor_is_one_whose_certificate_is_not_valid_yet(home, name, monkeypatch):
    """As after it was renewed on a machine whose clock was ahead."""
    (home / "running.json").write_text('{"control_port": 9, "secret": "s"}')
    ahead = datetime.now(UTC) + timedelta(days=400)
    monkeypatch.setattr(certificates, "datetime", SimpleNamespace(now=lambda zone: ahead))
    authority, key = make_authority()
    own = certificates.sign_server("127.0.0.1", make_server_key(), key)
    (home / name).write_bytes(own if name == "server.crt" else authority)
    monkeypatch.undo()
    text = "does not answer .*certificate is not valid yet: set the clock.*`federation renew"
    with pytest.raises(FederationError, match=text) as caught, jobs.control(home) as client:
        client.online()
    assert "It may have ended" not in str(caught.value)


@pytest.mark.parametrize(("days", "text"), [(59, "ends in 59 days, on 20"), (-0.1, "has ended")])
def test_an_end_is_told_sixty_days_ahead(tmp_path, days, text):
    (warning,) = renewal.ending(make(tmp_path, days) / "server")
    assert warning.startswith(f"the server's certificate {text}")
    assert "`federation renew`" in warning


def test_the_end_of_an_authority_is_told_to_both_sides(clinic, home):
    for folder in (home, clinic / "bern"):
        (folder / "ca.crt").write_bytes(make_authority(30)[0])
        (warning,) = renewal.authority_ending(folder)
        assert "authority's certificate ends in 30 days" in warning
        assert "--new-authority" in warning


def test_a_site_is_warned_of_the_certificate_that_it_is_shown(tmp_path, tls_server):
    folder = make(tmp_path, 20)
    port = tls_server(folder / "server")
    settings = folders.SiteSettings("bern", "127.0.0.1", port, "")
    shown = []
    serving.warn_of_end(folder / "bern", settings, shown.append)
    (text,) = shown
    assert text.startswith("Warning: the server's certificate ends in 20 days")


def test_a_site_says_that_a_certificate_has_ended(tmp_path, tls_server):
    folder = make(tmp_path, -0.1)
    port = tls_server(folder / "server")
    with pytest.raises(FederationError, match="has ended, or this machine's clock is wrong"):
        processes.answers("127.0.0.1", port, folder / "bern" / "ca.crt")


def test_a_clock_that_is_behind_is_no_other_server(tmp_path, tls_server, monkeypatch):
    """The site waits, as for a renewal: some clocks are set only after a while."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=9)

    monkeypatch.setattr(certificates, "datetime", Ahead)
    folder = make(tmp_path, 20)
    port = tls_server(folder / "server")
    with pytest.raises(processes.ExpiredError, match="is not valid yet: the clock of this machine"):
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


def test_a_new_authority_is_nothing_for_a_running_server(home):
    before = (home / "ca.crt").read_bytes()
    with locked(home / "lock"), pytest.raises(FederationError, match="End the server of"):
        renewal.renew_authority(home)
    assert (home / "ca.crt").read_bytes() == before


@pytest.mark.usefixtures("unasked")
def test_a_server_that_was_not_restarted_says_so(home):
    (home / "running.json").write_text("{}")
    assert status.read_status(home)["warnings"] == []
    shown = metrics.ServerNumbers(home)
    renewal.renew(home, days=5)
    late, soon = status.read_status(home)["warnings"]
    assert "restart" in late
    assert "ends in 5 days" in soon
    (days,) = (number[-1] for number in shown.read() if number[1] == "certificate_days_left")
    assert days > 1000  # of the certificate that it shows


@pytest.fixture
def unasked(monkeypatch):
    """A server that is asked for its sites; none is there."""
    monkeypatch.setattr(jobs, "control", nullcontext)
    monkeypatch.setattr(jobs, "connected_sites", lambda client, names: {"bern": True})
