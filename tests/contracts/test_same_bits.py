"""The same bits on every engine, with every method; both are found where they are listed."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array

import fedjigsaw
from doubles import OneByOne, ShuffledEngine
from fedjigsaw import Jigsaw, ProcessEngine
from fedjigsaw.methods import CLUSTERERS

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from new_method import KMeansOfCenters

CLASSES = [*(entry.cls for entry in CLUSTERERS.values()), KMeansOfCenters]


def lanes(clients):
    """Clients in threads, as DeepFeCA runs them."""
    engine = pytest.importorskip("fedjigsaw.deep.lanes").ThreadEngine
    return engine(clients, n_threads=2, start=int)


PUBLIC = {name: getattr(fedjigsaw, name) for name in fedjigsaw.__all__ if name[1:].endswith("Engine")}  # fmt: skip
ENGINES = {
    **PUBLIC,
    "one by one": OneByOne,
    "shuffled": ShuffledEngine,
    "lanes": lanes,
    "threads of joblib": ProcessEngine,
}
MARKS = {"ProcessEngine": pytest.mark.slow, "lanes": pytest.mark.deep}
each_engine = pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=MARKS.get(name, ())) for name in ENGINES]
)


@cache
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 3)) + 4 * rng.integers(3, size=(200, 3)), rng.integers(5, size=200)


KINDS = {
    "float32": (lambda X: X.astype(np.float32), {}),
    "sparse": (lambda X: csr_array(X * (X > 2)), {}),
    "weights": (lambda X: X, {"sample_weight": np.arange(200) % 4}),
}


@cache
def alone(cls, kind=None):
    """Fit one client after the other."""
    return fit(cls, "one by one", kind)


def fit(cls, engine, kind=None):
    X, clients = rows()
    change, options = KINDS.get(kind, (np.asarray, {}))
    options = {"clients": clients, "engine": ENGINES[engine], **options}
    with parallel_config("threading" if "threads" in engine else "loky", n_jobs=2):
        return cls(4, random_state=5).fit(change(X), **options)


def assert_same(other, one):
    assert other.model_ == one.model_
    assert other.summaries_ == one.summaries_
    assert (other.labels_ == one.labels_).all()
    assert other.inertia_ == one.inertia_
    assert [r.bytes_up for r in other.transcript_.rounds] == [
        r.bytes_up for r in one.transcript_.rounds
    ]


@pytest.mark.slow
@each_engine
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_method(engine, cls):
    assert_same(fit(cls, engine), alone(cls))


@pytest.mark.slow
@each_engine
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows(engine, kind):
    if engine == "lanes":
        pytest.skip("they are for images")
    assert_same(fit(Jigsaw, engine, kind), alone(Jigsaw, kind))
