"""How sure the number of clusters is, as files and commands show it."""

import numpy as np
import pytest

from fedjigsaw.messages import Model
from fedjigsaw.number.confidence import Doubt
from fedjigsaw.report.number import (
    describe_choice,
    describe_number,
    number_values,
)
from report_files import k_findings

OVERLAP = {"doubts": Doubt.OVERLAP, "runner_up": 2}


def model_of(k, best=None, **findings):
    """A model of k clusters, of a search in which another number may have the best index."""
    numbers = np.arange(1, 8)
    curve = np.column_stack([numbers, 100 / numbers, -10.0 * abs(numbers - (best or k)) + 0.0])
    tensors = {"k_curve": curve, **k_findings(k, **findings).tensors()}
    return Model(np.eye(k, 3), "jigsaw", {}, ("age", "dose", "stay"), tensors)


def test_a_doubtful_number_is_said_to_be_one():
    (line,) = describe_number(model_of(3, confidence=0.3, **OVERLAP))
    assert line == (
        "The number of clusters is in doubt: 3 clusters (confidence 0.30); 2 is about as good: "
        "clusters 0 and 1 overlap."
    )
    (line,) = describe_number(model_of(3, confidence=0.5, **OVERLAP))
    assert line.startswith("Number of clusters: 3 clusters (confidence 0.50); 2 is nearly")


def test_advice_names_the_columns():
    columns = {"columns": np.array([1]), "doubts": Doubt.COLUMNS}
    advice = list(describe_number(model_of(1, confidence=0.2, background=0.1, **columns)))[1:]
    assert advice[0].startswith("- Only these columns seem to have clusters: dose. Try them")
    assert len(advice) == 1  # that rows lie outside of a single cluster says nothing


def test_a_given_number_needs_no_words():
    given = Model([[0.0]], "jigsaw", {}, ("x",))
    assert list(describe_number(given)) == list(describe_choice(given)) == []
    assert number_values(given) is None


def test_values():
    found = number_values(model_of(3, confidence=0.3, **OVERLAP))
    assert (found["confidence"], found["runner_up"], found["closest"]) == (0.3, 2, [0, 1])
    assert found["separation"] == pytest.approx([0.7, 0.85, 1.0])
    assert found["sentence"].startswith("3 clusters (confidence 0.30); 2 is about as good")
    assert found["advice"] == []
    assert number_values(model_of(1))["closest"] is None
