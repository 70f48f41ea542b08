"""Reports about clients, as a model keeps them."""

import numpy as np
import pytest

from fedjigsaw.errors import MessageError
from fedjigsaw.messages import Model
from fedjigsaw.trust.plausibility import Note
from fedjigsaw.trust.site_reports import site_reports, site_tensors

TABLE = np.array([[5.0, 5.0, 0.0], [5.0, 0.0, 7.0], [0.0, 0.0, 0.0]])


def model(**changes):
    tensors = site_tensors(
        np.array([10.0, 12.0, 1e9]), TABLE, np.array([0, 0, Note.FAR]), np.array([1.0, 1.2, 99.0])
    )
    return Model([[0.0], [1.0], [2.0]], tensors={**tensors, **changes})


def test_by_hand():
    bern, lyon, oslo = site_reports(model(), ["bern", "lyon", "oslo"])
    assert (bern.rows, bern.clusters, bern.alone, bern.influence) == (10, 2, 1, 1.0)
    assert (lyon.alone, lyon.set_aside, lyon.reason) == (1, False, "")
    assert oslo.set_aside
    assert oslo.reason == "some centers are far outside the range of the other sites"


def test_without_influence():
    tensors = site_tensors(np.array([10.0]), TABLE[:1], np.array([0]), None)
    (report,) = site_reports(Model([[0.0]], tensors=tensors), ["bern"])
    assert report.influence is None


def test_a_model_of_before():
    assert site_reports(Model([[0.0]]), ["bern"]) is None


def test_a_site_that_missed_the_last_round():
    assert site_reports(model(), ["bern", "lyon", "oslo", "rome"]) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"site_rows": np.ones(2)}, "one number per client"),
        ({"site_rows": np.ones((3, 1))}, "one number per client"),
        ({"site_influence": np.array([1.0, np.nan, 1.0])}, "site_influence of a model must be"),
        ({"site_notes": np.array([0, -1, 0])}, "site_notes of a model must be >= 0"),
    ],
)
def test_a_foreign_model(changes, message):
    with pytest.raises(MessageError, match=message):
        site_reports(model(**changes), ["bern", "lyon", "oslo"])
