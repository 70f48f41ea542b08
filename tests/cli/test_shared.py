"""Parsing of options and checks of outputs, as all commands share them."""

import warnings
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fedjigsaw import errors
from fedjigsaw._steps import listener
from fedjigsaw.cli import _shared
from fedjigsaw.cli._shared import (
    check_outputs,
    count_rows_then,
    parse_params,
    split_names,
)
from fedjigsaw.errors import DataError, UncertainNumberWarning, warn
from fedjigsaw.records.ledger import Ledger


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=False", False), ("a=null", None), ("a=None", None), ("a=3", 3), ("a=b=c", "b=c")],
)
def test_spellings_of_a_parameter(text, value):
    assert parse_params([text]) == {"a": value}


def test_names_are_split_at_commas_outside_quotes():
    assert split_names('"x,1", y') == ["x,1", "y"]
    assert split_names(None) is None


def test_a_terminal_shows_the_time_left_once_steps_are_told(monkeypatch):
    """After 6 s, 3 of 10 restarts are done: 14 s are left."""
    shown, clock = StringIO(), iter([0.0, 10.0, 16.0, *[16.0] * 100])
    monkeypatch.setattr(_shared, "err", Console(file=shown, force_terminal=True, width=100))
    monkeypatch.setattr(_shared, "perf_counter", lambda: next(clock))
    with count_rows_then("Rows", 70, "Clustering") as (_, start):
        start(1234)
        assert "left" not in shown.getvalue()
        listener.get()(3, 10)
    assert "about 14 s left" in shown.getvalue()
    listener.get()(4, 10)  # nobody listens any more


class TestOutputs:
    def test_a_link_is_a_result_too_even_if_it_leads_nowhere(self, tmp_path):
        (tmp_path / "a").symlink_to(tmp_path / "nowhere")
        with pytest.raises(DataError, match="a already exists. Use --force"):
            check_outputs(tmp_path / "a", force=False)
        check_outputs(tmp_path / "a", force=True)

    def test_nor_is_a_ledger_whatever_the_inputs_are(self, tmp_path):
        Ledger(tmp_path / "ledger.jsonl").set_limit(1.0)
        (tmp_path / "link").symlink_to(tmp_path / "ledger.jsonl")
        for name in ("ledger.jsonl", "link"):
            with pytest.raises(DataError, match="ledger"):
                check_outputs(tmp_path / name, force=True)

    @pytest.mark.parametrize("force", [True, False])
    def test_a_device_is_never_replaced(self, force):
        with pytest.raises(DataError, match="is a pipe or a device"):
            check_outputs(Path("/dev/null"), force=force)

    @pytest.mark.parametrize("mode", [0o500, 0o000])
    def test_a_folder_without_permission(self, with_modes, mode):
        folder, block = with_modes
        folder.chmod(mode)
        with block(), pytest.raises(DataError, match="Cannot write .*: permission denied"):
            check_outputs(folder / "a", force=False)


def test_all_warnings_of_the_package_are_printed_and_no_others(monkeypatch):
    shown = StringIO()
    monkeypatch.setattr(_shared, "err", Console(file=shown, soft_wrap=True))
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        with _shared.warnings_shown(but=[UncertainNumberWarning]):
            for kind in _shared.WARNINGS:
                warn(f"Told by {kind.__name__}.", kind)
            warnings.warn("of another package", DeprecationWarning, stacklevel=1)
    assert [str(other.message) for other in others] == ["of another package"]
    told = {line.removeprefix("Warning: ") for line in shown.getvalue().splitlines()}
    public = {name for name in vars(errors) if name.endswith("Warning")}
    assert told == {f"Told by {name}." for name in public - {"UncertainNumberWarning"}}
