"""docs/security.md promises nothing without a test."""

import ast
import re

import pytest

from pages_as_code import ROOT, page

PAGE = page("docs/security.md")
PROMISE = re.compile(r"\b(cannot|can't|can not|never|nobody can)\b", re.IGNORECASE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def promises_without_tests(text):
    """The lines with a promise where neither the line itself nor the next names a test."""
    lines = text.splitlines()
    return [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if PROMISE.search(line) and not TEST.search(line + after)
    ]


def names_of_tests(path):
    """The names of the tests in a file, methods with their class."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        names |= {
            prefix + function.name
            for function in inner
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_")
        }
    return names


def test_every_promise_names_a_test():
    assert len(PROMISE.findall(PAGE)) > 20
    assert promises_without_tests(PAGE) == []


@pytest.mark.parametrize("file", sorted({file for file, _ in TEST.findall(PAGE)}))
def test_every_test_that_is_named_exists(file):
    named = {name for other, name in TEST.findall(PAGE) if other == file}
    assert named <= names_of_tests(ROOT / file)


def test_a_promise_without_a_test_is_found():
    tested = "- A thief cannot enter.\n  `tests/a.py::test_b`\n"
    assert promises_without_tests(tested) == []
    assert promises_without_tests("- Rows never leave.\n" + tested) == ["- Rows never leave."]
    assert promises_without_tests("It cannot be.\n\n`tests/a.py::test_b`") == ["It cannot be."]
    assert "test_every_promise_names_a_test" in names_of_tests(
        ROOT / "tests/docs/test_security_page.py"
    )


def test_reports_are_private_and_no_address_is_invented():
    text = page("SECURITY.md")
    assert "(docs/security.md)" in text
    assert not re.search(r"@|https?://", text)
