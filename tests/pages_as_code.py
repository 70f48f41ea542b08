"""Read Markdown pages as code: their blocks, their commands, their prose."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def page(name):
    """The text of a page, by its path in the repository."""
    return (ROOT / name).read_text()


def section(text, title):
    """The part of a page from a heading of the second level to the next."""
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(text, language):
    """The content of all blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands(text):
    """The commands of all shell blocks, as lists of words, without comments."""
    script = "".join(blocks(text, "sh")).replace("\\\n", " ")
    return [words for line in script.splitlines() if (words := shlex.split(line, comments=True))]


def printed_by(text, run):
    """The lines that all commands of a page print, run in this folder with `run`."""
    printed = []
    for program, *words in commands(text):
        if program == "fedjigsaw":
            done = run(*words)
            assert done.exit_code == 0, (words, done.output)
        else:
            command = [sys.executable if program == "python" else program, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        printed += done.stdout.splitlines()
    return printed


def inline_commands(text, start):
    """The commands between backticks that begin with certain words."""
    return [shlex.split(line) for line in re.findall(rf"`({start} [^`\n]+)`", text)]


def prose(text):
    """The lines of a page that are neither code nor table."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if not line.startswith(("|", "    "))]
