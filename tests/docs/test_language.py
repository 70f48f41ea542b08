"""Pages stay readable, and their links lead somewhere."""

import re

import pytest

from pages_as_code import ROOT, hand_written, page, prose

GENERATED_PAGES = {"docs/reproduction.md", "docs/commands.md"}
MADE = ("docs/api/generated/", "docs/gallery/", "docs/notebooks/")  # by `make site`
PAGES = sorted(
    {
        *(
            name
            for path in (ROOT / "docs").rglob("*.md")
            if not (name := path.relative_to(ROOT).as_posix()).startswith(MADE)
        ),
        *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"),
    }
    - GENERATED_PAGES
)
LONGEST = 200  # characters of a line; longer ones hold more than a sentence, or too long a one


def without_addresses(line):
    """A line as it is read: links without their targets."""
    return re.sub(r"\]\([^)]*\)", "]", line)


@pytest.mark.parametrize("name", PAGES)
class TestPage:
    def test_one_sentence_per_line(self, name):
        lines = [without_addresses(line) for line in prose(page(name))]
        assert [line for line in lines if len(line) > LONGEST] == []
        # a list item or a bold lead may have a second, short sentence
        crowded = [
            line
            for line in lines
            if len(re.findall(r"[a-z)`*][.?!] (?=[A-Z`*])", re.sub(r"\*\*.*?\*\*", "", line))) > 1
        ]
        assert crowded == []

    def test_links_to_files_and_headings_exist(self, name):
        for target in re.findall(r"\]\(([^)\s]+)\)", hand_written(page(name))):
            if target.startswith(("http://", "https://")):
                continue
            file, _, anchor = target.partition("#")
            path = (ROOT / name).parent / file if file else ROOT / name
            assert path.exists(), target
            if anchor:
                assert anchor in anchors(path.read_text()), target


def anchors(text):
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
