"""Which answers fit together: the largest group counts, and what differs is named."""

import time
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import FuzzyCMeans, Jigsaw
from fedjigsaw.flower import agreement
from fedjigsaw.flower.agreement import agreeing
from fedjigsaw.flower.rounds import federate
from fedjigsaw.io.tables import from_array
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.privacy.guard import LEFT_OUT, Guard
from fedjigsaw.sites import summarize
from flower_doubles import NAMES, LocalGrid, engine_of, site_app

pytestmark = pytest.mark.usefixtures("quick")


def answer_of(name, columns=("age",), *, sums=True):
    rows = from_array(np.arange(10.0 * len(columns)).reshape(10, -1), columns)
    file = summarize(rows, 2, client=name)
    return file if sums else replace(file, summary=replace(file.summary, sse=None))


def names_of(files):
    return [file.summary.client for file in files]


def test_the_largest_group_counts():
    files = [answer_of("bern", sums=False), answer_of("lyon", sums=False), answer_of("oslo")]
    good, reasons = agreeing(files, [], kept=False)
    assert names_of(good) == ["bern", "lyon"]
    assert reasons == [("oslo", agreement.OTHER_KIND)]


def test_a_scaler_is_the_same_everywhere_or_the_site_is_left_out(shards):
    columns = ("a", "b", "c")
    scalers = [Scaler(columns, np.zeros(3), np.full(3, scale)) for scale in (2.0, 2.0, 3.0)]
    grid = LocalGrid(
        {
            name: site_app(name, shards[name], order=list(columns), scaler=scaler)
            for name, scaler in zip(NAMES, scalers, strict=True)
        }
    )
    run = engine_of(grid, FuzzyCMeans(3, n_rounds=1, random_state=0))
    file, transcript = federate(run, min_sites=2)
    assert file.clients == NAMES[:2]
    assert file.scaler.fingerprint == scalers[0].fingerprint
    assert {failure.reason for failure in transcript.failures} == {agreement.OTHER_SCALER}


def test_a_guard_that_left_out_rows_does_not_leave_out_the_site(shards):
    far = np.vstack([shards["oslo"], np.full((4, 3), 500.0)])
    guarded = {"guard": Guard(min_cluster_size=5)}
    grid = LocalGrid(
        {name: site_app(name, far if name == "oslo" else shards[name], **guarded) for name in NAMES}
    )
    run = engine_of(grid, Jigsaw("auto", random_state=0))
    file, transcript = federate(run)
    assert [name for name in NAMES if LEFT_OUT in run.files[name].summary.tensors] == ["oslo"]
    assert (file.clients, transcript.failures) == (NAMES, ())


def test_a_site_that_names_very_many_columns_does_not_keep_the_server_busy():
    """Nor does it fill its log: a name may be long, too."""
    usual = [f"gene {j}" for j in range(30_000)]
    started = time.process_time()
    told = agreement.describe_columns(["x" * 10**6, *(f"other {j}" for j in range(30_000))], usual)
    assert time.process_time() - started < 4
    assert len(told) < 1000
