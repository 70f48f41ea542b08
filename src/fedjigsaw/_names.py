"""Names of clients that look alike: another case, other signs for the same, or signs unseen.

Not every pair that looks alike is found: no accents are removed, and letters of other alphabets are
not compared. A word that mixes alphabets is refused, so that such a letter cannot hide in a name.
"""

import re
import unicodedata

_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]")
_DASHES = re.compile("[\u2010-\u2015\u2212\u2043\u02d7\u30fc\ufe58\ufe63\uff0d]")
_ALPHABETS = {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET"}
_WORDS = re.compile(r"[^\W\d_]+")


def skeleton(name: str) -> str:
    """Return a form of a name that is the same for names that look alike.

    Examples
    --------
    >>> skeleton("Bern") == skeleton("bern ") == skeleton("\\uff42ern"), skeleton("bonn")
    (True, 'bonn')
    """
    text = _DASHES.sub("-", unicodedata.normalize("NFKC", _UNSEEN.sub("", name)))
    text = text.replace("\u2019", "'")
    return " ".join(unicodedata.normalize("NFKC", text.casefold()).split())


def mixes_alphabets(name: str) -> bool:
    """Tell whether a word of a name has letters of several alphabets.

    Examples
    --------
    >>> mixes_alphabets("b\\u0435rn"), mixes_alphabets("\\u03b2 Bern"), mixes_alphabets("\\u6771 A")
    (True, False, False)
    """
    words = _WORDS.findall(unicodedata.normalize("NFKC", name))
    return any(len(_ALPHABETS & set(map(_alphabet, word))) > 1 for word in words)


def _alphabet(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
