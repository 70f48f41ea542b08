"""Check a built site: ``python docs/_ext/check.py build/site``.

Every link leads to a file and an anchor of the site, and no page fetches anything from elsewhere.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# attributes by which a browser fetches something when it shows a page; <a href> waits for a click
FETCHED = {("link", "href"), ("a", "ping")}
SILENT = {"canonical", "license", "author", "prev", "next", "search", "index", "help"}  # <link rel>
IN_STYLE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])\s*((?:https?:)?//[^'\")\s]+)")


class Page(HTMLParser):
    """The links, the anchors and the fetched addresses of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.fetched: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag links to, fetches, or names."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        rel = {*given.get("rel", "").split()}
        for name, value in given.items():
            if name in ("src", "poster", "data") or (tag, name) in FETCHED:
                if not (tag == "link" and rel & SILENT):
                    self.fetched.add(value)
                self.links.add(value)
            elif name == "srcset":
                self.fetched |= {part.split()[0] for part in value.split(",")}
        self.fetched |= {*IN_STYLE.findall(given.get("style", ""))}


def is_outside(address: str) -> bool:
    """Return whether an address is one of another host."""
    return bool(urlsplit(address).netloc)


def pages_of(site: Path) -> list[Path]:
    """Return all pages; the static files of the theme have a template among them."""
    found = sorted(site.rglob("*.html"))
    return [path for path in found if path.relative_to(site).parts[0] != "_static"]


def complaints(site: Path) -> Iterator[str]:
    """Yield a sentence for each broken link, and for each request to another host."""
    pages = {path.resolve(): Page(path) for path in pages_of(site)}
    for page in pages.values():
        name = page.path.relative_to(site)
        for address in sorted(page.fetched):
            if is_outside(address):
                yield f"{name} fetches {address}"
        for link in sorted(page.links):
            problem = "" if is_outside(link) else broken(page, link, pages)
            if problem:
                yield f"{name}: {link}: {problem}"
    for style in site.rglob("*.css"):
        for address in IN_STYLE.findall(style.read_text()):
            yield f"{style.relative_to(site)} fetches {address}"


def broken(page: Page, link: str, pages: dict[Path, Page]) -> str:
    """Return what is wrong with a link within the site; empty if nothing is."""
    parts = urlsplit(link)
    if parts.scheme in ("mailto", "data", "javascript"):
        return ""
    target = (
        (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path.resolve()
    )
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "no such anchor"
    return ""


def main(folder: str) -> int:
    """Print all complaints; return the exit code."""
    site = Path(folder)
    found = list(complaints(site))
    n_pages = len(pages_of(site))
    if not n_pages:
        found.append(f"{site} has no pages.")
    print(*found, f"{n_pages} pages checked, {len(found)} complaints.", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
