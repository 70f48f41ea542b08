"""Use the command line as on the first day, with what is installed in this environment.

    build/newest/bin/python .ci/first_steps.py

The help of every command, the demo, a round by files and a comparison; the first failure ends it.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from release_check import run, use_core
from typer.main import get_command
from typer.testing import CliRunner

from fedjigsaw.cli._app import all_commands, app


def main() -> None:
    """Try all commands of this environment."""
    count = 0
    for name, _ in all_commands("", get_command(app)):
        done = CliRunner().invoke(app, [*name.split(), "--help"])
        if done.exit_code:
            sys.exit(f"fedjigsaw{name} --help: {done.exception!r}\n{done.output}")
        count += 1
    print(f"ok  the help of {count} commands")
    program = Path(sys.executable).parent / "fedjigsaw"
    with TemporaryDirectory() as name:
        folder = Path(name)
        print(run(program, "demo", folder=folder))
        use_core(program, folder)
        run(program, "assign", "bern.csv", "--model", "model", "-o", "labels.csv", folder=folder)
        print(run(program, "compare", "bern.csv", "lyon.csv", "-k", 2, folder=folder))


if __name__ == "__main__":
    main()
