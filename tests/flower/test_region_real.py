"""A region over a real network: two servers, two sites of the region, one plain site above."""

import pytest

from fedjigsaw import sites
from fedjigsaw.flower import bundle, founding, members
from fedjigsaw.flower.processes import free_port
from fedjigsaw.io import formats
from flower_clinic import Clinic, make_shards

pytestmark = [pytest.mark.federation, pytest.mark.slow, pytest.mark.long]


def test_one_region_of_two_sites_and_one_plain_site(tmp_path):
    clinic = Clinic(tmp_path, make_shards())
    top = tmp_path / "top"
    names = ["north", "oslo"]
    founding.init(top, names, "127.0.0.1", free_port(), bundle.build(), regions=names[:1])
    for name in ("north", "oslo"):
        (top / name / "policy.toml").unlink()
    policies = [clinic.home / name / "policy.toml" for name in ("bern", "lyon")]
    for path in policies:
        path.unlink()  # the default policy, at every site of both levels
    try:
        clinic.start("server", "server", clinic.home)
        clinic.start("top", "server", top)
        for name, ending in (("bern", "csv"), ("lyon", "parquet")):
            data = tmp_path / f"{name}.{ending}"
            clinic.start(name, "site", clinic.home / name, "--data", data)
        clinic.start("oslo", "site", top / "oslo", "--data", tmp_path / "oslo.csv")
        clinic.start("north", "site", top / "north", "--region", clinic.home, "--min-sites", 2)
        for name in ("server", "top"):
            clinic.wait_to_say(name, "Press Ctrl-C to end it")
        for name in ("bern", "lyon", "oslo", "north"):
            clinic.wait_to_say(name, "connected to the server")
        members.revoke(clinic.home / "server", "oslo")  # is at the next level
        words = ["run", top, "-k", 3, "-o", tmp_path / "model", "--wait", 60, "--timeout", 120]
        assert clinic.start("run", *words).wait(180) == 0, clinic.output("run")
        names = ("bern", "lyon", "oslo")
        files = {
            name: sites.summarize(
                tmp_path / f"{name}.{'parquet' if name == 'lyon' else 'csv'}", 3, client=name
            )
            for name in names
        }
        flat = sites.aggregate(files, 3)
        made = formats.load(tmp_path / "model", formats.ModelFile)
        assert made.clients == names
        assert made.model.centers.tobytes() == flat.model.centers.tobytes()
        assert "did not take part" not in clinic.output("run")
        assert (top / "north" / "journal.jsonl").exists()
    finally:
        clinic.end()
