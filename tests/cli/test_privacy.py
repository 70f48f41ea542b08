"""The commands about a site's privacy budget."""

import json

import pytest

from builders import write_table
from fedjigsaw.cli import _shared
from fedjigsaw.errors import BudgetError, DataError, MessageError, ParameterError
from fedjigsaw.privacy.dp import multiplier_for
from fedjigsaw.records.fingerprints import fingerprint
from fedjigsaw.records.journal import Journal
from fedjigsaw.records.ledger import LEDGER, Ledger

DELTA = 1e-6


@pytest.fixture
def data(tmp_path):
    """A data file, with a ledger of two releases beside it: one before and one after a change."""
    (tmp_path / "bern.csv").write_text("x\n1\n")
    ledger = Ledger(tmp_path / LEDGER)
    ledger.set_limit(4.0, DELTA)
    one, two = (multiplier_for(epsilon, DELTA) for epsilon in (1.0, 2.0))
    ledger.confirm(ledger.spend("bern", "ab" * 32, "statistics", one, DELTA))
    ledger.spend("bern", "cd" * 32, "[red]summary", two, DELTA, unit="site", to="Anna")
    return tmp_path / "bern.csv"


def said(result):
    return " ".join(result.output.split())


@pytest.mark.parametrize("place", ["bern.csv", ".", LEDGER])
def test_status_says_in_words_what_is_spent_and_left(run, data, place):
    text = said(run("privacy", "status", data.parent / place))
    for part in (
        "statistics │ the coordinator │ bern abababab │ 1 │ 1e-06 │ each row │ written",
        "[red]summary │ Anna │ bern cdcdcdcd │ 2 │ 1e-06 │ the site │ not confirmed",
        "Spent: epsilon 2.284 at delta 1e-06.",
        "of all releases in this ledger is at most 9.82 times as likely, plus 1e-06.",
        "Left: a release with epsilon 3.11 at delta 1e-06.",
        "The data changed between releases.",
    ):
        assert part in text


def test_what_status_says_is_left_can_be_spent_and_no_more(run, data):
    ledger = Ledger(data.parent / LEDGER)
    ledger.spend("bern", "cd", "summary", multiplier_for(3.11, DELTA), DELTA)
    with pytest.raises(BudgetError):
        ledger.spend("bern", "cd", "summary", multiplier_for(0.5, DELTA), DELTA)


def test_status_as_json(run, data):
    found = json.loads(run("privacy", "status", data, "--json").output)
    assert found["ledger"] == str(data.parent / LEDGER)
    assert found["limit"] == {"epsilon": 4.0, "delta": DELTA}
    (account,) = found["data_sets"]
    assert [release["what"] for release in account["releases"]] == ["statistics", "[red]summary"]
    assert account["spent"] == pytest.approx(2.284, abs=1e-3)
    assert account["factor"] == pytest.approx(9.82, abs=1e-2)
    assert account["left"] == pytest.approx(3.11, abs=1e-2)
    assert account["changed"] is True


def test_a_release_without_privacy_has_no_bound(run, data):
    ledger = Ledger(data.parent / "other.jsonl")
    ledger.spend("bern", "ab", "summary", 5.0, DELTA)
    ledger.spend("bern", "ab", "summary", None, None)
    assert "Spent: no bound" in said(run("privacy", "status", ledger.path))
    output = run("privacy", "status", ledger.path, "--json").output
    (account,) = json.loads(output, parse_constant=pytest.fail)["data_sets"]
    assert account["spent"] is account["left"] is account["factor"] is None


def test_without_a_ledger_nothing_is_said_about_files_without_noise(run, tmp_path):
    assert "may have left" in said(run("privacy", "status", tmp_path))
    assert json.loads(run("privacy", "status", tmp_path, "--json").output)["data_sets"] == []
    assert not list(tmp_path.iterdir())


