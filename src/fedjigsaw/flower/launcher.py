"""Starts Flower's processes: ``python -m fedjigsaw.flower.launcher COMMAND [ARGUMENT ...]``.

Flower gives each app its token in the arguments of its process, which anybody on the machine can
list. Here the process that starts the apps (``flower-superexec``) gives it to them by standard
input.
"""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from fedjigsaw.flower import node_patches


def main(command: str, arguments: Sequence[str]) -> None:
    """Run one of Flower's commands; all but ``flower-superexec`` read a token first."""
    if command not in node_patches.COMMANDS:
        raise SystemExit(f"{command} is not one of {', '.join(node_patches.COMMANDS)}.")
    if command == "flower-superexec":
        node_patches.hide_tokens(launch)
    else:
        arguments = [*arguments, "--token", sys.stdin.readline().strip()]
    node_patches.run_command(command, arguments)


def launch(command: Sequence[str], token: str, **more: Any) -> "subprocess.Popen[bytes]":
    """Start an app, and give it its token."""
    words = [sys.executable, "-m", "fedjigsaw.flower.launcher", *command]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, **more)
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(token.encode() + b"\n")
    return process


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
