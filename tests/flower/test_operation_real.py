"""A server and a site as services: config files, JSON logs, health, metrics and rotation."""

import http.client
import json
import os
import signal
import subprocess

import pytest

pytest.importorskip("flwr")
pytest.importorskip("prometheus_client")

from fedjigsaw.flower import bundle, founding
from fedjigsaw.flower.processes import free_port
from flower_clinic import BACKEND, COMMAND, end_with_the_tests, members, wait_for

pytestmark = [pytest.mark.federation, pytest.mark.slow, pytest.mark.long]
SECRET = "Meier-4711"


def get(port, path):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""


@pytest.fixture
def services(tmp_path):
    """Start parts with a config file each, as a service manager does; end them all."""
    parts = {}

    def start(name, verb, text):
        (tmp_path / f"{name}.toml").write_text(text)
        with (tmp_path / f"{name}.out").open("ab") as log:
            parts[name] = subprocess.Popen(
                [COMMAND, "federation", verb, "--config", tmp_path / f"{name}.toml"],
                stdout=log,
                stderr=log,
                env={**os.environ, **dict([BACKEND]), "FEDJIGSAW_SITE_LOG_FORMAT": "json"},
                cwd="/",
                start_new_session=True,
                preexec_fn=end_with_the_tests,
            )
        return parts[name]

    yield start
    for part in parts.values():
        part.send_signal(signal.SIGTERM)
        part.wait(30)
    for number in members(tmp_path):
        os.kill(number, signal.SIGKILL)


def run(home, output):
    words = ["federation", "run", home, "-k", "2", "-o", output, "--timeout", "90"]
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=200)


def test_a_service_from_its_config_file_to_its_metrics(tmp_path, services):
    home, ports = tmp_path / "clinic", [free_port(), free_port()]
    founding.init(home, ["bern"], "127.0.0.1", free_port(), bundle.build())
    rows = tmp_path / "bern.csv"
    good = "age,dose\n" + "".join(f"{20 + 40 * (n % 2) + n / 50},{n % 5}\n" for n in range(60))
    rows.write_text(good)
    server = f'folder = "clinic"\nlog-format = "json"\nmetrics-port = {ports[0]}\n'
    services("server", "server", server)
    services(
        "bern", "site", f'folder = "clinic/bern"\ndata = "bern.csv"\nmetrics-port = {ports[1]}'
    )
    wait_for(lambda: get(ports[1], "/ready")[0] == 200, "the site to be ready")
    wait_for(lambda: get(ports[0], "/ready")[0] == 200, "the server to be ready")
    site_log = home / "bern" / "site.log"
    site_log.rename(home / "bern" / "site.log.1")  # as what rotates logs does
    done = run(home, tmp_path / "a.model")
    assert done.returncode == 0, done.stderr
    name = next((home / "server" / "runs").iterdir()).name
    wait_for(lambda: '"answer"' in (tmp_path / "bern.out").read_text(), "the answer on the screen")
    lines = [json.loads(line) for line in site_log.read_text().splitlines()]
    asked, sent = (next(x for x in lines if x["event"] == e) for e in ("question", "answer"))
    assert (asked["site"], asked["run"], sent["run"]) == ("bern", name, name)
    assert sent["bytes"] > 0

    # a cell that is no number: people at the site may read it, a collector of logs may not
    rows.write_text(good + f"{SECRET},3\n")
    done = run(home, tmp_path / "b.model")
    assert done.returncode == 5, done.stderr
    written = [site_log, tmp_path / "bern.out", tmp_path / "server.out"]
    wait_for(lambda: "failure" in (tmp_path / "bern.out").read_text(), "the failure on the screen")
    assert not any(SECRET in path.read_text() for path in written)
    for path in written:
        assert all(json.loads(line)["time"] for line in path.read_text().splitlines())
    texts = [get(port, "/metrics")[1] for port in ports]
    assert 'fedjigsaw_site_connected{site="bern"} 1.0' in texts[0]
    assert 'fedjigsaw_runs_total{result="model"} 1.0' in texts[0]
    assert 'fedjigsaw_failures_total{site="bern"} 1.0' in texts[0]
    assert "fedjigsaw_answers_total 1.0" in texts[1]
    assert "fedjigsaw_failures_total 1.0" in texts[1]
    shown = tmp_path / "server.out"  # a log is shown a moment after it is written
    wait_for(lambda: shown.read_text().count('"event": "run_ended"') == 2, "both ends to be shown")
