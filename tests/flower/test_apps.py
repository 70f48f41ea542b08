"""The two halves of an app of one's own, over a grid in this process."""

import errno
import os
from time import sleep

import pytest

from fedjigsaw import FeCA
from fedjigsaw.errors import QuorumError
from fedjigsaw.flower import records
from fedjigsaw.flower.apps import client_app, server_app
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import Site, in_time
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import from_array
from flower_doubles import NAMES, context, engine_of, grid_of

pytestmark = pytest.mark.usefixtures("quick")


def test_what_leaves_is_kept_first(shards):
    kept = []
    bern = client_app(lambda context: Site("bern", from_array(shards["bern"])), keep=kept.append)
    engine = engine_of(grid_of(shards, bern=bern), FeCA(3, random_state=5))
    federate(engine)
    assert kept == [engine.files["bern"]]


def test_nothing_leaves_that_cannot_be_kept(shards):
    def full(file):
        raise OSError("No space left on device")

    bern = client_app(lambda context: Site("bern", from_array(shards["bern"])), keep=full)
    engine = engine_of(grid_of(shards, bern=bern), FeCA(3, random_state=5))
    federate(engine, min_sites=2)
    assert set(engine.files) == {"lyon", "oslo"}


def test_a_late_site_logs_one_line_that_says_what_to_do(shards, caplog):
    class Slow:
        def answer(self, question):
            with in_time(0.049996):
                sleep(5)

    bern = client_app(lambda context: Slow())
    engine = engine_of(grid_of(shards, bern=bern), FeCA(3, random_state=5))
    _, transcript = federate(engine, min_sites=2)
    assert transcript.failures[0].reason == records.REASONS["timeout"] + records.SEE_LOG
    [record] = [one for one in caplog.records if one.levelname == "ERROR"]
    assert record.exc_info is None
    assert "no answer within 0.05 s" in record.getMessage()
    assert "--timeout" in record.getMessage()


@pytest.mark.parametrize("allowed", [0, 1])
def test_the_server_is_told_that_a_site_cannot_write(
    shards, tmp_path, monkeypatch, caplog, allowed
):
    """Neither the question nor what leaves can be written: its data are not to blame."""
    left = [None] * allowed

    def full(descriptor):
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device", "/home/ada")
        left.pop()

    bern = client_app(
        lambda context: Site("bern", from_array(shards["bern"]), folder=tmp_path),
        keep=lambda file: formats.save(file, tmp_path / "last.summary"),
    )
    monkeypatch.setattr(os, "fsync", full)
    engine = engine_of(grid_of(shards, bern=bern), FeCA(3, random_state=5))
    _, transcript = federate(engine, min_sites=2)
    assert transcript.failures[0].reason == records.REASONS["disk"] + records.SEE_LOG
    [record] = [one for one in caplog.records if one.exc_info]
    plain = f"Cannot write {tmp_path / 'journal.jsonl'}: no space left on device."
    assert str(record.exc_info[1]) == plain


def test_server_app_writes_the_model(shards, tmp_path):
    clusterer = FeCA(3, random_state=5)
    app = server_app(clusterer, tmp_path / "model", names=NAMES, timeout=60.0)
    app(grid_of(shards), context())
    file = formats.load(tmp_path / "model", ModelFile)
    assert file.model.centers.tobytes() == clusterer.fit_clients(shards).cluster_centers_.tobytes()
    app = server_app(clusterer, tmp_path / "none", names=(*NAMES, "rome"), timeout=60.0, wait=0.0)
    with pytest.raises(QuorumError, match="rome"):
        app(grid_of(shards), context())
    assert not (tmp_path / "none").exists()
