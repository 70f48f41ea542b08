"""The compiled k-means: laws, and parity with scikit-learn's."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from fedjigsaw._steps import listener
from fedjigsaw.kernels import compiled
from fedjigsaw.kernels.backends import (
    NumbaBackend,
)
from fedjigsaw.kernels.kmeans import Problem, kmeans, kmeans_many, nearest_centers, settle_many
from fedjigsaw.kernels.warm import compile_kernels

pytest.importorskip("numba")
kernels = pytest.importorskip("fedjigsaw.kernels.compiled.kmeans")
NUMBA = NumbaBackend()
SHAPES = {"plain": (40, 3, 5), "tiles": (3000, 3, 5), "many columns": (60, 70, 4)}


def blobs(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(k, d))[rng.integers(k, size=n)] * 5 + rng.normal(size=(n, d))


def problems(seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    made = []
    for i, (n, d) in enumerate([(40, 2), (1, 2), (3000, 2), (7, 2), (300, 2), (2, 2), (41, 2)]):
        weights = rng.integers(0, 4, size=n) + np.eye(1, n)[0] if weighted else None
        made.append(Problem(blobs(n, d, 4, i), 4, np.random.default_rng(i), weights))
    return made


def bits(solutions):
    return [tuple(np.asarray(part).tobytes() for part in vars(s).values()) for s in solutions]


@pytest.mark.parametrize("weighted", [False, True])
def test_same_bits_for_any_batch_and_number_of_threads(weighted):
    expected = bits([kmeans_many([p], backend=NUMBA)[0] for p in problems(weighted=weighted)])
    for threads in (1, 2, 5):
        backend = NumbaBackend(threads)
        assert bits(kmeans_many(problems(weighted=weighted), backend=backend)) == expected
        parts = problems(weighted=weighted)
        halves = [kmeans_many(part, backend=backend) for part in (parts[:3], parts[3:])]
        assert bits(halves[0] + halves[1]) == expected
        reversed_ = kmeans_many(problems(weighted=weighted)[::-1], backend=backend)
        assert bits(reversed_[::-1]) == expected


@pytest.mark.parametrize("weighted", [False, True])
def test_same_bits_from_given_centers(weighted):
    sets = problems(weighted=weighted)
    starts = [p.X[:4] if p.weights is None else p.X[p.weights > 0][:4] for p in sets]
    pairs = list(zip(sets, starts, strict=True))
    expected = bits([settle_many([p], [start], backend=NUMBA)[0] for p, start in pairs])
    for threads in (1, 2, 5):
        backend = NumbaBackend(threads)
        assert bits(settle_many(sets, starts, backend=backend)) == expected
        reversed_ = settle_many(sets[::-1], starts[::-1], backend=backend)
        assert bits(reversed_[::-1]) == expected


@pytest.mark.parametrize("n", [40, 3000])
def test_from_given_centers_many_end_where_sklearn_does(n):
    X = blobs(n, 3, 5)
    weights = np.random.default_rng(1).uniform(0.5, 3, size=n)
    problem = Problem(X, 5, np.random.default_rng(0), weights)
    (found,) = settle_many([problem], [X[:5]], tol=0.0, backend=NUMBA)
    expected = KMeans(5, init=X[:5], n_init=1, tol=0.0).fit(X, sample_weight=weights)
    assert found.inertia == pytest.approx(expected.inertia_)
    assert np.allclose(
        np.sort(found.centers, axis=0), np.sort(expected.cluster_centers_, axis=0), atol=1e-9
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_a_large_search_tells_its_restarts(threads):
    told, backend = [], NumbaBackend(threads)
    token = listener.set(lambda *steps: told.append(steps))
    for n in (40, 3000):  # a small one is over before anyone looks
        kmeans(blobs(n, 2, 3), 3, rng=np.random.default_rng(0), n_init=3, backend=backend)
    listener.reset(token)
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_statistics_are_those_of_the_labels(shape):
    n, d, k = shape
    X = blobs(n, d, k)
    weights = np.random.default_rng(1).uniform(0.5, 3, size=n)
    found = kmeans(X, k, rng=np.random.default_rng(0), weights=weights, backend=NUMBA)
    assert found.centers.tolist() == sorted(found.centers.tolist())
    for j in range(k):
        mine = found.labels == j
        center = np.average(X[mine], axis=0, weights=weights[mine])
        squared = ((X[mine] - center) ** 2).sum(axis=1)
        np.testing.assert_allclose(found.centers[j], center, atol=1e-12)
        np.testing.assert_allclose(found.counts[j], weights[mine].sum())
        np.testing.assert_allclose(found.sse[j], weights[mine] @ squared)
        np.testing.assert_allclose(found.extents[j], np.sqrt(squared.max()))
    moved = np.mean(nearest_centers(X, found.centers)[0] != found.labels)
    assert moved <= 0.01  # a search ends once centers hardly move


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_objective_is_that_of_sklearn(shape):
    """Both are means over data and seeds of the best of ten starts."""
    n, d, k = shape
    k *= 3  # more than there are, so that starts differ
    ours, theirs = [], []
    for i in range(8):
        X = blobs(n, d, k // 2, i)
        ours.append(kmeans(X, k, rng=np.random.default_rng(i), backend=NUMBA).inertia)
        theirs.append(KMeans(k, n_init=10, random_state=i).fit(X).inertia_)
    assert np.mean(ours) <= 1.02 * np.mean(theirs)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=30),
    st.integers(1, 6),
    st.sampled_from([0.0, 1e6]),
    st.integers(0, 3),
)
def test_as_many_clusters_as_distinct_rows_and_none_empty(values, k, offset, seed):
    X = np.array(values, dtype=float)[:, None] + offset
    found = kmeans(X, k, rng=np.random.default_rng(seed), backend=NUMBA)
    distinct = len(set(values))
    assert len(found.centers) == min(k, distinct)
    assert (found.counts > 0).all()
    assert found.counts.sum() == len(values)
    if k >= distinct:
        assert found.inertia == 0.0


def test_given_centers_without_rows_get_some():
    X = blobs(50, 2, 3)
    far = np.vstack([X[:2], [[1e4, 1e4]]])
    rng = np.random.default_rng(0)
    alone = kmeans(X, 3, rng=rng, init=far, backend=NUMBA)
    (in_columns,) = settle_many([Problem(X, 3, rng)], [far], backend=NUMBA)
    for found in (alone, in_columns):
        assert (found.counts > 0).all()
        assert len(found.centers) == 3


def test_rows_that_may_not_be_written_are_not_compiled_for():
    X = blobs(40, 2, 3)
    bits_before = bits([kmeans(X, 3, rng=np.random.default_rng(0), backend=NUMBA)])
    compiled_for = len(kernels.few.signatures)
    X.setflags(write=False)
    columns = np.asfortranarray(X)
    for rows in (X, columns):
        found = kmeans(rows, 3, rng=np.random.default_rng(0), backend=NUMBA)
        assert bits([found]) == bits_before
    assert len(kernels.few.signatures) == compiled_for


@pytest.mark.parametrize("n", [60, 3000])
def test_equal_values_have_no_spread_however_large(n):
    X = np.full((n, 2), -8.1e79)
    found = kmeans(X, 3, rng=np.random.default_rng(0), backend=NUMBA)
    assert found.centers.tolist() == [[-8.1e79, -8.1e79]]
    assert found.sse.tolist() == [0.0]


@pytest.mark.slow
def test_it_works_where_no_folder_can_be_written(tmp_path):
    """Numba keeps machine code beside the module, or in a folder of the user."""
    code = (
        "from fedjigsaw.kernels.compiled import nearest as s; import numpy as np; x = np.ones((1, 1));"
        "s.nearest(x, x, x[0] / 2, 0, 1, np.zeros(1, int), y := np.ones(1)); print(y[0])"
    )
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, where a folder is wanted")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(blocked / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert 0 <= float(done.stdout) < 1


def test_kernels_can_be_compiled_before():
    compile_kernels()
    told = []
    with compiled.on_compiling(lambda: told.append(1)):
        for n in (50, 5000):
            kmeans(blobs(n, 3, 4), 4, rng=np.random.default_rng(0), backend=NUMBA)
    assert not told


@pytest.mark.slow
def test_the_first_fit_compiles_only_what_it_needs(tmp_path):
    code = """
