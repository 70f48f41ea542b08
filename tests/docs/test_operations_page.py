"""docs/operations.md names files, metrics and exit codes that exist, and no other."""

import re
import signal

from fedjigsaw.cli.diff import ALARM_CODE
from fedjigsaw.errors import FedJigsawError
from pages_as_code import ROOT, page, section

PAGE = page("docs/operations.md")


def test_every_metric_is_listed_and_no_other(clinic):
    from fedjigsaw.flower import metrics
    from fedjigsaw.records.policy import Policy

    parts = (
        metrics.ServerNumbers(clinic / "server"),
        metrics.SiteNumbers(clinic / "bern", "bern", Policy()),
    )
    known = {
        f"fedjigsaw_{name}" + "_total" * (kind == metrics.COUNTER)
        for part in parts
        for kind, name, *_ in part.read()
    }
    later = {"fedjigsaw_site_connected", "fedjigsaw_epsilon_left"}  # with a server, with a ledger
    assert set(re.findall(r"fedjigsaw_\w+", PAGE)) == known | later


def test_files_exist():
    for name in re.findall(r"deploy/[\w./@-]*\w", PAGE):
        assert list(ROOT.glob(name)), name


def test_every_exit_code_is_listed_and_no_other():
    listed = re.findall(r"^\| (\d+) \|", section(PAGE, "Exit codes"), re.MULTILINE)
    kinds = (FedJigsawError, *FedJigsawError.__subclasses__())
    stopped = {128 + number for number in (signal.SIGINT, signal.SIGTERM)}
    codes = {0, ALARM_CODE, *stopped, *(kind.exit_code for kind in kinds)}
    assert sorted(map(int, listed)) == sorted(codes)
