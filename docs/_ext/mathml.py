"""Write formulas as MathML, which browsers show by themselves: no script, no other host."""

from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
SYNONYMS = {r"\dots": r"\ldots", r"\Big": ""}  # commands that docutils does not know


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula of its own."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(mathml(node, as_block=True))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def mathml(node: nodes.Element, *, as_block: bool) -> str:
    """Return a formula as MathML; one that cannot be read is a warning, and stays LaTeX."""
    formula = node.astext()
    for ours, theirs in SYNONYMS.items():
        formula = formula.replace(ours, theirs)
    try:
        return str(tex2mathml(formula, as_block=as_block))
    except MathError as error:
        logger.warning("formula %r: %s", formula, error, location=node)
        return f"<code>{escape(formula)}</code>"
