"""The one decorator of compiled functions."""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

from fedjigsaw.kernels.compiled import tell_compiling

# Sums may be reassociated, so that they are computed in vectors. The order is fixed when a function
# is compiled, so the same input gives the same bits in every run: functions that it calls become
# part of it, and are not kept by themselves. Else the process that compiles would call their own
# machine code, and later processes the copy that is kept with the caller's, in another order.
FAST = {"arcp", "contract", "nsz", "reassoc"}
PART: dict[str, Any] = {"no_cpython_wrapper": True, "forceinline": True}


class _Telling(event.Listener):
    def on_start(self, event: object) -> None:
        tell_compiling()

    def on_end(self, event: object) -> None:
        pass


event.register("numba:compile", _Telling())


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, and keep the machine code on disk.

    It runs without Python's lock, so that plain threads work side by side: numba's own threads
    must not be forked, and its simplest ones not be shared. Where no folder can be written, the
    function is compiled anew in every process.

    Nothing checks that a place is within an array. So arrays of places begin as zeros, not empty:
    where a distance is NaN, no comparison sets one.

    To compile takes seconds, which grow with the number of lines, and with that of functions and
    types that these call. An array that Python makes takes less than one made here, an array and a
    place less than a slice. An array is copied into part of another by a loop: for ``a[:] = b``,
    numba also compiles the words of an error with both shapes.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": FAST, "error_model": "numpy"}
    options["no_cfunc_wrapper"] = True  # C does not call it
    if function.__name__.startswith("_"):  # Python does not call it: no wrapper to compile
        return njit(**options, **PART)(function)
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for the machine code
        return njit(**options)(function)
