"""Health, readiness and Prometheus metrics of a server or a site, on a port of the loopback.

The numbers come from files that the part writes anyway, so that they survive a restart. They are
names of sites, counts and times: nothing of the data.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import Any

from fedjigsaw import __version__
from fedjigsaw.errors import ExtraError, FederationError, FedJigsawError, requires_extra
from fedjigsaw.flower.certificates import authority_ends, days_until, ends
from fedjigsaw.flower.counts import JournalCounts, RunCounts, is_connected
from fedjigsaw.flower.folders import CA, CERTIFICATE, RUNNING
from fedjigsaw.records.ledger import LEDGER, Ledger
from fedjigsaw.records.policy import Policy

LOOPBACK = "127.0.0.1"
STATUS_SECONDS = 5.0  # how long an answer of the server about its sites is used again
Number = tuple[str, str, str, dict[str, str], float]  # kind, name, help, labels, value
GAUGE, COUNTER = "gauge", "counter"


# --------------------------------------------------------------------------------------- numbers


class SiteNumbers:
    """The numbers of a site.

    Parameters
    ----------
    home : the site's folder.
    name : name of the site.
    policy : the site's rules.
    """

    def __init__(self, home: Path, name: str, policy: Policy) -> None:
        self.home, self.name, self.policy = home, name, policy
        self.journal = JournalCounts(home)

    def ready(self) -> bool:
        """Return whether the site is connected to its server."""
        return is_connected(self.home)

    def read(self) -> Iterator[Number]:
        """Yield all numbers as they are now."""
        journal = self.journal
        journal.refresh()
        yield _info("site", self.name)
        yield GAUGE, "connected", "Whether the server answered lately.", {}, self.ready()
        for kind, what in (
            ("question", "Questions that arrived."),
            ("answer", "Answers that left, new or as before."),
            ("refusal", "Questions that the policy or the privacy budget refused."),
            ("failure", "Questions that ended in an error."),
        ):
            yield COUNTER, f"{kind}s".replace("ys", "ies"), what, {}, journal.kinds.get(kind, 0)
        when = "Time of the last answer, in seconds since 1970; 0 if there is none."
        yield GAUGE, "last_answer_timestamp_seconds", when, {}, journal.latest[0]
        yield from self._budget()
        days = "Days until the certificate of the federation's authority ends."
        yield GAUGE, "certificate_days_left", days, {}, days_until(authority_ends(self.home / CA))

    def _budget(self) -> Iterator[Number]:
        what = "Different questions that the policy still allows."
        left = self.policy.questions_per_day - self.journal.within_a_day()
        yield GAUGE, "questions_left", what, {"limit": "day"}, max(0, left)
        left = self.policy.questions_in_all - self.journal.about_the_data()
        yield GAUGE, "questions_left", what, {"limit": "data_set"}, max(0, left)
        with suppress(FedJigsawError, OSError):
            ledger = Ledger(self.home / LEDGER)
            if ledger.exists():
                epsilon = ledger.account(self.name).left()
                yield GAUGE, "epsilon_left", "Epsilon that the ledger still allows.", {}, epsilon


class ServerNumbers:
    """The numbers of a server.

    Parameters
    ----------
    home : the server's folder.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runs = RunCounts(home)
        self.certificate_ends = ends(home / CERTIFICATE)  # of the one that it shows
        self._status: tuple[float, dict[str, Any]] = (float("-inf"), {})

    def ready(self) -> bool:
        """Return whether the server accepts sites and runs."""
        return (self.home / RUNNING).exists() and bool(self.status())

    def status(self) -> dict[str, Any]:
        """Return the state of the running server; empty if it does not answer."""
        asked, found = self._status
        if monotonic() - asked > STATUS_SECONDS:
            from fedjigsaw.flower.status import read_status  # it needs all of Flower

            found = {}
            with suppress(FedJigsawError, OSError):
                found = read_status(self.home)
            self._status = (monotonic(), found)
        return found

    def read(self) -> Iterator[Number]:
        """Yield all numbers as they are now."""
        runs, status = self.runs, self.status()
        runs.refresh()
        yield _info("server", "")
        yield GAUGE, "up", "Whether the server answers.", {}, bool(status)
        for site, online in status.get("connected", {}).items():
            what = "Whether a site is connected."
            yield GAUGE, "site_connected", what, {"site": site}, bool(online)
        revoked = "Sites whose keys are revoked."
        yield GAUGE, "revoked_sites", revoked, {}, len(status.get("revoked", ()))
        twins = "Keys that are used from two places at once."
        yield GAUGE, "twin_keys", twins, {}, len(status.get("twins", ()))
        for result, number in runs.results.items():
            yield COUNTER, "runs", "Runs that have ended.", {"result": result}, number
        yield GAUGE, "active_runs", "Runs that have not ended.", {}, runs.active
        for name, what, values in (
            ("answers", "Answers that counted.", runs.answers),
            ("failures", "Questions without an answer that counted.", runs.failures),
        ):
            for site, number in sorted(values.items()):
                yield COUNTER, name, what, {"site": site}, number
        what = "How many sites the last run reported as unlike all others."
        yield GAUGE, "strange_sites", what, {}, runs.strange
        when = "Time of the last model, in seconds since 1970; 0 if there is none."
        yield GAUGE, "last_model_timestamp_seconds", when, {}, runs.latest
        days = "Days until the server's certificate ends."
        yield GAUGE, "certificate_days_left", days, {}, days_until(self.certificate_ends)


