"""Commands speak of options where the package speaks of parameters."""

import ast
import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import fedjigsaw
from builders import write_table
from fedjigsaw import sites
from fedjigsaw.cli import _app
from fedjigsaw.cli._spelling import as_options, as_sites, command_of
from fedjigsaw.errors import DataError
from fedjigsaw.io.tables import from_array
from fedjigsaw.sites import Changes


@pytest.mark.parametrize(
    ("command", "message", "printed"),
    [
        ("summarize", "Use cells='shared' at all sites.", "Use --cells shared at all sites."),
        (
            "summarize",
            "cells='shared' requires n_rounds=1.",
            "--cells shared requires -p n_rounds=1.",
        ),
        ("summarize", "fewer than min_cluster_size = 5, so", "fewer than --min-cluster-size 5, so"),
        ("summarize", "Use delta=1e-05.", "Use --delta 1e-05."),
        ("aggregate", "n_clusters='auto' needs sums", "-k auto needs sums"),
        ("aggregate", "set noise=False.", "set -p noise=false."),
        ("scaler", "set robust=False.", "set --no-robust."),
        ("aggregate", "counts='exact' or 'rounded'.", "--counts exact or rounded."),  # at sites
        ("score", "needs a profile: profile=True.", "needs a profile: --profile."),
        ("aggregate", "go on without it: min_sites=4.", "go on without it: --min-sites 4."),
        ("summarize", "Skip rows with drop_missing=True, or", "Skip rows with --drop-missing, or"),
        (
            "aggregate",
            "the region as many (n_centers=9), so",
            "the region as many (--centers 9), so",
        ),
        ("deep train", "needs. Use split='iid'.", "needs. Use --split iid."),
        ("federation site", "Use unit='row', or no profile.", "Use --unit row, or no profile."),
        (
            "summarize",
            "Name the columns to use (columns=...).",
            "Name the columns to use (--columns).",
        ),
        ("aggregate", "for a plain name (client=...).", "for a plain name (--client)."),  # at sites
        ("stats", "rows may not leave (min_rows=5).", "rows may not leave (--min-cluster-size 5)."),
        ("assign", "Use replace=True to overwrite it.", "Use --force to overwrite it."),
        ("deep train", "with n_init=20, not", "with -p n_init=20, not"),
    ],
)
def test_parameters_are_spelled_as_options(command, message, printed):
    assert as_options(message, command_of(command.split())) == printed


@pytest.mark.deep
@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("with n_rounds=6, not 8.", "with --rounds 6, not 8."),
        ("with random_state=0, not 1.", "with --seed 0, not 1."),
        ("with clusterer='feca', not", "with --method feca, not"),
        ("fewer than min_cluster_size = 60.", "fewer than -s min_cluster_size=60."),
        ("with norm='batch', not", "with -s norm=batch, not"),
        ("with reseed=True, not", "with -s reseed=true, not"),
        ("with (learning_rate=...).", "with (-s learning_rate=...)."),
    ],
)
def test_settings_of_deepfeca_are_spelled_as_options(message, printed):
    pytest.importorskip("torch")
    assert as_options(message, command_of(["deep", "train"])) == printed


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("Client 'a' has 3 rows", "Site 'a' has 3 rows"),
        ("counts of client 'a client' must", "counts of site 'a client' must"),
        ("2 of 5 clients sent none, so the client's rows", "2 of 5 sites sent none, so the site's rows"),
        ("Give a plain name (--client).", "Give a plain name (--client)."),
        ("x.csv has no column 'client'.", "x.csv has no column 'client'."),
        ("Cannot read client.csv or client/x.csv", "Cannot read client.csv or client/x.csv"),
    ],
)  # fmt: skip
def test_a_client_is_called_a_site(message, printed):
    assert as_sites(message, command_of(["summarize"])) == printed
    assert as_sites(message, command_of(["compare"])) == message  # which has --clients


