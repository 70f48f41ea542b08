"""Federated Lloyd: one round is one step of Lloyd's algorithm on the pooled rows."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedjigsaw import (
    Broadcast,
    Client,
    FederatedLloyd,
    Guard,
    Model,
    SerialEngine,
    Summary,
    partition,
    run_rounds,
)
from fedjigsaw.errors import MessageError


def from_start(method, X, clients, start, n_rounds):
    """Run rounds from given centers instead of the method's own start."""
    members = [Client(str(m), X[clients == m], method) for m in np.unique(clients)]
    first = Model(start, method="lloyd")
    options = {"seed": 0, "n_rounds": n_rounds, "first": 1, "model": first}
    return run_rounds(method, SerialEngine(members), **options).model.centers


def pooled(X, start, n_steps):
    """Return the centers after steps of Lloyd's algorithm on all rows, by scikit-learn."""
    options = {"n_init": 1, "max_iter": n_steps, "tol": 0.0, "algorithm": "lloyd"}
    return KMeans(len(start), init=start, **options).fit(X).cluster_centers_


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 2, 7, 60])
@pytest.mark.parametrize("split", ["iid", "dirichlet", "shards"])
def test_each_round_is_a_step_of_lloyd_on_the_pooled_rows(grid, rng, split, n_steps):
    data, _ = grid
    clients = partition.split(split, data.y, 7, rng=1)
    start = data.X[rng.choice(len(data.X), 15, replace=False)]
    found = from_start(FederatedLloyd(15), data.X, clients, start, n_steps)
    assert np.allclose(found, pooled(data.X, start, n_steps), rtol=1e-12)


def test_a_step_by_hand():
    """Rows 0, 2, 4 are nearest to 1, and 10, 20 to 12; the sums are those of both clients."""
    X, clients = np.array([[0.0], [2.0], [10.0], [4.0], [20.0]]), np.array([0, 0, 0, 1, 1])
    found = from_start(FederatedLloyd(2), X, clients, np.array([[1.0], [12.0]]), 1)
    assert found.ravel().tolist() == [2.0, 15.0]


def test_a_center_without_rows_stays():
    X, clients = np.array([[0.0], [2.0], [3.0]]), np.array([0, 1, 1])
    found = from_start(FederatedLloyd(2), X, clients, np.array([[1.0], [99.0]]), 3)
    assert found.ravel().tolist() == [5 / 3, 99.0]


def test_with_kmeans_at_the_server_an_empty_center_comes_back():
    """As in FKM: the server clusters the means, wherever its centers were before."""
    X, clients = np.array([[0.0], [0.2], [10.0], [10.2]]), np.array([0, 0, 1, 1])
    start = np.array([[5.0], [99.0]])
    stuck = from_start(FederatedLloyd(2), X, clients, start, 5)
    assert stuck.ravel() == pytest.approx([5.1, 99.0])
    found = from_start(FederatedLloyd(2, step="kmeans"), X, clients, start, 1)
    assert sorted(found.ravel()) == pytest.approx([0.1, 10.1])


def test_the_objective_never_rises(grid):
    data, clients = grid
    ends = [
        FederatedLloyd(15, n_rounds=r, random_state=2).fit(data.X, clients=clients).inertia_
        for r in (1, 2, 4, 8)
    ]
    assert ends == sorted(ends, reverse=True)


def test_means_and_counts_leave_and_no_seed(grid):
    """In the first round, too, where others send the seeds of k-means++."""
    data, clients = grid
    rows = data.X[clients == 0]
    sent = Client("0", rows, FederatedLloyd(15)).answer(Broadcast(0, 0))
    assert sent.sse is sent.radii is None
    assert not sent.tensors
    assert sent.counts.sum() == len(rows)
    several = sent.centers[sent.counts > 1]
    assert not {tuple(row) for row in rows} & {tuple(center) for center in several}


def test_under_a_guard_it_still_ends_near_lloyd(grid):
    data, clients = grid
    plain, guarded = (
        FederatedLloyd(15, random_state=0).fit(data.X, clients=clients, guard=guard).inertia_
        for guard in (Guard(1), Guard())
    )
    assert guarded < 1.1 * plain  # clusters of fewer than five rows are merged


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"centers": [[0.0]]}, "sent no counts, which Fed-Lloyd needs"),
        ({"centers": [[0.0]], "counts": [0]}, "counts of client 'a'"),
        ({"centers": [[0.0], [1.0], [2.0]], "counts": [1, 1, 1]}, "number of clusters, 2"),
    ],
)
def test_bad_answers_are_refused(answer, message):
    summary = Summary(n_samples=3, client="a", **answer)
    method, question = FederatedLloyd(2), Broadcast(1, 0, Model([[0.0], [5.0]]))
    for check in (
        lambda: method.check_answer(summary, question),
        lambda: method.aggregate([summary], question, np.random.default_rng(0)),
    ):
        with pytest.raises(MessageError, match=message):
            check()
