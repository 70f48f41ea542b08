"""One test or more for each private name of Flower: they fail when Flower changes.

Each patch is applied to Flower's own modules, classes or memory wherever that is possible.
"""

import ast
import inspect
import io
import threading
import zipfile
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from importlib import import_module
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode, Status, SubStatus
from flwr.proto.node_pb2 import NodeInfo
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.utils import get_popen_detach_kwargs
from flwr.superlink.federation import NoOpFederationManager
from flwr.supernode import start_client_internal
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from fedjigsaw.flower import patches, superlink, supernode
from fedjigsaw.flower.folders import SiteSettings
from flower_doubles import LocalGrid, numbered_question

# the packages have functions of the same names
flower_superlink = import_module("flwr.superlink.cli.flower_superlink")
flower_supernode = import_module("flwr.supernode.cli.flower_supernode")


def parameters(function):
    return list(inspect.signature(function).parameters)


def copy_of(module, *names):
    """Some of a module's attributes, to be patched in its place."""
    return SimpleNamespace(**{name: getattr(module, name) for name in names})


def test_a_name_that_is_gone_is_an_error():
    with pytest.raises(AttributeError, match="gone"):
        patches._wrap(SimpleNamespace(), "gone", lambda original: None)


# ---------------------------------------------------------------------------------- apps and runs


def test_build_app():
    project = """
        [project]
        name = "a"
        version = "1.0.0"
        license = {file = "LICENSE"}
        dependencies = ["flwr>=1.41"]
        [tool.flwr.app]
        publisher = "p"
        fab-format-version = 1
        flwr-version-target = "1.41.0"
        [tool.flwr.app.components]
        serverapp = "a.server:app"
        clientapp = "a.client:app"
    """.replace("        ", "")
    halves = {f"a/{half}.py": b"app = None\n" for half in ("server", "client")}
    files = {"pyproject.toml": project.encode(), "LICENSE": b"free", **halves}
    with zipfile.ZipFile(io.BytesIO(patches.build_app(files))) as archive:
        assert {name: archive.read(name) for name in halves} == halves


def test_the_control_client_has_the_requests(monkeypatch):
    from flwr.proto import control_pb2
    from flwr.supercore.control import ControlHttpClient

    asked = []

    class Recorder:
        def __getattr__(self, name):
            assert callable(getattr(ControlHttpClient, name))
            response = {"StartRun": {"run_id": 7}}.get(name, {})
            if name == "ListRuns":
                run = control_pb2.ListRunsResponse().run_dict[7]
                run.status.status = Status.FINISHED
                response = {"run_dict": {7: run}}
            if name == "ListNodes":
                nodes = [{"name": "bern", "status": "online"}, {"name": "lyon", "status": "off"}]
                response = {"nodes_info": nodes}

            def call(request):
                assert type(request) is getattr(control_pb2, f"{name}Request")
                asked.append(request)
                return getattr(control_pb2, f"{name}Response")(**response)

            return call

    monkeypatch.setattr(
        ControlHttpClient, "from_server_address", lambda address, insecure, ca, more: Recorder()
    )
    control = patches.Control(1, b"certificate")
    assert control.start_run(b"an app", {"job": "a name"}) == 7
    assert asked[0].fab.hash_str == sha256(b"an app").hexdigest()
    assert asked[0].override_config["job"].string == "a name"
    assert control.has_finished(7)
    control.stop_run(7)
    assert [request.run_id for request in asked[1:]] == [7, 7]
    assert control.online() == {"bern"}


def test_the_control_client_trusts_the_authority_alone(clinic):
    """TLS, by an address without a scheme; a plain `close`."""
    control = patches.Control(9, (clinic / "server" / "ca.crt").read_bytes())
    assert type(control._client).from_server_address
    control.close()


def test_nodes_have_names():
    assert patches.nodes_by_name(LocalGrid({"bern": None, "lyon": None})) == {"bern": 1, "lyon": 2}
    assert parameters(Grid.get_nodes) == ["self"]
    assert {"node_id", "name"} <= set(NodeInfo.DESCRIPTOR.fields_by_name)


