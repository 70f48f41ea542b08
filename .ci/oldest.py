"""Print the oldest versions that pyproject.toml allows, as constraints for pip.

    python .ci/oldest.py plots,excel > oldest.txt

Those of the core, of these extras, and of tables in memory.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

TABLES = ("pandas", "polars")  # of the extra `dev`: today's do not work with the oldest pyarrow
BOUND = re.compile(r"([\w.-]+)>=([\w.]+)")


def lower_bounds(pyproject: str, extras: Sequence[str]) -> list[str]:
    """Return a constraint for every requirement that has a lower bound."""
    project = tomllib.loads(pyproject)["project"]
    optional = project["optional-dependencies"]
    needed = [*project["dependencies"], *(one for name in extras for one in optional[name])]
    needed += [one for one in optional["dev"] if one.startswith(TABLES)]
    found = [BOUND.match(requirement) for requirement in needed]
    return [f"{bound[1]}=={bound[2]}" for bound in found if bound]


if __name__ == "__main__":
    path = Path(__file__).resolve().parents[1] / "pyproject.toml"
    print("\n".join(lower_bounds(path.read_text(encoding="utf-8"), sys.argv[1].split(","))))
