"""The examples run, and the example of a new method passes what the package's own methods pass."""

import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

EXAMPLES = Path(__file__).parent.parent / "examples"
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


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_runs(path, tmp_path):
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