def test_the_numbers_of_errors():
    assert {
        name: code for name, code in vars(ErrorCode).items() if name.isupper()
    } == {
        "UNKNOWN": 0,
        "LOAD_CLIENT_APP_EXCEPTION": 1,
        "CLIENT_APP_RAISED_EXCEPTION": 2,
        "MESSAGE_UNAVAILABLE": 3,
        "REPLY_MESSAGE_UNAVAILABLE": 4,
        "NODE_UNAVAILABLE": 5,
        "MOD_FAILED_PRECONDITION": 6,
        "INVALID_FAB": 7,
        "CLIENT_APP_CRASHED": 8,
    }  # fmt: skip
    assert start_client_internal.FAB_VERIFICATION_ERROR.code in patches.ERRORS


# ---------------------------------------------------------------------------------- the SuperLink


@pytest.fixture
def superlink_app(clinic, monkeypatch):
    monkeypatch.setattr("sys.argv", ["pytest"])
    return patches.make_superlink(superlink.arguments(clinic / "server", 1))


def paths(routes):
    for route in routes:
        inner = getattr(route, "original_router", route)
        if hasattr(inner, "routes"):
            yield from paths(inner.routes)
        elif hasattr(route, "path"):
            yield route.path


def test_what_the_port_for_sites_serves(superlink_app):
    """A request that is new under this path must be looked at before it is let in."""
    found = set(paths(superlink_app.routes))
    names = ["register", "activate", "deactivate", "unregister"]
    verbs = [f"{name}-node" for name in names]
    verbs += ["send-node-heartbeat", "pull-messages", "push-messages", "get-run", "get-fab"]
    verbs += ["push-object", "pull-object", "confirm-message-received"]
    fleet = {path for path in found if path.startswith(patches.FLEET_PATH)}
    assert fleet == {patches.FLEET_PATH + verb for verb in verbs}
    assert {"/v1/control/start-run", "/v1/control/register-node"} <= found


def test_the_superlink_asks_sites_for_their_keys(superlink_app):
    assert superlink_app.state.enable_supernode_auth is True
    assert superlink_app.state.superlink_lifespan.config.runtime_dependency_install is False


def test_a_site_is_known_by_its_key(superlink_app):
    state = patches.link_state(superlink_app)
    assert isinstance(state, InMemoryLinkState)
    patches.register_node(state, "bern", "a public key")
    node = state.get_node_id_by_public_key(b"a public key")
    assert node
    (found,) = state.get_node_info(node_ids=[node])
    assert found.name == "bern"


def test_children_stay_in_the_process_group(monkeypatch):
    monkeypatch.setattr(flower_superlink, "get_popen_detach_kwargs", get_popen_detach_kwargs)
    assert flower_superlink.get_popen_detach_kwargs() == {"start_new_session": True}
    patches.keep_in_process_group()
    assert flower_superlink.get_popen_detach_kwargs() == {}
    start = inspect.getsource(flower_superlink.SuperLinkLifespan._start_superexec_if_needed)
    assert "Popen(command, **get_popen_detach_kwargs())" in start


def test_a_site_that_was_killed_can_come_back(superlink_app):
    state = patches.link_state(superlink_app)
    patches.register_node(state, "bern", "a public key")
    node = state.get_node_id_by_public_key(b"a public key")
    assert state.activate_node(node, 30.0)
    assert not state.activate_node(node, 30.0), "Flower does it by itself now"
    patches.accept_reconnection(state)
    assert state.activate_node(node, 30.0) is True


def test_a_question_is_delivered_until_it_is_confirmed():
    """Flower's own memory; a site confirms by having the server forget the content."""
    state = InMemoryLinkState(NoOpFederationManager(), InMemoryObjectStore())
    state._check_stored_messages = lambda numbers: None  # there is no run, nor a federation
    questions = [numbered_question(node) for node in (7, 8)]
    for question in questions:
        state.message_ins_store[question.metadata.message_id] = question
        state.object_store.preregister(1, get_object_tree(question))
    patches.redeliver_unconfirmed(state)
    assert state.get_message_ins(node_id=8, limit=None) == questions[1:]
    for _ in range(2):
        assert state.get_message_ins(node_id=7, limit=1) == questions[:1]
    state.object_store.delete(questions[0].metadata.message_id)
    assert state.get_message_ins(node_id=7, limit=1) == []
    assert questions[1].metadata.delivered_at  # one site does not affect another


def test_flower_asks_its_memory_as_expected():
    assert parameters(InMemoryLinkState.activate_node) == ["self", "node_id", "heartbeat_interval"]
    assert parameters(InMemoryLinkState.get_message_ins) == ["self", "node_id", "limit", "run_id"]


# ---------------------------------------------------------------------------------- the SuperNode


