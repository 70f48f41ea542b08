"""Make the page of the package index from README.md; everything else is in pyproject.toml.

Links into the repository do not work there. With an address under ``Repository`` in
``[project.urls]`` they lead to it; without one, their text stays and pictures are left out.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://)([^)\s]+)\)")


def index_page(text: str, repository: str | None = None) -> str:
    """Return a page with links that work outside the repository."""

    def mend(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if repository is None:
            return "" if picture else words
        place = "raw" if picture else "blob"
        file = f"README.md{target}" if target.startswith("#") else target
        return f"{picture}[{words}]({repository.rstrip('/')}/{place}/HEAD/{file})"

    return LINK.sub(mend, text)


if __name__ == "__main__":
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    setup(
        long_description=index_page(
            (HERE / "README.md").read_text(encoding="utf-8"), project["urls"].get("Repository")
        ),
        long_description_content_type="text/markdown",
    )
