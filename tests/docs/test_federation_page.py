"""docs/federation.md quotes the program as it is; the tests of Flower check its commands."""

import re

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
