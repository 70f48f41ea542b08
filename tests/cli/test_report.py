"""The command report: one page, or one sentence and no file."""

import sys

import numpy as np
import pytest

from fedjigsaw.errors import DataError, ExtraError, MessageError, ParameterError
from fedjigsaw.kernels.scaling import Scaler
from report_files import write_run


@pytest.fixture
def files(tmp_path):
    return write_run(tmp_path)


def test_a_page_is_written(run, files, tmp_path):
    page = tmp_path / "report.html"
    done = run("report", *files, "-o", page, "--title", "Patients & <clinics>")
    assert done.exit_code == 0
    assert "3 sites, 5 clusters -> " in done.stdout
    text = page.read_text()
    assert "<title>Patients &amp; &lt;clinics&gt;</title>" in text
    assert text.endswith("</html>")


def test_the_order_of_files_does_not_matter(run, files, tmp_path):
    pages = []
    for i, order in enumerate((files, files[::-1])):
        run("report", *order, "-o", tmp_path / f"{i}.html")
        pages.append((tmp_path / f"{i}.html").read_bytes())
    assert pages[0] == pages[1]


class TestBadInput:
    """Each is one sentence, and nothing is written."""

    @pytest.fixture(autouse=True)
    def nothing_is_written(self, tmp_path, files):
        self.given = set()
        before = {path.name for path in tmp_path.iterdir()}
        yield
        assert {path.name for path in tmp_path.iterdir()} == before | self.given
        assert not (tmp_path / "report.html").exists()

    def test_no_model(self, run, files, tmp_path):
        with pytest.raises(ParameterError, match="None of the files is a model"):
            run("report", *files[1:], "-o", tmp_path / "report.html")

    def test_a_file_of_another_program(self, run, files, tmp_path):
        self.given = {"data.csv"}
        (tmp_path / "data.csv").write_text("age,dose\n1,2\n")
        with pytest.raises(MessageError, match="data.csv is not a fedjigsaw file"):
            run("report", *files, tmp_path / "data.csv", "-o", tmp_path / "report.html")

    def test_a_scaler(self, run, files, tmp_path):
        from fedjigsaw.io.formats import save_scaler

        self.given = {"scaler.json"}
        save_scaler(Scaler(("age",), np.zeros(1), np.ones(1)), tmp_path / "scaler.json")
        with pytest.raises(
            ParameterError, match="scaler.json is a scaler, which the model contains"
        ):
            run("report", *files, tmp_path / "scaler.json", "-o", tmp_path / "report.html")

    def test_no_such_file(self, run, files, tmp_path):
        with pytest.raises(DataError, match="Cannot read .*nofile: no such file"):
            run("report", tmp_path / "nofile", "-o", tmp_path / "report.html")

    def test_not_a_page(self, run, files, tmp_path):
        with pytest.raises(ParameterError, match="must end in .html; got .*report.pdf"):
            run("report", *files, "-o", tmp_path / "report.pdf")

    def test_jinja_is_missing(self, run, files, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "jinja2", None)
        with pytest.raises(ExtraError, match=r"pip install 'fedjigsaw\[report\]'"):
            run("report", *files, "-o", tmp_path / "report.html")

    def test_the_output_is_an_input(self, run, files):
        with pytest.raises(DataError, match="is an input"):
            run("report", *files, "-o", files[0], "--force")


def test_an_existing_page_is_kept(run, files, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("mine")
    with pytest.raises(DataError, match="already exists. Use --force"):
        run("report", *files, "-o", page)
    assert page.read_text() == "mine"
    assert run("report", *files, "-o", page, "--force").exit_code == 0
    assert page.read_text() != "mine"
