"""Every private name of Flower that fedjigsaw uses or replaces, for the server and for both sides.

Those about sites' answers are in :mod:`fedjigsaw.flower.answer_patches`, and those of a site's
processes in :mod:`fedjigsaw.flower.node_patches`; no other module touches one.

Flower 1.41 offers no public way to do what is done here. Each function below covers one touch point
and says, after *Upstream*, what Flower would have to offer so that the function could go.
Run the real federations of ``make test-real`` before allowing a new version of Flower.

Flower's modules are imported inside the functions, since each process needs only a few of them, and
a site starts a process for every question.
"""

import sys
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Any

from flwr.common.constant import ErrorCode

if TYPE_CHECKING:
    from flwr.serverapp import Grid

# Upstream: documented prefixes for the requests of SuperNodes, of the control and of apps, or ports
# of their own; and documented headers.
FLEET_PATH, CONTROL_PATH, RUNTIME_PATH = "/v1/fleet/", "/v1/control/", "/v1/runtime/"
PUSH_OBJECT_PATH = FLEET_PATH + "push-object"
ACQUIRE_PATH = RUNTIME_PATH + "acquire-task"
TOKEN_HEADER = b"flwr-task-token"

START_TIME = timedelta(minutes=10)  # that an app has to load its libraries
RESTART_SECONDS = 1.0
MAX_RUNS = 2**31 - 1  # Flower lists the last 20 unless it is told how many

SEE_FLOWER = "; its disk may be full: see flower.log at the site"
# Upstream: public constants for the codes of a message's error.
ERRORS = {
    ErrorCode.LOAD_CLIENT_APP_EXCEPTION: "its half of the app could not be loaded" + SEE_FLOWER,
    ErrorCode.CLIENT_APP_RAISED_EXCEPTION: "its half of the app failed" + SEE_FLOWER,
    ErrorCode.MESSAGE_UNAVAILABLE: "the question or the answer did not arrive in time",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "its answer was incomplete or too large",
    ErrorCode.NODE_UNAVAILABLE: "it lost its connection",
    ErrorCode.INVALID_FAB: "it refused the app: it accepts only the one from `federation init`",
    ErrorCode.CLIENT_APP_CRASHED: "its half of the app ended abruptly",
}


def wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
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


