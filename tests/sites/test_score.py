import numpy as np
import pytest

from fedjigsaw import metrics, sites
from fedjigsaw.errors import MessageError
from fedjigsaw.io.formats import Score


def test_scores_and_labels_equal_those_of_the_pooled_rows(grid_sites):
    paths, data, ids = grid_sites
    scaler = sites.common_scaler({path.name: sites.measure(path) for path in paths})
    files = {p.name: sites.summarize(p, 15, scaler=scaler) for p in paths}
    model = sites.aggregate(files, 15)
    total = sites.merge_scores({p.name: sites.score(p, model) for p in paths})
    scaled = scaler.scale(data.X)
    assert total.sse.sum() == pytest.approx(metrics.inertia(scaled, model.model.centers))
    assert total.counts.sum() == 1500
    labels = [
        label
        for path in paths
        for part in sites.assign(path, model)
        for label in part.labels.to_pylist()
    ]
    assert np.bincount(labels, minlength=15).tolist() == total.counts.tolist()
    expected = np.concatenate([scaled[ids == m] for m in range(5)])
    nearest = np.linalg.norm(expected[:, None] - model.model.centers, axis=2).argmin(axis=1)
    assert labels == nearest.tolist()


def test_scores_of_other_models():
    a, b = (Score(m + "'s", m, np.array([1]), np.array([0.0])) for m in ("m", "n"))
    with pytest.raises(MessageError, match="B .* A, m; got n"):
        sites.merge_scores({"A": a, "B": b})
    with pytest.raises(MessageError, match="A and B are both from client"):
        sites.merge_scores({"A": a, "B": a})


def test_scores_that_cannot_be_added():
    honest = Score("a", "m", np.array([1, 2]), np.array([0.0, 1.0]))
    longer = Score("b", "m", np.array([1, 2, 3]), np.zeros(3))
    with pytest.raises(MessageError, match="A has 2 clusters, B 3"):
        sites.merge_scores({"A": honest, "B": longer})
    huge = Score("b", "m", np.array([2**41, 0]), np.zeros(2))
    with pytest.raises(MessageError, match=f"rows of B .*{2**41}"):
        sites.merge_scores({"A": honest, "B": huge})
