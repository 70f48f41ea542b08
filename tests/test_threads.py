import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info

from fedjigsaw._threads import one_thread


def test_one_thread_inside_and_as_many_as_before_afterwards():
    before = [library["num_threads"] for library in threadpool_info()]
    with one_thread():
        assert all(library["num_threads"] == 1 for library in threadpool_info())
    assert [library["num_threads"] for library in threadpool_info()] == before


def test_torch_keeps_to_one_thread_from_its_first_operation_on():
    """In a process and a thread in which torch has never computed before."""
    pytest.importorskip("torch")
    code = """
import threading, torch
from fedjigsaw._threads import one_thread, one_thread_inside
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
