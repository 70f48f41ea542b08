"""Run a server or a site in a process that has not loaded the libraries that compute.

The commands need them to check data and options, and could not give their 200 MB back afterwards.
So a command that has checked everything replaces its own process by this one, which runs for long.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from fedjigsaw import cli

VARIABLE = "FEDJIGSAW_CHECKED"


def run(part: str, **settings: Any) -> None:
    """Run a part in a light process of the same number; in this one, where that is not possible.

    Parameters
    ----------
    part : "server" or "site".
    settings : what :func:`serve` needs, as JSON values.
    """
    settings = {"part": part, **settings}
    if not cli.started or os.name != "posix":  # called by a program, whose process is not ours
        serve(settings)
        return
    os.environ[VARIABLE] = json.dumps(settings)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "fedjigsaw.cli._light", *sys.argv[1:]])


def serve(settings: dict[str, Any]) -> None:
    """Run a part until it is interrupted."""
    from fedjigsaw._signals import stopped_by_signals
    from fedjigsaw.cli._logs import Screen
    from fedjigsaw.flower import serving
    from fedjigsaw.privacy.policy import Policy

    screen, folder = Screen(*settings["screen"]), Path(settings["folder"])
    common: dict[str, Any] = {"show": screen.show, "log": screen.log, "style": screen.style}
    common |= {"metrics_port": settings["metrics_port"]}
    with screen.errors(), stopped_by_signals(in_background=True):
        try:
            if settings["part"] == "server":
                serving.serve(folder, listen=settings["listen"], **common)
            else:
                policy = Policy.load(folder, known=settings["methods"])
                serving.serve_site(folder, settings["options"], policy=policy, **common)
        except KeyboardInterrupt:
            screen.show(f"The {settings['part']} has ended.", "ended")


def main() -> None:
    cli.quit_while_importing()
    settings = json.loads(os.environ.pop(VARIABLE))  # not for the processes of this part
    from typer import Exit

    from fedjigsaw.cli._shared import print_error
    from fedjigsaw.errors import FedJigsawError

    try:
        serve(settings)
    except FedJigsawError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except Exit as error:
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