def test_answers_without_noise_are_counted_from_the_journal(run, tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.add("question", method="jigsaw")
    journal.add("answer", to=0, centers=3)
    journal.add("answer", to=0, centers=3, repeated=True)
    journal.add("answer", to=0, centers=3, privacy={"epsilon": 1.0})
    journal.add("answer", to=0, task="score")
    found = json.loads(run("privacy", "status", tmp_path, "--json").output)
    assert found["answers_without_noise"] == 2
    assert "2 answers without noise" in said(run("privacy", "status", tmp_path))
    run("privacy", "set-limit", tmp_path, "--epsilon", 1)
    assert "2 answers without noise" in said(run("privacy", "status", tmp_path))


class TestCells:
    def chosen(self, run, rows, *words):
        options = "--epsilon", 1, "--sites", 10, "--columns", 2, "-k", 15, *words
        return run("privacy", "cells", "--rows", rows, *options, "--json")

    def test_they_follow_from_public_numbers(self, run):
        assert json.loads(self.chosen(run, 5_000).stdout) == {"cells": "shared"}
        assert json.loads(self.chosen(run, 100_000).stdout) == {"cells": "own"}

    def test_it_warns_of_noise(self, run):
        assert "Warning" not in self.chosen(run, 5_000).output
        assert "Warning" in self.chosen(run, 500).output

    def test_a_summary_needs_them(self, run, tmp_path):
        path = write_table(tmp_path / "bern.csv", x=list(range(300)))
        words = "-k", 2, "-o", tmp_path / "bern.summary", "--epsilon", 5, "--bounds", "0,300"
        with pytest.raises(ParameterError, match="cells"):
            run("summarize", path, *words)
        assert not (tmp_path / LEDGER).exists()
        run("summarize", path, *words, "--cells", "own")
        assert (tmp_path / "bern.summary").exists()


class TestSetLimit:
    def test_it_holds_for_every_data_set(self, run, tmp_path):
        run("privacy", "set-limit", tmp_path, "--epsilon", 4, "--delta", "1e-7")
        (limit,) = Ledger(tmp_path / LEDGER).account("bern").limits
        assert (limit.epsilon, limit.delta) == (4.0, 1e-7)

    def test_or_for_one(self, run, data):
        text = said(run("privacy", "set-limit", data, "--epsilon", 9, "--data-set", "bern"))
        assert "Left: a release with epsilon 8.5" in text
        ledger = Ledger(data.parent / LEDGER)
        assert ledger.account("bern").limits[0].epsilon == 9.0
        assert ledger.account("basel").limits[0].epsilon == 4.0

    def test_another_name_does_not_avoid_it(self, run, tmp_path):
        write_table(tmp_path / "bern.csv", x=[1.0, 2.0, 3.0])
        run("privacy", "set-limit", tmp_path / "bern.csv", "--epsilon", 1, "--data-set", "bern")
        command = ("stats", tmp_path / "bern.csv", "-o", tmp_path / "out", "--data-set", "other")
        for more in ((), ("--epsilon", 2, "--bounds", "0,9")):
            with pytest.raises(BudgetError, match="'other'"):
                run(*command, *more)
        assert not (tmp_path / "out").exists()
        assert fingerprint(tmp_path / "bern.csv")[:8] in said(run("inspect", tmp_path / LEDGER))

    @pytest.mark.parametrize("place", [".", LEDGER])
    def test_a_ledger_or_a_folder_is_no_data(self, run, data, place):
        words = ("--epsilon", 9, "--data-set", "bern")
        assert "content" not in said(run("privacy", "set-limit", data.parent / place, *words))
        assert Ledger(data.parent / LEDGER).read().limited == ()

    @pytest.mark.parametrize("name", ["berm.csv", "none/ledger"])
    def test_a_mistyped_data_file_is_not_made_a_ledger(self, run, data, name):
        with pytest.raises(DataError, match="no such file"):
            run("privacy", "set-limit", data.parent / name, "--epsilon", 1)

    def test_values_that_are_no_limit(self, run, tmp_path):
        with pytest.raises(ParameterError, match="epsilon"):
            run("privacy", "set-limit", tmp_path, "--epsilon", 0)


def test_a_changed_ledger_is_an_error_with_its_exit_code(shell, data):
    ledger = data.parent / LEDGER
    ledger.write_bytes(ledger.read_bytes().replace(b'"epsilon":4.0', b'"epsilon":9.0'))
    done = shell("privacy", "status", data)
    assert done.returncode == MessageError.exit_code
    assert "Record 0 was changed" in " ".join(done.stderr.split())


def test_inspect_shows_every_record_and_checks_the_chain(run, data):
    text = said(run("inspect", data.parent / LEDGER))
    assert "of all others: epsilon 4.0 at delta 1e-06" in text
    assert "[red]summary of bern, to Anna" in text
    assert "The chain of hashes holds. The last record is number 3" in text


def test_no_string_of_a_ledger_reaches_the_terminal_as_an_escape(run, tmp_path, capsys):
    escape = "\x1b[2J\x1b[1A\x9b3m"
    journal = Journal(tmp_path / LEDGER)
    names = ("data_set", "what", "to", "fingerprint", "epsilon", "delta", "multiplier", "of")
    for kind in ("spent", "limit", "released", escape):
        journal.add(kind, **dict.fromkeys(names, escape))
    assert "\x1b" not in run("inspect", journal.path).output
    with pytest.raises(MessageError) as caught:
        run("privacy", "status", journal.path)
    _shared.print_error(caught.value)
    assert "\x1b" not in capsys.readouterr().err


def test_nor_does_the_name_of_its_file(run, tmp_path):
    folder = tmp_path / "a\x1b[2Jb"
    folder.mkdir()
    for words in (["set-limit", folder, "--epsilon", 1], ["status", folder]):
        output = run("privacy", *words).output
        assert "\\x1b[2J" in output
        assert "\x1b" not in output
