"""Signals that end a process become one exception, unless they are to be ignored."""

import signal

import pytest

from fedjigsaw.records.signals import exit_code, stopped_by_signals


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
