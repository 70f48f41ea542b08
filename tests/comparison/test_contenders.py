"""Methods by name, and the parameters that each of them gets."""

import pytest

from fedjigsaw.comparison.contenders import named, params_by_method, supporting
from fedjigsaw.errors import ParameterError
from fedjigsaw.methods import CLUSTERERS


def test_only_some_methods_find_the_number_of_clusters():
    assert supporting(3) == list(CLUSTERERS)
    assert supporting("auto") == ["jigsaw"]


def test_a_parameter_goes_to_the_methods_that_have_it():
    own = params_by_method(["jigsaw", "feca"], {"refine": False}, 3)
    assert own == {"jigsaw": {}, "feca": {"refine": False}}
    jigsaw, feca = named(own, 3)
    assert (jigsaw.label, feca.label) == ("Jigsaw", "FeCA")  # as in the table, also with parameters
    assert feca.params == {"refine": False}
    assert feca.copy(7).get_params()["refine"] is False
    assert feca.copy(7).random_state == 7


def test_a_parameter_that_no_method_has():
    with pytest.raises(ParameterError, match="None of feca, kfed has a parameter 'speed'"):
        params_by_method(["feca", "kfed"], {"speed": 1}, 3)
