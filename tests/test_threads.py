import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import pytest
import sklearn.cluster  # noqa: F401 (loads OpenMP and BLAS)
from threadpoolctl import threadpool_info

from fedjigsaw.threads import _quota, available_threads, one_thread, one_thread_inside


def limits():
    return [library["num_threads"] for library in threadpool_info()]


def test_no_more_threads_than_the_environment_and_the_affinity_allow(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = available_threads()
    for words, expected in {"1": 1, "1,4": 1, "9999": cores, "": cores, "0": cores}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", words)
        assert available_threads() == expected
    script = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
    script += "from fedjigsaw.threads import available_threads; print(available_threads())"
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert subprocess.check_output([sys.executable, "-c", script]) == b"1\n"


def test_cores_are_counted_as_joblib_counts_them(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert available_threads() == joblib.cpu_count()


def test_work_of_one_thread_among_many_is_not_divided_further(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("fedjigsaw.threads._cores", lambda: 8)

    def work():
        before = available_threads()
        with one_thread_inside():
            with one_thread_inside():
                inner = available_threads()
            return before, inner, available_threads()

    with one_thread(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == (8, 1, 1)
        assert pool.submit(available_threads).result() == 8  # the same thread, afterwards
        assert available_threads() == 8


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "max 100000\n"}, sys.maxsize),
        ({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, sys.maxsize),
        ({}, sys.maxsize),
    ],
)
def test_the_limit_of_a_container_counts(tmp_path, files, cores):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert _quota(tmp_path) == cores


@pytest.mark.usefixtures("two_threads")
def test_one_thread_inside_the_block_and_as_many_as_before_after_it():
    before = limits()
    with one_thread():
        assert set(limits()) == {1}
    assert limits() == before


@pytest.mark.usefixtures("two_threads")
def test_blocks_that_overlap_leave_as_many_threads_as_before():
    """The first to enter, of two fits in threads of their own, is the first to leave."""
    before = limits()
    first, second = one_thread(), one_thread()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(first.__enter__).result()
        other.submit(second.__enter__).result()
        one.submit(first.__exit__, None, None, None).result()
        blas = [info for info in threadpool_info() if info["user_api"] == "blas"]
        assert {info["num_threads"] for info in blas} == {1}  # the second one is still inside
        other.submit(second.__exit__, None, None, None).result()
    assert limits() == before


@pytest.mark.usefixtures("two_threads")
def test_the_limit_holds_in_new_threads_and_after_they_have_ended():
    def work():
        with one_thread_inside():
            return limits()

    with one_thread(), ThreadPoolExecutor(1) as pool:
        assert set(pool.submit(work).result()) == {1}
        assert set(limits()) == {1}


@pytest.mark.slow
def test_the_limit_holds_for_libraries_that_are_loaded_later(monkeypatch):
    """scikit-learn is imported when it is first needed: after a limit, and inside of one."""
    code = """
import sys, numpy as np
from threadpoolctl import threadpool_info
from fedjigsaw.threads import one_thread
from fedjigsaw.kernels.backends import SklearnBackend
with one_thread():
    pass
assert "sklearn" not in sys.modules
def told(self, *given, **options):
    print({i["num_threads"] for i in threadpool_info() if i["user_api"] == "openmp"})
    return fit(self, *given, **options)
with one_thread():
    from sklearn.cluster import KMeans
    fit, KMeans.fit = KMeans.fit, told
    options = {"weights": None, "n_init": 1, "max_iter": 9, "tol": 0.0}
    SklearnBackend().labels(np.eye(9), 2, rng=np.random.default_rng(0), **options)
with one_thread():
    print({i["num_threads"] for i in threadpool_info()})
"""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert subprocess.check_output([sys.executable, "-c", code]) == b"{1}\n{1}\n"


@pytest.mark.deep
def test_torch_keeps_to_one_thread_from_its_first_operation_on():
    """In a process and a thread in which torch has never computed before."""
    pytest.importorskip("torch")
    code = """
import threading, torch
from fedjigsaw.threads import _quota, available_threads, one_thread, one_thread_inside
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
