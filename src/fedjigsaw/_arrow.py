"""The functions of pyarrow.compute, which are loaded when the first of them is called.

Loading them takes a fifth of the time that a command needs to start, and many commands end without
calling any: because a file is not there, or because they read no table.
"""

from importlib import import_module
from typing import Any


class _Later:
    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module("pyarrow.compute"), name)
        setattr(self, name, found)  # wide tables ask a hundred thousand times
        return found


pc: Any = _Later()
