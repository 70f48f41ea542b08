"""Flower's SuperNode on a leash: ``python -m fedjigsaw.flower.supernode FOLDER PORT``.

Left alone, a SuperNode runs whatever app the server sends, and sends the text of any error back.
Here it runs only the app that the site was handed (by its fingerprint), and an error leaves without
its text.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

from flwr.app import Error, Message
from flwr.app.message import make_message
from flwr.supercore.inflatable.inflatable_object import get_object_tree, no_object_id_recompute

from fedjigsaw.flower.federation import CA, SITE_KEY, SiteSettings
from fedjigsaw.flower.processes import NEVER_CONNECTED, end_with_parent, log_to

POLL_SECONDS = 1.0  # Flower looks for questions every three
logger = logging.getLogger("fedjigsaw.flower.supernode")
connected = False


def without_text(message: Message) -> Message:
    """The same message with an error's number alone."""
    return make_message(metadata=message.metadata, error=Error(message.error.code, ""))


@contextmanager
def leashed(connect: Any, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:
    """Flower's connection, with two of its eight callbacks watched."""
    global connected
    with connect(*args, **kwargs) as (node, receive, send, run, get_fab, pull, push, confirm):
        connected = True
        logger.info("connected to the server")

        def send_no_text(message: Message, tree: Any, seconds: float) -> tuple[set[str], str]:
            if not message.has_error():
                result: tuple[set[str], str] = send(message, tree, seconds)
                return result
            clean = without_text(message)
            clean.metadata.__dict__["_message_id"] = clean.object_id
            with no_object_id_recompute():
                wanted, session = send(clean, get_object_tree(clean), seconds)
                for number in wanted:
                    push(message.metadata.run_id, session, number, clean.deflate())
            return set(), session

        def get_marked(number: str, run_id: int) -> Any:
            # Flower asks `_verify_fab` only about apps that a server says were verified
            return replace(get_fab(number, run_id), verifications={"valid_license": "yes"})

        yield node, receive, send_no_text, run, get_marked, pull, push, confirm


def main(folder: Path, port: int) -> None:
    """Serve until the parent process ends, a signal comes, or the server does not know us."""
    end_with_parent()
    log_to(folder / "site.log")
    settings = SiteSettings.load(folder)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    sys.argv = ["flower-supernode", "--superlink", f"{host}:{settings.port}"]
    sys.argv += ["--host", "127.0.0.1", "--port", str(port)]
    sys.argv += ["--root-certificates", str(folder / CA)]
    sys.argv += ["--auth-supernode-private-key", str(folder / SITE_KEY)]
    command: Any = import_module("flwr.supernode.cli.flower_supernode")
    loop: Any = import_module("flwr.supernode.start_client_internal")
    parse, connect = command._parse_supernode_lifespan_config, loop._init_connection

    def only_the_known_app(fab: Any, trusted: object) -> bool:
        good = sha256(fab.content).hexdigest() == settings.app
        if not good:
            logger.error("refused an app that this site was not handed")
        return good

    command._parse_supernode_lifespan_config = lambda: replace(
        parse(), trusted_entities={"init": settings.app}
    )
    loop._verify_fab = only_the_known_app
    loop.time = SimpleNamespace(sleep=lambda seconds: sleep(min(seconds, POLL_SECONDS)))
    loop._init_connection = lambda *args, **kwargs: leashed(connect, *args, **kwargs)
    try:
        command.flower_supernode()
    finally:
        if not connected:
            logging.shutdown()
            os._exit(NEVER_CONNECTED)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
