import inspect

import pytest

from fedjigsaw import errors

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
