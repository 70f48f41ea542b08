"""Summaries that a coordinator keeps: one of each site, added, replaced, forgotten."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.sites.keeping import Kept, question_name

NAMES = ("bern", "lyon", "oslo", "rome")
ONE_ROUND = [
    name
    for name, entry in CLUSTERERS.items()
    if entry.cls(2).total_rounds == 1 and not entry.cls.pools_data
]


def summary(site, k=3, seed=0, **options):
    rng = np.random.default_rng([seed, *site.encode()])
    rows = rng.normal(size=(90, 2)) + 20 * rng.integers(0, 3, 90)[:, None]
    return sites.summarize(from_array(rows), k, client=site, **options)


def model(kept, of, k=3):
    return formats.encode(sites.aggregate(kept.about(of.method, of.params), k))


@pytest.mark.parametrize("method", ONE_ROUND)
def test_add_then_forget_gives_the_bits_of_before(tmp_path, method):
    kept = Kept(tmp_path)
    files = {n: summary(n, method=method) for n in NAMES}
    for name in NAMES[:3]:
        kept.add(files[name])
    before = model(kept, files["bern"])
    kept.add(files["rome"])
    assert model(kept, files["bern"]) != before
    assert kept.forget("rome") == 1
    assert model(kept, files["bern"]) == before


def test_the_order_of_joining_does_not_matter(tmp_path):
    files = {name: summary(name) for name in NAMES}
    found = set()
    for i, order in enumerate(permutations(NAMES)):
        kept = Kept(tmp_path / str(i))
        for name in order:
            kept.add(files[name])
        found.add(model(kept, files["bern"]))
    assert len(found) == 1
    assert found == {formats.encode(sites.aggregate(files, 3))}


def test_a_new_summary_takes_the_place_of_the_last(tmp_path):
    kept = Kept(tmp_path)
    kept.add(summary("bern"))
    newer = summary("bern", seed=1)
    kept.add(newer)
    assert kept.about(newer.method, newer.params)["bern"].summary == newer.summary
    assert len(kept.summaries()) == 1


def test_each_question_has_summaries_of_its_own(tmp_path):
    kept = Kept(tmp_path)
    three, four = summary("bern", 3), summary("bern", 4)
    kept.add(three)
    kept.add(four)
    assert kept.about(four.method, four.params)["bern"].summary == four.summary
    assert kept.about("feca", four.params) == {}
    assert kept.forget("bern") == 2
    assert kept.sites() == set()


def test_the_seed_is_no_part_of_a_question():
    file = summary("bern")
    assert question_name(file.method, {**file.params, "random_state": 9}) == question_name(
        file.method, file.params
    )


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "../bern"])
def test_a_name_never_leaves_the_folder(tmp_path, name):
    file = summary("bern")
    bad = replace(file, summary=replace(file.summary, client=name))
    with pytest.raises(ParameterError, match="cannot be kept"):
        Kept(tmp_path / "kept").add(bad)
    assert not list(tmp_path.rglob("*.summary"))


@pytest.mark.parametrize("method", ["../../evil", "/evil", "", ".", "x" * 500])
def test_a_method_never_leaves_the_folder_either(tmp_path, method):
    place = tmp_path / "server" / "kept"
    with pytest.raises(ParameterError, match="is for the unknown"):
        Kept(place).add(replace(summary("bern"), method=method))
    assert not list(tmp_path.iterdir())


def test_a_summary_under_another_name_is_an_error(tmp_path):
    kept, file = Kept(tmp_path), summary("bern")
    kept.add(file)
    path = next(tmp_path.rglob("bern.summary"))
    path.rename(path.with_name("oslo.summary"))
    with pytest.raises(MessageError, match="is a summary of 'bern'"):
        kept.about(file.method, file.params)


def test_forgetting_reads_nothing(tmp_path):
    """A broken summary can be forgotten, too."""
    kept = Kept(tmp_path)
    kept.add(summary("bern"))
    next(tmp_path.rglob("bern.summary")).write_bytes(b"broken")
    assert kept.forget("bern") == 1
