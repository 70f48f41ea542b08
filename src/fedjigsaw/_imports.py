"""Keep packages out that are not used in processes of our own: commands, and apps of a federation.

pyarrow imports pandas to know data frames, and scikit-learn imports pandas and scipy.stats for
functions that none of them calls. That takes longer than most commands, and 70 MB of memory.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any, NoReturn

NEVER = "pandas"
LATER = "scipy.stats"


class _Missing(Loader):
    """Load nothing: an import ends as where the package is not installed.

    A finder that raised this error itself would end those who only ask whether it is: torch does.
    """

    def create_module(self, spec: ModuleSpec) -> NoReturn:
        text = f"This process of fedjigsaw does without {spec.name}."
        raise ModuleNotFoundError(text, name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Never called, but a loader must have it."""


class _Sparing(MetaPathFinder):
    """Find no pandas, as where it is not installed, and load scipy.stats when it is first used."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == NEVER:
            return ModuleSpec(name, _Missing())
        spec = PathFinder.find_spec(name, path, target) if name == LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def spare_imports() -> None:
    """Keep packages that are not needed out of this process."""
    sys.meta_path.insert(0, _Sparing())


def import_freely() -> None:
    """Let code of others import every package from now on, also those that are kept out."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Sparing)]
