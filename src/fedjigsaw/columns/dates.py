"""Dates as they are written in files, and the formats by which they are read."""

import re

import pyarrow as pa

from fedjigsaw._arrow import pc

DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%Y", "%m/%d/%Y"),
    *("%d-%b-%Y", "%d %b %Y", "%d. %b %Y", "%d.%b.%Y", "%d/%b/%Y", "%d%b%Y"),
    *("%b %d, %Y", "%b %d %Y", "%Y-%b-%d"),
)
TIMES = ("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p")
# the first one that fits all values; two that differ in the order of day and month must not both
DATE_FORMATS = (
    *(day + time for day in DAYS for time in TIMES),
    *("%Y%m%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%d%b%Y:%H:%M:%S"),
)
# what texts must have somewhere for a format with this code to be worth a try
SIGNS_OF = {"%b": "[A-Za-z]{3}", "%M": ":", "%p": "[AaPp][Mm]"}
ISO_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S")
# names of months: those of English are recognized, the others are read where a format is given
ENGLISH = (
    *("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul"),
    *("august aug", "september sept sep", "october oct", "november nov", "december dec"),
)
OTHERS = (
    "januar januari jänner jän janvier janv enero ene gennaio gen",
    "februar februari februarij febr feber février févr fév febrero febbraio",
    "märz maerz mär mrz mars marzo maart mrt",
    "avril avr abril abr aprile",
    "mai mayo maggio mag mei",
    "juni juin junio giugno giu",
    "juli juillet juil julio luglio lug",
    "augustus août aout agosto ago",
    "septembre septiembre set settembre",
    "oktober okt octobre octubre ottobre ott",
    "novembre noviembre",
    "dezember dez december décembre déc decembre diciembre dic dicembre",
)
ALL_MONTHS = tuple(f"{first} {more}" for first, more in zip(ENGLISH, OTHERS, strict=True))
NAMED = "^(?P<before>[0-9 .,/:-]*)(?P<name>[^0-9 .,/:-]{3,})(?P<after>.*)$"
FRACTION, ZONE = "([.,][0-9]+)?", " ?(Z|z|UTC|GMT|[+-][0-9]{2}(:?[0-9]{2})?)?"


def likely_formats(texts: pa.Array) -> tuple[str, ...]:
    """Return the formats that are worth a try: those with times only where there are colons.

    Examples
    --------
    >>> likely_formats(pa.array(["24.10.2024 13:00"]))[:3]
    ('%Y-%m-%d', '%Y-%m-%d %H:%M:%S', '%Y-%m-%d %H:%M')
    """
    lacking = [
        code
        for code, sign in SIGNS_OF.items()
        if not pc.any(pc.match_substring_regex(texts, sign)).as_py()
    ]
    return tuple(p for p in DATE_FORMATS if not any(code in p for code in lacking))


def exchanged(pattern: str) -> str:
    """Return a format with day and month in the other order; empty if they cannot be mixed up.

    Examples
    --------
    >>> exchanged("%d/%m/%Y"), exchanged("%d.%m.%Y")
    ('%m/%d/%Y', '')
    """
    found = re.match(r"%(d|m)([/-])%(?!\1)[dm]\2%Y", pattern)
    return pattern.translate({ord("d"): "m", ord("m"): "d"}) if found else ""


def parse_dates(
    texts: pa.Array, pattern: str, months: tuple[str, ...] = ENGLISH
) -> pa.TimestampArray:
    """Parse dates; null for a text that is none in this format.

    Arrow reads 31.02.2020 as the second of March, and 05.01.20 as a day in the year 20. Parts of a
    second and the time zone are not used: a date counts as it is written.

    Examples
    --------
    >>> texts = pa.array(["2024-10-24T23:30:00.5+02:00", "2024-10-24T00:00:00Z"])
    >>> [str(time) for time in parse_dates(texts, "%Y-%m-%dT%H:%M:%S").to_pylist()]
    ['2024-10-24 23:30:00', '2024-10-24 00:00:00']
    """
    pattern = pattern.replace("%B", "%b")
    if "%b" in pattern:
        # signs around the number, since 1Jan2024 must not become 1012024
        texts, pattern = _with_numbers(texts, months), pattern.replace("%b", "~%m~")
    if pattern.endswith(("%M", "%S")):
        rest = ZONE if pattern.endswith("%M") else FRACTION + ZONE
        texts = pc.replace_substring_regex(texts, f"(:[0-9]{{2}}){rest}$", r"\1")
    times = pc.strptime(texts, format=pattern, unit="s", error_is_null=True)
    days = pc.struct_field(pc.extract_regex(texts, _day_pattern(pattern)), "day")
    same_day = pc.equal(pc.cast(days, pa.int64()), pc.day(times))
    exists = pc.and_(same_day, pc.greater_equal(pc.year(times), 1000))
    return pc.if_else(exists, times, pa.scalar(None, times.type))


def parse_either(texts: pa.Array, pattern: str) -> pa.TimestampArray:
    """Parse dates that are written as in the schema, or as 2024-12-31: that is never ambiguous.

    So dates of Excel can be read, too, whatever the format of the schema. Months may have their
    names in any language that is known.

    Examples
    --------
    >>> texts = pa.array(["24. Okt. 2024", "1 mars 2024", "2024-12-31"])
    >>> [str(time.date()) for time in parse_either(texts, "%d. %b %Y").to_pylist() if time]
    ['2024-10-24', '2024-12-31']
    """
    times = parse_dates(texts, pattern, ALL_MONTHS)
    for other in ISO_FORMATS:
        if times.null_count > texts.null_count:
            times = pc.coalesce(times, parse_dates(texts, other))
    return times


def as_seconds(values: pa.Array) -> pa.TimestampArray:
    """Return dates and times of day as seconds; those with a time zone as its clocks show them."""
    if pa.types.is_timestamp(values.type) and values.type.tz:
        values = pc.local_timestamp(values)
    return pc.cast(values, pa.timestamp("s"), safe=False)


def _with_numbers(texts: pa.Array, months: tuple[str, ...]) -> pa.Array:
    """Replace names of months by ~01~ to ~12~, also where a point ends an abbreviation."""
    numbers = {name: f"~{n:02}~" for n, names in enumerate(months, 1) for name in names.split()}
    parts = pc.extract_regex(texts, NAMED)
    before, name, after = (pc.struct_field(parts, part) for part in ("before", "name", "after"))
    found = pc.index_in(pc.utf8_lower(name), value_set=pa.array(list(numbers), texts.type))
    return pc.binary_join_element_wise(
        before,
        pa.array(list(numbers.values()), texts.type).take(found),
        pc.replace_substring_regex(after, "^[.]([ ,])", r"\1"),
        pa.scalar("", texts.type),
    )


def _day_pattern(pattern: str) -> str:
    """Return a regular expression that finds the day in a date of this format."""
    parts = {"d": r"(?P<day>\d{1,2})", "Y": r"\d{4}"}
    start = pattern[: pattern.index("%d") + 2].replace(".", "[.]").replace(" ", r"\s+")
    found = re.sub("%(.)", lambda m: parts.get(m[1], r"\d{1,2}"), start)
    return rf"^\s*{found}"
