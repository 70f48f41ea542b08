"""The two halves of an app of one's own, over a grid in this process."""

import errno
import os

import pytest

from fedjigsaw import FeCA
from fedjigsaw.flower import records
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import Site
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from flower_doubles import engine_of, grid_of

pytestmark = pytest.mark.usefixtures("quick")


def test_nothing_leaves_that_cannot_be_kept(shards):
    def full(file):
        raise OSError("No space left on device")

    bern = client_app(lambda context: Site("bern", from_array(shards["bern"])), keep=full)
    engine = engine_of(grid_of(shards, bern=bern), FeCA(3, random_state=5))
    federate(engine, min_sites=2)
    assert set(engine.files) == {"lyon", "oslo"}


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
