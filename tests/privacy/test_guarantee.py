"""The promise itself: what may be asked for, and how it is stated."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedjigsaw import Privacy
from fedjigsaw.errors import ParameterError
from fedjigsaw.records.budget import in_words


def test_defaults_and_words():
    privacy = Privacy(1.0, bounds=(0, 120))
    assert privacy.delta == 1e-6
    assert (privacy.unit, privacy.cells) == ("row", None)
    assert privacy.sentence() == (
        "With or without any one row, any set of outputs is at most 2.72 times as likely, plus "
        "1e-06."
    )
    site = Privacy(0.5, 1e-9, (0, 1), unit="site")
    assert site.cells == "shared"
    assert site.sentence().startswith("Whatever the rows of any one site are, any set of outputs")
    assert "at most 1.65 times as likely, plus 1e-09." in site.sentence()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"epsilon": 0}, "epsilon of Privacy"),
        ({"epsilon": np.nan}, "epsilon of Privacy"),
        ({"epsilon": np.inf}, "epsilon of Privacy"),
        ({"epsilon": True}, "epsilon of Privacy"),
        ({"epsilon": 101}, "epsilon of Privacy must be a finite number > 0 and <= 100"),
        ({"delta": 0}, "delta of Privacy"),
        ({"delta": 0.1}, "delta of Privacy"),
        ({"delta": np.nan}, "delta of Privacy"),
        ({"unit": "person"}, "unit of Privacy"),
        ({"cells": "mine"}, "cells of Privacy"),
        ({"unit": "site", "cells": "own"}, "cells of Privacy"),
        ({"rows_per_site": 0}, "rows_per_site of Privacy"),
        ({"insecure_seed": -1}, "insecure_seed of Privacy"),
        ({"bounds": None}, "bounds of Privacy"),
        ({"bounds": (1, 1)}, "bounds of Privacy"),
        ({"bounds": (0, np.inf)}, "bounds of Privacy"),
        ({"bounds": (np.nan, 1)}, "bounds of Privacy"),
        ({"bounds": (-1e300, 1e300)}, "bounds of Privacy"),
        ({"bounds": ("0", "1")}, "bounds of Privacy"),
        ({"bounds": (False, True)}, "bounds of Privacy"),
        ({"bounds": (0, 1, 2)}, "bounds of Privacy"),
        ({"bounds": ([0, 0], [1])}, "bounds of Privacy"),
        ({"bounds": ([0, 2], [1, 1])}, "bounds of Privacy"),
    ],
)
def test_what_is_no_promise_is_refused(changes, text):
    with pytest.raises(ParameterError, match=text):
        Privacy(**{"epsilon": 1.0, "bounds": (0, 1), **changes})


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 0.7, 1.0, 1.5, 2.0, 3.3, 10.0, 99.9])
def test_words_promise_no_more_than_epsilon(epsilon):
    words = Privacy(epsilon, bounds=(0, 1)).sentence().split()
    stated = float(words[words.index("times") - 1])
    assert math.exp(epsilon) <= stated <= 1.01 * math.exp(epsilon)
    assert epsilon * 1.00004 <= float(in_words(epsilon * 1.00004)) <= 1.002 * epsilon


def test_one_pair_of_bounds_is_for_all_columns():
    low, high = Privacy(1, bounds=(-1, 2)).limits(3)
    assert (low.tolist(), high.tolist()) == ([-1, -1, -1], [2, 2, 2])
    low, high = Privacy(1, bounds=([0, 1], np.array([5, 6]))).limits(2)
    assert (low.tolist(), high.tolist()) == ([0, 1], [5, 6])
    with pytest.raises(ParameterError, match="two lists of 3, one number per column"):
        Privacy(1, bounds=([0, 1], [5, 6])).limits(3)


@given(
    st.floats(1e-3, 100),
    st.floats(1e-12, 0.01),
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)), min_size=1, max_size=5),
    st.sampled_from(["row", "site"]),
)
def test_a_file_states_the_same_promise(epsilon, delta, columns, unit):
    low = [lo for lo, _ in columns]
    privacy = Privacy(epsilon, delta, (low, [lo + w for lo, w in columns]), unit=unit)
    assert Privacy.from_dict(privacy.to_dict()) == privacy


def test_a_seed_voids_the_promise_and_a_file_tells_it():
    stated = Privacy(1, bounds=(0, 1)).to_dict()
    assert "insecure_seed" not in stated
    seeded = Privacy(1, bounds=(0, 1), insecure_seed=7)
    assert Privacy.from_dict(seeded.to_dict()) == seeded
    assert seeded.sentence().startswith("Nothing is promised: the noise is seeded")


@pytest.mark.parametrize("values", [{"epsilon": 1.0}, {"more": 1}])
def test_a_file_that_states_something_else_is_refused(values):
    stated = values if "epsilon" in values else Privacy(1, bounds=(0, 1)).to_dict() | values
    with pytest.raises(ParameterError, match="privacy of the file"):
        Privacy.from_dict(stated)
