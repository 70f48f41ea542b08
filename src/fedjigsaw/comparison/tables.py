"""Numbers of methods as tables: for a screen, LaTeX and notebooks."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape as escape_html
from io import StringIO
from typing import Any

from fedjigsaw.report.latex import latex_table
from fedjigsaw.report.page.view import Table
from fedjigsaw.report.page.words import plain

# number of a row -> heading, format, factor; l2 and its scale are those of the paper
NUMBERS = {
    "objective_ratio": ("objective / pooled", "{:.3f}", 1.0),
    "ari": ("ari", "{:.3f}", 1.0),
    "nmi": ("nmi", "{:.3f}", 1.0),
    "purity": ("purity", "{:.3f}", 1.0),
    "l2": ("l2 / 1e4", "{:.2f}", 1e-4),
    "n_found": ("centers", "{:.4g}", 1.0),
    "confidence": ("confidence", "{:.2f}", 1.0),  # of the number of centers, if it was found
    "bytes_per_client": ("bytes per client", "{:,.0f}", 1.0),
    "rounds": ("rounds", "{:.3g}", 1.0),
    "seconds": ("seconds", "{:.2f}", 1.0),
}
CLOSE = "†"

Place = tuple[int, int]  # row and column of a cell


@dataclass(frozen=True)
class MarkedTable:
    """A table in which some cells are the best of their column.

    Parameters
    ----------
    best, close : places of the best numbers, and of those that are not significantly worse.
    notes : sentences about all of it.
    best_words, close_words : what the marks of these two mean.
    """

    table: Table
    best: Collection[Place] = ()
    close: Collection[Place] = ()
    notes: Sequence[str] = ()
    best_words: str = ""
    close_words: str = ""

    def as_text(self) -> str:
        """Return lines of text in columns."""
        shown = self.with_marks()
        lines = [shown.headings, *shown.rows]
        widths = [max(len(line[j]) for line in lines) for j in range(len(shown.headings))]
        texts = [
            "  ".join(
                cell.rjust(width) if j else cell.ljust(width)
                for j, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([shown.caption, "", *texts, "", *self.all_notes("*")])

    def with_marks(self) -> Table:
        """Return the table with a star at the best numbers, and a dagger at those close to them."""
        table = self.table
        marked = {j for _, j in self.best}
        rows = tuple(
            tuple(cell + self._sign(i, j) if j in marked else cell for j, cell in enumerate(row))
            for i, row in enumerate(table.rows)
        )
        return Table(plain(table.caption), table.headings, rows, table.words)

    def as_html(self) -> str:
        """Return a table for a notebook."""
        head = "".join(f"<th>{escape_html(text)}</th>" for text in self.table.headings)
        body = ""
        for i, row in enumerate(self.table.rows):
            cells = [escape_html(plain(cell)) for cell in row]
            cells = self._emphasized(i, cells, "<b>{}</b>".format, f"{{}}{CLOSE}".format)
            body += "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        notes = "<br>".join(escape_html(plain(note)) for note in self.all_notes("Bold"))
        caption = f"<caption>{escape_html(plain(self.table.caption))}</caption>"
        return f"<table>{caption}<tr>{head}</tr>{body}</table><small>{notes}</small>"

    def as_latex(self, caption: str | None = None, label: str | None = None) -> str:
        """Return a table for the package booktabs; `caption` and `label` are LaTeX code."""
        return latex_table(
            self.table,
            bold=self.best,
            daggers=self.close,
            notes=self.all_notes("Bold"),
            caption=caption,
            label=label,
        )

    def all_notes(self, best: str) -> list[str]:
        """Return what the marks mean and all notes; `best` says how the best are shown."""
        marks = []
        if self.best and self.best_words:
            marks.append(f"{best}: {self.best_words}")
        if self.close and self.close_words:
            marks.append(f"{CLOSE}: {self.close_words}")
        return [*marks, *map(plain, self.notes)]

    def _sign(self, i: int, j: int) -> str:
        return "*" if (i, j) in self.best else CLOSE if (i, j) in self.close else " "

    def _emphasized(
        self, i: int, cells: Sequence[str], best: Callable[[str], str], close: Callable[[str], str]
    ) -> list[str]:
        return [
            best(cell) if (i, j) in self.best else close(cell) if (i, j) in self.close else cell
            for j, cell in enumerate(cells)
        ]


def cell_text(name: str, numbers: Sequence[float]) -> str:
    """Return mean and, if there is one, standard deviation of a number.

    Examples
    --------
    >>> cell_text("ari", (0.5, 0.25)), cell_text("bytes_per_client", (1234.5,))
    ('0.500±0.250', '1,234')
    """
    _, form, factor = NUMBERS[name]
    return "±".join(form.format(number * factor) for number in numbers)


def rows_as_csv(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return some fields of rows as CSV; what a row does not have is empty.

    Examples
    --------
    >>> print(rows_as_csv([{"a": 1, "b": "x,y", "c": 0}, {"a": 0.5}], ["a", "b"]))
    a,b
    1,"x,y"
    0.5,
    """
    content = StringIO()
    writer = csv.DictWriter(content, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return content.getvalue().removesuffix("\n")
