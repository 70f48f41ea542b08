"""Every private name of a site's processes in Flower that fedjigsaw uses or replaces.

This continues :mod:`fedjigsaw.flower.patches`, whose rules hold here too: one function for each
touch point, and after *Upstream* what Flower would have to offer so that the function could go.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from time import sleep
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode

from fedjigsaw.flower.patches import wrap

ANSWER_SECONDS = 0.1


# ---------------------------------------------------------------------------------- the SuperNode


class Connection(NamedTuple):
    """What a SuperNode's connection consists of, in Flower's order."""

    node_id: Any
    receive: Any
    send: Any
    get_run: Any
    get_fab: Any
    pull_object: Any
    push_object: Any
    confirm_message_received: Any


def supernode_command() -> Any:
    """Return the module behind ``flower-supernode``."""
    return import_module("flwr.supernode.cli.flower_supernode")


def supernode_loop() -> Any:
    """Return Flower's module that contains the SuperNode main loop."""
    return import_module("flwr.supernode.start_client_internal")


def run_supernode(arguments: Sequence[str]) -> None:
    """Run a SuperNode in this process; RuntimeError if its local port is taken."""
    # Upstream: a public function that takes a configuration object, with the hooks below.
    sys.argv = ["flower-supernode", *arguments]
    supernode_command().flower_supernode()


def change_connection(loop: Any, change: Callable[[Connection], Connection]) -> None:
    """Pass every connection to the server through `change` before the loop uses it."""
    # Upstream: an interceptor of a SuperNode's requests.

    @contextmanager
    def connect(original: Any, *args: Any, **kwargs: Any) -> Iterator[Connection]:
        with original(*args, **kwargs) as callbacks:
            yield change(Connection(*callbacks))

    wrap(loop, "_init_connection", connect)


def send_errors_without_text(loop: Any, failed: Callable[[], object]) -> None:
    """Send the code of an error to the server, and not its text, which may contain data.

    `failed` is called if Flower could not start the app, or the app raised an exception.
    """
    # Upstream: an option that keeps the text of errors at the SuperNode.
    from flwr.supercore.inflatable.inflatable_object import get_object_tree, no_object_id_recompute

    def change(line: Connection) -> Connection:
        def send(message: Message, tree: Any, seconds: float) -> tuple[set[str], str]:
            if not message.has_error():
                result: tuple[set[str], str] = line.send(message, tree, seconds)
                return result
            if message.error.code in (
                ErrorCode.LOAD_CLIENT_APP_EXCEPTION,
                ErrorCode.CLIENT_APP_RAISED_EXCEPTION,
            ):
                failed()
            clean = _without_text(message)
            with no_object_id_recompute():
                wanted, session = line.send(clean, get_object_tree(clean), seconds)
                for number in wanted:
                    line.push_object(message.metadata.run_id, session, number, clean.deflate())
            return set(), session  # Flower must not look for its content under the new number

        return line._replace(send=send)

    change_connection(loop, change)


def _without_text(message: Message) -> Message:
    """Return a copy of the message without the error text, with a new message id."""
    from flwr.app.message import make_message

    clean = make_message(metadata=copy(message.metadata), error=Error(message.error.code, ""))
    clean.metadata.__dict__["_message_id"] = clean.object_id
    return clean


def run_one_app_only(
    command: Any, loop: Any, fingerprint: str, refused: Callable[[], object]
) -> None:
    """Let a SuperNode run the app with this SHA-256 and no other one."""
    # Upstream: an option that names the fingerprints of allowed apps. Flower verifies signatures,
    # if a SuperNode trusts anybody (1) and the server says that the app was reviewed (2).

    def verify(original: Any, fab: Any, trusted_entities: object) -> bool:
        allowed = sha256(fab.content).hexdigest() == fingerprint
        if not allowed:
            refused()
        return allowed

    def mark(line: Connection) -> Connection:
        def get_fab(number: str, run_id: int) -> Any:
            return replace(line.get_fab(number, run_id), verifications={"valid_license": "yes"})

        return line._replace(get_fab=get_fab)

    def parse(original: Any) -> Any:
        return replace(original(), trusted_entities={"init": fingerprint})

    wrap(command, "_parse_supernode_lifespan_config", parse)  # (1)
    change_connection(loop, mark)  # (2)
    wrap(loop, "_verify_fab", verify)


def poll_every(loop: Any, seconds: float) -> None:
    """Let a SuperNode look for questions at least this often; Flower waits three seconds."""
    # Upstream: an option for the interval.
    pause = loop.time.sleep
    loop.time = SimpleNamespace(sleep=lambda wanted: pause(min(wanted, seconds)))