def test_the_functions_that_are_replaced():
    loop = patches.supernode_loop()
    assert loop is start_client_internal
    assert parameters(loop._verify_fab) == ["fab", "trusted_entities"]
    assert parameters(loop._insert_message) == ["msg", "state", "store"]
    assert {"state", "trusted_entities"} <= set(parameters(loop._pull_and_store_message))
    assert {"state", "object_store"} <= set(parameters(loop._push_messages))
    assert patches.supernode_command() is flower_supernode
    assert parameters(flower_supernode._parse_supernode_lifespan_config) == []


def test_the_loop_uses_the_modules_in_one_way_only():
    """`time` and `subprocess` are replaced in it as a whole."""
    tree = ast.parse(inspect.getsource(start_client_internal))
    used = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    assert {name for name in used if name.startswith(("time.", "subprocess."))} == {
        "time.sleep",
        "subprocess.Popen",
    }


def test_the_order_of_the_callbacks():
    source = inspect.getsource(start_client_internal.start_client_internal)
    (unpacking,) = [
        node.targets[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and getattr(node.value, "id", "") == "conn"
    ]
    assert tuple(name.id for name in unpacking.elts) == patches.Connection._fields


def connected_loop(**callbacks):
    """A loop whose connection consists of these callbacks."""

    @contextmanager
    def connect():
        yield tuple(callbacks.get(name) for name in patches.Connection._fields)

    return SimpleNamespace(_init_connection=connect)


def test_a_connection_with_another_number_of_callbacks_is_an_error():
    @contextmanager
    def connect():
        yield range(9)

    loop = SimpleNamespace(_init_connection=connect)
    patches.change_connection(loop, lambda line: line)
    with pytest.raises(TypeError), loop._init_connection():
        pass


def test_an_error_leaves_as_a_number():
    arrived = []

    def send(message, tree, seconds):
        arrived.append(message)
        return {message.metadata.message_id}, "session"

    def push(run, session, number, content):
        arrived.append(content)

    question = numbered_question(1)
    error = Message(Error(2, "patient 4711 in /home/ada"), reply_to=question)
    answer = Message(RecordDict(), reply_to=question)
    loop = connected_loop(send=send, push_object=push)
    patches.send_errors_without_text(loop)
    with loop._init_connection() as line:
        results = [line.send(message, None, 0.1) for message in (error, answer)]
    assert b"4711" not in b"".join(x for x in arrived if isinstance(x, bytes))
    assert (arrived[0].error.code, arrived[0].error.reason) == (2, "")
    assert arrived[0].metadata.reply_to_message_id == question.metadata.message_id
    assert arrived[-1] is answer
    assert results[0] == (set(), "session")  # its content has already been sent
    # under another number, which Flower must not look for in its own memory
    assert arrived[0].metadata.message_id != error.metadata.message_id == ""


class TestOneAppOnly:
    """Flower's own `_pull_and_store_message` decides whether an app may run."""

    @pytest.fixture
    def answer(self, clinic, monkeypatch):
        """App, fingerprint of the allowed one -> the error with which the site answers, if any."""
        settings = SiteSettings.load(clinic / "bern")
        words = ["flower-supernode", *supernode.arguments(clinic / "bern", settings, 1)]
        monkeypatch.setattr("sys.argv", words)
        # Flower's functions look up what they call in their own modules: put all of it back later
        for module, name in (
            (start_client_internal, "_verify_fab"),
            (start_client_internal, "_init_connection"),
            (flower_supernode, "_parse_supernode_lifespan_config"),
        ):
            monkeypatch.setattr(module, name, getattr(module, name))

        class AcceptedError(Exception):
            pass

        def accept(content, run):
            raise AcceptedError

        monkeypatch.setattr(start_client_internal, "get_fused_config_from_fab", accept)

        def ask(app, fingerprint):
            loop = start_client_internal
            question = numbered_question(7)
            fab = Fab(sha256(app).hexdigest(), app, {})
            run = SimpleNamespace(fab_hash=fab.hash_str)
            loop._init_connection = connected_loop(
                receive=lambda: (question, get_object_tree(question)),
                get_run=lambda run_id: run,
                get_fab=lambda number, run_id: fab,
            )._init_connection
            self.refused = []
            patches.run_one_app_only(
                flower_supernode, loop, fingerprint, lambda: self.refused.append(1)
            )
            config = flower_supernode._parse_supernode_lifespan_config()
            state = InMemoryNodeState(InMemoryObjectStore())
            state.set_node_id(7)
            with loop._init_connection() as line:
                try:
                    loop._pull_and_store_message(
                        state=state,
                        object_store=state.object_store,
                        node_config={},
                        receive=line.receive,
                        get_run=line.get_run,
                        get_fab=line.get_fab,
                        pull_object=None,
                        confirm_message_received=None,
                        trusted_entities=config.trusted_entities,
                    )
                except AcceptedError:
                    return None
            (reply,) = state.get_messages_legacy(is_reply=True)
            return reply.error.code

        return ask

    def test_the_one(self, answer):
        assert answer(b"an app", sha256(b"an app").hexdigest()) is None
        assert not self.refused

    def test_any_other(self, answer):
        assert answer(b"another app", sha256(b"an app").hexdigest()) == ErrorCode.INVALID_FAB
        assert self.refused == [1]


def test_how_often_a_site_looks_for_questions():
    slept = []
    loop = SimpleNamespace(time=SimpleNamespace(sleep=slept.append))
    patches.poll_every(loop, 1.0)
    loop.time.sleep(3)
    loop.time.sleep(0.5)
    assert slept == [1.0, 0.5]


def test_the_end_of_the_process_that_starts_apps_is_noticed():
    ended = threading.Event()
    loop = copy_of(start_client_internal, "subprocess")
    patches.watch_app_starter(loop, ended.set)
    process = loop.subprocess.Popen(["sleep", "600"])
    assert not ended.wait(0.2)
    process.kill()
    assert ended.wait(30)


class TestEveryQuestionIsAnswered:
    """A SuperNode's loop, over Flower's own memory of a node, with an app that may end any time."""

    @pytest.fixture
    def state(self):
        state = InMemoryNodeState(InMemoryObjectStore())
        self.question = numbered_question(7)
        state.store_message(self.question)
        self.task = state.create_task(TaskType.CLIENT_APP, run_id=1)
        state.claim_task(self.task)
        state.activate_task(self.task)
        return state

    @pytest.fixture
    def loop(self, state):
        """Flower's own module, except for what talks to the server."""
        self.sent, self.crashed = [], []
        loop = SimpleNamespace(
            _insert_message=start_client_internal._insert_message,
            _pull_and_store_message=lambda state: None,
            _push_messages=lambda state: self.sent.extend(state.get_messages_legacy(is_reply=True)),
        )
        patches.answer_every_question(loop, lambda: self.crashed.append(1))
        return loop

    def announce(self, state):
        """As an app does: first that there is an answer, then its content."""
        answer = Message(
            RecordDict({"made": ConfigRecord({"of": "parts"})}), reply_to=self.question
        )
        answer.metadata.__dict__["_message_id"] = answer.object_id
        session = state.start_session(1)
        state.store_message_and_object_tree(answer, get_object_tree(answer), session)
        return get_all_nested_objects(answer)

    def replies(self):
        return [m.error.code if m.has_error() else "an answer" for m in self.sent]

    def test_an_answer_is_sent_when_it_is_complete(self, state, loop, monkeypatch):
        slept = []

        def meanwhile(seconds):
            slept.append(seconds)
            if len(slept) == 1:
                self.parts = self.announce(state)
            elif self.parts:
                number, part = self.parts.popitem()
                state.object_store.put(number, part.deflate())
            assert not self.sent

        monkeypatch.setattr(patches, "sleep", meanwhile)
        loop._push_messages(state=state)
        assert self.replies() == ["an answer"]
        assert len(slept) == 4  # announced, then a message, a record and a record within it
        assert not self.crashed

    @pytest.mark.parametrize("announced", [False, True])
    def test_an_app_that_ended_without_an_answer_is_an_error(self, state, loop, announced):
        if announced:
            self.announce(state)
        assert state.finish_task(self.task, SubStatus.FAILED, "")
        loop._push_messages(state=state)
        assert self.replies() == [ErrorCode.CLIENT_APP_CRASHED]
        assert self.sent[0].metadata.reply_to_message_id == self.question.metadata.message_id
        assert self.crashed == [1]

    def test_so_is_an_app_without_a_heartbeat(self, state, loop):
        state.task_token_store[self.task].active_until = datetime.now(UTC)
        loop._push_messages(state=state)
        assert self.replies() == [ErrorCode.CLIENT_APP_CRASHED]

    def test_a_question_in_memory_is_not_forgotten(self, state, loop):
        assert loop._pull_and_store_message(state=state) is not None
        state.delete_messages()
        assert loop._pull_and_store_message(state=state) is None
