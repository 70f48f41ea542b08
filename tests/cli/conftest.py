"""Fixtures of the tests of the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "fedjigsaw"


@pytest.fixture
def shell():
    """Run the installed command as its own process."""

    def execute(*words, **environment):
        return subprocess.run(
            [COMMAND, *map(str, words)],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "120", **environment},
            timeout=120,
        )

    return execute
