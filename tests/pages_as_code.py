"""Read Markdown pages as code: their sections and blocks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def page(name):
    """The text of a page, by its path in the repository."""
    return (ROOT / name).read_text()


def section(text, title):
    """The part of a page from a heading of the second level to the next."""
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(text, language):
    """The content of all blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
