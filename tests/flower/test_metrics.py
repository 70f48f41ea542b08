"""Health, readiness and metrics: real requests to a port, numbers from real files."""

import http.client
import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")
parser = pytest.importorskip("prometheus_client.parser")

from fedjigsaw.flower import metrics  # noqa: E402
from fedjigsaw.flower.processes import free_port  # noqa: E402
from fedjigsaw.records.journal import Journal  # noqa: E402
from fedjigsaw.records.policy import Policy  # noqa: E402


def get(port, path, **headers):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    line.request("GET", path, headers=headers)
    answer = line.getresponse()
    return answer.status, answer.read().decode()


def values(text):
    """Metrics by name, or by name and labels."""
    found = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if sample.name != "fedjigsaw_info"}
            key = (sample.name.removeprefix("fedjigsaw_"), *labels.values())
            found[key if labels else key[0]] = sample.value
    return found


def answer(journal, key, data_set="d", size=100, **more):
    number = journal.add("question", method="jigsaw")["n"]
    journal.add("answer", to=number, key=key, data_set=data_set, bytes=size, **more)


@pytest.fixture
def site(clinic):
    home = clinic / "bern"
    journal = Journal(home / "journal.jsonl")
    answer(journal, "k1")
    answer(journal, "k2", size=50)
    answer(journal, "k1", repeated=True)
    answer(journal, "k3", data_set="e")
    journal.add("question")
    journal.add("refusal", to=9, reason="no")
    journal.add("question")
    journal.add("failure", to=11, reason="no")
    return SimpleNamespace(home=home, journal=journal)


def numbers_of(site):
    return metrics.SiteNumbers(site.home, "bern", Policy())


class TestSite:
    def test_numbers_of_the_journal(self, site):
        found = values(metrics.as_prometheus(numbers_of(site).read()).decode())
        assert found["questions_total"] == 6
        assert found["answers_total"] == 4
        assert (found["refusals_total"], found["failures_total"]) == (1, 1)
        assert found["questions_left", "day"] == 10 - 3
        assert found["questions_left", "data_set"] == 20 - 1
        assert found["last_answer_timestamp_seconds"] == pytest.approx(time.time(), abs=60)
        assert found["certificate_days_left"] > 900
        assert found["connected"] == 0
        assert "epsilon_left" not in found

    def test_epsilon_that_is_left(self, site):
        pytest.importorskip("opendp")
        from fedjigsaw.records.ledger import LEDGER, Ledger

        Ledger(site.home / LEDGER).set_limit(2.0, 1e-6)
        found = values(metrics.as_prometheus(numbers_of(site).read()).decode())
        assert found["epsilon_left"] == pytest.approx(2.0, rel=0.01)


def make_run(home, name, result=None, failed=(), kept=()):
    folder = home / "runs" / name
    folder.mkdir(parents=True)
    rounds = (result or {}).get("transcript", {"rounds": [{"bytes_up": {}}]})
    sent = rounds["rounds"][0]["bytes_up"] if isinstance(rounds, dict) else ()
    events = [("failed", site) for site in failed]
    events += [("kept" if site in kept else "answered", site) for site in sent]
    lines = [json.dumps({"event": what, "site": site, "detail": ""}) for what, site in events]
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if result is not None:
        (folder / "result.json").write_text(json.dumps(result))
    return folder


def model(**bytes_up):
    one = {"number": 0, "bytes_up": bytes_up, "bytes_down": 7, "failures": {}, "seconds": 2.5}
    return {"transcript": {"seed": 0, "rounds": [one]}}


class TestServer:
    def test_numbers_of_the_runs(self, clinic):
        home = clinic / "server"
        make_run(home, "20260101-000000-00000001", model(bern=10, lyon=20))
        make_run(home, "20260102-000000-00000001", model(bern=10), failed=["lyon"])
        make_run(home, "20260103-000000-00000001", {"error": "x", "exit_code": 5}, ["lyon"])
        make_run(home, "20260103-000000-00000002", model(bern=9, lyon=9), kept=["bern", "lyon"])
        counts = metrics.ServerNumbers(home)
        make_run(home, "20260104-000000-00000001")
        found = values(metrics.as_prometheus(counts.read()).decode())
        assert (found["runs_total", "model"], found["runs_total", "error"]) == (3, 1)
        assert (found["answers_total", "bern"], found["answers_total", "lyon"]) == (2, 1)
        assert found["failures_total", "lyon"] == 2
        assert found["active_runs"] == 1
        assert found["up"] == 0
        assert not counts.ready()
        assert found["last_model_timestamp_seconds"] == pytest.approx(time.time(), abs=60)


class TestPort:
    def test_health_is_not_readiness(self, site):
        alive, port = [True], free_port()
        with metrics.serving_metrics(port, numbers_of(site), lambda: alive[0]):
            assert get(port, "/health") == (200, '{"healthy": true}\n')
            assert get(port, "/ready") == (503, '{"ready": false}\n')
            (site.home / "contact").touch()
            assert get(port, "/ready") == (200, '{"ready": true}\n')
            status, text = get(port, "/metrics")
            assert (status, values(text)["connected"]) == (200, 1)
            alive[0] = False
            assert get(port, "/health")[0] == get(port, "/ready")[0] == 503
        with pytest.raises(ConnectionRefusedError):
            get(port, "/health")

    def test_it_listens_on_the_loopback_alone(self, site):
        port = free_port()
        with metrics.serving_metrics(port, numbers_of(site), lambda: True):
            listening = [
                line.split()[1].split(":")
                for name in ("tcp", "tcp6")
                for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
                if line.split()[3] == "0A"
            ]
        assert [host for host, number in listening if int(number, 16) == port] == ["0100007F"]

    def test_nothing_else_is_served(self, site):
        port = free_port()
        with metrics.serving_metrics(port, numbers_of(site), lambda: True):
            assert get(port, "/")[0] == 404
            assert get(port, "/../site.key")[0] == 404
            for host in ("evil.example.org:80", "evil.example.org", ":80"):
                assert get(port, "/metrics", Host=host)[0] == 404
            for host in (f"localhost:{port}", "localhost", "127.0.0.1"):
                assert get(port, "/metrics", Host=host)[0] == 200
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            line.request("POST", "/metrics", body=b"x")
            assert line.getresponse().status == 501

    def test_an_error_tells_nothing(self, site):
        port = free_port()
        (site.home / "ca.crt").write_text("SECRET")
        with metrics.serving_metrics(port, numbers_of(site), lambda: True):
            status, text = get(port, "/metrics")
        assert status == 500
        assert "ca.crt" not in text
