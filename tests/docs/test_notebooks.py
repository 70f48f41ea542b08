"""The notebooks run from top to bottom, print what they show, and are fit to be published."""

import base64
import json
import re

import pytest

from pages_as_code import ROOT

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
MACHINE = re.compile(r"/(home|root|tmp|usr|opt|work|Users|private)/|\\Users\\|site-packages")
LARGEST = 100_000  # bytes of a picture
SECONDS = re.compile(r"[\d.]+(\$\\pm\$[\d.]+)? \\\\$", re.MULTILINE)  # last column of a table


def outputs(notebook):
    return [one for cell in notebook.cells if cell.cell_type == "code" for one in cell.outputs]


def printed(notebook):
    """What the cells print, without times."""
    return SECONDS.sub("", "".join(one.text for one in outputs(notebook) if "text" in one))


def pictures(notebook):
    data = [one.data for one in outputs(notebook) if "data" in one]
    return [base64.b64decode(each["image/png"]) for each in data if "image/png" in each]


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["compare_methods", "first_steps"]


@each
def test_what_is_committed_is_complete_and_small(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)]
    assert not [one for one in outputs(notebook) if one.output_type == "error"]
    assert not [one for one in outputs(notebook) if one.get("name") == "stderr"]
    assert pictures(notebook)
    assert all(len(picture) < LARGEST for picture in pictures(notebook))
    assert not MACHINE.search(json.dumps(notebook))
    assert "widgets" not in notebook.metadata


@pytest.mark.long  # `make site` runs them, too
@each
def test_it_runs_and_prints_the_same(path, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDJIGSAW_BACKEND", "sklearn")  # everywhere; the last digits depend on it
    shown = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        fresh, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    assert printed(fresh) == printed(shown)
    assert len(pictures(fresh)) == len(pictures(shown))
