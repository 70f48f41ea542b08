import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import sklearn.cluster  # noqa: F401 (loads OpenMP and BLAS)
from threadpoolctl import threadpool_info

from fedjigsaw import _threads
from fedjigsaw._threads import available_threads, one_thread, one_thread_inside


def limits():
    return [library["num_threads"] for library in threadpool_info()]


@pytest.fixture(autouse=True)
def _rescan():
    """Other tests may have limited threads before all libraries were loaded."""
    _threads._libraries.cache_clear()


def test_no_more_threads_than_the_environment_and_the_affinity_allow(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = available_threads()
    for words, expected in {"1": 1, "1,4": 1, "9999": cores, "": cores, "0": cores}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", words)
        assert available_threads() == expected
    script = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
    script += "from fedjigsaw._threads import available_threads; print(available_threads())"
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert subprocess.check_output([sys.executable, "-c", script]) == b"1\n"


def test_one_thread_inside_the_block_and_as_many_as_before_after_it():
    before = limits()
    with one_thread():
        assert set(limits()) == {1}
    assert limits() == before


def test_the_limit_holds_in_new_threads_and_after_they_have_ended():
    def work():
        with one_thread_inside():
            return limits()

    with one_thread(), ThreadPoolExecutor(1) as pool:
        assert set(pool.submit(work).result()) == {1}
        assert set(limits()) == {1}


@pytest.mark.deep
def test_torch_keeps_to_one_thread_from_its_first_operation_on():
    """In a process and a thread in which torch has never computed before."""
    pytest.importorskip("torch")
    code = """
import threading, torch
from fedjigsaw._threads import available_threads, one_thread, one_thread_inside
import fedjigsaw.deep
found = []
def compute(limit):
    with limit():
        torch.ones(4_000_000).sum()  # large enough for several threads
        found.append(torch.get_num_threads())
with one_thread():
    threads = [threading.Thread(target=compute, args=(one_thread_inside,)) for _ in range(2)]
    [t.start() for t in threads], [t.join() for t in threads]
compute(one_thread)
print(found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[1, 1, 1]\n", done.stderr
