"""The examples run, and the example of a new method passes what the package's own methods pass."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
from new_method import KMeansOfCenters  # noqa: E402
from test_common import TestHouse as HouseRules  # noqa: E402


@pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
@parametrize_with_checks([KMeansOfCenters()])
def test_scikit_learn(estimator, check):
    check(estimator)  # its own assertions; a failure raises


@pytest.mark.parametrize("rule", [name for name in dir(HouseRules) if name.startswith("test_")])
def test_house(rule, grid):
    check = getattr(HouseRules(), rule)
    arguments = (
        [KMeansOfCenters, grid] if "grid" in check.__code__.co_varnames else [KMeansOfCenters]
    )
    check(*arguments)  # its own assertions; a failure raises


def test_a_copy_of_the_method_can_live_in_the_package():
    """There it is imported while the package still is: it may ask for rooms, not for the house."""
    method, _main = (EXAMPLES / "new_method.py").read_text().split("if __name__ ==")
    assert "from fedjigsaw.base import" in method
    assert not re.search(r"^\s*(from fedjigsaw import|import fedjigsaw)", method, re.MULTILINE)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_runs(path, tmp_path):
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
