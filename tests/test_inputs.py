import numpy as np
import pytest

from fedjigsaw import _inputs as inputs
from fedjigsaw.errors import DataError, DataTypeError, ParameterError


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (inputs.integer(1), [1, np.int32(5)], [0, -1, 1.0, True, "1", None, float("nan")]),
        (inputs.integer(2, or_none=True), [None, 2], [1, "2"]),
        (inputs.real(0), [0, 0.0, np.float32(3)], [-1e-9, float("nan"), float("inf"), "0", True]),
        (inputs.real(0, inclusive=False), [1e-9], [0, None]),
        (inputs.one_of("a", "b"), ["a"], ["c", None, 1, ["a"]]),
        (inputs.boolean(), [True, np.False_], [0, 1, "True", None]),
        (
            inputs.seed_source(),
            [None, 0, np.random.default_rng(0), np.random.RandomState(0)],
            [-1, 0.5, "0", True],
        ),
    ],
)
def test_rules(rule, good, bad):
    for value in good:
        rule.check("size", "Thing", value)
    for value in bad:
        with pytest.raises(ParameterError, match=r"^size of Thing must be .*; got "):
            rule.check("size", "Thing", value)


def test_streams_differ_by_client_round_and_seed_but_not_by_call():
    def draw(*key):
        return inputs.stream(*key).integers(2**62)

    keys = [(0, 0, "a"), (0, 0, "b"), (0, 1, "a"), (1, 0, "a"), (0, 0), (0, 1)]
    assert len({draw(*key) for key in keys}) == len(keys)
    assert all(draw(*key) == draw(*key) for key in keys)


def test_stream_of_a_client_is_the_same_on_every_machine():
    """A change here breaks the reproducibility of every published row."""
    assert inputs.stream(0, 0, "berlin").integers(1000, size=4).tolist() == PINNED


PINNED = [216, 95, 705, 220]


def test_seeds():
    assert inputs.resolve_seed(7) == 7
    assert inputs.resolve_seed(None) != inputs.resolve_seed(None)
    for source in (np.random.RandomState, np.random.default_rng):
        assert inputs.resolve_seed(source(3)) == inputs.resolve_seed(source(3))
        shared = source(3)
        assert inputs.resolve_seed(shared) != inputs.resolve_seed(shared)


def test_split_keeps_order_within_a_client():
    members = inputs.rows_by_client(5, ["b", "a", "b", "a", "b"], owner="x")
    assert {name: rows.tolist() for name, rows in members.items()} == {"a": [1, 3], "b": [0, 2, 4]}


@pytest.mark.parametrize(
    ("clients", "error", "words"),
    [
        ([0, 1], DataError, r"one id per row, shape \(3,\); got shape \(2,\)"),
        ([1, "1", "a"], DataTypeError, "all integers or all strings; got both"),
        (["a", float("nan"), "b"], DataTypeError, "got nan in row 1"),
        ([[0], [1, 2], [3]], DataError, "one id per row"),
        ([[0], [1], [2]], DataError, r"got shape \(3, 1\)"),
        ([0.5, 1.0, 2.0], DataTypeError, "integers or strings; got 0.5. Convert"),
        (np.array([0, "a", None], dtype=object), DataTypeError, "got None in row 2"),
        (np.array(["a", float("nan"), "b"], dtype=object), DataTypeError, "got nan in row 1"),
        (["a", "", "b"], DataError, "1 to 200 characters long; got ''"),
        (["a", "b\n", "b"], DataError, "printable"),
        (["a", "b", "c" * 201], DataError, "1 to 200"),
    ],
)
def test_bad_client_ids(clients, error, words):
    with pytest.raises(error, match=words):
        inputs.rows_by_client(3, clients, owner="X.fit")


def test_two_ids_with_one_name():
    with pytest.raises(DataError, match=r"different from one another; got \['1'\]"):
        inputs.name_clients([1, "1"], owner="X.fit_clients")