class AddHeaders:
    """Interceptor of a client of Flower that adds headers to each request."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def intercept(self, context: Any, call_next: Any) -> Any:
        context.request.headers.update(self._headers)
        return call_next(context)


class Control:
    """Client of a running server's control API, over the loopback of this machine."""

    # Upstream: a public Python client for `flwr run`, `flwr list`, `flwr stop` and
    # `flwr supernode list`. The commands exit with 0 on failure and print for people.

    def __init__(self, port: int, authority: bytes, headers: Mapping[str, str]) -> None:
        from flwr.supercore.control import ControlHttpClient

        self._client: Any = ControlHttpClient.from_server_address(
            f"127.0.0.1:{port}", False, authority, [AddHeaders(headers)]
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

    def status(self, run: int) -> str:
        """Return how far a run is: "pending", "starting", "running" or "finished"."""
        from flwr.proto.control_pb2 import ListRunsRequest

        runs = self._client.ListRuns(ListRunsRequest(run_id=run)).run_dict
        return str(next(iter(runs.values())).status.status)

    def runs_of(self, job: str) -> list[int]:
        """Return the numbers of the runs that were started for a job."""
        from flwr.common.serde import user_config_from_proto
        from flwr.proto.control_pb2 import ListRunsRequest

        runs = self._client.ListRuns(ListRunsRequest(limit=MAX_RUNS)).run_dict
        return [
            int(number)
            for number, run in runs.items()
            if user_config_from_proto(run.override_config).get("job") == job
        ]

    def stop_run(self, run: int) -> None:
        """Stop a run, unless it has ended meanwhile."""
        import httpx
        from flwr.proto.control_pb2 import StopRunRequest
        from flwr.supercore.error import ApiErrorCode, FlowerError

        try:
            self._client.StopRun(StopRunRequest(run_id=run))
        except httpx.HTTPStatusError as error:
            refusal = FlowerError.from_json(error.response.text)
            if refusal is None or refusal.code != ApiErrorCode.RUN_ALREADY_FINISHED:
                raise

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


def make_superlink(
    arguments: Sequence[str], secret: Path, on_restart: Callable[[], None] = lambda: None
) -> Any:
    """Make the ASGI app of a SuperLink from the arguments of ``flower-superlink``.

    It gives tasks only to processes that know what is in the file `secret`. The process that starts
    the apps is started again whenever it ends, after a call of `on_restart`.
    """
    # Upstream: a public factory of the app that takes a configuration object. The command itself
    # serves everything on one port, and ignores the secret in the default isolation mode.
    from flwr.superlink.main import create_app

    command: Any = import_module("flwr.superlink.cli.flower_superlink")
    sys.argv = ["flower-superlink", *arguments]
    config = command._parse_superlink_lifespan_config()
    config = replace(config, superexec_auth_secret=secret.read_bytes())
    wrap(
        command,
        "_get_superexec_command",
        lambda original, **more: starter_command(original(**more), secret),
    )
    return create_app(config, _watching(command.SuperLinkLifespan, on_restart))


def _watching(lifespan: Any, on_restart: Callable[[], None]) -> Any:
    """Return a SuperLink's lifespan that starts the starter of apps again whenever it ends.

    Without a starter, runs would wait for their start, and nobody would know why.
    """
    # Upstream: a SuperLink that looks after the process that it has started.

    class WatchingLifespan(lifespan):  # type: ignore[misc]
        ending = False

        def _start_superexec_if_needed(self) -> None:
            super()._start_superexec_if_needed()
            Thread(target=self._watch_starter, daemon=True).start()

        def _watch_starter(self) -> None:
            while True:
                self.superexec_process.wait()
                sleep(RESTART_SECONDS)
                if self.ending:
                    return
                on_restart()
                super()._start_superexec_if_needed()

        def shutdown(self) -> None:
            self.ending = True
            super().shutdown()

    return WatchingLifespan


def starter_command(command: Sequence[str], secret: Path) -> list[str]:
    """Return the command of a SuperExec that signs with a secret and starts apps in our way."""
    own = [sys.executable, "-m", "fedjigsaw.flower.launcher", *command]
    return [*own, "--superexec-auth-secret-file", str(secret)]


def signer(headers: Mapping[bytes, bytes]) -> bytes | None:
    """Return the public key with which a SuperNode signed a request, or None if it did not.

    The signature is about the time, which must be now. It can be checked before the body is read.
    """
    # Upstream: authentication that does not need the body.
    from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
    from flwr.supercore.date import now
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature

    names = (FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER, TIMESTAMP_HEADER)
    with suppress(KeyError, ValueError, TypeError):
        key, signature, time = (headers[name.encode()] for name in names)
        public = b64decode(key, validate=True)
        age = (now() - datetime.fromisoformat(time.decode("ascii"))).total_seconds()
        recent = -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE
        signed = b64decode(signature, validate=True)
        if recent and verify_signature(bytes_to_public_key(public), time, signed):
            return public
    return None


def is_task_token(state: Any, token: str) -> bool:
    """Return whether a text is the token of an app that is running now."""
    # Upstream: authentication that does not need the body.
    return state.get_task_by_token(token) is not None


def allow_slow_starts(state: Any) -> None:
    """Give an app ten minutes to load its libraries; Flower gives it half a minute.

    After that, Flower starts it again and forgets the token of the first process. Where every start
    takes longer, as on a busy machine, nothing would ever be answered. An app that ends instead of
    starting is noticed at once, see :func:`~fedjigsaw.flower.node_patches.start_apps_ourselves`.
    """
    # Upstream: an option for this time.

    def claim(original: Any, task_id: int) -> str | None:
        token: str | None = original(task_id)
        with state.lock_task_store:
            if token is not None and task_id in state.task_token_store:
                state.task_token_store[task_id].active_until += START_TIME
        return token

    wrap(state, "claim_task", claim)


def keep_in_process_group() -> None:
    """Let the SuperLink start its children in its own process group, which is ended as a whole."""
    # Upstream: children that end with the SuperLink, or an option not to detach them.
    command: Any = import_module("flwr.superlink.cli.flower_superlink")
    wrap(command, "get_popen_detach_kwargs", lambda original: {})


def link_state(app: Any) -> Any:
    """Return the state that a SuperLink's app keeps in memory."""
    # Upstream: public access to the state, or the three functions below as options.
    return app.state.linkstate_factory.state()


def register_node(state: Any, name: str, public_key: str) -> None:
    """Let a site in by its public key (PEM), and call it by its name."""
    # Upstream: public keys as an option of `flower-superlink`, so that no window is left in which
    # the server runs and does not know its sites.
    from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID

    if state.get_node_id_by_public_key(public_key.encode()) is not None:
        return  # it was here before
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

    wrap(state, "activate_node", activate)


def answer_forgotten_questions(state: Any) -> None:
    """Answer the questions that a site had received before it was started anew with an error.

    Flower notices a killed site by its heartbeats alone, and waits for one that is back by then.
    """
    # Upstream: the same.
    from flwr.server.superlink.linkstate import utils

    def is_forgotten(number: str, node_id: int) -> bool:
        to_it = state.message_ins_store[number].metadata.dst_node_id == node_id
        if to_it and is_incomplete(state, number):  # the rest of the answer is lost, too
            forget_answer(state, number)
        answered = number in state.message_ins_id_to_message_res_id
        # one that was not confirmed is in the object store, and is delivered again
        return to_it and not answered and number not in state.object_store

    def activate(original: Any, node_id: int, heartbeat_interval: float) -> bool:
        with state.lock:
            for number, question in state.message_ins_store.items():
                if is_forgotten(number, node_id):
                    error = utils.create_message_error_unavailable_res_message(
                        question.metadata, "node_unavail"
                    )
                    state._store_generated_message(error)
                    state.message_res_store[error.metadata.message_id] = error
                    state.message_ins_id_to_message_res_id[number] = error.metadata.message_id
            return bool(original(node_id, heartbeat_interval))

    wrap(state, "activate_node", activate)


def is_incomplete(state: Any, question: str) -> bool:
    """Tell whether a site has begun to send the answer to a question, and some of it is missing."""
    # Upstream: public access to the state.
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

    answer = state.message_ins_id_to_message_res_id.get(question)
    if answer is None or answer not in state.object_store:
        return False  # Flower knows what to say
    tree = state.object_store.get_object_tree(answer)
    return not all(state.object_store.get(part.object_id) for part in iterate_object_tree(tree))


def forget_answer(state: Any, question: str) -> None:
    """Forget that a site has begun to answer a question; its parts are removed with the run."""
    # Upstream: public access to the state.
    del state.message_res_store[state.message_ins_id_to_message_res_id.pop(question)]


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

    wrap(state, "get_message_ins", deliver)


def remove_node(state: Any, public_key: bytes) -> None:
    """End the connection of a site, so that no run asks it."""
    # Upstream: public access to the state.
    node = state.get_node_id_by_public_key(public_key)
    if node is not None:
        state.deactivate_node(node)
