"""The docstring of fedjigsaw.flower is a map of its modules."""

import re
from pathlib import Path

from fedjigsaw import flower


def test_every_module_is_on_the_map_and_no_other():
    lines = re.findall(r"^    (\w+(?: \w+)*)  ", flower.__doc__, re.MULTILINE)
    listed = " ".join(lines).split()
    found = [path.stem for path in Path(flower.__file__).parent.glob("*.py")]
    assert sorted(listed) == sorted(set(found) - {"__init__"})
