"""Words by which kinds of columns are recognized."""

import difflib
import re
from collections.abc import Sequence

UNNAMED = "unnamed"  # a column without a name, such as the index that pandas writes

# pairs of words for true and false
PAIRS = (
    *(("1", "0"), ("true", "false"), ("t", "f"), ("yes", "no"), ("y", "n")),
    *(("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("ja", "nee")),
    *(("oui", "non"), ("o", "n"), ("vrai", "faux"), ("si", "no"), ("sí", "no"), ("sì", "no")),
    ("s", "n"),
)
TRUE, FALSE = (tuple(dict.fromkeys(words)) for words in zip(*PAIRS, strict=True))
# words that say that a value is not known or was not given: they count as missing everywhere
UNKNOWN = (
    *("unknown", "not known", "missing", "not available", "not specified", "not stated"),
    *("not recorded", "not reported", "not documented", "no data", "no information"),
    *("unbekannt", "nicht bekannt", "keine Angabe", "keine Angaben", "ohne Angabe", "fehlend"),
    *("nicht angegeben", "nicht erfasst", "nicht erhoben", "nicht dokumentiert", "keine Daten"),
    *("inconnu", "inconnue", "non connu", "non connue", "manquant", "manquante"),
    *("non renseigné", "non renseignée", "non précisé", "non précisée", "non documenté"),
    *("desconocido", "desconocida", "no consta", "sin datos", "no especificado", "no disponible"),
    *("sconosciuto", "sconosciuta", "non noto", "non nota", "mancante", "non disponibile"),
    *("non specificato", "onbekend", "niet bekend", "ontbrekend", "geen opgave", "geen gegevens"),
)
# words at the start of a row below all others that sums them up
TOTALS = (
    *("total", "totals", "grand total", "sum", "mean", "average", "median", "count", "subtotal"),
    *("summe", "gesamt", "gesamtsumme", "mittelwert", "durchschnitt", "anzahl", "insgesamt"),
    *("somme", "moyenne", "totaux", "total général", "suma", "media", "promedio", "totale"),
    *("somma", "totaal", "som", "gemiddelde"),
)
PERSONS = "patient|person|physician|doctor|doktor|arzt|aerztin|ärztin|nurse|client|kunde|user"
PERSONS += "|medecin|médecin|surgeon|author|employee|mitarbeiter|behandler|therapist|hausarzt"
# names of columns that tell rows or people apart; platelet_number, NO and case may be measured
LAST_WORDS = "id|ids|uid|uuid|guid|pid|mrn|nr|nummer|key|idx"
COUNTED = "patienten|patient|pat|fall|case|subject|person|record|study|row"
NUMBERED = f"{COUNTED}|sample|order|customer|client|user|employee|member|participant|serial|account"
NUMBERED += "|insurance|invoice|contract|passport|license|reference|registration|tax|ward|room|bed"
JOINED = f"({NUMBERED})_?(id|nr|no|num|nummer|number|key)"
INDEXED = f"((.*_)?({COUNTED}|sample|client|user)_?)?index"  # a body mass index is measured
PEOPLE = "surname|vorname|nachname|(first|last|full)_name|(e_?)?mail|phone|telefon|iban|ssn"
NAMES = f"subject|pseudonym|name|num|number|{PERSONS}|{UNNAMED}|{PEOPLE}"
LOOKS = re.compile(f"(.*_)?({LAST_WORDS}|{JOINED})|{INDEXED}|{NAMES}")
INDEX = re.compile("__index_level_[0-9]+__")  # what pandas calls an index in a Parquet file
# names of columns whose numbers are codes: their order and distances mean nothing
POST = "zip|plz|postleitzahl|cedex|code_postal|c[oó]digo_postal"
MEASURED = "(?!.*_(of|per|by|in|pro|par)_)"  # lines_of_code
WHAT = f"{POST}|.*code|.*nummer|account|konto|blz|ean|gtin|sku"
CODED = re.compile(f"{MEASURED}(.*_)?({WHAT})(_?[0-9]+)?")
WORD = re.compile(r"[^\s_()\[\],;:]+")
IN_BRACKETS = re.compile(r"[(\[]([^()\[\]]+)[)\]]$")
NUMBER = re.compile(r"(-?)0*([0-9]+)(?:[.,]([0-9]+))?")
# names of columns that say who somebody is, or how to reach them
WHICH = f"{PERSONS}|family|first|last|full|given|middle|maiden|sur|vor|nach|fore|birth"
PLACES = "address|adresse|anschrift|street|strasse|straße|rue|(e_?)?mail|email_?(address|adresse)"
CALLS = (
    "(tele)?phone(_?(number|no))?|telefon(_?(nummer|nr))?|mobile|handy|fax|iban|ssn|insurance_no"
)
BIRTH = "birth_?da(te|y)|date_of_birth|dob|geb(urts)?_?(datum|tag)|geboren(_am)?|date_de_naissance"
PERSONAL = re.compile(
    f"names?|nom|prenom|prénom|apellidos?|nombre|nome|cognome|({WHICH})_?(s?_?)names?|nom_.*"
    f"|((?!.*_(per|pro|par|to)_)(.*_)?({PERSONS})|{PLACES}|(.*_)?({CALLS})|(patient_?)?({BIRTH}))(_?[0-9]+)?"
)


def spellings(words: Sequence[str]) -> tuple[str, ...]:
    """Return words as they are written in files, with capital letters here and there.

    Examples
    --------
    >>> spellings(["not known"])
    ('not known', 'Not known', 'Not Known', 'NOT KNOWN')
    """
    ways = (str, str.lower, str.capitalize, _begun, str.title, str.upper)
    return tuple(dict.fromkeys(way(word) for word in words for way in ways))


def _begun(word: str) -> str:
    return word[0].upper() + word[1:]


def are_answers(words: set[str]) -> bool:
    """Tell whether small words are yes and no: in one language, or in several beside one pair.

    One letter alone may mean anything: all patients may be "f". So may letters of several pairs,
    such as those of north, south and west.

    Examples
    --------
    >>> [are_answers(set(words.split())) for words in ("ja nein", "yes no y n", "f", "s n o")]
    [True, True, False, False]
    """
    for pair in PAIRS:
        if words and words <= set(pair):
            return len(words) == 2 or "".join(words).isdigit() or len("".join(words)) > 1
    whole = any(words >= set(pair) for pair in PAIRS if min(map(len, pair)) > 1)
    return whole and words <= {*TRUE, *FALSE}


def same_answers(levels: Sequence[str], categories: Sequence[str]) -> dict[str, str]:
    """Return which category a level is, where both are words for yes or no.

    The categories must have one word for each. A level of one letter or digit counts only beside
    its counterpart.

    Examples
    --------
    >>> same_answers(["ja", "Nein", "unklar"], ["No", "Yes", "not done"])
    {'ja': 'Yes', 'Nein': 'No'}
    >>> same_answers(["0", "1"], ["f", "m"]), same_answers(["n"], ["no", "yes"])
    ({}, {})
    """
    yes, no = ([c for c in categories if c.lower() in words] for words in (TRUE, FALSE))
    if len(yes) != 1 or len(no) != 1 or (yes[0].lower(), no[0].lower()) not in PAIRS:
        return {}
    there = {level.lower() for level in levels}
    sure = {word for pair in PAIRS if there >= set(pair) for word in pair}
    found = [level for level in levels if len(level) > 1 or level.lower() in sure]
    answers = {**dict.fromkeys(TRUE, yes[0]), **dict.fromkeys(FALSE, no[0])}
    return {level: answers[level.lower()] for level in found if level.lower() in answers}


def named_like_an_identifier(name: str) -> bool:
    """Tell whether the last word of a name is one for identifiers.

    Examples
    --------
    >>> [named_like_an_identifier(name) for name in ("patientId", "case_no", "Fall-Nr.", "MRN")]
    [True, True, True, True]
    >>> [named_like_an_identifier(name) for name in ("acid", "NO", "platelet_number", "BMI index")]
    [False, False, False, False]
    """
    return LOOKS.fullmatch(_words(name)) is not None


def is_index_of_pandas(name: str) -> bool:
    """Tell whether pandas gave a column this name: it numbers rows, whatever its values are."""
    return INDEX.fullmatch(name) is not None


def named_like_a_code(name: str) -> bool:
    """Tell whether numbers of a column seem to be codes, such as postcodes and account numbers.

    Examples
    --------
    >>> [named_like_a_code(name) for name in ("ZIP", "homePostcode", "Kontonummer", "ward code")]
    [True, True, True, True]
    >>> [named_like_a_code(name) for name in ("account_balance", "zipped", "lines_of_code")]
    [False, False, False]
    """
    return CODED.fullmatch(_words(name)) is not None


def named_like_a_person(name: str) -> bool:
    """Tell whether a column seems to say who somebody is, where they live or when they were born.

    Examples
    --------
    >>> [named_like_a_person(name) for name in ("Nachname", "lastName", "physician", "E-Mail")]
    [True, True, True, True]
    >>> [named_like_a_person(name) for name in ("ward_name", "birth_weight", "cost per patient")]
    [False, False, False]
    """
    return PERSONAL.fullmatch(_words(name)) is not None


def _words(name: str) -> str:
    words = re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
    return re.sub(r"[\W_]+", "_", words).strip("_")


def close_names(name: str, names: Sequence[str], cutoff: float = 0.6) -> list[str]:
    """Return names that may be the same, the most likely one first.

    That is the same name but for capital letters, or a similar one.
    Codes that differ, such as E11 and E12, are not alike; 1.50, 01.5 and 1,5 are the same number.

    Examples
    --------
    >>> close_names("age", ["dosage", "sex", "Age"])
    ['Age', 'dosage']
    >>> close_names("E 11", ["e11", "E12"]), close_names("1.0", ["001", "10"])
    (['e11'], ['001'])
    """
    folded: dict[str, str] = {}
    for other in names:
        folded.setdefault(_fold(other), other)
    wanted = _fold(name)
    same = [wanted] if wanted in folded else []
    words = [w for w in folded if not any(sign.isdigit() for sign in w + wanted)]
    similar = difflib.get_close_matches(wanted, words, 3, cutoff)
    return [folded[match] for match in dict.fromkeys((*same, *similar))]


def unlike_ends(name: str, other: str) -> tuple[str, ...]:
    """Return what two names end in, in brackets or after their common words, if that is not alike.

    Such texts may be units: they are in brackets, have other signs than letters, or are short.

    Examples
    --------
    >>> unlike_ends("CRP (mg/l)", "CRP mg/dL"), unlike_ends("weight_kg", "weight [lb]")
    (('mg/l', 'mg/dL'), ('kg', 'lb'))
    >>> unlike_ends("CRP (mg/l)", "crp_mg/L"), unlike_ends("weight (kg)", "weight")
    ((), ())
    """
    words = [WORD.findall(text) for text in (name, other)]
    common = set.intersection(*({word.casefold() for word in own} for own in words))
    ends = []
    for text, own in zip((name, other), words, strict=True):
        in_brackets = IN_BRACKETS.search(text)
        left = " ".join(word for word in own[1:] if word.casefold() not in common)
        ends.append(in_brackets[1] if in_brackets else left)
    may_be = all(end and (len(end) <= 5 or not end.isalpha()) for end in ends)
    return tuple(ends) if may_be and _fold(ends[0]) != _fold(ends[1]) else ()


def _fold(name: str) -> str:
    number = NUMBER.fullmatch(name)
    if number:
        sign, whole, fraction = number.groups(default="")
        if len(fraction) != 3:  # three digits may be thousands
            fraction = fraction.rstrip("0")
        return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"
    return "".join(sign for sign in name.casefold() if sign.isalnum()) or name
