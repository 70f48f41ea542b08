"""What users may rely on."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import fedjigsaw
from fedjigsaw.errors import ParameterError
from fedjigsaw.methods import CLUSTERERS, METHODS, make


def test_names_are_sorted_and_there():
    assert fedjigsaw.__all__ == sorted(fedjigsaw.__all__)
    assert all(hasattr(fedjigsaw, name) for name in fedjigsaw.__all__)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(fedjigsaw.__file__).read_text())
    imports = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("fedjigsaw")
    ]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    assert sorted(seen) == fedjigsaw.__all__
    homes = {name: f"fedjigsaw.{module}" for name, module in fedjigsaw._HOMES.items()}
    assert homes == {name: module for name, module in seen.items() if module != "fedjigsaw"}


def test_modules_are_attributes_as_before():
    done = subprocess.run(
        [sys.executable, "-c", "import fedjigsaw as f; f.errors, f.methods, f.engine, f.metrics"]
    )
    assert done.returncode == 0
    assert {"FeCA", "datasets"} <= set(dir(fedjigsaw))
    with pytest.raises(AttributeError, match="no attribute 'poem'"):
        _ = fedjigsaw.poem


def test_every_method_is_public_and_has_a_color_of_its_own():
    for entry in CLUSTERERS.values():
        assert getattr(fedjigsaw, entry.cls.__name__) is entry.cls
    assert len({entry.color for entry in METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize(
    "name", [n for n in fedjigsaw.__all__ if inspect.isclass(getattr(fedjigsaw, n))]
)
def test_every_public_class_is_documented(name):
    assert len(inspect.getdoc(getattr(fedjigsaw, name))) > 20


def test_make():
    assert make("feca", 3, refine=False).refine is False
    named = make("feca", n_clusters=3, random_state=0)
    assert named.get_params() == make("feca", 3, 0).get_params()
    with pytest.raises(ParameterError, match="random_state was given twice"):
        make("feca", 3, 0, random_state=1)
    with pytest.raises(ParameterError, match="n_clusters of FeCA"):
        make("feca")
    with pytest.raises(ParameterError, match="Unknown method 'x'"):
        make("x", 3)
    for typed in ("jigsww", "Jigsaw"):
        words = f"Unknown method '{typed}'. Did you mean jigsaw\\? Choose one of feca, "
        with pytest.raises(ParameterError, match=words):
            make(typed, 3)
    with pytest.raises(ParameterError, match="FeCA has no parameter 'color'"):
        make("feca", 3, color="red")
    with pytest.raises(ParameterError, match="DeepFeCA learns from images, not from rows"):
        make("deepfeca", 3)
