"""Dates are read as they are written, and nothing is guessed."""

from datetime import date

import pyarrow as pa
import pytest

from fedjigsaw.columns.dates import DATE_FORMATS, exchanged, parse_dates
from fedjigsaw.columns.lenient import best_format, is_ambiguous, read_leniently
from fedjigsaw.columns.recognition import Sighting, recognize
from fedjigsaw.columns.schema import Column, from_days, to_days
from fedjigsaw.columns.text import TextFormat
from fedjigsaw.columns.values import AmbiguousDatesError, BadValueError, read_values

TEXT = TextFormat()
THE_DAY = date(2024, 10, 4)


def read(texts, pattern=""):
    days = read_values(Column("x", "date", format=pattern), pa.array(texts), TEXT)
    return [from_days(day // 1) for day in days]


def recognized(texts):
    sighting = Sighting("x")
    sighting.add(pa.array(texts), TEXT)
    sighting.end_of_file()
    return recognize(sighting, 5)


WRITTEN = [
    *("04-Oct-2024", "4-OCT-2024", "4 October 2024", "04OCT2024", "4. Oct. 2024"),
    *("Oct 4, 2024", "October 4, 2024", "Oct. 4, 2024", "oct 4 2024", "4/Oct/2024", "4.Oct.2024"),
    *("2024-10-04T13:00:00+02:00", "2024-10-04T23:59:00Z", "2024-10-04T00:30:00.123456+0200"),
    *(
        "2024-10-04 13:00:00.000",
        "2024-10-04 13:00:00 UTC",
        "2024-10-04T13:00",
        "2024-10-04T13:00Z",
    ),
    *("04-Oct-2024 13:00", "04OCT2024:13:00:00", "2024-10-04 13:00:00+00", "04.10.2024 13:00:00"),
]


@pytest.mark.slow
@pytest.mark.parametrize("text", WRITTEN)
def test_what_can_mean_one_day_is_read(text):
    assert read([text, text]) == [THE_DAY] * 2
    large = pa.array([text], pa.large_string())
    assert read_values(Column("x", "date"), large, TEXT) // 1 == to_days(THE_DAY)
    assert recognized([text, text.replace("4", "5", 1)] * 20).kind == "date"


@pytest.mark.parametrize(
    "text", ["31-Feb-2024", "31 Nov 2024", "4-Octo-2024", "4-Okt-2024", "Oct 2024", "4-Oct-24-1"]
)
def test_what_is_no_day_is_refused(text):
    for pattern in ("", "%d.%m.%Y"):
        with pytest.raises(BadValueError):
            read([text], pattern)


@pytest.mark.parametrize("sign", "/-")
def test_day_and_month_are_still_asked_for(sign):
    dates = [f"01{sign}02{sign}2024", f"03{sign}04{sign}2024"]
    with pytest.raises(AmbiguousDatesError):
        read(dates)
    assert recognized(dates * 20).notes
    assert read([*dates, f"01{sign}25{sign}2024"])[0] == date(2024, 1, 2)
    with pytest.raises(AmbiguousDatesError) as error:
        read(["01/02/2024 13:00"])
    assert "'%d/%m/%Y %H:%M' or '%m/%d/%Y %H:%M'" in error.value.advice


@pytest.mark.slow
@pytest.mark.parametrize("time", ["", " 13:05", " 13:05:00", " 1:05 PM", " 01:05:00 pm"])
@pytest.mark.parametrize("day", ["%Y-%m-%d", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%Y", "%m/%d/%Y",
                                 "%Y/%m/%d", "%d-%b-%Y", "%d%b%Y", "%d %B %Y", "%b %d, %Y"])  # fmt: skip
def test_every_date_may_have_a_time_of_day(day, time):
    days = [date(2024, 10, 4), date(2024, 10, 24)]  # the second tells which number is the day
    texts = [found.strftime(day) + time for found in days]
    assert read(texts) == days
    hours = (13 + 5 / 60) / 24 if time else 0
    (first, _) = read_values(Column("x", "date"), pa.array(texts), TEXT)
    assert first % 1 == pytest.approx(hours)
    found = recognized(texts * 20)
    assert found.kind == "date"
    assert found.format.startswith(day) if exchanged(day) else not found.format


def test_a_date_that_tells_the_order_may_come_late():
    texts = pa.array(["01/02/2024"] * 2000 + ["01/24/2024"])
    column = Column("x", "date")
    assert best_format(column, texts, TEXT) == "%m/%d/%Y"
    assert not is_ambiguous(column, texts, TEXT)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("4. Okt. 2024", "%d. %b %Y"),
        ("4. Oktober 2024", "%d. %B %Y"),
        ("4 octobre 2024", "%d %b %Y"),
        ("4 ottobre 2024", "%d %b %Y"),
        ("4-oct-2024", "%d-%b-%Y"),
        ("2024-10-04", "%d-%b-%Y"),
        ("10/04/2024 1:05:00 PM", "%m/%d/%Y %I:%M:%S %p"),
    ],
)
def test_other_languages_are_read_with_a_format(text, pattern):
    assert read([text], pattern) == [THE_DAY]


def test_a_proposal_sets_the_format_of_other_languages():
    found = recognized(["4. Okt. 2024", "5. März 2024", "7. Jan. 2024"] * 20)
    assert (found.kind, found.format) == ("date", "%d. %b %Y")
    assert recognized(["4. Oct. 2024", "5. May 2024"] * 20).format == ""


@pytest.mark.parametrize("pattern", DATE_FORMATS)
def test_every_format_reads_what_it_writes_and_may_be_set(pattern):
    text = THE_DAY.strftime(pattern)
    assert str(parse_dates(pa.array([text]), pattern)[0].as_py().date()) == str(THE_DAY)
    assert Column("x", "date", format=pattern).format == pattern


def test_times_with_a_zone_count_as_clocks_show_them():
    times = pa.array(["2024-10-03 23:00:00"]).cast(pa.timestamp("s"))
    zoned = times.cast(pa.timestamp("s", "Europe/Zurich"))
    column = Column("x", "date")
    (day,) = read_values(column, zoned, TEXT)
    assert from_days(day // 1) == THE_DAY
    assert read_leniently(column, zoned, TEXT).numbers.tolist() == [day]
