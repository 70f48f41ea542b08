"""The report in a real browser: quiet, visible, readable at any width, accessible, printable."""

import json
import re
from datetime import date
from pathlib import Path

import pytest

import browser
from fedjigsaw.report.page.build import build_report
from fedjigsaw.report.page.render import render_page
from fedjigsaw.report.page.run import read_run
from report_files import HOSTILE, write_run

pytest.importorskip("websockets")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        browser.find() is None,
        reason="no Chromium here: install the package `chromium`, or set FEDJIGSAW_CHROMIUM",
    ),
]
AXE = Path(__file__).parents[1] / "data" / "axe" / "axe.min.js"
TITLE = "</title>\u202e<script>alert(4)</script>"
WIDTHS = (360, 1440)
THEMES = ("light", "dark")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Three reports: an ordinary one, one with hostile names, and a large one."""
    clients = tuple(name[:190] for name in HOSTILE)
    made = {
        "plain": {},
        "hostile": {"columns": HOSTILE, "clients": clients, "levels": HOSTILE},
        "large": {
            "k": 50,
            "columns": [f"measurement number {j}" for j in range(100)],
            "clients": [f"clinic {i}" for i in range(12)],
            "levels": ["one", "two", "three"],
        },
    }
    paths = {}
    for name, options in made.items():
        folder = tmp_path_factory.mktemp(name)
        run = read_run(write_run(folder, **options))
        title = TITLE if name == "hostile" else None
        paths[name] = folder / "report.html"
        paths[name].write_bytes(
            render_page(build_report(run, title=title, today=date(2026, 11, 16)))
        )
    return paths


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with browser.browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def tab(port):
    found = browser.Tab(port)
    yield found
    found.close()


@pytest.mark.parametrize("name", ["plain", "hostile", "large"])
def test_it_is_quiet_visible_and_fits(tab, pages, name):
    """No request but for the file, no complaint, no dialog; charts show; no sideways scrolling."""
    tab.show(1440).open(pages[name])
    for width in WIDTHS:
        for theme in THEMES:
            tab.show(width, theme)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, theme
        n_charts = tab.evaluate(BOXES)
        assert n_charts > 20
        assert tab.evaluate(CUT) == []
    tab.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    assert tab.requests == [pages[name].as_uri()]
    assert tab.complaints == []
    assert tab.dialogs == []


# charts without area, or the number of all charts
BOXES = """(() => {
  const charts = [...document.querySelectorAll("figure svg, .heat, .sizes .bar, .traits, .bar span")];
  const small = charts.filter(c => !(c.getBoundingClientRect().width > 0 && c.getBoundingClientRect().height > 0));
  return small.length ? small.map(c => c.outerHTML.slice(0, 80)) : charts.length;
})()"""
# wide parts that neither scroll in a box of their own, which the keyboard reaches, nor fit
CUT = """[...document.querySelectorAll("main *")].filter(e => e.scrollWidth > e.clientWidth + 1
  && getComputedStyle(e).overflowX === "auto" && !(e.tabIndex === 0 && e.getAttribute("aria-label")))
  .map(e => e.outerHTML.slice(0, 80))"""


# numbers on the map that lie on one another, of those that are shown; digits fill a part of a line
COVERED = """(() => {
  const boxes = [...document.querySelectorAll("#map-figure svg text")].map(e => e.getBoundingClientRect())
    .filter(b => b.width > 0).map(b => [b.left, b.right, b.top + 0.2 * b.height, b.bottom - 0.2 * b.height]);
  const pairs = boxes.flatMap((a, i) => boxes.slice(0, i).filter(
    b => a[0] < b[1] && b[0] < a[1] && a[2] < b[3] && b[2] < a[3]));
  return [boxes.length, pairs.length];
})()"""


def test_numbers_on_the_map_do_not_overlap_on_any_screen(tab, pages):
    """They are larger on a narrow one, where the map is small: fewer are shown."""
    tab.show(1440).open(pages["large"])
    found = {width: tab.show(width).evaluate(COVERED) for width in (360, 630, 800, 1440)}
    assert {covered for _, covered in found.values()} == {0}, found
    assert 10 < found[360][0] < found[1440][0] <= 50


def test_hostile_names_are_shown_as_text(tab, pages):
    tab.show(1440).open(pages["hostile"])
    text = tab.evaluate("document.body.textContent")
    for name in HOSTILE:
        assert name[:70] in text
    assert tab.evaluate("document.title") == TITLE.replace("\u202e", "\\u202e")
    assert tab.evaluate("document.querySelectorAll('script, img, iframe, link').length") == 0
    assert "\u202e" not in text
    assert tab.dialogs == []


@pytest.mark.parametrize("name", ["plain"])
@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_serious(tab, pages, theme, name):
    tab.show(1440, theme).open(pages[name])
    tab.evaluate(AXE.read_text() + ";0")
    for width in WIDTHS:
        tab.show(width, theme)
        found = json.loads(tab.evaluate("axe.run().then(r => JSON.stringify(r))"))
        assert len(found["passes"]) > 20
        grave = [
            (one["id"], [node["html"][:120] for node in one["nodes"]][:3])
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert grave == []


def test_the_theme_follows_the_reader(tab, pages):
    ground = "getComputedStyle(document.body).backgroundColor"
    tab.open(pages["plain"])
    colors = {theme: tab.show(1440, theme).evaluate(ground) for theme in THEMES}
    light, dark = (sum(map(int, re.findall(r"\d+", colors[theme])[:3])) for theme in THEMES)
    assert light > 700 > 100 > dark


def test_the_keyboard_gets_to_the_content(tab, pages):
    tab.show(1440).open(pages["plain"])
    for kind in ("keyDown", "keyUp"):
        tab.call(
            "Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9
        )
    assert tab.evaluate("document.activeElement.getAttribute('href')") == "#content"
    assert tab.evaluate("document.activeElement.getBoundingClientRect().left") >= 0


def test_each_cluster_is_printed_on_a_page_of_its_own(tab, pages):
    tab.show(1440).open(pages["plain"])
    pdf = tab.pdf()
    assert pdf.startswith(b"%PDF")
    n_pages = count_pages(pdf)
    tab.evaluate(
        "document.querySelectorAll('.cluster:nth-of-type(n + 3)').forEach(c => c.remove())"
    )
    assert n_pages - count_pages(tab.pdf()) == 3  # of five clusters, two are left


DAYS = (
    "document.querySelectorAll('.values tbody tr:first-child .value').forEach("
    "c => {c.innerHTML = '2020-10-04<small> ± 15 days</small>'})"
)


@pytest.mark.parametrize("k", [5, 9, 14, 50])
def test_tables_are_not_wider_than_paper(tab, tmp_path, k):
    """Browsers print the whole page smaller otherwise, or cut them."""
    columns = ["estimated creatinine clearance at discharge", "Ungetuem_ohne_Leerzeichen" * 2]
    clients = [f"clinic {i}" for i in range(12)]
    run = read_run(write_run(tmp_path, k=k, columns=columns, clients=clients, levels=["a", "b"]))
    path = tmp_path / "report.html"
    path.write_bytes(render_page(build_report(run, today=date(2026, 11, 16))))
    millimeters = 210 - 2 * 16 if k < 10 else 297 - 2 * 12  # A4, upright or not
    tab.show(int(millimeters / 25.4 * 96)).open(path)
    tab.evaluate(DAYS)
    tab.call("Emulation.setEmulatedMedia", media="print")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def count_pages(pdf):
    return len(re.findall(rb"/Type\s*/Page\b", pdf))
