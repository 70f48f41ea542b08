"""A server or a site that runs for long has given back what its command needed for its checks."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedjigsaw.flower import bundle, founding, processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
COMMAND = str(Path(sys.executable).parent / "fedjigsaw")


@pytest.mark.slow
def test_a_site_that_waits_is_light_and_behaves_as_before(tmp_path):
    founding.init(tmp_path / "c", ["bern"], "127.0.0.1", processes.free_port(), bundle.build())
    (tmp_path / "bern.csv").write_text("age,dose\n" + "1,2\n3,4\n" * 9)
    words = [COMMAND, "federation", "site", str(tmp_path / "c" / "bern")]
    words += ["--data", str(tmp_path / "bern.csv"), "--columns", "age"]
    with (tmp_path / "out").open("w") as out:
        site = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 90
        while "Waiting for the server" not in (tmp_path / "out").read_text():
            assert site.poll() is None, (tmp_path / "out").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        place = Path(f"/proc/{site.pid}")
        maps = (place / "maps").read_text()
        assert not any(name in maps for name in ("/sklearn/", "/scipy/", "/pyarrow/", "/pandas/"))
        assert int((place / "statm").read_text().split()[1]) * 4096 < 80 * 2**20
        assert b"--columns\0age\0" in (place / "cmdline").read_bytes()  # as it was started
        second = subprocess.run(words, capture_output=True, text=True, timeout=90)
        assert second.returncode == 8
        assert "is already running" in " ".join(second.stderr.split())
        site.send_signal(signal.SIGTERM)
        assert site.wait(30) == 0
        assert "The site has ended." in (tmp_path / "out").read_text()
    finally:
        site.kill()
        site.wait()
