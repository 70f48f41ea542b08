import contextlib
import io
import shutil
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from fedjigsaw import datasets, metrics
from fedjigsaw.errors import DatasetError, ParameterError
from fedjigsaw.kernels.kmeans import nearest_centers


class TestGaussianGrid:
    @pytest.mark.parametrize("overlap", [0.0, 0.01, 0.2])
    def test_overlap_is_the_share_of_rows_nearer_to_another_center(self, overlap):
        data = datasets.gaussian_grid(3000, overlap=overlap, rng=1)
        found = np.mean(nearest_centers(data.X, data.centers)[0] != data.y)
        assert overlap - 0.002 <= found <= overlap

    def test_shape_and_scale(self):
        data = datasets.gaussian_grid()
        assert data.X.shape == (5000, 2)
        assert data.centers.shape == (15, 2)
        assert data.n_clusters == 15
        assert np.bincount(data.y).min() >= 333
        assert 0 < data.centers.min() < data.centers.max() < 1e6

    @pytest.mark.parametrize("bad", [{"n_samples": 14}, {"overlap": -0.1}, {"overlap": 0.6}])
    def test_bad_input(self, bad):
        with pytest.raises(ParameterError, match=f"{next(iter(bad))} of gaussian_grid must be"):
            datasets.gaussian_grid(**bad)


def test_digits_ship_with_scikit_learn():
    digits = datasets.load("digits")
    assert digits.X.shape == (1797, 64)
    assert digits.centers is None


def test_unknown_name():
    with pytest.raises(ParameterError, match="name of load"):
        datasets.load(None)
    with pytest.raises(ParameterError, match="Unknown data set 's5'"):
        datasets.load("s5")


@pytest.mark.parametrize("name", ["s1", "s2", "s3", "s4"])
def test_ssets(load_or_skip, name):
    data = load_or_skip(name)
    assert (data.X.shape, data.centers.shape, data.n_clusters) == ((5000, 2), (15, 2), 15)
    means = np.array([data.X[data.y == c].mean(axis=0) for c in range(15)])
    worst = np.linalg.norm(means - data.centers, axis=1).max()  # label i belongs to center i
    assert worst < 3e4
    assert metrics.center_l2(means, data.centers) < 5e4


@pytest.mark.parametrize(("name", "k"), [("cifar10-features", 10), ("cifar100-features", 100)])
def test_features(load_or_skip, name, k):
    data = load_or_skip(name)
    assert data.X.shape == (50000, 128)
    assert data.X.dtype == np.float64
    assert data.n_clusters == k
    assert np.isfinite(data.X).all()


@pytest.fixture
def empty_home(tmp_path, monkeypatch):
    """No data anywhere: neither in FEDJIGSAW_DATA nor in the cache."""
    monkeypatch.delenv("FEDJIGSAW_DATA", raising=False)
    monkeypatch.setenv("FEDJIGSAW_CACHE", str(tmp_path / "cache"))
    return tmp_path


class TestWithoutData:
    @pytest.mark.parametrize("name", ["s1", "cifar10-features"])
    def test_the_error_says_where_it_looked_and_what_to_do(self, empty_home, name):
        advice = "fetch ssets" if name == "s1" else "cannot be downloaded"
        with pytest.raises(DatasetError, match=f"(?s)Data set '{name}' not found.*cache.*{advice}"):
            datasets.load(name)
        assert not datasets.SOURCES[name].is_here

    def test_wrong_numbers_are_refused(self, empty_home, monkeypatch):
        folder = empty_home / "ssets"
        folder.mkdir()
        monkeypatch.setenv("FEDJIGSAW_DATA", str(empty_home))
        (folder / "s1.txt").write_text("1 2\n3 4\n")
        with pytest.raises(DatasetError, match="Cannot read data set 's1' in .* as tables of"):
            datasets.load("s1")
        (folder / "s1-cb.txt").write_text("1 2\n")
        (folder / "s1-label.pa").write_text("\n\n\n\n\n1\n1\n")
        with pytest.raises(DatasetError, match="not the published ones.*, not 3fb93dd89d90.*data"):
            datasets.load("s1")

    def test_a_broken_feature_file(self, empty_home, monkeypatch):
        (empty_home / "features").mkdir()
        monkeypatch.setenv("FEDJIGSAW_DATA", str(empty_home))
        path = empty_home / datasets.FEATURES["cifar10-features"]
        path.write_bytes(b"PK\x03\x04 not really")
        with pytest.raises(DatasetError, match="Cannot read .*npz as an NPZ file with x_train"):
            datasets.load("cifar10-features")
        np.savez(path, x_train=np.array([object()]), y_train=np.zeros(1))  # pickled inside
        with pytest.raises(DatasetError, match="an NPZ file"):
            datasets.load("cifar10-features")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
