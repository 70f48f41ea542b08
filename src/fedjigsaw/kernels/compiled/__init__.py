"""Compiled kernels, by numba: loops over rows that NumPy cannot run at full speed.

They need the extra ``fast``, and everything works without them. Modules of this package import
numba, which takes a while, so they are imported where they are used.
"""

from functools import cache
from importlib.util import find_spec


@cache
def installed() -> bool:
    """Say whether numba is installed, without importing it."""
    return find_spec("numba") is not None
