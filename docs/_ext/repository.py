"""Bring files of the repository that are not in docs/ into the site.

- The pages `project/NAME.md` are stubs; on the site they are the files that they name,
  such as CHANGELOG.md.
- Links that leave docs/ lead to these pages, or to the page that shows the file or folder,
  `project/files.md`. The repository need not have an address for that.
- Pages get the entries of the index by which the search finds them (`repository_search`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import commands

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
FILES = "docs/project/files.md"
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
# stub -> file of the root, and its section; None is all of it
STUBS = {
    "project/changelog": ("CHANGELOG.md", None),
    "project/contributing": ("CONTRIBUTING.md", None),
    "project/security": ("SECURITY.md", None),
    "project/code-of-conduct": ("CODE_OF_CONDUCT.md", None),
    "project/map": ("README.md", "Map"),
    "project/results": ("reproduction/RESULTS.md", None),
}
MADE = {"commands": commands.commands, "configuration": commands.configuration}  # what follows

# lines of toctrees, and the folders without which there are no such pages
OPTIONAL = {"gallery/index*": "examples/gallery"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the hooks."""
    app.add_config_value("repository_search", {}, "env")
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fill a stub, turn links into those of the site, and add entries of the index."""
    suffix = Path(app.env.doc2path(docname)).suffix
    if suffix != ".md":
        return
    page = f"docs/{docname}{suffix}"
    text, origin = source[0], page
    if docname in STUBS:
        origin, title = STUBS[docname]
        app.env.note_dependency(str(ROOT / origin))
        text = content(origin, title)
    if docname in MADE:
        text = f"{text}\n{MADE[docname]()}"
    text = site_links(text, origin, page)
    for line, folder in OPTIONAL.items():
        if not (ROOT / folder).is_dir():
            text = text.replace(f"\n{line}\n", "\n")
    entries = app.config.repository_search.get(docname, [])
    if entries:
        listed = ", ".join(f"! {entry}" for entry in entries)
        heading, _, rest = text.partition("\n")
        text = f"{heading}\n\n```{{index}} {listed}\n```\n{rest}"
    source[0] = text


def content(name: str, title: str | None = None) -> str:
    """Return a file of the root, or one section of it as a page."""
    text = (ROOT / name).read_text()
    if title is None:
        return text
    section = text.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return f"# {title} of the repository\n{section}"


def site_links(text: str, origin: str, page: str) -> str:
    """Turn relative links of a file into links of a page of the site.

    Parameters
    ----------
    text : Markdown.
    origin : the file that has this text, from the root of the repository.
    page : the page that shows it, from the root of the repository.
    """

    def replaced(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        if re.match(r"[a-z]+:", target):
            return match[0]
        wanted = os.path.normpath(PurePosixPath(origin).parent / target)
        if not (ROOT / wanted).exists():  # code, or a link that the build complains about
            return match[0]
        found, anchor = place(PurePosixPath(wanted), anchor or "")
        if found == page:
            return f"{before}{anchor}{after}" if anchor else match[0]
        return f"{before}{os.path.relpath(found, PurePosixPath(page).parent)}{anchor}{after}"

    return LINK.sub(replaced, text)


def place(path: PurePosixPath, anchor: str) -> tuple[str, str]:
    """Return the page and the anchor that show a file or folder of the repository."""
    if path.parts[0] == "docs":
        return str(path), anchor
    if path.parts[:2] == ("examples", "gallery"):
        return f"docs/gallery/{path.stem if path.suffix else 'index'}.rst", anchor
    if str(path) == "README.md" and anchor != "#map":
        return "docs/index.md", ""
    for stub, (name, title) in STUBS.items():
        if str(path) == name and (title is None or anchor == f"#{title.lower()}"):
            return f"docs/{stub}.md", anchor if title is None else ""
    return FILES, "#" + re.sub(r"[^\w-]", "", str(path).lower())
