"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def markdown_table(
    head: Sequence[str], lines: Iterable[Sequence[str]], *, aligned: bool = False
) -> str:
    """Write a table.

    Parameters
    ----------
    aligned : whether to pad cells so that columns line up in plain text, too.

    Examples
    --------
    >>> print(markdown_table(["data", "l2"], [["S1", "0.95"]]))
    | data | l2 |
    |---|---|
    | S1 | 0.95 |
    >>> print(markdown_table(["data", "l2"], [["S1", "0.95"]], aligned=True))
    | data | l2   |
    |------|------|
    | S1   | 0.95 |
    """
    grid = [head, *lines]
    widths = [max(map(len, column)) if aligned else 0 for column in zip(*grid, strict=True)]
    text = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in grid
    ]
    rules = ["-" * (width + 2) if aligned else "---" for width in widths]
    text.insert(1, "|" + "|".join(rules) + "|")
    return "\n".join(text)
