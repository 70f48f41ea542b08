"""The command score: profiles of sites, and of all sites together."""

import json
from pathlib import Path

import numpy as np
import pytest

from builders import write_table
from fedjigsaw.errors import BudgetError, DataError, MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import Score
from fedjigsaw.records.ledger import LEDGER


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two sites with three groups that differ in age, in dose, and in both; and a model of them."""
    rng = np.random.default_rng(0)
    places = np.array([[20.0, 1.0, 5.0], [80.0, 1.0, 5.0], [50.0, 9.0, 5.0]])
    for name, n in (("bern", 60), ("lyon", 90)):
        rows = np.repeat(places, n, axis=0) + rng.standard_normal((3 * n, 3)) * [2, 0.3, 1]
        age, dose, noise = rows.T
        write_table(tmp_path / f"{name}.csv", **{"age": age, "dose": dose, "[red]noise": noise})
    (tmp_path / "columns.json").write_text(
        '{"dose": [0, 10], "age": [0, 120], "[red]noise": [0, 10]}'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shown(run, folder):
    """Run a command in the folder and return what it printed; the model is there already."""

    def execute(line):
        return " ".join(run(line).stdout.split())

    for name in ("bern", "lyon"):
        execute(f"summarize {name}.csv -k 3 -o {name}.summary")
    execute("aggregate bern.summary lyon.summary -k 3 -o model")
    return execute


def test_profiles_of_two_sites(shown):
    shown("score bern.csv --model model --profile -o bern.score")
    shown("score lyon.csv --model model --profile -o lyon.score")
    both = shown("score --merge bern.score lyon.score --model model")
    assert "│ 0 │ 150 │ 60 │ 90 │ lower age (mean 20, all rows: 50)" in both
    assert "│ higher dose (mean 9." in both
    assert "[red]noise" not in both
    assert "higher dose" in shown("score --merge bern.score lyon.score")  # without the model
    found = json.loads(shown("score --merge bern.score lyon.score --model model --json"))
    assert found["sites"] == {"bern": [60, 60, 60], "lyon": [90, 90, 90]}
    first = found["clusters"][0]
    assert (first["rows"], first["rows_by_site"]) == (150, {"lyon": 90, "bern": 60})
    assert (first["apart"][0]["column"], first["apart"][0]["category"]) == ("age", None)
    columns = {one["column"]: one for one in first["columns"]}
    assert columns["age"]["mean"] == pytest.approx(20, abs=1)
    assert first["nearest"] in (1, 2)
    assert first["support"]["clients"] == 2


def test_the_guard_is_an_option(shown):
    assert "the guard hides" in shown(
        "score bern.csv --model model --profile --min-cluster-size 61"
    )
    shown("score bern.csv --model model --profile --min-cluster-size 1 -o bern.score")
    assert formats.load(Path("bern.score"), Score).profile.min_cluster_size == 1
    assert "(guard, as stated by the sender: none)" in shown("inspect bern.score")


def test_inspect_lists_what_a_profile_says(shown):
    shown("score bern.csv --model model --profile -o bern.score")
    text = shown("inspect bern.score")
    assert " 2: age 80 (n 60, sum of squares 320); dose " in text
    assert "[red]noise 5" in text


class TestPrivacy:
    PRIVATE = (
        "score bern.csv --model model --profile -o bern.score --epsilon 4 --bounds columns.json"
    )

    def test_a_private_profile_is_charged_and_noisy(self, shown):
        assert "Spent on 'bern' so far: epsilon 4 at delta 1e-06" in shown(self.PRIVATE)
        assert formats.load(Path("bern.score"), Score).privacy.epsilon == 4
        inspected = shown("inspect bern.score")
        assert "Differential privacy, stated by the sender: epsilon 4" in inspected
        assert "the model, however it was made" in inspected
        assert "age 0 to 120" in inspected

    def test_a_limit_holds(self, shown):
        shown(f"privacy set-limit {LEDGER} --epsilon 5")
        shown(self.PRIVATE)
        with pytest.raises(BudgetError, match="does not allow this release"):
            shown(self.PRIVATE + " --force")
        with pytest.raises(BudgetError, match="without noise"):
            shown("score bern.csv --model model --profile -o other.score")
        assert not Path("other.score").exists()

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ("--epsilon 1 --bounds 0,100", "--profile"),
            ("--profile --epsilon 1", "--bounds"),
            ("--profile --bounds 0,1", "--epsilon"),
            ("--profile --epsilon 1 --bounds 0,1 --min-cluster-size 3", "--min-cluster-size"),
        ],
    )
    def test_options_that_do_not_fit(self, shown, options, told):
        with pytest.raises(ParameterError, match=told):
            shown(f"score bern.csv --model model {options}")


def test_another_model_is_refused(shown):
    shown("score bern.csv --model model --profile -o bern.score")
    shown("aggregate bern.summary lyon.summary -k 2 -o other")
    with pytest.raises(MessageError, match="other"):
        shown("score --merge bern.score --model other")


def test_a_damaged_profile_is_refused_with_the_name_of_the_file(shown):
    shown("score bern.csv --model model --profile -o bern.score")
    content = Path("bern.score").read_bytes()
    Path("bad.score").write_bytes(content.replace(b"profile.mean", b"profile.maen"))
    with pytest.raises(MessageError, match="bad.score"):
        shown("score --merge bad.score")
    with pytest.raises(DataError, match="bern.score"):
        shown("score bern.csv --model model --profile -o bern.score")  # it is there already
