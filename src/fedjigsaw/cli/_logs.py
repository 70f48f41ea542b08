"""Options about logs, and how a command that runs for long prints, as text or as JSON lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from fedjigsaw.cli._config import PANEL
from fedjigsaw.cli._shared import choice, err, out, say
from fedjigsaw.errors import FederationError, FedJigsawError, ParameterError
from fedjigsaw.records.signals import stopped_by_signals

LogFormat = Annotated[
    str,
    typer.Option(
        "--log-format",
        **choice(("text", "json")),
        help="How the screen and the log file are written. json is one object per line, without "
        "any value of the data. Default: text.",
        rich_help_panel=PANEL,
    ),
]
LogLevel = Annotated[
    str,
    typer.Option(
        "--log-level",
        **choice(("debug", "info", "warning", "error")),
        help="Least level that is written. Default: info.",
        rich_help_panel=PANEL,
    ),
]
JsonLogs = Annotated[
    bool,
    typer.Option(
        "--json",
        help="The same as `--log-format json`; with --check-config, print the settings as JSON.",
        rich_help_panel=PANEL,
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        min=1,
        max=65535,
        help="Serve /health, /ready and /metrics (Prometheus) on this port of 127.0.0.1. Default: "
        "none. Example: --metrics-port 9100",
        rich_help_panel=PANEL,
    ),
]
HIDDEN = (
    "The reason may quote the data and is not in this log. Run the same command with "
    "--check-config --log-format text to see it."
)


class Screen:
    """What a command that runs for long prints.

    Parameters
    ----------
    form, level : as the options --log-format and --log-level have them.
    site : name of the site; empty at the server.
    """

    def __init__(self, form: str, level: str, site: str = "") -> None:
        from fedjigsaw.flower.logs import JSON, Style

        self.style = Style(form, level, site)
        self.as_json = form == JSON

    def show(self, text: str, event: str = "state") -> None:
        """Print a line about the state of this part."""
        if self.style.shows("info"):
            self.log(self.style.line("info", event, text))

    def log(self, line: str) -> None:
        """Print a line of the log file."""
        if self.as_json:  # as it is, for a program
            out.file.write(line + "\n")
            out.file.flush()
        else:
            say(line)

    @property
    def sinks(self) -> dict[str, Any]:
        """What a server or a site needs to print and to write its log."""
        return {"show": self.show, "log": self.log, "style": self.style}

    @contextmanager
    def running(self, part: str) -> Iterator[None]:
        """Run a part until a signal ends it, and say so."""
        with self.errors(), stopped_by_signals(in_background=True):
            try:
                yield
            except KeyboardInterrupt:
                self.show(f"The {part} has ended.", "ended")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Print an error as a line of JSON, if logs are; its text only if it cannot quote data."""
        before = err.quiet
        err.quiet = self.as_json or before  # what is said about a file is for people
        try:
            yield
        except FedJigsawError as error:
            if not self.as_json:
                raise
            safe = isinstance(error, FederationError | ParameterError)
            kind, code = type(error).__name__, error.exit_code
            text, about = str(error) if safe else HIDDEN, error.subject
            if not safe:  # without a line of names, a row of data has their place
                about.pop("column", None)
            line = self.style.line("error", "ended", text, exception=kind, exit_code=code, **about)
            self.log(line)
            raise typer.Exit(code) from None
        finally:
            err.quiet = before
