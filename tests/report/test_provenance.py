import subprocess

import fedjigsaw
from fedjigsaw.report import provenance


def test_a_row_names_version_commit_and_backend(monkeypatch):
    monkeypatch.setenv("FEDJIGSAW_BACKEND", "sklearn")
    monkeypatch.setenv("FEDJIGSAW_COMMIT", "abc")
    wanted = {"version": fedjigsaw.__version__, "commit": "abc", "backend": "sklearn"}
    assert provenance.provenance() == wanted
    assert provenance.provenance("torch") == {**wanted, "backend": "torch"}


def test_there_is_no_commit_outside_a_checkout(monkeypatch):
    def no_git(*args, **kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    assert provenance.current_commit.__wrapped__() is None
