"""The code on docs/scikit-learn.md runs, and prints what the page says; its commands work."""

from pages_as_code import blocks, commands, page

PAGE = page("docs/scikit-learn.md")


def test_code_prints_what_the_page_says(capsys, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in blocks(PAGE, "python"):
        exec(code, names)
    assert capsys.readouterr().out == "".join(blocks(PAGE, "text"))
    for _, *words in commands(PAGE):
        assert run(*words).exit_code == 0
