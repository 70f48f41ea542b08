"""Several heads in one message, and side by side."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from fedjigsaw.deep import heads
from fedjigsaw.errors import DataError, MessageError
from fedjigsaw.messages import Broadcast, Model, Summary


def two():
    return [
        Summary(
            9,
            [[0.0, 1.0], [1.0, 0.0]],
            counts=[4, 5],
            radii=[1.0, 2.0],
            tensors={"x": np.array([1.0])},
        ),
        Summary(9, [[5.0, 5.0]], counts=[9], radii=[3.0], tensors={"x": np.array([2.0])}),
    ]


def test_pack_and_unpack_are_inverse():
    assert heads.unpack(heads.pack(two()), 2) == two()


def test_an_error_names_the_guard_that_may_have_merged_centers():
    packed = heads.pack(two())
    tensors = {**packed.tensors, "head": np.array([0, 1])}
    broken = Summary(9, packed.centers, tensors=tensors, client="a")
    with pytest.raises(MessageError, match="Client 'a'"):
        heads.unpack(broken, 2)


def test_each_head_receives_its_own_model():
    models = [Model([[1.0, 0.0]], tensors={"t": np.array([1])}), Model([[0.0, 1.0], [0.0, 2.0]])]
    centers, tensors = heads.pack_models(models)
    broadcast = Broadcast(4, 7, Model(centers, tensors=tensors))
    assert heads.inner_broadcast(broadcast, 0, 0) == Broadcast(0, 7)  # a new clustering
    assert heads.inner_broadcast(broadcast, 1, 0) == Broadcast(1, 7, models[0])
    assert heads.inner_broadcast(broadcast, 1, 1) == Broadcast(1, 7, models[1])


@pytest.mark.usefixtures("two_threads")
def test_heads_run_side_by_side_with_streams_of_their_own():
    def work(head, rng):
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        return head, int(rng.integers(2**60))

    first, again = (heads.for_each(work, 3, np.random.default_rng(0)) for _ in range(2))
    assert first == again
    assert [head for head, _ in first] == [0, 1, 2]
    assert len({draw for _, draw in first}) == 3


def test_an_error_in_a_head_comes_through():
    def work(head, rng):
        raise DataError(f"head {head}")

    with pytest.raises(DataError, match="head 0"):
        heads.for_each(work, 2, np.random.default_rng(0))
