"""The examples run, and the example of a new method can be copied into the package."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_copy_of_the_method_can_live_in_the_package():
    """There it is imported before the package is complete, so it must not import the package."""
    method, _main = (EXAMPLES / "new_method.py").read_text().split("if __name__ ==")
    assert "from fedjigsaw.estimator import" in method
    assert "fedjigsaw._" not in method  # nor does it need private modules
    assert not re.search(r"^\s*(from fedjigsaw import|import fedjigsaw)", method, re.MULTILINE)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_runs(path, tmp_path):
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
