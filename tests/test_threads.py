from threadpoolctl import threadpool_info

from fedjigsaw._threads import one_thread


def test_one_thread_inside_and_as_many_as_before_afterwards():
    before = [library["num_threads"] for library in threadpool_info()]
    with one_thread():
        assert all(library["num_threads"] == 1 for library in threadpool_info())
    assert [library["num_threads"] for library in threadpool_info()] == before
