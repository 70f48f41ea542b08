"""The command report: one page, or one sentence and no file."""

import numpy as np
import pytest

from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import DataError, MessageError, ParameterError
from fedjigsaw.io.formats import save_scaler
from report_files import write_run


@pytest.fixture
def files(tmp_path):
    return write_run(tmp_path)


def test_a_page_is_written_whatever_the_order_of_files(run, files, tmp_path):
    pages = []
    for i, order in enumerate((files, files[::-1])):
        run("report", *order, "-o", tmp_path / f"{i}.html", "--title", "Patients & <clinics>")
        pages.append((tmp_path / f"{i}.html").read_text())
    assert pages[0] == pages[1]
    assert "<title>Patients &amp; &lt;clinics&gt;</title>" in pages[0]
    assert pages[0].endswith("</html>")


def test_an_existing_page_is_kept(run, files, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("mine")
    with pytest.raises(DataError, match="already exists"):
        run("report", *files, "-o", page)
    assert page.read_text() == "mine"
    assert run("report", *files, "-o", page, "--force").exit_code == 0
    assert page.read_text() != "mine"


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        ("{others}", ParameterError, "model"),
        ("{model} data.csv", MessageError, "data.csv"),
        ("{model} scaler.json", ParameterError, "scaler.json"),
        ("nofile", DataError, "nofile: no such file"),
        ("{model} -o report.pdf", ParameterError, "report.pdf"),
        ("{model} -o {model} --force", DataError, "is an input"),
    ],
)
def test_bad_input_writes_nothing(run, files, tmp_path, monkeypatch, words, error, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("age,dose\n1,2\n")
    save_scaler(Scaler(("age",), np.zeros(1), np.ones(1)), tmp_path / "scaler.json")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    others = " ".join(map(str, files[1:]))
    with pytest.raises(error, match=told):
        run("report -o report.html " + words.format(model=files[0], others=others))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
