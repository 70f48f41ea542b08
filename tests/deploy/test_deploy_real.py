"""The parts of compose.yaml as plain processes: same commands, same variables, other paths."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pages_as_code import ROOT

yaml = pytest.importorskip("yaml")
pytest.importorskip("flwr")
pytest.importorskip("prometheus_client")

from fedjigsaw.flower.processes import free_port  # noqa: E402
from flower_clinic import BACKEND, end_with_the_tests, members, wait_for  # noqa: E402

pytestmark = [pytest.mark.federation, pytest.mark.slow, pytest.mark.long]
SERVICES = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture
def machine(tmp_path):
    """A folder per volume, and parts as processes; no variable of the tests reaches them."""
    parts = {}
    common = {"PATH": PATH, "HOME": str(tmp_path / "none"), **dict([BACKEND])}
    common |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}

    def path_of(service, text):
        """A path in a container as one on this machine."""
        for volume in service["volumes"]:
            source, target, *_ = volume.split(":")
            if text == target or text.startswith(f"{target}/"):
                return str(tmp_path / "volumes" / source) + text.removeprefix(target)
        return text

    def start(name):
        service = SERVICES[name]
        given = {key: path_of(service, value) for key, value in service["environment"].items()}
        port = free_port()
        given |= {key: str(port) for key in given if key.endswith("METRICS_PORT")}
        with (tmp_path / f"{name}.out").open("ab") as log:
            parts[name] = subprocess.Popen(
                [shutil.which("fedjigsaw", path=PATH), *service["command"]],
                stdout=log,
                stderr=log,
                env=common | given,
                start_new_session=True,
                preexec_fn=end_with_the_tests,
            )
        probe = service["healthcheck"]["test"][1:]
        probe[0], probe[-1] = sys.executable, probe[-1].replace("9100", str(port))
        return lambda: subprocess.run(probe, capture_output=True, timeout=30).returncode == 0

    yield tmp_path, common, start
    for part in parts.values():
        part.send_signal(signal.SIGTERM)
    codes = {part.wait(60) for part in parts.values()}
    for number in members(tmp_path):
        os.kill(number, signal.SIGKILL)
    assert codes == {0}


def test_from_compose_to_a_second_model_with_the_ids_of_the_first(machine):
    folder, common, start = machine
    volumes = folder / "volumes"
    volumes.mkdir()
    where = {"FEDERATION_HOST": "127.0.0.1", "FEDERATION_PORT": str(free_port())}
    where |= {"EXAMPLES": str(ROOT / "examples")}
    words = ["sh", ROOT / "deploy" / "setup.sh", volumes]
    for text in ("goes to bern", "there already"):
        done = subprocess.run(words, env=common | where, capture_output=True, text=True)
        assert text in done.stdout, done
    assert {path.name for path in volumes.iterdir()} == {"server", "bern", "lyon", "oslo"}
    assert not (volumes / "server" / "clinic" / "bern").exists()
    probes = {name: start(name) for name in ("server", "bern", "lyon", "oslo")}
    for name, healthy in probes.items():
        wait_for(healthy, f"{name} to be healthy: {(folder / f'{name}.out').read_text()}")
    models = volumes / "server" / "models"
    weekly = ["sh", ROOT / "deploy" / "weekly.sh", volumes / "server" / "clinic", models, "-k", "4"]
    for more in ([], ["--ask", "none"]):  # the second one from the kept summaries
        done = subprocess.run([*weekly, *more], env=common, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + (folder / "server.out").read_text()
        made = sorted(path.name for path in models.iterdir() if path.name[0] == "2")
        latest = os.readlink(models / "latest.model")
        assert latest == [name for name in made if name.endswith(".model")][-1]
        subprocess.run(["sleep", "1"], check=True)  # a model has the second in its name
    assert "Drift" in done.stdout  # of the second, against the first
