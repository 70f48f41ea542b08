"""What tests of errors assert: the type of an error, and what it is about."""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest

PLACES = {"row": ", (?:row|line) ([0-9]+)", "column": "(?i)\\bcolumn '([^']+)'"}


@contextmanager
def raises(kind, match=None, **about):
    """Await an error with these attributes; of its file, the name is enough."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    found = {name: getattr(caught.value, name) for name in about}
    if "file" in about and not Path(about["file"]).is_absolute():
        found["file"] = Path(found["file"]).name
    assert found == about


def check_place(error, path):
    """Check that an error knows its file, and the row and the column that its text names first."""
    assert error.file == str(path)
    for name, pattern in PLACES.items():
        for told in re.findall(pattern, str(error))[:1]:
            assert str(getattr(error, name)) == told