@pytest.mark.parametrize(
    "name",
    ["my client data.csv", "./my client data/out", "my client data", "--columns=my client"],
)
def test_names_that_were_typed_stay(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shown = name.removeprefix("--columns=")
    for path in (shown, tmp_path / shown):
        message = f"Client 'a': {path} exists, as clients know"
        printed = as_sites(message, command_of(["summarize"]), ["summarize", name])
        assert printed == f"Site 'a': {path} exists, as sites know"


def test_the_current_folder_stays(monkeypatch, tmp_path):
    folder = tmp_path / "my client data"
    folder.mkdir()
    monkeypatch.chdir(folder)
    message = f"{folder} has no files of 2 clients, nor has {folder}/x"
    printed = as_sites(message, command_of(["summarize"]), ["summarize", "x"])
    assert printed == message.replace("clients", "sites")


@pytest.mark.parametrize(
    "name",
    [
        *("/data/my client data/out.st", "/data/my client data.csv", "out/the client list/x"),
        *(r"C:\my client data\x.csv", r"data\client list.csv", r"a\client", "a/b client.tar.gz"),
        *map(repr, ("the client's data", 'the client\'s "own" data', "a\\client b\\", "a\nclient")),
    ],
)
def test_paths_and_names_in_quotes_stay(name):
    """A name may come from a setting or a folder, so that nobody typed it."""
    message = f"Cannot read {name}: client 'b' sent it. All clients have {name} now. Ask the client"
    printed = f"Cannot read {name}: site 'b' sent it. All sites have {name} now. Ask the site"
    assert as_sites(message, command_of(["summarize"])) == printed


def test_a_command_is_found_behind_options_of_its_group():
    assert command_of(["data", "--json", "fetch", "ssets"]).name == "fetch"
    assert command_of(["data", "--json"]).name == "data"


def test_names_of_columns_stay():
    own, wanted = from_array([[1.0, 2.0]], ["age", "client"]), ["age", "dose"]
    with pytest.raises(DataError, match=r"\('age', 'client'\) differ") as found:
        sites.prepare(own, order=wanted)
    assert as_sites(str(found.value), command_of(["summarize"])) == str(found.value)


@pytest.mark.parametrize(
    "message",
    [
        "noise (aggregate -p noise=true) labels them.",
        "Add -p n_rounds=1.",
        "Jigsaw(n_clusters=3) was made",
        "Cannot read seed=0.csv: no such file.",
        "Cannot read 'seed=0'.",
        "Column 'my dose = 3' is not there.",
        "weight=3 is no parameter",
        "delta = 1e-05 is not far below 1 / rows",
        "force=3, profile='x', profile=...",  # no values of a flag
    ],
)
def test_all_else_stays_as_it_is(message):
    for command in ("summarize", "score"):
        assert as_options(message, command_of([command])) == message
    assert as_options("Use cells='shared'.", None) == "Use --cells shared."  # that of a site


@pytest.mark.parametrize("field", [field.name for field in fields(Changes)])
def test_changes_of_a_file_are_spelled_as_options(field):
    apply = command_of(["schema", "apply"])
    options = [name for option in apply.params for name in option.opts]
    whole = as_options(f"Give Changes.{field}.", apply)
    assert whole.removeprefix("Give ").removesuffix(".") in options
    one = as_options(f"Give Changes.{field}['my dose'].", apply)
    assert one.startswith(whole.removesuffix("."))
    assert "Changes" not in one


def test_a_change_of_a_column_is_spelled_as_an_option_with_its_value():
    advice = "Give the factor (Changes.factors['my dose']), or Changes.names['dose']."
    assert as_options("""Changes.units["it's"]""", None) == "--unit '" + """it'"'"'s=...'"""
    assert (
        as_options(advice, None)
        == "Give the factor (--factor 'my dose=...'), or --rename ...=dose."
    )


@pytest.mark.parametrize("name", ["a\\b", "both ' and \"", "ü\n", "Changes.units['x']"])
def test_a_change_has_the_name_of_the_column(name):
    message = f"Column {name!r}: give Changes.units[{name!r}]."
    option = f"--unit {shlex.quote(f'{name}=...')}"
    assert as_options(message, None) == f"Column {name!r}: give {option}."


def test_parameters_in_names_of_files_and_columns_stay():
    stay = r"Column 'a\' n_rounds=1' of /data/my n_rounds=1/x.csv"
    aggregate = command_of(["aggregate"])
    assert as_options(f"{stay}: set n_rounds=1.", aggregate) == f"{stay}: set -p n_rounds=1."


def texts_of_errors(path):
    for node in ast.walk(ast.parse(path.read_text())):
        raises = isinstance(node, ast.Raise)
        warns = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "warn"
        if raises or warns:
            parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            yield "".join(part for part in parts if isinstance(part, str))


def test_the_package_names_options_only_as_such():
    """One who calls it from Python has no options; Flower's parts are started by commands."""
    root = Path(fedjigsaw.__file__).parent
    folders = {path.name for path in root.iterdir() if path.is_dir()} - {"cli", "deep", "flower"}
    paths = [
        *root.glob("*.py"),
        *(path for name in folders for path in (root / name).rglob("*.py")),
    ]
    texts = [text for path in paths for text in texts_of_errors(path)]
    assert len(texts) > 500
    others = [re.sub("`fedjigsaw [^`]+`", "", text) for text in texts]  # commands in whole
    found = [text for text in others if re.search(r"(^|[\s(`])--[a-z]", text)]
    assert [text for text in found if "on the command line" not in text] == []


def test_words_of_the_command_line_stay_as_they_are(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("k=5", "seed=0"):
        monkeypatch.setattr(sys, "argv", ["fedjigsaw", "inspect", name])
        with pytest.raises(SystemExit):
            _app.run()
        assert f"Cannot read {name}: no such file" in " ".join(capsys.readouterr().err.split())
    words = ["-p", "noise=False"]
    assert as_options("Not with noise=False.", command_of(["aggregate"]), words) == (
        "Not with -p noise=false."
    )


def write(folder, n):
    rng = np.random.default_rng(0)
    write_table(folder / "bern.csv", x=rng.random(n), y=rng.random(n))
    return f"summarize {folder}/bern.csv -k 2 -o {folder}/out"


def test_a_warning_of_privacy_names_the_option(run, tmp_path):
    words = f"{write(tmp_path, 6)} --epsilon 0.01 --bounds 0,1 --force --ledger {tmp_path}/l.jsonl"
    # the noise is that of the system: rarely, it makes a cell look as if it had enough rows
    texts = (" ".join(run(words).stderr.split()) for _ in range(10))
    assert any("Use a larger epsilon, or --cells shared at all sites." in text for text in texts)


def test_an_error_names_the_option(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["fedjigsaw", *write(tmp_path, 3).split()])
    with pytest.raises(SystemExit) as ended:
        _app.run()
    assert ended.value.code == DataError.exit_code
    assert "3 rows, fewer than --min-cluster-size 5" in " ".join(capsys.readouterr().err.split())
