"""Packages with methods of their own, as `pip install` leaves them in a folder."""

WARD = '''
import numpy as np
from fedjigsaw import FederatedClusterer, Summary


class ToyWard(FederatedClusterer):
    """Cut sorted rows into equal parts: for tests."""

    def __init__(self, n_clusters=8, *, scale=1.0, random_state=None):
        self.n_clusters = n_clusters
        self.scale = scale
        self.random_state = random_state

    def summarize(self, X, broadcast, rng):
        parts = np.array_split(X[np.lexsort(X.T)], min(self.n_clusters, len(X)))
        centers = np.array([part.mean(axis=0) for part in parts]) * self.scale
        counts = np.array([len(part) for part in parts])
        return Summary(n_samples=len(X), centers=centers, counts=counts)

    def aggregate(self, summaries, broadcast, rng):
        received = np.concatenate([summary.centers for summary in summaries])
        parts = np.array_split(received[np.lexsort(received.T)], self.n_clusters)
        return self.make_model(np.array([part.mean(axis=0) for part in parts]))
'''


def install(folder, package, points, *, version="1.0", **modules):
    """Write a package into a folder: its modules, and metadata with entry points."""
    folder.mkdir(exist_ok=True)
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
    info = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = [f"{name} = {place}" for name, place in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[fedjigsaw.methods]", *lines, ""]))
    return folder
