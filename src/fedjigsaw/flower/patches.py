"""Every private name of Flower that fedjigsaw uses or replaces; no other module touches one.

Flower 1.41 offers no public way to do what is done here. Each function below covers one touch point
and says, after *Upstream*, what Flower would have to offer so that the function could go.
``tests/flower/test_patches.py`` fails when Flower changes any of them: run it before allowing a new
version of Flower.

Flower's modules are imported inside the functions, since each process needs only a few of them, and
a site starts a process for every question.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib import import_module
from time import sleep
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from flwr.app import Error, Message
from flwr.common.constant import ErrorCode

if TYPE_CHECKING:
    from flwr.serverapp import Grid

ANSWER_SECONDS = 0.5

# Upstream: a documented prefix for the requests of SuperNodes, or a port of their own.
FLEET_PATH = "/v1/fleet/"

# Upstream: public constants for the codes of a message's error.
ERRORS = {
    ErrorCode.LOAD_CLIENT_APP_EXCEPTION: "its half of the app could not be loaded",
    ErrorCode.CLIENT_APP_RAISED_EXCEPTION: "its half of the app failed",
    ErrorCode.MESSAGE_UNAVAILABLE: "the question did not reach it in time",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "its answer was incomplete or too large",
    ErrorCode.NODE_UNAVAILABLE: "it lost its connection",
    ErrorCode.INVALID_FAB: "it refused the app: it accepts only the one from `federation init`",
    ErrorCode.CLIENT_APP_CRASHED: "its half of the app ended abruptly",
}


def _wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Replace an attribute by `wrapper`, whose first argument is the original.

    An attribute that is missing raises AttributeError. Setting it anyway would silently leave
    Flower's own code in place.
    """
    setattr(owner, name, partial(wrapper, getattr(owner, name)))


# ---------------------------------------------------------------------------------- apps and runs


def build_app(files: Mapping[str, bytes]) -> bytes:
    """Build a Flower app bundle (FAB) from files in memory."""
    # Upstream: `flwr build` as a public function that takes files and returns bytes.
    from flwr.cli.build import build_fab_from_files

    return build_fab_from_files(files)[0]


class Control:
    """Client of a running server's control API, over the loopback of this machine."""

    # Upstream: a public Python client for `flwr run`, `flwr list`, `flwr stop` and
    # `flwr supernode list`. The commands exit with 0 on failure and print for people.

    def __init__(self, port: int, authority: bytes) -> None:
        from flwr.supercore.control import ControlHttpClient

        self._client: Any = ControlHttpClient.from_server_address(
            f"127.0.0.1:{port}", False, authority, []
        )

    def start_run(self, app: bytes, config: Mapping[str, str]) -> int | None:
        """Start a run of an app and return its number, or None if the server refused."""
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        request = StartRunRequest(
            fab=fab_to_proto(Fab(sha256(app).hexdigest(), app, {})),
            override_config=user_config_to_proto(dict(config)),
        )
        response = self._client.StartRun(request)
        return int(response.run_id) if response.HasField("run_id") else None

    def has_finished(self, run: int) -> bool:
        """Return whether a run has ended, in success or not."""
        from flwr.common.constant import Status
        from flwr.proto.control_pb2 import ListRunsRequest

        runs = self._client.ListRuns(ListRunsRequest(run_id=run)).run_dict
        return bool(next(iter(runs.values())).status.status == Status.FINISHED)

    def stop_run(self, run: int) -> None:
        from flwr.proto.control_pb2 import StopRunRequest

        self._client.StopRun(StopRunRequest(run_id=run))

    def online(self) -> set[str]:
        """Return the names of the nodes that are connected now."""
        from flwr.proto.control_pb2 import ListNodesRequest

        nodes = self._client.ListNodes(ListNodesRequest()).nodes_info
        return {node.name for node in nodes if node.status == "online"}

    def close(self) -> None:
        self._client.close()


def nodes_by_name(grid: "Grid") -> dict[str, int]:
    """Return the connected nodes of a grid: name -> node."""
    # Upstream: names of nodes as part of the documented Grid, which has only `get_node_ids`.
    return {node.name or str(node.node_id): node.node_id for node in grid.get_nodes()}


# ---------------------------------------------------------------------------------- the SuperLink


def make_superlink(arguments: Sequence[str]) -> Any:
    """Make the ASGI app of a SuperLink from the arguments of ``flower-superlink``."""
    # Upstream: a public factory of the app that takes a configuration object. The command itself
    # serves everything on one port.
    from flwr.superlink.main import create_app

    command: Any = import_module("flwr.superlink.cli.flower_superlink")
    sys.argv = ["flower-superlink", *arguments]
    return create_app(command._parse_superlink_lifespan_config(), command.SuperLinkLifespan)


