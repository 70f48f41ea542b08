"""Tables for LaTeX."""

from collections.abc import Collection, Sequence

from fedjigsaw.report.page.view import Table
from fedjigsaw.report.page.words import plain

SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "†": r"$^{\dagger}$",
    "−": "--",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}

Places = Collection[tuple[int, int]]  # rows and columns of cells


def latex_table(
    table: Table,
    *,
    bold: Places = (),
    daggers: Places = (),
    notes: Sequence[str] = (),
    caption: str | None = None,
    label: str | None = None,
) -> str:
    r"""Write a table with the package booktabs; all names are escaped.

    Parameters
    ----------
    bold, daggers : cells in bold, and cells that get a dagger.
    notes : sentences below the table.
    caption, label : LaTeX code, in place of the escaped caption of the table, and to refer to it.

    Examples
    --------
    >>> table = Table("50 % & more", ("name", "rows"), (("a_b", "1±2"),))
    >>> print(latex_table(table, bold={(0, 1)}))
    % \usepackage{booktabs}
    \begin{table}
    \centering
    \caption{50 \% \& more}
    \begin{tabular}{lr}
    \toprule
    name & rows \\
    \midrule
    a\_b & \textbf{1$\pm$2} \\
    \bottomrule
    \end{tabular}
    \end{table}
    """
    places = "".join("r" if table.is_number(j) else "l" for j in range(len(table.headings)))
    marked = [
        [_marked(cell, (i, j) in bold, (i, j) in daggers) for j, cell in enumerate(row)]
        for i, row in enumerate(table.rows)
    ]
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped(table.caption) if caption is None else caption}}}",
            *([] if label is None else [rf"\label{{{label}}}"]),
            rf"\begin{{tabular}}{{{places}}}",
            r"\toprule",
            _line([escaped(heading) for heading in table.headings]),
            r"\midrule",
            *map(_line, marked),
            r"\bottomrule",
            r"\end{tabular}",
            *([r"\par\smallskip", rf"{{\footnotesize {_sentences(notes)}}}"] if notes else []),
            r"\end{table}",
        ]
    )


def escaped(text: str) -> str:
    r"""Return a text without signs that mean something to LaTeX.

    Examples
    --------
    >>> escaped(r"\input{x}_1 $2^3$")
    '\\textbackslash{}input\\{x\\}\\_1 \\$2\\textasciicircum{}3\\$'
    """
    return "".join(SIGNS.get(sign, sign) for sign in plain(text))


def _marked(cell: str, bold: bool, dagger: bool) -> str:
    text = escaped(cell)
    return rf"\textbf{{{text}}}" if bold else rf"{text}$^{{\dagger}}$" if dagger else text


def _sentences(notes: Sequence[str]) -> str:
    return " ".join(map(escaped, notes))


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
