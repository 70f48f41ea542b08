"""What tests of methods share."""

import pytest

from fedjigsaw.methods import _searching


@pytest.fixture
def search_with(monkeypatch):
    """Let a function like `kmeans` search for the clusters of each client."""

    def use(search):
        def many(problems, **options):
            return [search(p.X, p.n_clusters, rng=p.rng, **options) for p in problems]

        monkeypatch.setattr(_searching, "kmeans_many", many)

    return use