def keep_in_process_group() -> None:
    """Let the SuperLink start its children in its own process group, which is ended as a whole."""
    # Upstream: children that end with the SuperLink, or an option not to detach them.
    command: Any = import_module("flwr.superlink.cli.flower_superlink")
    _wrap(command, "get_popen_detach_kwargs", lambda original: {})


def link_state(app: Any) -> Any:
    """Return the state that a SuperLink's app keeps in memory."""
    # Upstream: public access to the state, or the three functions below as options.
    return app.state.linkstate_factory.state()


def register_node(state: Any, name: str, public_key: str) -> None:
    """Let a site in by its public key (PEM), and call it by its name."""
    # Upstream: public keys as an option of `flower-superlink`, so that no window is left in which
    # the server runs and does not know its sites.
    from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID

    state.create_node(
        NOOP_FLWR_AID,
        NOOP_ACCOUNT_NAME,
        public_key.encode(),
        HEARTBEAT_DEFAULT_INTERVAL,
        name=name,
    )


def accept_reconnection(state: Any) -> None:
    """Accept a reconnecting site whose previous connection has not timed out."""
    # Upstream: the same. Flower refuses a killed site until its last heartbeat is a minute old.

    def activate(original: Any, node_id: int, heartbeat_interval: float) -> bool:
        state.deactivate_node(node_id)
        return bool(original(node_id, heartbeat_interval))

    _wrap(state, "activate_node", activate)


def redeliver_unconfirmed(state: Any) -> None:
    """Redeliver a message that the site has not acknowledged.

    A site takes one question at a time. If it asks again, the last one was lost on the way, or the
    site was restarted.
    """
    # Upstream: delivery that counts when it is confirmed, not when it is tried.

    def deliver(original: Any, node_id: int, limit: int | None, **more: Any) -> Any:
        with state.lock:
            for question in state.message_ins_store.values():
                sent = question.metadata
                # confirming a question removes its content from the object store
                if sent.dst_node_id == node_id and sent.message_id in state.object_store:
                    sent.delivered_at = ""
        return original(node_id=node_id, limit=limit, **more)

    _wrap(state, "get_message_ins", deliver)


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

    _wrap(loop, "_init_connection", connect)


def send_errors_without_text(loop: Any) -> None:
    """Send the code of an error to the server, and not its text, which may contain data."""
    # Upstream: an option that keeps the text of errors at the SuperNode.
    from flwr.supercore.inflatable.inflatable_object import get_object_tree, no_object_id_recompute

    def change(line: Connection) -> Connection:
        def send(message: Message, tree: Any, seconds: float) -> tuple[set[str], str]:
            if not message.has_error():
                result: tuple[set[str], str] = line.send(message, tree, seconds)
                return result
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

    _wrap(command, "_parse_supernode_lifespan_config", parse)  # (1)
    change_connection(loop, mark)  # (2)
    _wrap(loop, "_verify_fab", verify)


def poll_every(loop: Any, seconds: float) -> None:
    """Let a SuperNode look for questions at least this often; Flower waits three seconds."""
    # Upstream: an option for the interval.
    pause = loop.time.sleep
    loop.time = SimpleNamespace(sleep=lambda wanted: pause(min(wanted, seconds)))


def watch_app_starter(loop: Any, ended: Callable[[], object]) -> None:
    """Call `ended` when the process that starts the apps (SuperExec) has ended."""
    # Upstream: a SuperNode that notices; it goes on taking questions that nobody answers.

    def popen(original: Any, *args: Any, **kwargs: Any) -> "subprocess.Popen[bytes]":
        process: subprocess.Popen[bytes] = original(*args, **kwargs)

        def watch() -> None:
            process.wait()
            ended()

        threading.Thread(target=watch, daemon=True).start()
        return process

    loop.subprocess = SimpleNamespace(Popen=partial(popen, loop.subprocess.Popen))


def answer_every_question(loop: Any, crashed: Callable[[], object]) -> None:
    """Send an error for a question whose app ended without an answer.

    Flower's loop would wait for that answer forever, and the site would be lost to later runs.
    `crashed` is called each time.
    """
    # Upstream: a loop that looks at the state of the app, not only for its answer.
    insert = loop._insert_message

    def pull(original: Any, state: Any, **more: Any) -> int | None:
        run: int | None = original(state=state, **more)
        # Flower sends answers only if this is not None; one may be left from before
        return 0 if run is None and state.msg_store else run

    def push(original: Any, state: Any, **more: Any) -> None:
        questions = _wait_for_answers(state)
        if questions:
            crashed()
            state.delete_messages()  # and with them any part of an answer
        for question in questions:
            error = Error(ErrorCode.CLIENT_APP_CRASHED, "")
            insert(Message(error, reply_to=question), state, state.object_store)
        original(state=state, **more)

    _wrap(loop, "_pull_and_store_message", pull)
    _wrap(loop, "_push_messages", push)


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
