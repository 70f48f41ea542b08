"""What commands tell about the files that they read, and what they refuse."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedjigsaw.cli import app
from fedjigsaw.errors import DataError
from fedjigsaw.io import formats
from raising import raises

RNG = np.random.default_rng(0)
ROWS = RNG.normal(50, 10, (60, 2)).round(2)


def run(words, folder):
    done = CliRunner().invoke(app, [w.replace("@", str(folder)) for w in words.split()])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture
def german(tmp_path):
    """A file as German hospitals have it: ids, semicolons, decimal commas, Windows-1252."""
    lines = [f"{j};{a};{b}".replace(".", ",") for j, (a, b) in enumerate(ROWS)]
    text = "\r\n".join(["patient_id;größe;bmi", *lines, ""])
    (tmp_path / "bern.csv").write_bytes(text.encode("cp1252"))
    return tmp_path


COMMANDS = ["stats @/bern.csv -o @/out", "summarize @/bern.csv -k 2 -o @/out"]
TOLD = "bern.csv: semicolons between columns, decimal comma, Windows-1252."


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_tells_once_how_a_file_is_written(german, words):
    done = run(words, german)
    said = " ".join(done.stderr.split())
    assert said.count(TOLD) == 1
    assert said.count("'patient_id' looks like an identifier and is left out") == 1
    assert formats.load_any(german / "out").columns == ("größe", "bmi")


def test_commands_with_a_model_tell_it_too_and_warn_of_nothing(german):
    run("stats @/bern.csv -o @/b.stats --columns größe,bmi", german)
    run("scaler @/b.stats -o @/scaler.json", german)
    for words in (
        "summarize @/bern.csv -k 2 -o @/b.summary --scaler @/scaler.json",
        "aggregate @/b.summary -k 2 -o @/model",
        "assign @/bern.csv --model @/model -o @/labels.csv --id patient_id",
        "score @/bern.csv --model @/model",
    ):
        done = run(words, german)
        assert "identifier" not in done.stderr
        assert (TOLD in " ".join(done.stderr.split())) == ("bern.csv" in words)


def test_plain_files_are_read_without_a_word(tmp_path):
    (tmp_path / "bern.csv").write_text("age,bmi\n" + "".join(f"{a},{b}\n" for a, b in ROWS))
    for words in COMMANDS:
        assert run(words.replace("out", words.split()[0]), tmp_path).stderr == ""


@pytest.mark.parametrize("words", [*COMMANDS, "compare @/bern.csv -k 2 -o @/out.png"])
def test_the_first_row_of_a_file_without_header_stays(tmp_path, words):
    lines = [f"{a},{b}" for a, b in ROWS.tolist()]
    (tmp_path / "bern.csv").write_text("\n".join(lines))
    done = CliRunner().invoke(app, words.replace("@", str(tmp_path)).split())
    assert isinstance(done.exception, DataError)
    assert done.exception.file == str(tmp_path / "bern.csv")
    said = done.output + str(done.exception).replace(str(tmp_path), "")
    assert not any(str(value) in said for value in ROWS[0].tolist())
    assert [path.name for path in tmp_path.iterdir()] == ["bern.csv"]


def test_under_privacy_columns_must_be_named(german):
    bounds = "--epsilon 1 --bounds 0,200"
    for words in COMMANDS:
        cells = " --cells own" * words.startswith("summarize")
        with raises(DataError, file="bern.csv", parameter="columns"):
            run(f"{words} {bounds}{cells}", german)
        assert not (german / "out").exists()
    assert not list(german.glob("*.jsonl"))


DOUBTFUL = [
    *(f"{words} --columns x" for words in COMMANDS),
    "schema init @/bern.csv -o @/out",
    "schema check @/bern.csv --schema @/schema.toml",
    "schema apply @/bern.csv --schema @/schema.toml -o @/out.parquet",
]


@pytest.mark.parametrize("words", DOUBTFUL)
def test_the_option_that_is_named_settles_what_a_number_is(tmp_path, words):
    rows = "".join(f"{n % 9},{'fm'[n % 2]}\n".replace(",", ";") for n in range(40))
    (tmp_path / "bern.csv").write_text(f"x;sex\n7.470;f\n{rows}")
    (tmp_path / "schema.toml").write_text('format = 1\n[columns.x]\nkind = "number"\n')
    with raises(DataError, "7.47 or 7470", file="bern.csv", row=1, column="x"):
        run(words, tmp_path)
    run(f"{words} --decimal ,", tmp_path)
    if words.startswith("stats"):
        total = 7470 + sum(n % 9 for n in range(40))
        assert formats.load_any(tmp_path / "out").mean[0] == pytest.approx(total / 41)


@pytest.mark.parametrize(
    "words",
    [
        *COMMANDS,
        "stats @/no.csv -o @/out --schema @/no.toml",
        "scaler @/no.stats -o @/out",
        "scaler --bounds @/no.json -o @/out",
        "aggregate @/no.summary -k 2 -o @/out",
        "assign @/no.csv --model @/no -o @/out.csv",
        "score --merge @/no.score",
        "report @/no -o @/out.html",
        "diff @/no @/no",
        "inspect @/no.jsonl",
        "schema check @/no.csv --schema @/no.toml",
        "methods --plugin @/no.py",
        "federation site @ --data @/no.csv --config @/no.toml",
    ],
)
def test_a_file_that_is_missing_has_one_exit_code(tmp_path, words):
    done = CliRunner().invoke(app, words.replace("@", str(tmp_path)).split())
    assert Path(done.exception.file).stem in words
    assert done.exception.exit_code == DataError.exit_code
