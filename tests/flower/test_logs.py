"""Logs: private, one line each, and nothing of the data in JSON."""

import json
import logging
import os
import stat

import pytest

from fedjigsaw.flower import logs, processes

SECRET = "4711-Meier"


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Log to a file in a style; return the logger and what was written, line by line."""
    own = logging.getLogger("fedjigsaw")
    before = own.handlers[:], own.level, own.propagate
    own.handlers.clear()
    monkeypatch.setattr(logs, "bound", {})
    path = tmp_path / "site.log"

    def start(*style):
        for name, value in logs.Style(*style).variable().items():
            monkeypatch.setenv(name, value)
        logs.log_to(path)
        return logging.getLogger("fedjigsaw.test"), lambda: path.read_text().splitlines()

    yield start
    for handler in own.handlers:
        handler.close()
    own.handlers[:], own.level, own.propagate = before


def test_others_on_the_machine_cannot_read_a_log(log, tmp_path):
    """A log as text may quote a cell; a folder that was sent as an archive may be open to all."""
    before = os.umask(0o022)
    try:
        logger, lines = log()
        logger.warning("first")
        path = tmp_path / "site.log"
        path.rename(tmp_path / "old.log")
        logger.warning("second")
        assert len(lines()) == 1
        with processes.running("fedjigsaw.flower.processes", folder=tmp_path):
            pass
    finally:
        os.umask(before)
    for name in ("old.log", "site.log", "flower.log"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("sign", ["\n", "\r", "\u2028", "\x1b[2J", "\x07", "\u202e"])
def test_what_a_server_sent_adds_no_line_and_no_control_character_to_a_text(log, sign):
    logger, lines = log()
    method = f"a{sign}2026-01-01 00:00:00,000 INFO all is well" + "." * 100_000
    logger.info("received a question: round %d of %s", 0, method)
    try:
        raise ValueError(method)
    except ValueError:
        logger.exception("failed")
    first, second, *traceback = lines()
    assert [" INFO received a question" in first, second.endswith(" ERROR failed")] == [True, True]
    assert all(line.startswith("  ") for line in traceback)
    assert all(line.isprintable() and len(line) < 11_000 for line in (first, second, *traceback))


def test_what_a_server_says_about_a_run_cannot_forge_a_line(log):
    logger, lines = log("json")
    logs.bind(run='x"}\n{"level": "error"' + "y" * 99)
    logger.info("hello")
    (line,) = lines()
    assert set(json.loads(line)["run"]) <= set("xlevelrroy")
    assert json.loads(line)["part"] == "server"


class TestNoDataInJson:
    def test_no_argument_unless_it_was_told(self, log):
        logger, lines = log("json", "debug", "bern")
        logger.warning("%s", f"value of column 'name' is {SECRET}")
        logger.warning("row %d: got %r", 17, SECRET)
        assert SECRET not in "".join(lines())
        assert [json.loads(line)["message"] for line in lines()] == ["%s", "row %d: got %r"]

    def test_no_text_of_an_exception_nor_of_its_causes(self, log):
        logger, lines = log("json", "debug", "bern")

        class UnkindError(ValueError):
            pass

        try:
            try:
                raise KeyError(SECRET)
            except KeyError as error:
                raise UnkindError(f"cell {SECRET}") from error
        except UnkindError as error:
            error.add_note(SECRET)
            logger.exception("failed; the server learns only %r", "data")
            logger.error("failed", exc_info=error, stack_info=True, extra=logs.told("failure"))
        assert SECRET not in "".join(lines())
        first, second = map(json.loads, lines())
        assert first["exception"] == second["exception"] == "UnkindError"
        assert first["raised"].startswith("test_logs.py:")
