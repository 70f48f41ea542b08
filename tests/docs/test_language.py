"""The links of pages lead somewhere."""

import re

import pytest

from pages_as_code import ROOT, page

MADE = ("docs/api/generated/", "docs/gallery/")  # by `make site`
PAGES = sorted(
    {
        *(
            name
            for path in (ROOT / "docs").rglob("*.md")
            if not (name := path.relative_to(ROOT).as_posix()).startswith(MADE)
        ),
        *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"),
    }
)


@pytest.mark.parametrize("name", PAGES)
class TestPage:
    def test_links_to_files_and_headings_exist(self, name):
        for target in re.findall(r"\]\(([^)\s]+)\)", page(name)):
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
