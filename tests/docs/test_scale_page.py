"""The code on docs/scale.md runs, and prints what the page says."""

import pytest

from pages_as_code import blocks, page

PAGE = page("docs/scale.md")


@pytest.mark.slow
def test_code_prints_what_the_page_says(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("distributed")
    names = {}
    for code in blocks(PAGE, "python"):
        exec(code, names)
    assert capsys.readouterr().out == "".join(blocks(PAGE, "text"))
