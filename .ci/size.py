"""Compare the size of the project with .ci/budgets.toml: `make lint` fails where a part has grown.

    python .ci/size.py          # fails, too, where a part is more than 3 % below its budget
    python .ci/size.py --write  # lower the budgets to the present sizes; --raise lets them grow

A size is a number of lines that hold code: no docstrings, comments or blank lines. For docs/ it is
the words of its .md files, for README.md its lines.
"""

import argparse
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = ROOT / ".ci" / "budgets.toml"
HEAD = "# Lines of code, words of docs, lines of README.md: by .ci/size.py --write.\n"
SLACK = 0.03  # below this, the budget must follow
BEGINS = {tokenize.ENCODING, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
EMPTY = {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}


def code_lines(path: Path) -> int:
    """Count the lines that hold code; a text that is a statement of its own is none."""
    lines: set[int] = set()
    begins = True
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in BEGINS:
                begins = True
            elif token.type not in EMPTY:
                if not (begins and token.type == tokenize.STRING):
                    lines.update(range(token.start[0], token.end[0] + 1))
                begins = False
    return len(lines)


def sizes(root: Path) -> Counter[str]:
    """Return the size of every part that has a budget."""
    found: Counter[str] = Counter()
    for path in (root / "src/fedjigsaw").rglob("*.py"):
        folder, *inside = path.relative_to(root / "src/fedjigsaw").parts
        found[f"src/fedjigsaw/{folder if inside else '*.py'}"] += code_lines(path)
    for name in ("tests", "benchmarks", "reproduction"):
        found[name] = sum(map(code_lines, (root / name).rglob("*.py")))
    pages = (page.read_text("utf-8") for page in (root / "docs").rglob("*.md"))
    found["docs"] = sum(len(page.split()) for page in pages)
    found["README.md"] = len((root / "README.md").read_text("utf-8").splitlines())
    return found


def complaints(found: Counter[str], budgets: dict[str, int]) -> list[str]:
    """Return what is wrong with the sizes, a sentence each."""
    said = []
    for name in sorted({*found, *budgets}):
        size, most = found[name], budgets.get(name, 0)
        if size > most:
            said.append(f"{name} has {size:,}, which is {size - most:,} above its budget.")
        elif size < (1 - SLACK) * most or not size:
            said.append(f"{name} has {size:,} of {most:,}: lower its budget by --write.")
    return said


def main() -> int:
    """Print the sizes and what is wrong with them, or write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--raise", action="store_true", dest="may_grow")
    given = parser.parse_args()
    found = sizes(ROOT)
    budgets = tomllib.loads(BUDGETS.read_text("utf-8")) if BUDGETS.exists() else {}
    if given.write:
        least = {k: n if given.may_grow else min(n, budgets.get(k, 0)) for k, n in found.items()}
        budgets = {name: size for name, size in sorted(least.items()) if size}
        rows = (f'"{name}" = {size}\n' for name, size in budgets.items())
        BUDGETS.write_text(HEAD + "".join(rows), "utf-8")
    wrong = complaints(found, budgets)
    print("\n".join(wrong) or "Every part is within its budget.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
