"""What tests of errors assert: the type of an error, and what it is about."""

from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def raises(kind, match=None, **about):
    """Await an error with these attributes; of its file, the name is enough."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    found = {name: getattr(caught.value, name) for name in about}
    if not Path(about.get("file", "")).is_absolute():
        found |= {"file": Path(found["file"]).name} if "file" in about else {}
    assert found == about
