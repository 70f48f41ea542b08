"""Fixtures shared by all tests."""

import gc
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

os.environ.pop("COLUMNS", None)  # workers have one, and the console is as wide when it is made

from typer.testing import CliRunner

from builders import write_table
from fedjigsaw import cli, datasets, partition

gc.disable()  # while tests are collected: nothing of what that makes is garbage

# folder of tests or of the package -> marker
FOLDERS = {"deep": "deep", "device": "deep", "flower": "federation"}
# extra -> what of it is imported; of those that are not installed, tests are skipped
EXTRAS = {
    "deep": "torch",
    "excel": "openpyxl",
    "fast": "numba",
    "flower": "flwr",
    "plots": "matplotlib",
    "privacy": "opendp",
    "report": "jinja2",
}
LACKING = {extra: module for extra, module in EXTRAS.items() if find_spec(module) is None}
NOBODY = 65534  # a user who may do what the modes of files say


def pytest_collection_modifyitems(items):
    """Mark the tests of optional parts by their folder, so that none is forgotten."""
    for item in items:
        if item.path.parent.name in FOLDERS:
            item.add_marker(FOLDERS[item.path.parent.name])


@contextmanager
def lacking_skipped(item):
    """Skip a test that ends with the advice to install an extra that is not here."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        errors = (error, error.__context__)  # where a warning was awaited, its lack is told instead
        named = any(getattr(e, "name", None) in LACKING.values() for e in errors)
        told = any(f"fedjigsaw[{extra}]" in str(e) for extra in LACKING for e in errors)
        if item.path.name == "test_no_extra.py" or not (named or told):
            raise
        pytest.skip(f"needs one of {', '.join(LACKING)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with lacking_skipped(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with lacking_skipped(item):
        return (yield)


def pytest_collection_finish():
    """Look for garbage from here on, but not in modules and tests, which stay to the end."""
    gc.freeze()
    gc.enable()


def limit_threads(number):
    """Let libraries compute on so many threads, where the code under test sets no other limit."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(number)
    threadpool_limits(number, user_api="openmp")
    # by a thread that ends: while the one that has set the threads of BLAS lives, no other can
    with ThreadPoolExecutor(1) as pool:
        pool.submit(threadpool_limits, number, user_api="blas").result()


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    limit_threads(1)  # tests run side by side; two threads each would only wait


@pytest.fixture
def handled():
    """Set the handlers of the signals, and restore them afterwards.

    Those of tests that run in the background are often ignored.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield lambda handler: [signal.signal(number, handler) for number in numbers]
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def with_modes():
    """A folder, and a block in which the modes in it count, which they do not for root."""
    with TemporaryDirectory() as name:  # those above `tmp_path` are closed to other users
        folder = Path(name)

        @contextmanager
        def block():
            if os.geteuid() != 0:
                yield
                return
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, 0)
            try:
                yield
            finally:
                os.setresuid(0, 0, 0)

        yield folder, block
        folder.chmod(0o700)  # or it could not be removed
        for path, folders, _ in os.walk(folder):
            for inside in folders:
                Path(path, inside).chmod(0o700)


@pytest.fixture
def two_threads():
    """Start with two threads, where a test is about code that computes on one."""
    limit_threads(2)
    yield
    limit_threads(1)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def run():
    """Run a command in this process: its words, or one line. Errors are raised, exits are not."""

    def invoke(*words):
        words = words[0].split() if len(words) == 1 else [str(word) for word in words]
        result = CliRunner().invoke(cli.app, words)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def clinic(tmp_path):
    """The folders of a federation of two sites."""
    pytest.importorskip("flwr")
    from fedjigsaw.flower import bundle, founding

    folder = tmp_path / "clinic"
    founding.init(folder, ["bern", "lyon"], "127.0.0.1", 9092, bundle.build())
    return folder


@pytest.fixture(params=["sklearn", "numba"])
def backend(request, monkeypatch):
    """Runs a test once with each k-means backend."""
    if request.param != "sklearn":
        pytest.importorskip(request.param)
    monkeypatch.setenv("FEDJIGSAW_BACKEND", request.param)
    return request.param


@pytest.fixture(scope="session")
def load_or_skip():
    """Load a data set that needs a file; without the file, skip (in CI: fail) and say why."""

    def load(name):
        if not datasets.SOURCES[name].is_here:
            message = f"no data for {name}: run `fedjigsaw data fetch ssets` or set FEDJIGSAW_DATA"
            if os.environ.get("FEDJIGSAW_REQUIRE_DATA"):
                pytest.fail(message)
            pytest.skip(message)
        return datasets.load(name)

    return load


@pytest.fixture(scope="session")
def grid():
    """A small generated data set over five skewed clients: data, client ids."""
    data = datasets.gaussian_grid(900, overlap=0.0, rng=3)
    return data, partition.dirichlet(data.y, 5, alpha=1.0, rng=3, min_size=20)


@pytest.fixture(scope="session")
def grid_sites(tmp_path_factory):
    """Five sites with CSV and Parquet files: the paths, the data, the client ids."""
    folder = tmp_path_factory.mktemp("sites")
    data = datasets.gaussian_grid(1500, rng=5)
    ids = partition.dirichlet(data.y, 5, alpha=1.0, rng=5, min_size=40)
    paths = [folder / f"{m}.{'csv' if m % 2 else 'parquet'}" for m in range(5)]
    for m, path in enumerate(paths):
        write_table(path, x=data.X[ids == m, 0], y=data.X[ids == m, 1])
    return paths, data, ids
