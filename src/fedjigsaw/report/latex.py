"""Tables for LaTeX."""

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
    "−": "--",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def latex_table(table: Table) -> str:
    r"""Write a table with the package booktabs; all names are escaped.

    Examples
    --------
    >>> print(latex_table(Table("50 % & more", ("name", "rows"), (("a_b", "1±2"),))))
    % \usepackage{booktabs}
    \begin{table}
    \centering
    \caption{50 \% \& more}
    \begin{tabular}{lr}
    \toprule
    name & rows \\
    \midrule
    a\_b & 1$\pm$2 \\
    \bottomrule
    \end{tabular}
    \end{table}
    """
    places = "".join("r" if table.is_number(j) else "l" for j in range(len(table.headings)))
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped(table.caption)}}}",
            rf"\begin{{tabular}}{{{places}}}",
            r"\toprule",
            _line(table.headings),
            r"\midrule",
            *map(_line, table.rows),
            r"\bottomrule",
            r"\end{tabular}",
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


def _line(cells: tuple[str, ...]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"
