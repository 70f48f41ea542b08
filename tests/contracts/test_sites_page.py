"""The commands of docs/sites.md run literally, and print what the page shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile

ROOT = Path(__file__).parents[2]


def unsigned(line):
    """Hide fingerprints: other processors may round the last digit differently."""
    return re.sub(r"\b[0-9a-f]{16}\b", "fingerprint", line)


def test_the_commands_of_the_page(tmp_path):
    text = (ROOT / "docs" / "sites.md").read_text()
    script = "set -e\n" + "\n".join(re.findall(r"```sh\n(.*?)```", text, re.S))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = [
        unsigned(line)
        for block in re.findall(r"```text\n(.*?)```", text, re.S)
        for line in block.splitlines()
        if line != "..."
    ]
    printed = iter([unsigned(line) for line in done.stdout.splitlines()])
    assert [line for line in shown if line not in printed] == []  # all are there, in this order
    assert len(shown) > 50
    labels = pa.parquet.read_table(tmp_path / "bern-labels.parquet")
    assert labels.column_names == ["patient", "label", "distance"]
    assert labels["patient"].to_pylist()[:2] == ["bern-000", "bern-001"]
    assert pa.csv.read_csv(tmp_path / "lyon-labels.csv").num_rows == 400
    without = formats.load(tmp_path / "model-without-oslo", ModelFile)
    assert without.clients == ("bern", "lyon")