def start_apps_ourselves(
    loop: Any,
    state: Any,
    start: Callable[[int, str], object],
    ended: Callable[[], Iterable[int]],
) -> None:
    """Call `start` with number and token of each task, and end the tasks whose apps have ended.

    An app is started when all of its question is here. If the run is stopped before that, Flower
    ignores the rest of the question and keeps the part that came: the app would wait hours for the
    rest, and the site would be lost to later runs.

    Parameters
    ----------
    ended : gives the number of each task when its app has ended; read in a thread.
    """
    # Upstream: a hook for starting apps, instead of a process that asks for tasks over HTTP, and
    # processes that are waited for: Flower notices an app that ended abruptly after a minute. And a
    # RunNotRunningException that is an Exception: what removes half a question does not see it.
    from flwr.common.constant import Status, SubStatus

    def pending() -> list[int]:
        return [task.task_id for task in state.get_tasks(statuses=[Status.PENDING])]

    def pull(original: Any, **more: Any) -> int | None:
        # one question at a time: whatever is left of earlier ones, nobody waits for it
        for task in pending():
            state.finish_task(task, SubStatus.FAILED, "")
        state.delete_messages()
        state.object_store.clear()
        run: int | None = original(**more)
        for task in pending() if run is not None else ():
            start(task, state.claim_task(task))
        return run

    def finish() -> None:
        for task in ended():
            state.finish_task(task, SubStatus.FAILED, "")  # nothing if the app has done it itself

    wrap(loop, "_pull_and_store_message", pull)
    threading.Thread(target=finish, daemon=True).start()


def guard_local_port(secret: bytes, gate: Callable[[Any, Any], Any]) -> None:
    """Let a SuperNode give tasks only to processes that know a secret, behind a gate.

    Parameters
    ----------
    gate : called with the ASGI app of the local port and the state of the node; returns the app to
        serve.
    """
    # Upstream: `--superexec-auth-secret-file` in the default isolation mode, which ignores it.
    main = import_module("flwr.supernode.main")

    def create(original: Any, state_factory: Any, superexec_auth_secret: object = None) -> Any:
        app = original(state_factory=state_factory, superexec_auth_secret=secret)
        return gate(app, state_factory.state())

    wrap(main, "create_app", create)


def watch_requests(
    headers: Mapping[str, str],
    answered: Callable[[int, Mapping[str, str]], object],
    unanswered: Callable[[], object],
) -> None:
    """Add headers to all requests to the server; call `answered` with status and headers.

    `unanswered` is called for each request that got no answer: Flower sends it again for a minute,
    and says nothing.
    """
    # Upstream: an interceptor of a SuperNode's requests.
    module: Any = import_module("flwr.supernode.node_auth_http_interceptor")
    original = module.NodeAuthHttpInterceptor.intercept

    def intercept(self: Any, context: Any, call_next: Any) -> Any:
        context.request.headers.update(headers)
        try:
            response = original(self, context, call_next)
        except httpx.TransportError:
            unanswered()
            raise
        answered(response.status_code, response.headers)
        return response

    module.NodeAuthHttpInterceptor.intercept = intercept


def answer_every_question(loop: Any, crashed: Callable[[], object]) -> None:
    """Send an error for a question whose app ended without an answer.

    Flower's loop would wait for that answer forever, and the site would be lost to later runs.
    `crashed` is called each time.
    """
    # Upstream: a loop that looks at the state of the app, not only for its answer.
    insert = loop._insert_message

    def push(original: Any, state: Any, **more: Any) -> None:
        questions = _wait_for_answers(state)
        if questions:
            crashed()
            state.delete_messages()  # and with them any part of an answer
        for question in questions:
            error = Error(ErrorCode.CLIENT_APP_CRASHED, "")
            insert(Message(error, reply_to=question), state, state.object_store)
        original(state=state, **more)

    wrap(loop, "_push_messages", push)


def _wait_for_answers(state: Any) -> list[Message]:
    """Wait until all answers are complete, or no app is left; return the unanswered questions."""
    from flwr.common.constant import Status
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

    store = state.object_store

    def complete(answer: Message) -> bool:
        tree = store.get_object_tree(answer.metadata.message_id)
        return all(store.get(part.object_id) for part in iterate_object_tree(tree))

    while True:
        # read before the messages: an app gives its answer first and ends then
        busy = state.get_tasks(statuses=[Status.PENDING, Status.STARTING, Status.RUNNING])
        with state.lock_msg_store:
            messages = [entry.message for entry in state.msg_store.values()]
        answers = [message for message in messages if message.metadata.reply_to_message_id]
        if answers and all(map(complete, answers)):
            return []
        if not busy:
            return [message for message in messages if message not in answers]
        sleep(ANSWER_SECONDS)
