"""Texts of a column as categories: spellings, and which of them to propose."""

from collections import Counter

from fedjigsaw.columns.schema import ABSENT, OTHER, is_name

MAX_CATEGORIES = 30  # that are proposed


def merge_spellings(levels: Counter[str], min_rows: int) -> tuple[Counter[str], tuple[str, ...]]:
    """Put together what differs by capital letters or blanks alone, under the commonest spelling.

    If only few rows have that one, small letters take its place, which tell nothing about a row.
    Returns the counts, and a note for a person that names what enough rows have.
    """
    groups: dict[str, list[str]] = {}
    for level, _ in levels.most_common():
        groups.setdefault(fold(level), []).append(level)
    names = {t: some[0] if levels[some[0]] >= min_rows else t for t, some in groups.items()}
    counts = Counter({names[t]: sum(levels[u] for u in some) for t, some in groups.items()})
    notes = []
    for first, *others in groups.values():
        named = [t for t in others if levels[t] >= min_rows and is_name(t)]
        if named and is_name(first):
            shown = ", ".join(f'"{text}"' for text in sorted(named))
            notes.append(f'CHECK: {shown} and "{first}" are put together, as at all sites.')
    return counts, tuple(notes)


def fold(text: str) -> str:
    """Return a text without capital letters and repeated blanks."""
    return " ".join(text.casefold().split())


def common_levels(levels: Counter[str], min_rows: int) -> tuple[str, ...]:
    """Return the most frequent levels that enough rows have, in alphabetical order."""
    usable = [t for t, n in levels.items() if n >= min_rows and is_name(t)]
    named = [t for t in usable if t not in (OTHER, ABSENT)]
    first = sorted(named, key=lambda t: (-levels[t], t))[:MAX_CATEGORIES]
    return tuple(sorted(first))
