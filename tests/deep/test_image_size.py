"""All clients must have images of one size, which the first step tells and the model keeps."""

from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import Client
from fedjigsaw.deep import server
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import Broadcast

FIRST = Broadcast(0, 0)


def test_images_of_different_sizes_are_an_error(small, few):
    deep, rng = small(), np.random.default_rng(0)
    large = few[0].repeat(2, axis=2).repeat(2, axis=3)
    a, b = (Client(name, X, deep).answer(FIRST) for name, X in (("a", few[0]), ("b", large)))
    assert deep.aggregate([a], FIRST, rng).tensors["image_size"].tolist() == [8, 8]
    assert deep.aggregate([b], FIRST, rng).tensors["image_size"].tolist() == [16, 16]
    with pytest.raises(MessageError, match="8 x 8 pixels at 'a', 16 x 16 pixels at 'b'.*--size"):
        deep.aggregate([a, b], FIRST, rng)


def test_the_model_keeps_the_size(small, few):
    assert small().fit(few[0], clients=few[1]).model_.tensors["image_size"].tolist() == [8, 8]


@pytest.mark.parametrize(
    "size", [[], [8], [8, 8, 8], [[8, 8]], [8.0, 8.0], [0, 8], [8, 10**9], [-8, 8]]
)
def test_what_is_no_size_is_refused(small, few, size):
    deep = small()
    told = Client("a", few[0], deep).answer(FIRST)
    odd = replace(told, tensors={**told.tensors, "image_size": np.array(size)})
    with pytest.raises(MessageError, match="image_size of client 'a'") as caught:
        server.check_answer(deep, odd, FIRST)
    assert str(size) in str(caught.value) or len(size) > 2