import numpy as np
from fedjigsaw import Jigsaw
from fedjigsaw.kernels import compiled
names = []
with compiled.on_compiling(lambda: names.append(1)):
    X = np.random.default_rng(0).normal(size=(4_000, 4))
    Jigsaw(10, random_state=0).fit(X, clients=np.arange(4_000) % 10)
print(len(names))
"""
    words, environment = [sys.executable, "-c", code], {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = [
        int(subprocess.check_output(words, env={**os.environ, **environment})) for _ in range(2)
    ]
    assert 0 < done[0] <= 15
    assert done[1] == 0  # kept for the next start


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_no_row_gets_a_label_beyond_the_clusters_whatever_the_numbers(share, value, shape, given):
    """Nothing checks places in compiled code: a wrong label is a write into foreign memory."""
    (n, d, k), rng = shape, np.random.default_rng(0)
    rows = blobs(n, d, k)
    rows[rng.random(n) < share] = value
    junk = [np.full(n, -(2**62)) for _ in range(50)]  # what new arrays find in their memory
    del junk
    start = rows[:k].copy() if given else None
    labels = NUMBA.labels(rows, k, weights=None, n_init=2, max_iter=5, tol=0.0, rng=rng, init=start)
    assert 0 <= labels.min() <= labels.max() < k


FIRST_AND_NEXT = """
import hashlib
import numpy as np
from fedjigsaw.kernels.compiled import kmeans
rng = np.random.default_rng(0)
X, labels, clients = rng.normal(size=(4, 184)), np.zeros(184, np.int64), np.array([[0, 184, 8, 0, 4]])
ones, states = np.ones(184), np.arange(10, dtype=np.uint64)[None]
space = np.zeros((4, 184)), np.zeros((184, 184)), *np.zeros((2, 8, 4)), np.zeros(8)
space = *space, *np.zeros((4, 184)), np.zeros(8, int)
kmeans.few(
    X, (X**2).sum(axis=0), ones, clients, np.zeros(1), states, np.zeros((0, 4)), 300, labels,
    *space, *np.zeros((3, 184), int)
)
print(hashlib.sha256(space[8].tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_the_process_that_compiles_has_the_bits_of_the_next_one(tmp_path):
    """They must not differ in whether machine code is a caller's copy."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    bits = [
        subprocess.run(
            [sys.executable, "-c", FIRST_AND_NEXT], env=env, capture_output=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert bits[0] == bits[1]