def _info(part: str, site: str) -> Number:
    labels = {"version": __version__, "part": part, "site": site}
    return GAUGE, "info", "Version of fedjigsaw, and which part this is.", labels, 1


def as_prometheus(numbers: Iterator[Number]) -> bytes:
    """Return numbers in Prometheus' text format."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ImportError as error:
        text = requires_extra("--metrics-port", "prometheus_client", "metrics")
        raise ExtraError(text) from error
    families: dict[str, Any] = {}
    kinds = {GAUGE: GaugeMetricFamily, COUNTER: CounterMetricFamily}
    for kind, name, what, labels, value in numbers:
        if name not in families:
            families[name] = kinds[kind](f"fedjigsaw_{name}", what, labels=list(labels))
        families[name].add_metric(list(labels.values()), value)

    class Collector:
        def collect(self) -> list[Any]:
            return list(families.values())

    registry = CollectorRegistry()
    registry.register(Collector())
    return bytes(generate_latest(registry))


# ------------------------------------------------------------------------------------- the port


@contextmanager
def serving_metrics(
    port: int | None, numbers: SiteNumbers | ServerNumbers, alive: Callable[[], bool]
) -> Iterator[None]:
    """Serve /health, /ready and /metrics on a port of the loopback; without a port, nothing.

    Parameters
    ----------
    alive : returns whether the part works, connected or not.
    """
    if port is None:
        yield
        return
    as_prometheus(iter(()))  # the extra is there, or the part does not start
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), _handler(numbers, alive))
    except OSError as error:
        raise FederationError(
            f"Another program listens on port {port} of {LOOPBACK}. Give another --metrics-port."
        ) from error
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(numbers: SiteNumbers | ServerNumbers, alive: Callable[[], bool]) -> Any:
    lock = Lock()  # one scrape at a time

    def health() -> tuple[int, str, bytes]:
        return _state(alive(), "healthy")

    def ready() -> tuple[int, str, bytes]:
        with lock:
            return _state(alive() and numbers.ready(), "ready")

    def metrics() -> tuple[int, str, bytes]:
        with lock:
            return 200, "text/plain; version=0.0.4; charset=utf-8", as_prometheus(numbers.read())

    pages = {"/health": health, "/ready": ready, "/metrics": metrics}

    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        server_version, sys_version = "fedjigsaw", ""

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            # a page of another machine that a browser here shows cannot name this host
            host = (self.headers.get("Host") or LOOPBACK).partition(":")[0]
            if page is None or host not in (LOOPBACK, "localhost"):
                self.send_error(404)
                return
            try:
                code, kind, content = page()
            except Exception:  # no text of an error leaves the process
                self.send_error(500)
                return
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            """Write nothing: a probe comes every few seconds."""

    return Handler


def _state(good: bool, word: str) -> tuple[int, str, bytes]:
    content = json.dumps({word: good}).encode() + b"\n"
    return 200 if good else 503, "application/json", content
