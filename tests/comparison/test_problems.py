"""What a comparison clusters."""

from fedjigsaw import datasets
from fedjigsaw.comparison.problems import deal_dataset, seeds_of, smallest_client


def test_the_smallest_client_has_k_rows_or_a_tenth_of_the_average():
    data = datasets.load("gaussian-grid")
    assert smallest_client(data, 10, 20) == 20
    assert smallest_client(data, 10) == 15
    assert smallest_client(data, 100, 20) == 5


def test_a_named_set_is_split_among_clients_by_each_seed():
    problem = deal_dataset("gaussian-grid", 7)
    first, second = problem.clients(1), problem.clients(2)
    assert len(first) == len(problem.data.X)
    assert set(first) == set(second) == set(range(7))
    assert first.tolist() == problem.clients(1).tolist() != second.tolist()


def test_seeds():
    assert seeds_of(3) == (0, 1, 2)
    assert seeds_of([5, 2]) == (5, 2)
    assert seeds_of(range(2, 4)) == (2, 3)
