"""docs/federation.md quotes the program as it is; the tests of Flower check its commands."""

import re

from fedjigsaw.io.rows import read_rows
from pages_as_code import ROOT, page, section

PAGE = page("docs/federation.md")


def test_the_reasons_of_failures_are_those_of_the_program():
    source = "".join(path.read_text() for path in (ROOT / "src/fedjigsaw/flower").glob("*.py"))
    quoted = re.findall(r"`failed: \w+ \((.*?)\)`", section(PAGE, "When something goes wrong"))
    assert len(quoted) == 11
    for reason in quoted:
        # up to what is left out, a number, or names
        start = re.split(r",? \.\.\.|\d|: without '", reason)[0]
        assert start.strip() in source, reason


def test_a_site_is_warned_of_its_private_key():
    assert "private key: anyone who has it can act as that site." in PAGE


def test_time_and_memory_are_those_of_the_rows():
    rows = read_rows(ROOT / "results/benchmarks.jsonl")
    first, *later = [row for row in rows if row["benchmark"] == "federation"]
    best = min(later, key=lambda row: row["seconds"])
    text = section(PAGE, "Time and memory")
    for words in (
        "An idle site takes {idle_site_rss_mb:.0f} MB",
        "{idle_site_pss_mb:.0f} MB if shared",
        "an idle server {idle_server_rss_mb:.0f} MB",
        "of an idle site take {flower_site_rss_mb:.0f} MB",
        "three sites of {n_rows} rows",
        "(load {load:.0f})",
        "| first | {seconds:.1f} | {cpu_seconds:.1f} |",
        "better of two | {floor_seconds:.1f} |",
    ):
        assert words.format(**first) in text
    assert "next ones | {seconds:.1f} | {cpu_seconds:.1f} |".format(**best) in text
