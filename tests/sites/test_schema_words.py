"""Words of several languages mean the same at all sites, or a person is told."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fedjigsaw import sites
from fedjigsaw.columns.schema import Column, Schema


def save(path, **columns):
    """Write columns of texts, and a number that makes every file one that can be clustered."""
    n = len(next(iter(columns.values())))
    rng = np.random.default_rng(0)
    pd.DataFrame({"bmi": rng.normal(25, 3, n).round(2), **columns}).to_csv(path, index=False)
    return path


def propose(path):
    proposal = sites.propose_schema(path)
    return {entry.column.name: entry for entry in proposal.columns}, proposal.schema


def shares(path, schema):
    """Means of all features, by name."""
    stats = sites.measure(path, schema=schema)
    return dict(zip(stats.columns, stats.mean.tolist(), strict=True))


KINDS = ["a", "b", "c"]
UNKNOWN = ["unknown", "Unknown", "unbekannt", "UNBEKANNT", "keine Angabe", "inconnu", "no consta"]


class TestMissing:
    @pytest.mark.parametrize("word", UNKNOWN)
    def test_words_for_unknown_are_missing_in_every_language(self, tmp_path, word):
        blank = save(tmp_path / "blank.csv", x=[*KINDS * 20, *[""] * 10])
        other = save(tmp_path / "other.csv", x=[*KINDS * 20, *[word] * 10])
        entries, schema = propose(other)
        assert schema["x"].categories == tuple(KINDS)
        assert f'"{word}"' in " ".join(entries["x"].notes)
        assert shares(other, schema) == shares(blank, schema)
        (_, check) = sites.check_file(other, schema).columns
        assert check.n_missing == 10
        assert f"{word!r} (10 rows) counts as missing." in " ".join(check.remarks)

    @pytest.mark.parametrize("word", ["unknown", "unbekannt", "None", "NA"])
    def test_a_category_of_the_schema_is_never_missing(self, tmp_path, word):
        path = save(tmp_path / "x.csv", x=["a", word] * 20)
        schema = Schema((Column("bmi"), Column("x", "category", categories=("a", word))))
        assert shares(path, schema)[f"x: {word}"] == 0.5
        check = sites.check_file(path, schema).columns[1]
        assert (check.n_missing, check.remarks) == (0, ())
        copy = tmp_path / "copy.parquet"
        assert sites.apply_schema(path, schema, copy).n_missing["x"] == 0
        assert pq.read_table(copy)["x"].to_pylist() == ["a", word] * 20
        assert shares(copy, schema)[f"x: {word}"] == 0.5

    def test_a_word_that_is_mapped_to_such_a_category_stays(self, tmp_path):
        path = save(tmp_path / "x.csv", x=["mild", "keine"] * 20)
        levels = ("None", "mild")
        schema = Schema((Column("bmi"), Column("x", "ordered", categories=levels)))
        changes = sites.Changes(levels={"x": {"keine": "None"}})
        copy = tmp_path / "copy.parquet"
        assert sites.apply_schema(path, schema, copy, changes).n_missing["x"] == 0
        assert pq.read_table(copy)["x"].to_pylist() == ["mild", "None"] * 20

    def test_a_person_may_still_call_it_missing(self, tmp_path):
        path = save(tmp_path / "x.csv", x=["a", "unknown"] * 20)
        schema = Schema((Column("bmi"), Column("x", "category", categories=("a", "unknown"))))
        changes = sites.Changes(missing_in={"x": ["unknown"]})
        done = sites.apply_schema(path, schema, tmp_path / "copy.parquet", changes)
        assert done.n_missing["x"] == 20


class TestAnswers:
    @pytest.mark.parametrize(
        ("yes", "no"), [("ja", "nein"), ("1", "0"), ("TRUE", "FALSE"), ("Y", "N"), ("Oui", "non")]
    )
    def test_yes_and_no_in_other_words_are_mapped(self, tmp_path, yes, no):
        levels = ("no", "not done", "yes")
        schema = Schema((Column("bmi"), Column("x", "category", categories=levels)))
        path = save(tmp_path / "x.csv", x=[yes, no] * 20)
        found = sites.check_file(path, schema)
        assert not found.fits
        assert set(found.options) == {("--map", f"x:{yes}=yes"), ("--map", f"x:{no}=no")}
        changes = sites.Changes(levels={"x": {yes: "yes", no: "no"}})
        sites.apply_schema(path, schema, tmp_path / "copy.parquet", changes)
        again = sites.check_file(tmp_path / "copy.parquet", schema)
        assert (again.fits, again.columns[1].n_outside) == (True, 0)

    @pytest.mark.parametrize(
        ("categories", "values"),
        [
            (("f", "m"), ["0", "1"]),  # sex: "f" is no answer without a "t"
            (("no", "yes"), ["n", "z"]),  # one letter alone
            (("no", "yes"), ["1", "2"]),
            (("n", "o", "s"), ["1", "0"]),
        ],
    )
    def test_what_may_mean_anything_is_left_to_a_person(self, tmp_path, categories, values):
        schema = Schema((Column("bmi"), Column("x", "category", categories=categories)))
        path = save(tmp_path / "x.csv", x=values * 20)
        assert not [o for o in sites.check_file(path, schema).options if o[0] == "--map"]

    def test_words_in_a_column_of_numbers(self, tmp_path):
        schema = Schema((Column("bmi"), Column("x")))
        path = save(tmp_path / "x.csv", x=["ja", "nein"] * 2 + ["1", "0"] * 30)
        found = sites.check_file(path, schema)
        assert 'kind = "boolean"' in " ".join(found.columns[1].remarks)
        assert not found.options  # they are not missing
        assert propose(path)[1]["x"].kind == "boolean"


def test_a_header_that_is_repeated_is_no_mark(tmp_path):
    path = tmp_path / "x.csv"
    rows = "".join(f"{20 + i},{i % 5}\n" for i in range(60))
    path.write_text(f"age,visits\n{rows}age,visits\n{rows}")
    schema = Schema((Column("age"), Column("visits")))
    found = sites.check_file(path, schema)
    assert "repeated in row 61: delete that line" in " ".join(found.columns[0].remarks)
    assert found.options == ()


@pytest.mark.parametrize("dash", ["-", "–", "—"])
def test_dashes_are_missing(tmp_path, dash):
    path = save(tmp_path / "x.csv", x=[*["1.5"] * 15, dash])
    assert sites.check_file(path, Schema((Column("bmi"), Column("x")))).columns[1].n_missing == 1
