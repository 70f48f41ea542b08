import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import FeCA, sites
from fedjigsaw.columns import scaling
from fedjigsaw.errors import CountsWarning, MessageError, SiteWarning
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
                found += part.labels.to_pylist()
                centers = model.model.centers[part.labels.to_numpy()]
                true = np.linalg.norm(data.X[ids == int(path.stem)] - centers, axis=1)
                assert np.allclose(part.distances.to_numpy(), true)
        assert found == memory.labels_.tolist()
        assert found != memory.predict(np.concatenate(list(shards.values()))).tolist()

    @pytest.mark.parametrize(
        "change",
        [
            {"method": "jigsaw"},
            {"columns": ("x", "z")},
            {"scaler": scaling.Scaler(("x", "y"), np.zeros(2), np.ones(2))},
            {"summary": {"client": "x"}},
            {
                "summary": {
                    "centers": np.empty((0, 2)),
                    "radii": None,
                    "tensors": {"a": np.zeros(1)},
                }
            },
        ],
    )
    def test_a_summary_of_another_round(self, grid_sites, made, change):
        summaries, model = made
        own = summaries["0"]
        if "summary" in change:
            change = {"summary": replace(own.summary, **change["summary"])}
        other = replace(own, **change)
        with pytest.raises(MessageError, match=f"'{other.summary.client}'"):
            next(sites.assign(grid_sites[0][0], model, local=other))

    def all_labels(self, *words, **options):
        return [part.labels for part in sites.assign(*words, **options)]

    def test_the_summary_of_another_client_of_the_model(self, grid_sites, made, tmp_path):
        summaries, model = made
        path = grid_sites[0][1]
        with pytest.raises(MessageError, match="The summary of '0' .*1.csv.*'1'"):
            self.all_labels(path, model, local=summaries["0"])
        shutil.copy(path, tmp_path / "data.csv")  # the name of the file does not tell the site
        with pytest.warns(SiteWarning, match="'0'"):
            self.all_labels(tmp_path / "data.csv", model, local=summaries["0"])

    @pytest.mark.parametrize(("method", "other"), [("jigsaw", "b"), ("jigsaw", "c"), ("feca", "c")])
    def test_one_with_as_many_rows(self, rng, tmp_path, method, other):
        """By counts, if there are any; else by centers that are nearest to no row."""
        a = rng.normal(size=(40, 2))
        b = a + 100
        made = {}
        for name, rows in (("a", [a, b[:8]]), ("b", [a[:8], b]), ("c", [a, a[:8] + 1])):
            x, y = np.concatenate(rows).T
            path = write_table(tmp_path / f"{name}.parquet", x=x, y=y)
            if name in ("a", other):
                made[name] = sites.summarize(path, 2, method=method)
        model = sites.aggregate(made, 2)
        self.all_labels(tmp_path / "a.parquet", model, local=made["a"])
        with pytest.raises(MessageError):
            self.all_labels(tmp_path / f"{other}.parquet", model, local=made["a"])

    @pytest.mark.filterwarnings("error::fedjigsaw.errors.SiteWarning")
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
