import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from fedjigsaw.columns.scaling import Scaler, Stats, measure, merge
from fedjigsaw.errors import MessageError

COLUMNS = ("a", "b")


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=6),
    st.integers(0, 10**6),
    st.sampled_from([0, 1e6, -1e9]),
)
def test_merged_equals_pooled(sizes, seed, offset):
    rng = np.random.default_rng(seed)
    shards = [rng.normal(rng.normal(), 1 + rng.random(), size=(n, 2)) + offset for n in sizes]
    scaler = merge([measure(f"site {i}", COLUMNS, [rows]) for i, rows in enumerate(shards)])
    pooled = StandardScaler().fit(np.concatenate(shards))
    assert scaler.mean == pytest.approx(pooled.mean_, rel=1e-9)
    if sum(sizes) > 1:
        rel = 1e-9 if not offset else 1e-5  # the data themselves have no more digits
        assert scaler.deviation == pytest.approx(pooled.scale_, rel=rel)


def test_blocks_of_rows_add_up(rng):
    rows = rng.normal(size=(100, 2))
    whole, parts = measure("a", COLUMNS, [rows]), measure("a", COLUMNS, np.split(rows, [7, 7, 40]))
    assert whole.mean == pytest.approx(parts.mean)
    assert whole.sum_of_squares == pytest.approx(parts.sum_of_squares)
    assert whole.n_samples == parts.n_samples == 100


def test_order_of_sites_does_not_matter(rng):
    stats = [measure(name, COLUMNS, [rng.normal(size=(9, 2))]) for name in "abc"]
    assert merge(stats).fingerprint == merge(stats[::-1]).fingerprint


def test_columns_are_matched_by_name(rng):
    rows = rng.normal(size=(9, 2))
    straight = merge([measure("a", COLUMNS, [rows]), measure("b", COLUMNS, [rows + 1])])
    swapped = merge([measure("a", COLUMNS, [rows]), measure("b", ("b", "a"), [rows[:, ::-1] + 1])])
    assert swapped.fingerprint == straight.fingerprint


def test_a_constant_column_is_centered_and_not_scaled():
    rows = np.array([[1.0, 5.1], [3.0, 5.1]])
    scaler = merge([measure("a", COLUMNS, [rows]), measure("b", COLUMNS, [rows])])
    assert scaler.scale(rows).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert scaler.deviation.tolist() == StandardScaler().fit(rows).scale_.tolist()


def test_unscale_is_the_inverse_of_scale(rng):
    scaler = Scaler(COLUMNS, np.array([1.0, -2.0]), np.array([3.0, 0.5]))
    rows = rng.normal(size=(5, 2))
    assert scaler.unscale(scaler.scale(rows)) == pytest.approx(rows)


def test_fingerprint_changes_with_every_part():
    one, two = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    scalers = [
        Scaler(COLUMNS, one, one),
        Scaler(COLUMNS, one, two),
        Scaler(COLUMNS, two, one),
        Scaler(("a", "c"), one, one),
    ]
    assert len({scaler.fingerprint for scaler in scalers}) == 4


def test_bad_statistics():
    one = np.ones(2)
    with pytest.raises(MessageError, match="Client 'a' has the columns .*; client 'b' has 'b',"):
        merge([Stats("a", COLUMNS, 1, one, one), Stats("b", ("b", "c"), 1, one, one)])
    for bad, words in (
        (
            ("a", COLUMNS, 0, one, one),
            "n_samples of client 'a' must be an integer >= 1, <= .*; got 0",
        ),
        (("a", (), 1, one[:0], one[:0]), "No columns selected"),
        (("a", ("x", "x"), 1, one, one), "Column 'x' is selected twice"),
        (("a", COLUMNS, 1, one[:1], one), r"mean of client 'a' must be .*; got shape \(1,\)"),
        (("a", COLUMNS, 1, one * np.nan, one), "mean of client 'a' must be finite; got nan"),
        (("a", COLUMNS, 1, one, -one), "sum_of_squares of client 'a' must be >= 0; got -1"),
    ):
        with pytest.raises(MessageError, match=words):
            Stats(*bad)
    with pytest.raises(MessageError, match="deviation of a scaler"):
        Scaler(COLUMNS, one, one * 0)


@pytest.mark.parametrize(
    ("mean", "squares"), [(1e101, 1.0), (1.0, 1e300), (1.0, 5e200)], ids=["mean", "huge", "large"]
)
def test_statistics_that_no_rows_can_have(mean, squares):
    """A lie must not become an overflow at the coordinator."""
    with pytest.raises(MessageError, match="of client 'a'"):
        Stats("a", ("x",), 1, np.array([mean]), np.array([squares]))
