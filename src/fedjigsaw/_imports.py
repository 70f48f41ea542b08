"""Keep packages out that are not used in processes of our own: commands, and apps of a federation.

pyarrow imports pandas to know data frames, and scikit-learn imports pandas and scipy.stats for
functions that none of them calls. That takes longer than most commands, and 70 MB of memory.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any

NEVER = "pandas"
LATER = "scipy.stats"


class _Sparing(MetaPathFinder, Loader):
    """Find no pandas, as where it is not installed, and load scipy.stats when it is first used.

    Importing pandas fails, but looking for it does not: torch only asks whether it is there.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == NEVER:
            return ModuleSpec(name, self)
        spec = PathFinder.find_spec(name, path, target) if name == LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec

    def exec_module(self, module: ModuleType) -> None:
        text = f"This process of fedjigsaw does without {NEVER}."
        raise ModuleNotFoundError(text, name=NEVER)


def spare_imports() -> None:
    """Keep packages that are not needed out of this process."""
    sys.meta_path.insert(0, _Sparing())


def import_freely() -> None:
    """Let code of others import every package from now on, also those that are kept out."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Sparing)]
