"""The command demo as a user sees it: output, files, errors."""

import json
from pathlib import Path

import pytest

from fedjigsaw.comparison.demo import SHOWN
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.kernels.compiled import COMPILING, tell_compiling


@pytest.mark.slow
class TestDemo:
    def test_table_and_picture(self, shell, tmp_path):
        done = shell("demo", "--out", tmp_path / "demo.png")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
        for word in ("FeCA", "Centralized", "centers", "l2", "purity", "nmi", "bytes", "seconds"):
            assert word in done.stdout
        assert "Support of each cluster" in done.stdout
        assert done.stderr in ("", f"{COMPILING}\n")

    def test_it_says_once_that_code_is_compiled(self, run, tmp_path, monkeypatch):
        def compile_twice(seed, *, track):
            tell_compiling()
            tell_compiling()
            raise FedJigsawError("enough")

        told = []
        monkeypatch.setattr("fedjigsaw.cli.demo.run_demo", compile_twice)
        monkeypatch.setattr("fedjigsaw.cli._shared.err.print", told.append)
        with pytest.raises(FedJigsawError, match="enough"):
            run("demo", "--out", tmp_path / "demo.png")
        tell_compiling()  # after the command, nobody listens
        assert told == [COMPILING]

    def test_json_in_place_of_an_existing_picture(self, run, tmp_path):
        picture = tmp_path / "demo.svg"
        picture.write_text("mine")
        with pytest.raises(FedJigsawError, match="already exists. Use --force"):
            run("demo", "--out", picture)
        assert picture.read_text() == "mine"
        found = json.loads(run("demo", "--json", "--out", picture, "--force").stdout)
        assert [row["method"] for row in found["rows"]] == list(SHOWN)
        assert found["rows"][0]["n_found"] == 15
        assert Path(found["picture"]).read_bytes().startswith(b"<?xml")
        assert set(found["support"]) == {"clients", "points", "spread", "margin"}
        assert sum(found["support"]["points"]) == 2000

    def test_bad_places_are_refused_before_the_work(self, run, tmp_path):
        with pytest.raises(FedJigsawError, match="there is no folder"):
            run("demo", "--out", tmp_path / "no" / "demo.png")
        with pytest.raises(FedJigsawError, match="name of a picture must end in"):
            run("demo", "--out", tmp_path / "demo.bmp")


@pytest.mark.parametrize("k", ["0", "-3", "many", "1.5"])
@pytest.mark.parametrize("command", ["compare", "aggregate", "summarize"])
def test_no_number_at_all(run, command, k):
    assert run(command, "x", "-o", "y", f"-k={k}").exit_code == 2


def test_an_error_shows_the_option_of_its_parameter(shell):
    words = ["compare", "--dataset", "iris", "--clients", "3", "--method", "feca"]
    for more, option in (
        (["-p", "refine=perhaps"], "(option -p refine=...)"),
        (["--clients", "6000", "--split", "iid"], ""),
        (["-k", "auto"], "(option -k)"),
        (["--split", "column"], "(option --by)"),
    ):
        done = shell(*words, *more)
        assert done.returncode in (2, 3)
        assert done.stderr.strip().endswith(option)
