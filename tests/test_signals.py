"""Signals that end a process become one exception, unless they are to be ignored."""

import signal

import pytest

from fedjigsaw import _signals
from fedjigsaw._signals import exit_code, holding_signals, stopped_by_signals


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_interrupt_and_tell_their_exit_code(handled, name):
    handled(signal.SIG_DFL)
    number = getattr(signal, name)
    with pytest.raises(KeyboardInterrupt) as stop, stopped_by_signals():
        signal.raise_signal(number)
    assert exit_code(stop.value) == 128 + number
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_what_was_ignored_stays_ignored(handled, name):
    handled(signal.SIG_IGN)
    with stopped_by_signals():
        signal.raise_signal(getattr(signal, name))
    assert signal.getsignal(getattr(signal, name)) is signal.SIG_IGN


def test_jobs_in_the_background_heed_ctrl_c_if_they_want(handled):
    handled(signal.SIG_IGN)
    with stopped_by_signals(in_background=True):
        signal.raise_signal(signal.SIGHUP)  # as with nohup
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_waits_for_the_end_of_a_block_that_holds_it(handled, name):
    handled(signal.SIG_DFL)
    number, reached = getattr(signal, name), []

    def press_twice():  # as many do
        with stopped_by_signals(), holding_signals():
            signal.raise_signal(number)
            signal.raise_signal(signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt) as stop:
        press_twice()
    assert (reached, exit_code(stop.value)) == ([True], 128 + number)
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_signal_that_comes_seconds_later_is_not_held(handled, monkeypatch):
    handled(signal.SIG_DFL)
    monkeypatch.setattr(_signals, "monotonic", iter([1.0, 1.0, 9.0]).__next__)

    def press_again():
        with stopped_by_signals(), holding_signals():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("it was held")

    with pytest.raises(KeyboardInterrupt) as stop:
        press_again()
    assert exit_code(stop.value) == 130
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


def test_a_signal_that_is_ignored_is_not_held(handled):
    handled(signal.SIG_IGN)
    with holding_signals():
        signal.raise_signal(signal.SIGHUP)
