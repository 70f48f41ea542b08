"""`import fedjigsaw` loads none of the heavy optional parts, beyond what scikit-learn loads itself."""

import subprocess
import sys
from functools import cache

import pytest

pytestmark = pytest.mark.slow

HEAVY = {
    "torch", "flwr", "matplotlib", "sklearnex", "daal4py", "pandas", "pyarrow", "pooch", "typer", "rich",
    "sklearn", "jinja2", "numpy",
}  # fmt: skip


@cache
def loaded_after_each(*lines):
    """Return which of the heavy packages a process has loaded after each line of code."""
    script = "import sys\n" + "".join(
        f"{line}\nprint(*({HEAVY!r} & set(sys.modules)))\n" for line in lines
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return [set(line.split()) for line in done.stdout.splitlines()]


def loaded_after(code):
    return loaded_after_each(code)[0]


# one process for both tests: scikit-learn takes seconds to import
FIT = (
    "import sklearn",
    "import sklearn.cluster",
    "import fedjigsaw; fedjigsaw.FeCA(2).fit([[0.0], [1.0], [9.0]])",
)


def test_import_is_light():
    scikit_learn = loaded_after_each(*FIT)[0]
    assert not scikit_learn & {"torch", "flwr", "matplotlib"}
    assert loaded_after("import fedjigsaw") <= scikit_learn


def test_fitting_needs_only_a_backend():
    _, scikit_learn, fitted = loaded_after_each(*FIT)
    assert fitted <= scikit_learn


def test_the_command_line_draws_only_on_demand():
    assert not loaded_after("import fedjigsaw.cli") & {"matplotlib", "torch", "flwr", "jinja2"}


@pytest.mark.parametrize("part", ["superlink", "supernode", "launcher"])
def test_what_a_federation_keeps_running_computes_nothing(part):
    """Server and agents only carry messages; the methods run in processes of their own."""
    pytest.importorskip("flwr")
    needed = loaded_after(f"import fedjigsaw.flower.{part}")
    assert not needed & {"sklearn", "torch", "pandas", "pyarrow"}


def test_nor_does_what_starts_the_apps_of_a_site_while_it_is_idle():
    pytest.importorskip("flwr")
    assert not loaded_after("import fedjigsaw.flower.warm") & {"flwr", "numpy", *HEAVY}
    loading = "from fedjigsaw.flower.launcher import preload; preload('flwr-clientapp')"
    assert "sklearn" in loaded_after(loading)
