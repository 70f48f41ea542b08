"""Provenance of a row: the code and the k-means backend that it was computed with."""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import fedjigsaw
from fedjigsaw.kernels.backends import default_backend, name_of

COMMIT_VARIABLE = "FEDJIGSAW_COMMIT"


def provenance(backend: str | None = None) -> dict[str, Any]:
    """Return version, commit and k-means backend, as fields of a row.

    The commit ends in ``+`` if the package has uncommitted changes. It is None outside a checkout.
    On a machine that has a copy without history, ``FEDJIGSAW_COMMIT`` names it.

    Parameters
    ----------
    backend : name of the backend; None is the default of this machine.
    """
    return {
        "version": fedjigsaw.__version__,
        "commit": os.environ.get(COMMIT_VARIABLE) or current_commit(),
        "backend": backend or name_of(default_backend()),
    }


@cache
def current_commit() -> str | None:
    """Return the commit of the checkout that the package was imported from."""
    package = Path(fedjigsaw.__file__).resolve().parent
    git = ["git", "-C", str(package)]
    words = ["rev-parse", "--show-toplevel", "--short=12", "HEAD"]
    try:
        answer = subprocess.run([*git, *words], capture_output=True, text=True, check=True)
        changed = subprocess.run(
            [*git, "diff", "--quiet", "HEAD", "--", "."], check=False
        ).returncode
    except (OSError, subprocess.CalledProcessError):  # an installed package has no history
        return None
    top, head = answer.stdout.splitlines()
    if package != Path(top) / "src" / "fedjigsaw":  # installed inside another checkout
        return None
    return head + "+" * bool(changed)
