"""Version, changelog and metadata agree, and the page of the package index has no dead link."""

import ast
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import fedjigsaw
from pages_as_code import ROOT, page

PROJECT = tomllib.loads(page("pyproject.toml"))["project"]


@pytest.mark.parametrize(
    ("name", "line"), [("CHANGELOG.md", r"^## ([\d.]+):"), ("CITATION.cff", r"^version: (\S+)$")]
)
def test_the_version_is_told(name, line):
    assert re.findall(line, page(name), re.MULTILINE)[0] == fedjigsaw.__version__


class TestIndexPage:
    text = "![a picture](docs/a.svg) [Jigsaw](docs/j.md), [paper](https://x.org), [up](#map)"

    @pytest.fixture
    def index_page(self):
        return runpy.run_path(str(ROOT / "setup.py"))["index_page"]

    def test_without_an_address_the_words_stay(self, index_page):
        assert index_page(self.text) == " Jigsaw, [paper](https://x.org), up"

    def test_with_one_links_lead_there(self, index_page):
        home = "https://host.org/fedjigsaw"
        assert index_page(self.text, f"{home}/") == (
            f"![a picture]({home}/raw/HEAD/docs/a.svg) [Jigsaw]({home}/blob/HEAD/docs/j.md), "
            f"[paper](https://x.org), [up]({home}/blob/HEAD/README.md#map)"
        )

    def test_the_readme_keeps_its_links_to_the_web(self, index_page):
        made = index_page(page("README.md"))
        targets = re.findall(r"\]\(([^)]*)\)", made)
        assert targets
        assert all(target.startswith("https://") for target in targets)
        assert len(made) > 0.9 * len(page("README.md"))


OTHER_NAMES = {  # module -> what is installed
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "sklearnex": "scikit-learn-intelex",
}
USED_IF_THERE = {"clustering", "timm"}


def imported_by(node):
    """The modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) else []


class TestDependencies:
    def test_what_is_imported_is_declared(self):
        groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
        declared = {Requirement(text).name for group in groups for text in group}
        imported = {
            name.partition(".")[0]
            for path in (ROOT / "src").rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for name in imported_by(node)
        }
        others = imported - sys.stdlib_module_names - USED_IF_THERE
        assert {OTHER_NAMES.get(name, name.replace("_", "-")) for name in others} <= declared

    def test_every_dependency_has_a_lower_bound(self):
        """`make oldest` tests it."""
        groups = {"core": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
        for group, requirements in groups.items():
            for text in map(Requirement, requirements):
                bounds = [part.operator for part in text.specifier]
                assert text.name == "fedjigsaw" or ">=" in bounds or bounds == ["<"], (group, text)

    def test_what_the_tests_run_with_is_allowed(self):
        pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", page("constraints.txt"), re.MULTILINE))
        pins = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins.items()}
        for requirements in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]:
            for text in map(Requirement, requirements):
                name = re.sub(r"[-_.]+", "-", text.name).lower()
                if name != "fedjigsaw":
                    assert name in pins, f"{name} is not in constraints.txt"
                    assert pins[name] in text.specifier, name

    def test_the_oldest_versions_are_those_of_the_core_and_of_the_extras_that_are_installed(self):
        script = runpy.run_path(str(ROOT / ".ci/oldest.py"))
        extras = re.search(r"^EXTRAS := (.*)$", page("Makefile"), re.MULTILINE)[1].split(",")
        found = script["lower_bounds"](page("pyproject.toml"), extras)
        assert len(found) == len(set(found)) > len(PROJECT["dependencies"])
        assert all(re.fullmatch(r"[\w.-]+==\d[\d.]*", line) for line in found)


def test_addresses_of_the_project_are_on_its_pages():
    """No public address is made up: each is one that a page of the repository has."""
    pages = page("README.md") + page("CITATION.cff")
    for name, address in PROJECT["urls"].items():
        assert address in pages, name


def test_the_archive_takes_along_what_it_names():
    for line in page("MANIFEST.in").splitlines():
        if line.startswith("include "):
            for name in line.split()[1:]:
                assert Path(ROOT / name).is_file()
