import inspect

import numpy as np
import pytest

from fedjigsaw import Summary, errors

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, errors.FedJigsawError)
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_drawn_in_the_tree_with_its_exit_code(cls):
    line = next(line for line in errors.__doc__.splitlines() if cls.__name__ in line)
    if cls is not errors.FedJigsawError:
        assert str(cls.exit_code) in line
        assert cls.exit_code not in (0, 1)


def test_exit_codes_tell_errors_apart():
    direct = errors.FedJigsawError.__subclasses__()
    assert len({cls.exit_code for cls in direct}) == len(direct)


def test_advice_comes_last():
    message = errors.invalid("size", "a", "> 0", 0, "Make it larger.")
    assert message == "size of a must be > 0; got 0. Make it larger."


class TestLength:
    """No error prints a whole array, whoever sent it."""

    def test_a_value_is_cut_in_the_middle(self):
        text = errors.invalid("counts", "client 'a'", ">= 0", [7] * 10**6, "Send others.")
        assert text.startswith("counts of client 'a' must be >= 0; got [7, 7, ")
        assert text.endswith(" 7, 7]. Send others.")
        assert len(text) < 500

    @pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
    def test_every_error_is_bounded(self, cls):
        assert len(str(cls("a" * 10**6))) == errors.MAX_TEXT
        assert str(cls("short")) == "short"

    def test_an_array_of_bad_counts(self):
        with pytest.raises(errors.MessageError, match="counts of client 'a'") as caught:
            Summary(5, np.zeros((10**6, 1)), counts=np.full(10**6, -1), client="a")
        assert len(str(caught.value)) < 500
