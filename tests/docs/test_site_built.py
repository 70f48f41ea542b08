"""The site is built without a warning, its links hold, and its search finds the right page."""

import functools
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

import browser
from pages_as_code import ROOT

pytest.importorskip("sphinx", reason="needs the extra docs: make site installs it")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
    command += ["-d", str(folder / "doctrees"), "docs", str(folder / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_links_hold_and_nothing_is_fetched_from_elsewhere(site):
    command = [sys.executable, "docs/_ext/check.py", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site):
    """The address of the site on this machine: a search reads other pages, which files may not."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


RESULTS = """new Promise((done, fail) => {
  const start = Date.now();
  const look = () => {
    const found = [...document.querySelectorAll("#search-results li a")].map(a => a.href);
    const ended = document.querySelector("#search-results p.search-summary");
    if (found.length && ended) done(found);
    else if (Date.now() - start > 30000) fail("no results");
    else setTimeout(look, 100);
  };
  look();
})"""


@pytest.mark.skipif(browser.find() is None, reason="needs Chromium")
def test_the_search_finds_the_right_page_first(address, tmp_path):
    wanted = {
        "privacy": "privacy.html",
        "k+unknown": "number-of-clusters.html",
        "Parquet": "formats.html",
        "exit+codes": "operations.html",
    }
    with browser.browser(tmp_path) as port:
        tab = browser.Tab(port).show(1280)
        for words, first in wanted.items():
            tab.loaded = False
            tab.call("Page.navigate", url=f"{address}/search.html?q={words}")
            results = tab.evaluate(RESULTS)
            assert results[0].partition("#")[0].partition("?")[0] == f"{address}/{first}", results[
                :5
            ]
        outside = [url for url in tab.requests if not url.startswith((address, "data:", "about:"))]
        assert outside == []
        tab.close()
