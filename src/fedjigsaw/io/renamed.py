"""Columns of a file under other names than they have there."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from unicodedata import normalize

from fedjigsaw.io.readers import Reader


class RenamedReader:
    """Another reader, some of whose columns have other names.

    Parameters
    ----------
    names : name in the file -> new name.
    """

    def __init__(self, reader: Reader, names: Mapping[str, str]) -> None:
        self.reader = reader
        self.names = [names.get(name, name) for name in reader.names]
        self.sources = {new: old for old, new in names.items()}
        self.n_rows, self.text = reader.n_rows, reader.text
        self.told, self.hint = reader.told, reader.hint

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        """Yield columns by their new names."""
        return self.reader.batches([self.sources.get(name, name) for name in names])


def other_forms(names: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """Return name -> wanted name, for those that differ by how letters are composed alone.

    A Mac may write "ü" as u and two dots, which nobody can see. Where several names could be meant,
    none is.

    Examples
    --------
    >>> other_forms(["Zu\\u0308rich", "age"], ["Z\\u00fcrich"]) == {"Zu\\u0308rich": "Z\\u00fcrich"}
    True
    """
    if all(map(str.isascii, names)):
        return {}
    asked, there = (_by_form(set(a) - set(b)) for a, b in ((wanted, names), (names, wanted)))
    return {there[form]: asked[form] for form in there.keys() & asked.keys()}


def _by_form(names: Collection[str]) -> dict[str, str]:
    """Return composed name -> name, without those of which there are several."""
    counts = Counter(normalize("NFC", name) for name in names)
    return {form: name for name in names if counts[form := normalize("NFC", name)] == 1}
