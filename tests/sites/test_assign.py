import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import FeCA, sites
from fedjigsaw.errors import CountsWarning, ForeignSummaryWarning, MessageError
from fedjigsaw.kernels import scaling
from fedjigsaw.privacy.guard import Guard

OFF = Guard(min_cluster_size=1)


@pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
class TestLocalLabels:
    @pytest.fixture
    def made(self, grid_sites):
        """Summaries by client, and the model; the last site has its columns the other way round."""
        paths, _, _ = grid_sites
        made = {p.stem: sites.summarize(p, 15, method="feca", guard=OFF, seed=7) for p in paths}
        made["4"] = sites.reorder(made["4"], ("y", "x"))
        return made, sites.aggregate(made, 15, seed=7)

    def test_by_file_equals_in_memory(self, grid_sites, made):
        paths, data, ids = grid_sites
        summaries, model = made
        shards = {str(m): data.X[ids == m] for m in range(5)}
        memory = FeCA(15, assign="local", random_state=7).fit_clients(shards)
        found = []
        for path in paths:
            for part in sites.assign(path, model, local=summaries[path.stem]):
                found.append(part.labels.to_numpy())
                centers = model.model.centers[found[-1]]
                true = np.linalg.norm(data.X[ids == int(path.stem)] - centers, axis=1)
                assert np.allclose(part.distances.to_numpy(), true)
        assert np.concatenate(found).tolist() == memory.labels_.tolist()
        assert (
            np.concatenate(found).tolist()
            != memory.predict(np.concatenate(list(shards.values()))).tolist()
        )

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"method": "jigsaw"}, "This summary of '0' was made with jigsaw, the model with feca. Use the summary"),
            ({"columns": ("x", "z")}, "has the columns 'x', 'z'; the model has 'x', 'y'"),
            ({"scaler": scaling.Scaler(("x", "y"), np.zeros(2), np.ones(2))}, r"is scaled \(scaler \w+\), but the model is not scaled"),
        ],
    )  # fmt: skip
    def test_a_summary_of_another_round(self, grid_sites, made, change, words):
        summaries, model = made
        other = replace(summaries["0"], **change)
        with pytest.raises(MessageError, match=words):
            next(sites.assign(grid_sites[0][0], model, local=other))

    def test_a_summary_of_another_site(self, grid_sites, made):
        summaries, model = made
        stranger = replace(summaries["0"].summary, client="x")
        other = replace(summaries["0"], summary=stranger)
        with pytest.raises(
            MessageError, match="not made from a summary of client 'x'; it has '0', '1',"
        ):
            next(sites.assign(grid_sites[0][0], model, local=other))

    def all_labels(self, *words, **options):
        return [part.labels for part in sites.assign(*words, **options)]

    def test_the_summary_of_another_client_of_the_model(self, grid_sites, made, tmp_path):
        summaries, model = made
        path = grid_sites[0][1]
        text = r"The summary of '0' does not fit the rows of .*1.csv: it was made from .* rows, and the file has"
        with pytest.raises(MessageError, match=text + r".*Use the summary of '1'"):
            self.all_labels(path, model, local=summaries["0"])
        shutil.copy(path, tmp_path / "data.csv")  # the name of the file does not tell the site
        with pytest.warns(ForeignSummaryWarning, match="If these are not rows of '0'"):
            self.all_labels(tmp_path / "data.csv", model, local=summaries["0"])

    def test_one_with_as_many_rows(self, rng, tmp_path):
        """By counts, if there are any; else by centers that are nearest to no row."""
        a = rng.normal(size=(40, 2))
        b = a + 100
        for name, rows in (("a", [a, b[:8]]), ("b", [a[:8], b]), ("c", [a, a[:8] + 1])):
            x, y = np.concatenate(rows).T
            write_table(tmp_path / f"{name}.parquet", x=x, y=y)
        for method, other, words in (
            ("jigsaw", "b", "67% of the rows would belong to other centers"),
            ("jigsaw", "c", "1 of its 2 centers are nearest to no row"),
            ("feca", "c", "1 of its 2 centers are nearest to no row"),
        ):
            made = {
                n: sites.summarize(tmp_path / f"{n}.parquet", 2, method=method)
                for n in ("a", other)
            }
            model = sites.aggregate(made, 2)
            self.all_labels(tmp_path / "a.parquet", model, local=made["a"])
            with pytest.raises(MessageError, match=words):
                self.all_labels(tmp_path / f"{other}.parquet", model, local=made["a"])

    @pytest.mark.filterwarnings("error::fedjigsaw.errors.ForeignSummaryWarning")
    @pytest.mark.parametrize("guard", [Guard(1), Guard(9), Guard(9, "rounded"), Guard(5, "none")])
    @pytest.mark.parametrize("max_rows", [80, 10_000])
    def test_a_site_is_never_suspected_of_its_own_summary(self, grid_sites, guard, max_rows):
        found = grid_sites[0]
        for method in ("jigsaw", "feca"):
            options = {"method": method, "guard": guard, "max_rows": max_rows}
            made = {path.stem: sites.summarize(path, 15, **options) for path in found}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CountsWarning)
                model = sites.aggregate(made, 15)
            for path in found:
                self.all_labels(path, model, local=made[path.stem])

    def test_a_summary_without_centers(self, grid_sites, made):
        summaries, model = made
        empty = replace(
            summaries["0"].summary,
            centers=np.empty((0, 2)),
            radii=None,
            tensors={"a": np.zeros(1)},
        )
        with pytest.raises(MessageError, match="This summary of '0' has no centers. Use"):
            next(
                sites.assign(grid_sites[0][0], model, local=replace(summaries["0"], summary=empty))
            )
