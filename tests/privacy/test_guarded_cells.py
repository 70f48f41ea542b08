"""Cells under a guard: small ones join similar ones or are left out, and no row can be told."""

import numpy as np
import pytest

from fedjigsaw import Jigsaw
from fedjigsaw._received import receive
from fedjigsaw.engine import Client
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import Broadcast, Summary
from fedjigsaw.privacy.guard import CELLS_ONLY, LEFT_OUT, Guard, merge_small


def cells(centers, counts, sse, n_samples=None):
    counts = np.array(counts)
    labels = np.repeat(np.arange(len(counts)), counts)
    tensors = {"labels": labels, CELLS_ONLY: np.ones(1)}
    n = int(counts.sum()) if n_samples is None else n_samples
    return Summary(n, np.array(centers)[:, None], counts=counts, sse=sse, tensors=tensors)


class TestByHand:
    def test_a_similar_cell_takes_a_small_one(self):
        found = merge_small(cells([0.0, 1.0, 50.0], [5, 2, 5], [5.0, 1.0, 5.0]), 5)
        assert found.counts.tolist() == [7, 5]
        assert found.centers.ravel() == pytest.approx([2 / 7, 50])
        assert found.sse[0] == pytest.approx(5 + 1 + 10 / 7)
        assert LEFT_OUT not in found.tensors

    def test_a_cell_far_from_all_others_is_left_out(self):
        found = merge_small(cells([0.0, 25.0, 50.0], [5, 2, 5], [5.0, 1.0, 5.0]), 5)
        assert found.counts.tolist() == [5, 5]
        assert found.tensors[LEFT_OUT].tolist() == [2]
        assert found.tensors["labels"].tolist() == [0] * 5 + [-1] * 2 + [1] * 5

    def test_without_the_mark_it_is_merged(self):
        given = cells([0.0, 25.0, 50.0], [5, 2, 5], [5.0, 1.0, 5.0])
        plain = Summary(12, given.centers, counts=given.counts, sse=given.sse)
        assert merge_small(plain, 5).counts.sum() == 12

    def test_if_no_cells_are_alike_all_are_merged_and_it_is_told(self):
        """A site must send something; the server does not use it to count clusters."""
        found = merge_small(cells([0.0, 100.0, 200.0], [2, 2, 2], [1.0, 1.0, 1.0]), 5)
        assert found.counts.tolist() == [6]
        assert found.tensors[LEFT_OUT].tolist() == [6]
        assert receive([found]).mixed.tolist() == [True]

    def test_too_few_rows_are_refused(self):
        with pytest.raises(Exception, match="fewer than min_cluster_size"):
            merge_small(cells([0.0, 100.0], [2, 2], [1.0, 1.0]), 5)


def answer(X, **guard):
    return Client("bern", X, Jigsaw("auto"), Guard(**guard)).answer(Broadcast(0, 0))


class TestWhatLeaves:
    @pytest.mark.parametrize("size", [2, 5, 20])
    def test_no_center_of_fewer_rows(self, rng, size):
        X = np.concatenate([rng.normal(size=(300, 2)), rng.normal(size=(7, 2)) * 100])
        summary = answer(X, min_cluster_size=size)
        assert summary.counts.min() >= size
        assert set(summary.tensors) <= {"quantization", LEFT_OUT}

    def test_rows_far_from_all_others_are_in_no_center(self, rng):
        X = np.concatenate([rng.normal(size=(300, 2)), [[1e4, 1e4], [1e4, 1e4 + 1]]])
        summary = answer(X)
        assert np.abs(summary.centers).max() < 5
        assert summary.n_samples - summary.counts.sum() >= 2

    def test_counts_that_are_withheld_or_rounded(self, rng):
        far = [rng.normal(at, 1, (4, 2)) for at in (1e4, -1e4)]
        X = np.concatenate([rng.normal(size=(300, 2)), *far])
        assert answer(X).tensors[LEFT_OUT].item() in (5, 10)  # never exact
        assert LEFT_OUT not in answer(X, counts="none").tensors
        assert answer(X, counts="rounded").tensors[LEFT_OUT].item() in (5, 10)

    @pytest.mark.parametrize(("few", "told"), [(1, 0), (2, 5), (3, 5), (4, 10)])
    def test_the_number_of_rows_left_out_is_rounded(self, few, told):
        """Two cells of few rows each, far from all others."""
        given = cells([0.0, 25.0, 75.0, 50.0], [5, few, few, 5], [5.0, 1.0, 1.0, 5.0])
        left = Guard().apply(given, client="bern", needed=("counts", "sse", "tensors"))
        assert left.counts.tolist() == [5, 5]
        assert left.tensors.get(LEFT_OUT, np.zeros(1)).tolist() == [told]

    def test_a_value_of_few_rows_is_not_told(self, rng):
        """Six rows have another value: enough for the default guard, not for a stricter one."""
        X = np.column_stack([rng.normal(size=300), np.repeat([0.0, 1234.5], [294, 6])])
        default, strict = answer(X), answer(X, min_cluster_size=10)
        assert default.tensors["quantization"][1] == pytest.approx(1234.5**2 / 6, rel=0.07)
        assert default.tensors["quantization"][1] != pytest.approx(1234.5**2 / 6, rel=1e-4)
        assert strict.tensors["quantization"].tolist() == [0.0, -1.0]


class TestServer:
    def test_liars_do_not_set_the_grain(self):
        honest = [
            Summary(9, [[0.0, 0.0]], counts=[9], sse=[1.0], client=str(i),
                    tensors={"quantization": np.array([0.0, 1 / 6])})
            for i in range(7)
        ]  # fmt: skip
        liars = [
            Summary(9, [[0.0, 0.0]], counts=[9], sse=[1.0], client=f"l{i}",
                    tensors={"quantization": np.array([1e9, 0.0])})
            for i in range(3)
        ]  # fmt: skip
        assert receive([*honest, *liars]).quantization.tolist() == [0.0, 1 / 6]

    def test_those_that_cannot_tell_are_not_asked(self):
        told = [np.array([-1.0]), np.array([0.4]), np.array([0.5])]
        sent = [
            Summary(9, [[0.0]], counts=[9], sse=[1.0], client=str(i), tensors={"quantization": g})
            for i, g in enumerate(told)
        ]
        assert receive(sent).quantization.tolist() == [0.45]
        assert receive([sent[0]]).quantization.tolist() == [0.0]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("quantization", np.array([1.0, 2.0])),
            ("quantization", np.array([np.nan])),
            ("quantization", np.array([[1.0]])),
            ("left_out", np.array([np.inf])),
            ("left_out", np.array([1, 2])),
        ],
    )
    def test_bad_tensors_are_refused(self, name, value):
        bad = Summary(9, [[0.0]], counts=[9], sse=[1.0], client="a", tensors={name: value})
        with pytest.raises(MessageError, match=f"{name} of client 'a'"):
            receive([bad])

    def test_no_more_than_all_rows_are_left_out(self):
        told = {"left_out": np.array([1e12])}
        sent = Summary(9, [[0.0]], counts=[9], sse=[1.0], client="a", tensors=told)
        assert receive([sent]).left_out == 9
