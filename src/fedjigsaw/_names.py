"""Names of clients that look alike: another alphabet, another case, or signs that do not show.

Not every pair that looks alike is found: no accents are removed, and of the letters of other
alphabets only those that are common in fonts are known. A word that mixes alphabets is refused, so
that a letter that is not known here cannot hide in a name.
"""

import re
import unicodedata

# Latin letters, and those of other alphabets (Cyrillic, Greek, Armenian, unusual Latin) that look
# like them
_ALIKE = {
    "A": "\u0391\u0410",
    "a": "\u0251\u03b1\u0430",
    "B": "\u0392\u0412",
    "b": "\u0432",
    "C": "\u0421",
    "c": "\u03f2\u0441\u1d04",
    "d": "\u0501",
    "E": "\u0395\u0415",
    "e": "\u03b5\u0435",
    "G": "\u050c",
    "g": "\u0261\u0581",
    "H": "\u0397\u041d",
    "h": "\u043d\u04bb\u0570",
    "I": "\u0399\u0406",
    "i": "\u0131\u0269\u03b9\u0456",
    "J": "\u0408",
    "j": "\u03f3\u0458\u0575",
    "K": "\u039a\u041a",
    "k": "\u03ba\u043a",
    "L": "\u053c",
    "l": "\u01c0\u04cf",
    "M": "\u039c\u041c",
    "m": "\u043c",
    "N": "\u039d",
    "n": "\u03b7\u0578",
    "O": "\u039f\u041e\u0555",
    "o": "\u03bf\u043e\u0585\u1d0f",
    "P": "\u03a1\u0420",
    "p": "\u03c1\u0440",
    "Q": "\u051a",
    "q": "\u051b\u0566",
    "S": "\u0405\u054f",
    "s": "\u017f\u0455",
    "T": "\u03a4\u0422",
    "t": "\u03c4\u0442",
    "U": "\u054d",
    "u": "\u03c5\u057d",
    "V": "\u0474",
    "v": "\u03bd\u0475\u1d20",
    "W": "\u051c",
    "w": "\u03c9\u0461\u051d\u1d21",
    "X": "\u03a7\u0425",
    "x": "\u03c7\u0445",
    "Y": "\u03a5\u0423",
    "y": "\u028f\u03b3\u0443",
    "Z": "\u0396",
    "z": "\u1d22",
}
_LATIN = str.maketrans({other: latin for latin, alike in _ALIKE.items() for other in alike})
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]")
_DASHES = re.compile("[\u2010-\u2015\u2212\u2043\u02d7\u30fc\ufe58\ufe63\uff0d]")
_ALPHABETS = {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET"}
_WORDS = re.compile(r"[^\W\d_]+")


def skeleton(name: str) -> str:
    """Return a form of a name that is the same for names that look alike.

    Examples
    --------
    >>> skeleton("Bern") == skeleton("b\\u0435rn ") == skeleton("\\uff42ern"), skeleton("bonn")
    (True, 'bonn')
    """
    text = unicodedata.normalize("NFKD", _UNSEEN.sub("", name)).translate(_LATIN)
    text = _DASHES.sub("-", text).replace("\u2019", "'")
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
