"""Logs as text and as JSON: levels, runs, rotation, and nothing of the data in JSON."""

import ast
import io
import json
import logging
import os
import stat

import pytest

from fedjigsaw.errors import DataError
from fedjigsaw.flower import logs, processes
from pages_as_code import ROOT

pytestmark = pytest.mark.federation
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


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_others_on_the_machine_cannot_read_a_log(log, tmp_path, usual_umask):
    """A log as text may quote a cell; a folder that was sent as an archive may be open to all."""
    logger, lines = log()
    logger.warning("first")
    path = tmp_path / "site.log"
    assert mode(path) == 0o600
    path.rename(tmp_path / "old.log")
    logger.warning("second")
    assert len(lines()) == 1
    assert mode(path) == 0o600
    path.unlink()
    processes.Follower(path).file.close()
    assert mode(path) == 0o600
    with processes.running("fedjigsaw.flower.processes", folder=tmp_path):
        pass
    assert mode(tmp_path / "flower.log") == 0o600


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


def test_nor_does_a_traceback_that_another_handler_has_written_before(log):
    other = logging.StreamHandler(io.StringIO())
    logging.getLogger("fedjigsaw").addHandler(other)  # it comes first, and leaves its text
    logger, lines = log()
    try:
        raise ValueError("a\nb\x1b")
    except ValueError:
        logger.exception("failed")
    assert all(line.startswith("  ") and line.isprintable() for line in lines()[1:])


def test_json_has_time_level_site_run_and_event(log):
    logger, lines = log("json", "info", "bern")
    logs.bind(run="20260131-235959-0123abcd")
    logger.info("sending %d bytes", 12, extra=logs.told("answer", bytes=12))
    logger.info("connected to the server; all is well")
    first, second = map(json.loads, lines())
    assert first["time"].startswith("20")
    assert first["time"].endswith("+00:00")
    assert (first["level"], first["site"], first["event"]) == ("info", "bern", "answer")
    assert (first["run"], first["bytes"]) == ("20260131-235959-0123abcd", 12)
    assert first["message"] == "sending 12 bytes"
    assert second["event"] == "connected_to_the_server"


def test_what_a_server_says_about_a_run_cannot_forge_a_line(log):
    logger, lines = log("json")
    logs.bind(run='x"}\n{"level": "error"' + "y" * 99)
    logger.info("hello")
    (line,) = lines()
    assert set(json.loads(line)["run"]) <= set("xlevelrroy")
    assert json.loads(line)["part"] == "server"


@pytest.mark.parametrize("level", logs.LEVELS)
def test_levels(log, level):
    logger, lines = log("json", level, "bern")
    for name in logs.LEVELS:
        getattr(logger, name)("hello")
    assert [json.loads(line)["level"] for line in lines()] == list(
        logs.LEVELS[logs.LEVELS.index(level) :]
    )


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

    def test_text_has_it_for_the_people_at_the_site(self, log):
        logger, lines = log("text", "info", "bern")
        logger.warning("got %r", SECRET)
        assert SECRET in "".join(lines())

    @pytest.mark.parametrize("style", logs.FORMATS)
    def test_a_plain_mistake_is_one_line(self, log, style):
        """Its text may quote a cell or a question: it adds no line, and nothing to JSON."""
        logger, lines = log(style, "info", "bern")
        try:
            try:
                raise OSError("no such file")
            except OSError as error:
                raise DataError(f"Cannot read %s\n2026 ERROR {SECRET}.") from error
        except DataError:
            told = logs.told("failure", category="data")
            logger.exception("failed; the server learns only %r", "data", extra=told)
        (line,) = lines()
        if style == "json":
            assert SECRET not in line
            assert json.loads(line)["exception"] == "DataError"
        else:
            assert line.endswith(f"only 'data': Cannot read %s\\n2026 ERROR {SECRET}.")

    def test_the_text_of_a_log_call_is_a_constant(self):
        """In JSON the text in the source is written as it is, so no value may be part of it."""
        found = 0
        for path in (ROOT / "src" / "fedjigsaw").rglob("*.py"):
            tree = ast.parse(path.read_text())
            functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
            for function in functions:
                for call in _log_calls(function):
                    text = call.args[1 if call.func.attr == "log" else 0]
                    constant = isinstance(text, ast.Constant) or _is_constant(text, function)
                    assert constant, f"{path}:{call.lineno}"
                    found += 1
        assert found > 10


def _log_calls(function):
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "logger":
                yield node


def _is_constant(node, function):
    """A name that is given nothing but constants in its function."""
    if not isinstance(node, ast.Name):
        return False
    given = [
        each.value
        for each in ast.walk(function)
        if isinstance(each, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == node.id for target in each.targets)
    ]
    return bool(given) and all(isinstance(value, ast.Constant) for value in given)


class TestRotation:
    def test_a_log_that_was_moved_away_is_made_anew(self, log, tmp_path):
        logger, lines = log()
        logger.info("before")
        (tmp_path / "site.log").rename(tmp_path / "site.log.1")
        logger.info("after")
        assert [line.split()[-1] for line in lines()] == ["after"]
        assert "before" in (tmp_path / "site.log.1").read_text()

    @pytest.mark.parametrize("how", ["moved", "truncated"])
    def test_who_follows_a_log_goes_on(self, tmp_path, how):
        path = tmp_path / "a.log"
        path.write_text("old\n")
        follower = processes.Follower(path)
        with path.open("a") as file:
            file.write("one is a long line\n")
        assert list(follower.lines()) == ["one is a long line"]
        if how == "moved":
            path.rename(tmp_path / "a.log.1")
            assert list(follower.lines()) == []
        else:
            path.write_text("")
        path.write_text("two\n")
        assert list(follower.lines()) == ["two"]
        assert list(follower.lines()) == []
        follower.file.close()


def test_a_style_reaches_other_processes(monkeypatch):
    style = logs.Style("json", "warning", "bern 2")
    for name, value in style.variable().items():
        monkeypatch.setenv(name, value)
    assert logs.Style.of_process() == style
    monkeypatch.delenv(logs.LOG)
    assert logs.Style.of_process() == logs.Style()
