"""The ratchet of `make lint`: sizes may only shrink."""

import runpy

import pytest

from pages_as_code import ROOT

SIZE = runpy.run_path(str(ROOT / ".ci/size.py"))
CODE = '''"""Documentation
over two lines."""

import os  # counted once


def join(words):
    """Documentation."""
    # a comment
    "a text that is a statement"
    return "".join(
        words
    )
'''


def test_lines_that_hold_code_are_counted(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(CODE)
    assert SIZE["code_lines"](path) == 5


@pytest.mark.parametrize(
    ("size", "wrong"), [(1000, 0), (970, 0), (1001, 1), (969, 1), (0, 1)], ids=str
)
def test_a_part_must_be_within_its_budget_and_near_it(size, wrong):
    assert len(SIZE["complaints"](SIZE["Counter"](part=size), {"part": 1000})) == wrong
