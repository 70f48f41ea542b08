"""What a server received, put together and selected."""

import math

import numpy as np
import pytest

from fedjigsaw import Summary
from fedjigsaw._received import receive
from fedjigsaw.errors import MessageError


@pytest.fixture
def received():
    a = Summary(10, [[0.0], [4.0]], counts=[6, 4], sse=[1.0, 2.0], client="a")
    b = Summary(5, [[9.0]], counts=[5], sse=[3.0], client="b")
    return receive([a, b])


def test_sums_of_each_site(received):
    assert received.per_site(received.counts).tolist() == [10.0, 5.0]


def test_sites_keep_their_numbers(received):
    chosen = received.select(received.owners == 1)
    assert (chosen.centers.tolist(), chosen.owners.tolist(), chosen.n_sites) == ([[9.0]], [1], 2)
    assert chosen.per_site(chosen.counts).tolist() == [0.0, 5.0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"counts": [0, 5]}, "counts of client 'a'"),
        ({"counts": [99, 5]}, "has 10 rows, but its counts sum to 104"),
        ({"counts": [5, 5], "sse": [1e300, 0.0]}, "too large for its rows"),
    ],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(MessageError, match=message):
        receive([Summary(10, [[0.0], [4.0]], client="a", **fields)])


class TestNoise:
    def test_a_noisy_center_weighs_less(self):
        # variance per coordinate: 40 / (20 * 1) = 2; the second center: 10 / (1 + 10 * 0.6 / 2)
        exact = Summary(10, [[0.0]], counts=[10], sse=[20.0], client="a")
        noisy = Summary(
            10,
            [[1.0]],
            counts=[10],
            sse=[20.0],
            tensors={"noise": [[5.0, math.sqrt(0.6)]]},
            client="b",
        )
        received = receive([exact, noisy])
        assert received.weights == pytest.approx([10, 2.5])
        assert received.weighed().sse == pytest.approx([20, 5])
        assert received.counts.tolist() == [10, 10]

    def test_without_noise_weights_are_the_counts(self):
        received = receive([Summary(10, [[0.0]], counts=[10], sse=[20.0])])
        assert received.weights is received.counts
        assert received.weighed() is received

    @pytest.mark.parametrize(
        "noise", [[[1.0, np.nan]], [[1.0, -1.0]], [[1.0]], [1.0, 1.0], [[1.0, 1.0], [1.0, 1.0]]]
    )
    def test_bad_noise_is_refused(self, noise):
        summary = Summary(10, [[0.0]], counts=[10], tensors={"noise": noise}, client="bern")
        with pytest.raises(MessageError, match="noise of client 'bern'"):
            receive([summary])


def test_clients_with_and_without_counts_and_sums_side_by_side():
    a = Summary(10, [[0.0], [4.0]], counts=[1, 4], sse=[3.0, 5.0], client="a")
    b = Summary(9, [[1.0], [2.0], [3.0]], sse=[7.0, 8.0, 9.0], client="b")
    c = Summary(6, [[7.0]], counts=[3], client="c")
    received = receive([a, b, c])
    assert received.counts.tolist() == [2, 8, 3, 3, 3, 6]
    assert received.sse.tolist() == [6, 10, 7, 8, 9, 0]
    assert received.owners.tolist() == [0, 0, 1, 1, 1, 2]
    assert (received.has_counts, received.has_sse) == (False, False)
