"""The attribute profile_: what clients may send about the clusters of a fit."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from doubles import FailsOnNegative
from fedjigsaw import CentralKMeans, FeCA, Guard, Jigsaw, Privacy
from fedjigsaw.errors import ParameterError, UnavailableError


@pytest.fixture
def people(rng):
    """Rows of three clients: two groups that differ in age, and one row alone at the last one."""
    ages = np.concatenate([rng.normal(30, 3, 40), rng.normal(70, 3, 40)])
    frame = pd.DataFrame({"age": ages, "dose": rng.normal(5, 1, 80)})
    return frame, np.array((["a"] * 20 + ["b"] * 20) * 2)


@pytest.mark.parametrize("method", [Jigsaw, FeCA, CentralKMeans])
def test_it_equals_what_pandas_makes_of_all_rows(people, method):
    frame, clients = people
    fitted = method(n_clusters=2, random_state=0).fit(frame, clients=clients)
    found = fitted.profile_.set_index(["cluster", "column"])
    grouped = frame.groupby(fitted.labels_)
    for cluster in (0, 1):
        group = grouped.get_group(cluster)
        for column in ("age", "dose"):
            row = found.loc[(cluster, column)]
            assert row["rows"] == len(group)
            assert row["mean"] == pytest.approx(group[column].mean())
            assert row["std"] == pytest.approx(group[column].std(ddof=0))
            shift = (group[column].mean() - frame[column].mean()) / frame[column].std(ddof=0)
            assert row["difference"] == pytest.approx(shift)


def test_the_guard_of_the_fit_holds(people):
    frame, clients = people
    clients[[*range(10, 20), 79]] = "c"  # ten young rows, and one old row alone
    fitted = Jigsaw(n_clusters=2, random_state=0).fit(frame, clients=clients, guard=Guard(5))
    shown = fitted.profile_.set_index(["column", "cluster"]).loc["age"]
    assert shown["rows"].tolist() == [30, 39]  # nothing of c: its ten rows would give the one away
    free = Jigsaw(n_clusters=2, random_state=0).fit(frame, clients=clients)
    assert free.profile_["rows"].tolist() == [40] * 4
    young = frame["age"][:40].drop(range(10, 20)).mean()
    assert shown["mean"][0] != young  # it is rounded
    assert shown["mean"][0] == pytest.approx(young, abs=0.6)


def test_clients_that_did_not_answer_are_not_in_it():
    rows = [[1.0], [2.0], [9.0], [-1.0], [-2.0], [-3.0]]
    method = FailsOnNegative(n_clusters=2, random_state=0)
    fitted = method.fit(rows, clients=["a"] * 3 + ["b"] * 3, min_clients=1)
    assert fitted.profile_["rows"].sum() == 3
    assert fitted.profile_["mean"].min() == 1.5


def test_after_a_private_fit_there_is_none(people):
    frame, clients = people
    privacy = Privacy(8.0, cells="own", bounds=(0, 100), insecure_seed=0)
    fitted = Jigsaw(n_clusters=2, random_state=0).fit(frame, clients=clients, privacy=privacy)
    with pytest.raises(ParameterError, match="no profile_ after a private fit"):
        _ = fitted.profile_
    assert fitted._profile is None


def test_before_a_fit_and_after_a_copy(people):
    frame, _ = people
    method = Jigsaw(n_clusters=2, random_state=0)
    with pytest.raises(NotFittedError):
        _ = method.profile_
    fitted = method.fit(frame.to_numpy())
    assert fitted.profile_["column"].tolist() == ["x0", "x1"] * 2
    again = pickle.loads(pickle.dumps(fitted))
    pd.testing.assert_frame_equal(again.profile_, fitted.profile_)
    with pytest.raises(NotFittedError):
        _ = clone(fitted).profile_


def test_without_pandas_the_error_names_the_remedy(monkeypatch, people):
    frame, _ = people
    fitted = Jigsaw(n_clusters=2, random_state=0).fit(frame.to_numpy())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnavailableError, match="pip install pandas"):
        _ = fitted.profile_
    assert not hasattr(fitted, "profile_")
    assert "Jigsaw" in fitted._repr_html_()


def test_showing_an_estimator_computes_nothing(monkeypatch, people):
    def asked(*values):
        raise AssertionError

    frame, clients = people
    fitted = Jigsaw(n_clusters=2, random_state=0).fit(frame, clients=clients)
    monkeypatch.setattr("fedjigsaw.estimator.profile_frame", asked)
    monkeypatch.setattr("fedjigsaw.robust.influence.influences", asked)
    assert {"profile_", "sites_", "cluster_centers_"} < set(dir(fitted))
    assert "Jigsaw" in fitted._repr_html_()


def test_an_attribute_that_is_not_there_is_an_attribute_error():
    """As `hasattr` and `getattr` with a default expect."""
    fitted = Jigsaw(2, random_state=0).fit_clients({"a": lambda: np.arange(40.0).reshape(20, 2)})
    assert not hasattr(fitted, "profile_")
    assert getattr(fitted, "profile_", None) is None
    with pytest.raises(ParameterError, match="There is no profile_"):
        _ = fitted.profile_
