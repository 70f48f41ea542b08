"""Kinds of columns are recognized from their values."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from fedjigsaw.columns.lenient import read_leniently
from fedjigsaw.columns.ranges import Spread, date_range, number_range
from fedjigsaw.columns.recognition import Sighting, recognize
from fedjigsaw.columns.schema import Column, from_days, to_days
from fedjigsaw.columns.text import TextFormat, are_numbers, to_numbers


def seen(values, name="x", parts=2):
    """What is recognized in values, read in several batches."""
    sighting = Sighting(name)
    array = values if isinstance(values, pa.Array) else pa.array(values)
    step = -(-len(array) // parts)
    for start in range(0, len(array), step):
        sighting.add(array[start : start + step], TextFormat())
    sighting.end_of_file()
    return recognize(sighting, 5)


RNG = np.random.default_rng(0)
N = 60
WORDS = [f"word {i} of a text" for i in range(N)]


@pytest.mark.parametrize(
    ("kind", "values", "name"),
    [
        ("number", [f"{v:.2f}" for v in RNG.normal(size=N)], "x"),
        ("number", RNG.normal(size=N), "x"),
        ("number", [str(v) for v in RNG.integers(20, 90, N)], "age"),
        ("number", ["1", "2", "3"] * 20, "code"),
        ("number", [str(v) for v in RNG.integers(0, 5, N)], "children"),
        ("number", ["1.5", "k.A.", "2.5"] * 20, "x"),
        ("boolean", ["0", "1"] * 30, "x"),
        ("boolean", ["ja", "Nein"] * 30, "x"),
        ("boolean", ["true"] * 55 + ["false"] * 5, "x"),
        ("boolean", ["ja", "nein"] * 30, "patient"),
        ("ignore", ["true"] * 56 + ["false"] * 4, "x"),  # nearly constant
        ("ignore", ["7.5"] * N, "x"),
        ("boolean", [True, None, False] * 20, "x"),
        ("ignore", ["f"] * N, "sex"),
        ("category", ["f", "m"] * 30, "sex"),
        ("category", ["01067", "01069"] * 30, "plz"),
        ("category", [str(8001 + i % 12) for i in range(N)], "PLZ"),
        ("ignore", [str(v) for v in RNG.integers(1000, 1050, N)], "Kontonummer"),
        ("number", [str(v) for v in RNG.integers(1000, 1050, N)], "account_balance"),
        ("category", ["10-19", "20-29", "30+"] * 20, "ages"),
        ("category", ["A"] * 29 + ["B"] * 28 + ["C", "D", "E"], "icd"),
        ("category", ["leicht", "schwer"] * 29 + ["schwre", "leicht"], "x"),
        ("date", ["31.12.2020", "01.05.2021"] * 30, "x"),
        ("date", ["2020-12-31", "", "2021-05-01"] * 20, "x"),
        ("ignore", ["1990-12-31", "1971-05-01"] * 30, "Geburtsdatum"),
        ("ignore", ["Meier", "Vogt"] * 30, "Physician"),
        ("ignore", ["Anna", "Beat"] * 30, "Vorname"),
        ("ignore", ["0791234567", "0791234568"] * 30, "phone"),
        ("date", ["20201231", "20210501"] * 30, "x"),
        ("date", pa.array([18000, None] * 30, pa.date32()), "x"),
        ("ignore", [str(1000 + i) for i in range(N)], "x"),  # counts the rows
        ("ignore", [str(v) for v in RNG.permutation(10**6)[:N]], "Patient-ID"),
        ("ignore", WORDS, "x"),
        ("ignore", ["Meier", "Kunz", *WORDS[:-2]], "surname"),
        (
            "ignore",
            ["A long sentence about somebody, who was seen here, again and again."] * N,
            "x",
        ),
        ("ignore", [f"{letter}{i}" for letter in "ABCDEFGH" for i in range(25)] * 10, "diagnosis"),
        ("ignore", [""] * N, "x"),
        ("ignore", ["7.5"] * 4 + [""] * 56, "x"),
        ("ignore", pa.array([[1.0]] * N), "x"),
    ],
)
def test_kinds(kind, values, name):
    assert seen(values, name).kind == kind


def test_a_day_or_month_that_is_first_is_asked_about():
    clear = seen(["31/12/2020", "01/05/2021"] * 30)
    assert (clear.kind, clear.format, clear.notes) == ("date", "%d/%m/%Y", ())
    unclear = seen(["03/12/2020", "01/05/2021"] * 30)
    assert unclear.format == "%d/%m/%Y"
    assert "CHECK" in unclear.notes[0]


DAYS = [f"2024-{1 + i % 12:02}-{1 + i // 12:02}" for i in range(45)]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["not yet"] * 15, ""),
        ([f"{i} days later" for i in range(15)], "texts among"),
        (["spring", "letter", "see A", "see B", "open"] * 3, "texts among"),
        ([str(45_000 + i) for i in range(15)], "numbers among"),
        ([str(2000 + i) for i in range(15)], "numbers among"),
        (["2019"] * 8 + ["spring", "a", "b", "c", "d", "e", "f"], "texts among"),
        ([f"{d[8:]}.{d[5:7]}.2024" for d in DAYS], "several formats"),
    ],
)
def test_what_is_among_dates_is_told(values, why):
    mixed = [value for pair in zip(DAYS, values, strict=False) for value in pair]
    found = seen([*mixed, *DAYS[len(values) :]])
    assert found.kind == ("ignore" if why else "date")
    assert why in found.why
    assert found.marks == (() if why else ("not yet",))


def test_texts_among_dates_of_eight_digits_are_texts():
    days = [day.replace("-", "") for day in DAYS]
    assert "texts among" in seen([*days, *[f"{i} days later" for i in range(15)]]).why


def test_words_among_numbers_are_marks_if_many_rows_have_them():
    values = [f"{v:.3f}" for v in RNG.normal(size=N)] + ["nicht gemessen"] * 20 + ["defekt"] * 3
    found = seen(values)
    assert (found.kind, found.marks) == ("number", ("nicht gemessen",))


def test_at_most_thirty_categories_by_frequency():
    values = [f"c{i:02}" for i in range(40) for _ in range(5 + i)]
    found = seen(values)
    assert found.kind == "category"
    assert found.categories == tuple(f"c{i:02}" for i in range(10, 40))


def test_spellings_are_put_together():
    values = (
        ["Female"] * 20 + ["female"] * 10 + ["FEMALE"] * 3 + ["Male"] * 20 + ["stroke unit"] * 3
    )
    found = seen([*values, "Stroke  Unit", "Stroke Unit"])
    assert found.categories == ("Female", "Male", "stroke unit")  # 5 rows together
    (note,) = found.notes
    assert note.startswith('CHECK: "female" and "Female" are put together')  # not FEMALE: 3 rows


def test_a_spelling_that_few_rows_have_is_not_named():
    """Those of five rows differ: none of them is told, but the word is."""
    values = ["Bern"] * 20 + ["Lyon"] * 20
    found = seen([*values, "Zermatt", "ZERMATT", "ZerMatt", "zerMATT", " zermAtt", "Basel"])
    assert found.categories == ("Bern", "Lyon", "zermatt")


def test_the_kind_tells_of_an_odd_row_but_not_what_it_has():
    values = ["yes"] * 30 + ["no"] * 30
    assert seen(values).kind == "boolean"
    found = seen([*values, "maybe"])
    assert (found.kind, found.categories) == ("category", ("no", "yes"))


PLAIN = [
    "1",
    "1.5",
    "+2",
    "-.5",
    "1e5",
    "1.",
    "x",
    "1,5",
    "inf",
    "nan",
    "٣",
    "0x1",
    "1..2",
    "--1",
    "1e",
    ".",
]
GERMAN = ["1", "1.5", "1,5", "1.234,5", "1.234", "12.34", "k.A.", ",5", "1,5,6"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([*PLAIN, "", "1 000"], TextFormat()),
        (GERMAN, TextFormat(",", ".")),
        (["1'234.5", "12'34", "1’234"], TextFormat(".", "'")),
    ],
)
def test_one_by_one_the_same_are_numbers_as_all_together(values, text):
    alone = [to_numbers(pa.array([v]), text) for v in values]
    finite = [found is not None and not np.isinf(found[0]) for found in alone]
    assert are_numbers(pa.array(values), text).tolist() == finite


def test_a_lenient_reading_marks_what_is_wrong():
    column = Column("x", range=(0, 10))
    found = read_leniently(column, pa.array(["5", "", "<3", "11", "inf"]), TextFormat())
    assert found.missing.tolist() == [False, True, False, False, False]
    assert found.unreadable.tolist() == [False, False, True, False, True]
    assert found.outside.tolist() == [False, False, False, True, False]
    huge = read_leniently(Column("x"), pa.array(["1", "1e200"]), TextFormat())
    assert huge.unreadable.tolist() == [False, True]  # no command takes it
    ordered = Column("x", "ordered", categories=("a", "b"))
    found = read_leniently(ordered, pa.array(["b", "c", None]), TextFormat())
    assert found.outside.tolist() == [False, True, False]
    for kind in ("number", "date", "boolean"):
        found = read_leniently(Column("x", kind), pa.array([[1], None]), TextFormat())
        assert found.unreadable.tolist() == [True, False]
        assert found.missing.tolist() == [False, True]


def test_ranges_are_wider_than_what_they_came_from():
    for low, high in RNG.normal(0, 10.0 ** RNG.integers(-5, 6, (200, 2))):
        low, high = min(low, high), max(low, high)
        least, greatest = number_range(low, high)
        assert least <= low < high <= greatest
        span = high - low
        assert least <= (min(low, max(0.0, low - span)) if low >= 0 else low - span)
        assert greatest >= high + span
        assert greatest - least <= 8 * span + 1e-9
        assert (least >= 0) == (low >= 0)
    assert number_range(5.0, 5.0) == (0.0, 10.0)
    assert number_range(36.0, 37.8) == (34.0, 40.0)
    assert number_range(1e9, 1e9 + 1e-3) is None
    low, high = date_range(to_days(from_days(18000)), 18500)
    assert (str(from_days(low)), str(from_days(high))) == ("2017-01-01", "2022-12-31")


def test_an_end_hangs_on_no_single_value():
    spread = Spread(5)
    spread.add(np.array([*range(100), 1e9, -1e9, np.nan], dtype=float))
    other = Spread(5)
    other.add(np.array([*range(100), 1e12, -7e7, np.nan], dtype=float))
    assert spread.ends == other.ends
    few = Spread(5)
    few.add(np.arange(8.0))
    assert few.ends is None


def test_counting_stays_within_limits():
    sighting = Sighting("x")
    for start in range(0, 60_000, 6_000):
        sighting.add(pa.array([f"t{i}" for i in range(start, start + 6_000)]), TextFormat())
    assert sighting.levels == Counter()
    assert len(sighting.odd) <= 20_000
    assert recognize(sighting, 5).kind == "ignore"


def test_an_index_of_pandas_is_no_number():
    assert seen([0, 3, 6, 9, 0, 3] * 5, "__index_level_0__").kind == "ignore"
    assert seen([0, 3, 6, 9, 0, 3] * 5, "level").kind == "number"


@pytest.mark.parametrize("values", [["1.5", "2.5", "4", "8", "9"], ["7"] * 5])
def test_five_values_are_not_said_to_be_the_same(values):
    """Whether they are must not show, so the reason is that of their number."""
    assert seen(values).why == "all values are the same, or nearly all (or too few to tell)"
    assert seen(["7"] * 10).why == "all values are the same, or nearly all"
