import numpy as np
import pytest

from fedjigsaw import parameters
from fedjigsaw.errors import ParameterError


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (parameters.integer(1), [1, np.int32(5)], [0, -1, 1.0, True, "1", None, float("nan")]),
        (parameters.integer(2, or_none=True), [None, 2], [1, "2"]),
        (
            parameters.real(0),
            [0, 0.0, np.float32(3)],
            [-1e-9, float("nan"), float("inf"), "0", True],
        ),
        (parameters.real(0, inclusive=False), [1e-9], [0, None]),
        (parameters.one_of("a", "b"), ["a"], ["c", None, 1, ["a"]]),
        (parameters.boolean(), [True, np.False_], [0, 1, "True", None]),
        (
            parameters.seed_source(),
            [None, 0, np.random.default_rng(0), np.random.RandomState(0)],
            [-1, 0.5, "0", True],
        ),
    ],
)
def test_rules(rule, good, bad):
    for value in good:
        rule.check("size", "Thing", value)
    for value in bad:
        with pytest.raises(ParameterError, match="^size of Thing"):
            rule.check("size", "Thing", value)