class TestCache:
    @pytest.mark.parametrize("value", ["", None])
    def test_is_in_the_home_folder(self, monkeypatch, value):
        monkeypatch.delenv("FEDJIGSAW_CACHE", raising=False)
        if value is None:
            monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert datasets.cache_folder() == Path.home() / ".cache" / "fedjigsaw"

    def test_follows_the_environment(self, monkeypatch, tmp_path):
        monkeypatch.delenv("FEDJIGSAW_CACHE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "system"))
        assert datasets.cache_folder() == tmp_path / "system" / "fedjigsaw"
        monkeypatch.setenv("FEDJIGSAW_CACHE", str(tmp_path / "own"))
        assert datasets.cache_folder() == tmp_path / "own"


@contextlib.contextmanager
def serve(folder):
    """A real web server on loopback, for as long as the block lasts."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def mirror(load_or_skip, tmp_path):
    """The five files as the home page has them."""
    load_or_skip("s1")
    source = datasets._find("ssets/s1.txt").parent
    folder = tmp_path / "mirror"
    folder.mkdir()
    with zipfile.ZipFile(folder / "s-originals.zip", "w") as archive:
        for name in datasets.SSETS_HASHES:
            shutil.copy(source / f"{name}.txt", folder)
            for suffix in ("-cb.txt", "-label.pa"):
                archive.write(source / f"{name}{suffix}", f"{name}{suffix}")
    return folder


class TestFetch:
    def test_then_load(self, mirror, empty_home):
        with serve(mirror) as home:
            folder = datasets.fetch_ssets(home=home)
        assert folder == empty_home / "cache" / "ssets"
        assert datasets.load("s3").X.shape == (5000, 2)
        assert [p.name for p in (empty_home / "cache").iterdir()] == ["ssets"]  # no temporary files

    def test_a_changed_number_is_noticed_and_nothing_is_kept(self, mirror, empty_home):
        text = (mirror / "s2.txt").read_text()
        (mirror / "s2.txt").write_text(text.replace("1", "2", 1))
        with serve(mirror) as home, pytest.raises(DatasetError, match="published ones"):
            datasets.fetch_ssets(home=home)
        assert not datasets.SOURCES["s1"].is_here
        assert not list((empty_home / "cache").iterdir())

    def test_an_archive_without_the_truth(self, mirror, empty_home):
        empty = io.BytesIO()
        zipfile.ZipFile(empty, "w").close()
        for content in (empty.getvalue(), b"<html>404</html>"):
            (mirror / "s-originals.zip").write_bytes(content)
            with (
                serve(mirror) as home,
                pytest.raises(DatasetError, match="Cannot extract s1-cb.txt"),
            ):
                datasets.fetch_ssets(home=home)

    def test_a_cache_that_cannot_be_written(self, empty_home, monkeypatch):
        (empty_home / "file").touch()
        monkeypatch.setenv("FEDJIGSAW_CACHE", str(empty_home / "file" / "cache"))
        with pytest.raises(DatasetError, match=r"Cannot write .*cache: .*Set FEDJIGSAW_CACHE"):
            datasets.fetch_ssets(home="http://127.0.0.1:1/")

    def test_no_server(self, empty_home):
        with pytest.raises(DatasetError, match="Cannot download http://127.0.0.1:1/s1.txt .*with"):
            datasets.fetch_ssets(home="http://127.0.0.1:1/")
