"""Flower's SuperNode on a leash: ``python -m fedjigsaw.flower.supernode FOLDER PORT``.

Left alone, a SuperNode runs whatever app the server sends, and sends the text of any error back.
Here it runs only the app that the site was handed (by its fingerprint), and an error leaves without
its text.

Left alone, it also waits for ever for what cannot come any more, and the site would be lost to all
later runs. Here an app that ended without an answer is told to the server, and whatever ends the
loop ends the process, so that the site connects anew.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any, NoReturn

from flwr.app import Error, Message
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode, Status
from flwr.supercore.inflatable.inflatable_object import (
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)

from fedjigsaw.flower.folders import CA, SITE_KEY, SiteSettings
from fedjigsaw.flower.processes import NEVER_CONNECTED, end_with_parent, log_to

POLL_SECONDS = 1.0  # Flower looks for questions every three
ANSWER_SECONDS = 0.5
logger = logging.getLogger("fedjigsaw.flower.supernode")
connected = False


def without_text(message: Message) -> Message:
    """The same message with an error's number alone, and so with another number of its own."""
    clean = make_message(metadata=copy(message.metadata), error=Error(message.error.code, ""))
    clean.metadata.__dict__["_message_id"] = clean.object_id
    return clean


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
            with no_object_id_recompute():
                wanted, session = send(clean, get_object_tree(clean), seconds)
                for number in wanted:
                    push(message.metadata.run_id, session, number, clean.deflate())
            return set(), session

        def get_marked(number: str, run_id: int) -> Any:
            # Flower asks `_verify_fab` only about apps that a server says were verified
            return replace(get_fab(number, run_id), verifications={"valid_license": "yes"})

        yield node, receive, send_no_text, run, get_marked, pull, push, confirm


def wait_for_answer(state: Any, insert: Any) -> None:
    """Wait until the app's answer is there, and whole; if it ended without one, insert an error."""
    store = state.object_store

    def whole(answer: Message) -> bool:
        tree = store.get_object_tree(answer.metadata.message_id)
        return all(store.get(part.object_id) for part in iterate_object_tree(tree))

    while True:
        # looked at before the messages: an app gives its answer first, and ends then
        busy = state.get_tasks(statuses=[Status.PENDING, Status.STARTING, Status.RUNNING])
        with state.lock_msg_store:
            messages = [entry.message for entry in state.msg_store.values()]
        answers = [message for message in messages if message.metadata.reply_to_message_id]
        if answers and all(map(whole, answers)):
            return
        if not busy:
            break
        sleep(ANSWER_SECONDS)
    logger.error("the app ended without an answer; that is all that the server is told")
    state.delete_messages()  # and with them what there is of an answer
    for question in messages:
        if question not in answers:
            error = Error(ErrorCode.CLIENT_APP_CRASHED, "")
            insert(Message(error, reply_to=question), state, store)


def patient(loop: Any) -> None:
    """Have Flower's loop wait as above, for every question that is still in the node's memory."""
    pull, push, insert = loop._pull_and_store_message, loop._push_messages, loop._insert_message

    def pull_or_wait(state: Any, **more: Any) -> int | None:
        run: int | None = pull(state=state, **more)
        # Flower looks for answers only where this is not None; one may be left from before
        return 0 if run is None and state.msg_store else run

    def wait_and_push(state: Any, **more: Any) -> None:
        wait_for_answer(state, insert)
        push(state=state, **more)

    loop._pull_and_store_message, loop._push_messages = pull_or_wait, wait_and_push


def watched(*args: Any, **kwargs: Any) -> "subprocess.Popen[bytes]":
    """A process without which this one is of no use: what starts the apps."""
    process = subprocess.Popen(*args, **kwargs)

    def watch() -> None:
        process.wait()
        logger.error("what starts the apps has ended")
        leave()

    threading.Thread(target=watch, daemon=True).start()
    return process


def give_up(failed: Any) -> None:
    """A thread of Flower's has failed, such as the one that tells the server that we live."""
    if failed.exc_type is SystemExit:  # it ended by itself
        return
    logger.error("a part of the connection has failed", exc_info=failed.exc_value)
    leave()


def leave(*, again: bool = False) -> NoReturn:
    """End this process, whatever threads Flower has left behind."""
    logging.shutdown()
    os._exit(0 if connected or again else NEVER_CONNECTED)


def main(folder: Path, port: int) -> None:
    """Serve until the parent process ends, a signal comes, or the connection ends."""
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
    loop.subprocess = SimpleNamespace(Popen=watched)
    patient(loop)
    threading.excepthook = give_up
    try:
        command.flower_supernode()
    except RuntimeError:  # somebody took the port of this machine first; another may be free
        logger.exception("could not start")
        leave(again=True)
    finally:
        leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
