"""Compare methods on the same data, the same clients and the same seeds.

:func:`compare` fits every method with every seed, measures it, and returns a :class:`Comparison`:
a tidy table with a picture, and tables for LaTeX and CSV. The command ``compare`` does
the same with files.
"""

from fedjigsaw.comparison.comparing import compare
from fedjigsaw.comparison.result import Comparison

__all__ = ["Comparison", "compare"]
