"""The documentation site has every public name, every command and every page. `make site` builds it."""

import ast
import builtins
import importlib
import importlib.util
import inspect
import re
from doctest import DocTestParser
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import PurePosixPath

import pytest

import fedjigsaw
from fedjigsaw.cli import reference
from fedjigsaw.cli._app import all_commands
from pages_as_code import ROOT, blocks, page

DOCS = ROOT / "docs"
MADE = ("api/generated/", "gallery/", "notebooks/")  # by the build
# modules whose public names are in the API reference, besides those of `fedjigsaw` itself
MODULES = (
    "datasets", "deep", "errors", "methods", "metrics", "mlflow", "parameters", "partition",
    "sites", "sources",
)  # fmt: skip
HEAVY = ("fedjigsaw.deep", "fedjigsaw.flower", "fedjigsaw.mlflow")


def extension(name):
    """A module of docs/_ext."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --------------------------------------------------------------------------------------------- API


def documented():
    """The whole names of all objects in the source of the API reference."""
    found = set()
    for path in sorted((DOCS / "api").glob("*.rst")):
        module, listing = "", False
        for line in path.read_text().splitlines():
            directive = re.match(r"\.\. (\w+):: *(\S*)", line)
            if directive:
                listing = directive[1] == "autosummary"
                if directive[1] == "currentmodule":
                    module = directive[2]
                elif directive[1] in ("autoclass", "autoexception", "autofunction"):
                    found.add(f"{module}.{directive[2]}")
            elif listing and re.fullmatch(r"   [\w.]+", line):
                found.add(f"{module}.{line.strip()}")
            elif line and not line.startswith(" "):
                listing = False
    return found


def public_names(module):
    """The names in `__all__`, or else the functions and classes without an underscore."""
    folder = ROOT / "src/fedjigsaw" / module
    source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    body = ast.parse(source.read_text()).body
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    defined = (node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return {name for name in defined if not name.startswith("_")}


@pytest.mark.parametrize("module", MODULES)
def test_the_api_reference_has_every_public_name(module):
    names = {f"fedjigsaw.{module}.{name}" for name in public_names(module)}
    homes = {f"fedjigsaw.{home}.{name}" for name, home in fedjigsaw._HOMES.items()}
    assert names
    assert names - homes - documented() == set()


def test_the_api_reference_has_every_name_of_the_package():
    known = documented()
    for name in fedjigsaw.__all__:
        home = fedjigsaw._HOMES.get(name)
        if home is None:  # a module
            assert any(entry.startswith(f"fedjigsaw.{name}.") for entry in known), name
        else:
            assert {f"fedjigsaw.{name}", f"fedjigsaw.{home}.{name}"} & known, name


def resolve(name):
    """The object of a whole name."""
    module, _, rest = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), rest)
    except ModuleNotFoundError:
        return getattr(resolve(module), rest)


def test_all_that_is_documented_exists_and_has_a_docstring():
    for name in sorted(documented()):
        if name.startswith(HEAVY):
            continue  # the build imports them
        found = resolve(name)
        if not (inspect.isclass(found) or inspect.isroutine(found)):
            continue  # a constant
        assert found.__doc__, name
        for member, value in vars(found).items() if inspect.isclass(found) else ():
            if not member.startswith("_") and (
                inspect.isfunction(value) or isinstance(value, property)
            ):
                whole = f"{name}.{member}"
                assert inspect.getdoc(getattr(found, member)), whole


def light():
    """The documented names that need no extra."""
    return sorted(name for name in documented() if not name.startswith(HEAVY))


def unbound(source):
    """The names that code uses, but neither makes, imports nor has from Python."""
    used, bound = set(), set(dir(builtins))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return used - bound


@pytest.mark.parametrize("name", light())
def test_an_example_imports_what_it_uses(name):
    found = resolve(name)
    if inspect.isclass(found) or inspect.isfunction(found):
        examples = DocTestParser().get_examples(found.__doc__)
        assert unbound("".join(example.source for example in examples)) == set()


def test_a_constant_has_a_docstring_where_it_is_documented():
    constants = [name for name in light() if not callable(resolve(name))]
    assert "fedjigsaw.sites.MAX_ROWS" in constants
    for name in constants:
        module, _, constant = name.rpartition(".")
        body = ast.parse(inspect.getsource(importlib.import_module(module))).body
        places = [
            following
            for node, following in pairwise(body)
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == constant
        ]
        assert [isinstance(place, ast.Expr) for place in places] == [True], name


# ---------------------------------------------------------------------------------------- commands


def test_the_page_of_commands_is_made_from_them():
    made = reference.commands_page()
    assert page("docs/commands.md") == made, "run: python -m fedjigsaw.cli.reference"


def test_the_page_of_commands_has_every_command_and_option():
    sections = dict(
        re.findall(r"^####? (fedjigsaw .*)\n((?:(?!#).*\n)*)", page("docs/commands.md"), re.M)
    )
    count = 0
    for first, command in reference.top_commands().items():
        for name, part in all_commands(f"fedjigsaw {first}", command):
            for parameter in part.params:
                if parameter.name != "help" and not getattr(parameter, "hidden", False):
                    count += 1
                    shown = parameter.opts if parameter.param_type_name == "option" else []
                    assert all(f"`{option}`" in sections[name] for option in shown), (name, shown)
    assert count > 100
    assert {"fedjigsaw summarize", "fedjigsaw federation operator add"} <= set(sections)


def test_the_page_of_commands_writes_arguments_and_pairs_of_flags_as_they_are_given():
    text = page("docs/commands.md")
    assert re.findall(r"^\| `([A-Z]*[\[\]].*?)`", text, re.M) == []  # [FILES]... in the usage only
    assert "| `FILES...` | path | The files that `stats` wrote" in text
    pairs = re.findall(r"^\| `(--\w+)`, `(--no-\w+)` \| flag \| .* Default: `(.*?)`\.", text, re.M)
    assert ("--keep", "--no-keep", "--keep") in pairs
    assert len(pairs) == len(re.findall(r"^\| .*`--no-\w+` \| flag", text, re.M))
    assert "Examples: `--missing -9` and `--missing glucose:0`" in text


def test_a_line_of_help_that_begins_with_an_option_is_no_list():
    # `compare` has such a line; only usages are shown as they are
    assert all(block.startswith("fedjigsaw ") for block in blocks(page("docs/commands.md"), "text"))


def test_help_and_page_of_files_name_all_parameters_of_the_server():
    (option,) = re.findall(r"acts at the server; for jigsaw: (.*?)\.", page("docs/commands.md"))
    assert set(option.replace("\\", "").split(", ")) == set(fedjigsaw.Jigsaw.server_parameters)
    (told,) = re.findall(r"For Jigsaw these are (.*?), for example", page("docs/sites.md"))
    assert set(re.findall(r"`(\w+)`", told)) == set(fedjigsaw.Jigsaw.server_parameters)


def test_make_docs_writes_it():
    assert "python -m fedjigsaw.cli.reference" in page("Makefile")


# ------------------------------------------------------------------------------------------- pages


def pages():
    """The names of all pages of the site, without those that the build makes."""
    found = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    found |= {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.rst")}
    return {name for name in found if not name.startswith((*MADE, "_"))}


def children(name):
    """What the toctrees of a page list."""
    text = next(
        DOCS / f"{name}{end}" for end in (".md", ".rst") if (DOCS / f"{name}{end}").exists()
    ).read_text()
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line and not line.startswith(":"):
                yield str(PurePosixPath(name).parent / line)


def test_every_page_is_in_one_toctree():
    known, seen, rest = pages(), ["index"], ["index"]
    while rest:
        for child in children(rest.pop()):
            if child.startswith(MADE):
                continue
            assert child in known, f"no page {child}"
            seen.append(child)
            rest.append(child)
    assert sorted(seen) == sorted(known)


def test_the_search_knows_pages_that_exist_and_each_word_leads_to_one():
    (table,) = [
        ast.literal_eval(node.value)
        for node in ast.parse(page("docs/conf.py")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "repository_search"
    ]
    assert set(table) <= pages()
    words = [word for listed in table.values() for word in listed]
    assert sorted(set(words)) == sorted(words)
    assert all(word == word.lower() and "," not in word for word in words)
    assert "privacy" in table["privacy"]
    assert "k unknown" in table["number-of-clusters"]
    assert "parquet" in table["formats"]


def test_every_file_to_deploy_and_every_example_is_shown():
    shown = page("docs/project/files.md")
    files = [
        *(ROOT / "examples").glob("*.py"),
        *(p for p in (ROOT / "deploy").rglob("*") if p.is_file()),
    ]
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        assert f"# {name}\n\n```{{literalinclude}} ../../{name}\n" in shown, name


# ------------------------------------------------------------------------------------- extensions


class TestLinks:
    """Links of files that are not in docs/ become links of the site."""

    @pytest.mark.parametrize(
        ("origin", "shown_by", "link", "becomes"),
        [
            ("CHANGELOG.md", "docs/project/changelog.md", "docs/privacy.md#audit", "../privacy.md#audit"),
            ("CHANGELOG.md", "docs/project/changelog.md", "deploy", "files.md#deploy"),
            ("CONTRIBUTING.md", "docs/project/contributing.md", "README.md#map", "map.md"),
            ("docs/operations.md", "docs/operations.md", "../CHANGELOG.md", "project/changelog.md"),
            ("docs/operations.md", "docs/operations.md", "../deploy/kubernetes", "project/files.md#deploykubernetes"),
            ("docs/start/researcher.md", "docs/start/researcher.md", "../../examples/new_method.py", "../project/files.md#examplesnew_methodpy"),
            ("notebooks/a.ipynb", "docs/notebooks/a.ipynb", "../docs/jigsaw.md", "../jigsaw.md"),
            ("docs/tutorials.md", "docs/tutorials.md", "../notebooks/first_steps.ipynb", "notebooks/first_steps.ipynb"),
            ("docs/splits.md", "docs/splits.md", "../examples/gallery/plot_14_splits.py", "gallery/plot_14_splits.rst"),
            ("docs/how-to.md", "docs/how-to.md", "../examples/gallery", "gallery/index.rst"),
            ("CHANGELOG.md", "docs/project/changelog.md", "notebooks", "../tutorials.md"),
            ("docs/sites.md", "docs/sites.md", "privacy.md", "privacy.md"),
            ("docs/sites.md", "docs/sites.md", "https://example.org/a", "https://example.org/a"),
            ("docs/sites.md", "docs/sites.md", "no-such-page.md", "no-such-page.md"),
        ],
    )  # fmt: skip
    def test_rewritten(self, origin, shown_by, link, becomes):
        rewritten = extension("repository").site_links(f"see [it]({link}).", origin, shown_by)
        assert rewritten == f"see [it]({becomes})."

    def test_every_stub_is_a_page_and_has_a_file(self):
        for stub, (name, _) in extension("repository").STUBS.items():
            assert stub in pages()
            assert (ROOT / name).exists()
            assert f"](../../{name}" in page(f"docs/{stub}.md")


class TestCheck:
    """The check of a built site finds what is broken."""

    def complaints(self, folder, body, **files):
        for name, text in {"index.html": body, **files}.items():
            (folder / name.replace("_css", ".css")).write_text(text)
        return list(extension("check").complaints(folder))

    @pytest.mark.parametrize(
        ("body", "complaint"),
        [
            ('<a href="gone.html">x</a>', "index.html: gone.html: no such file"),
            ('<a href="#gone">x</a>', "index.html: #gone: no such anchor"),
            ('<img src="gone.png">', "index.html: gone.png: no such file"),
            ('<script src="https://a.example/x.js"></script>', "index.html fetches https://a.example/x.js"),
            ('<link rel="stylesheet" href="//a.example/x.css">', "index.html fetches //a.example/x.css"),
            ('<p style="background: url(https://a.example/x)">', "index.html fetches https://a.example/x"),
            ('<a id="here" href="#here">x</a> <a href="https://a.example">y</a>', None),
            ('<link rel="canonical" href="https://a.example/">', None),
        ],
    )  # fmt: skip
    def test_a_page(self, tmp_path, body, complaint):
        assert self.complaints(tmp_path, body) == ([complaint] if complaint else [])

    def test_a_style(self, tmp_path):
        style = "@import 'https://a.example/font.css'; a {background: url(local.png)}"
        assert self.complaints(tmp_path, "", a_css=style) == [
            "a.css fetches https://a.example/font.css"
        ]


def test_patterns_of_toctrees_are_only_those_of_made_pages():
    starred = {child for name in pages() for child in children(name) if "*" in child}
    assert all(any(fnmatch(child, f"{made}*") for made in MADE) for child in starred)
