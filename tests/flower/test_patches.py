"""A test of what each patch of Flower is for: they fail when Flower changes.

Each patch is applied to Flower's own modules, classes or memory wherever that is possible.
"""

import asyncio
import io
import subprocess
import sys
import time
import zipfile
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib import import_module
from threading import Event
from types import SimpleNamespace

import httpx
import pytest
from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode, Status, SubStatus
from flwr.proto.node_pb2 import NodeInfo
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.constant import TaskType
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.error.http import http_error_translator
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.utils import get_popen_detach_kwargs
from flwr.superlink.federation import NoOpFederationManager
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from fedjigsaw.flower import folders, patches, superlink
from flower_doubles import LocalGrid, numbered_question

# the packages have functions of the same names
flower_superlink = import_module("flwr.superlink.cli.flower_superlink")
flower_supernode = import_module("flwr.supernode.cli.flower_supernode")


def test_a_name_that_is_gone_is_an_error():
    with pytest.raises(AttributeError, match="gone"):
        patches.wrap(SimpleNamespace(), "gone", lambda original: None)


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
                run.override_config["job"].string = "a name"
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
    control = patches.Control(1, b"certificate", {})
    assert control.start_run(b"an app", {"job": "a name"}) == 7
    assert asked[0].fab.hash_str == sha256(b"an app").hexdigest()
    assert asked[0].override_config["job"].string == "a name"
    assert control.status(7) == "finished"
    assert (Status.PENDING, Status.STARTING) == ("pending", "starting")  # which jobs.py knows
    control.stop_run(7)
    assert [request.run_id for request in asked[1:]] == [7, 7]
    assert control.online() == {"bern"}
    assert (control.runs_of("a name"), control.runs_of("another")) == ([7], [])
    assert asked[-1].limit > 10**6


@pytest.mark.parametrize(
    ("code", "ended"),
    [(ApiErrorCode.RUN_ALREADY_FINISHED, True), (ApiErrorCode.RUN_ID_NOT_FOUND, False)],
)
def test_a_run_that_has_ended_need_not_be_stopped(monkeypatch, code, ended):
    """As when Ctrl-C comes a moment too late; Flower's own answer."""
    from flwr.supercore.control import ControlHttpClient

    async def refuse(request):
        raise FlowerError(code, "an internal text")

    request = SimpleNamespace(url=SimpleNamespace(path="/v1/control/stop-run"))
    refusal = asyncio.run(http_error_translator(request, refuse))

    def stop(request):
        response = httpx.Response(refusal.status_code, content=refusal.body)
        raise httpx.HTTPStatusError("refused", request=None, response=response)

    client = SimpleNamespace(StopRun=stop)
    monkeypatch.setattr(ControlHttpClient, "from_server_address", lambda *args: client)
    with nullcontext() if ended else pytest.raises(httpx.HTTPStatusError):
        patches.Control(1, b"certificate", {}).stop_run(7)


def test_a_starter_that_ends_is_started_again_until_the_end(monkeypatch):
    """Flower asks it to end, and it then ends with 0, as it may by itself."""
    program = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); "
        "print(1, flush=True); time.sleep(60)"
    )
    restarts = []

    def start(self):
        words = [sys.executable, "-c", program]
        self.superexec_process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self.superexec_process.stdout.read(1) == b"1"
        started.append(self.superexec_process)
        came.set()

    monkeypatch.setattr(patches, "RESTART_SECONDS", 0.1)
    monkeypatch.setattr(flower_superlink.SuperLinkLifespan, "_start_superexec_if_needed", start)
    started, came = [], Event()
    kind = patches._watching(flower_superlink.SuperLinkLifespan, lambda: restarts.append(1))
    lifespan = kind(SimpleNamespace(), SimpleNamespace(objectstore_factory=None))
    lifespan._start_superexec_if_needed()
    for end in (subprocess.Popen.kill, subprocess.Popen.terminate):
        came.clear()
        end(started[-1])
        assert came.wait(30)
    assert (len(started), len(restarts)) == (3, 2)
    lifespan.shutdown()
    assert started[-1].wait(30) == 0
    time.sleep(0.5)
    assert (len(started), len(restarts)) == (3, 2)


def test_nodes_have_names():
    assert patches.nodes_by_name(LocalGrid({"bern": None, "lyon": None})) == {"bern": 1, "lyon": 2}
    assert {"node_id", "name"} <= set(NodeInfo.DESCRIPTOR.fields_by_name)


# ---------------------------------------------------------------------------------- the SuperLink


@pytest.fixture
def superlink_app(clinic, monkeypatch):
    monkeypatch.setattr("sys.argv", ["pytest"])
    command = flower_superlink._get_superexec_command
    monkeypatch.setattr(flower_superlink, "_get_superexec_command", command)
    folders.new_task_secret(clinic / "server")
    secret = clinic / "server" / "tasks.secret"
    return patches.make_superlink(superlink.arguments(clinic / "server", 1), secret)


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


def test_the_superlink_asks_processes_for_the_secret(superlink_app, clinic):
    secret = clinic / "server" / "tasks.secret"
    assert superlink_app.state.superexec_auth_secret == secret.read_bytes()
    command = flower_superlink._get_superexec_command(
        runtime_address="127.0.0.1:1",
        runtime_certificates=None,
        runtime_root_certificates_path=None,
        parent_pid=1,
        runtime_dependency_install=False,
    )
    assert command[1:4] == ["-m", "fedjigsaw.flower.launcher", "flower-superexec"]
    assert command[-2:] == ["--superexec-auth-secret-file", str(secret)]
    assert not patches.is_task_token(patches.link_state(superlink_app), "a guess")


@pytest.mark.parametrize(("place", "end"), [("server", False), ("site", False), ("site", True)])
def test_an_app_may_take_minutes_to_start(place, end, monkeypatch):
    """Its token stays valid, and nobody starts it again; but it may end before it has begun."""
    store = InMemoryObjectStore()
    server = place == "server"
    state = (
        InMemoryLinkState(NoOpFederationManager(), store) if server else InMemoryNodeState(store)
    )
    patches.allow_slow_starts(state)
    task = state.create_task(TaskType.CLIENT_APP, run_id=1)
    token = state.claim_task(task)
    assert state.claim_task(task) is None
    later = datetime.now(UTC) + timedelta(minutes=5)
    if end:
        assert state.finish_task(task, SubStatus.FAILED, "")
    monkeypatch.setattr("flwr.supercore.corestate.in_memory_corestate.now", lambda: later)
    pending = state.get_tasks(statuses=[Status.PENDING, Status.STARTING])
    assert [one.task_id for one in pending] == ([] if end else [task])
    assert patches.is_task_token(state, token) != end


def test_children_stay_in_the_process_group(monkeypatch):
    monkeypatch.setattr(flower_superlink, "get_popen_detach_kwargs", get_popen_detach_kwargs)
    assert flower_superlink.get_popen_detach_kwargs() == {"start_new_session": True}
    patches.keep_in_process_group()
    assert flower_superlink.get_popen_detach_kwargs() == {}


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


def test_a_question_that_a_site_forgot_has_an_error_at_once(superlink_app):
    """The site was killed after it had confirmed the question, and started again."""
    state = patches.link_state(superlink_app)
    state._check_stored_messages = lambda numbers, run=None: None  # there is no run
    nodes = []
    for name in ("bern", "lyon"):
        patches.register_node(state, name, f"key of {name}")
        nodes.append(state.get_node_id_by_public_key(f"key of {name}".encode()))
        assert state.activate_node(nodes[-1], 30.0)
    patches.accept_reconnection(state)
    patches.answer_forgotten_questions(state)
    numbers = []
    for node in (nodes[0], nodes[0], nodes[1], nodes[0]):
        question = numbered_question(node)
        question.metadata.__dict__.update(_run_id=1, _created_at=time.time() + len(numbers))
        numbers.append(question.object_id)
        question.metadata.__dict__["_message_id"] = numbers[-1]
        state.message_ins_store[numbers[-1]] = question
    not_confirmed = state.message_ins_store[numbers[1]]
    state.object_store.preregister(1, get_object_tree(not_confirmed))
    answer = Message(RecordDict(), reply_to=question)  # of which nothing but its number has arrived
    answer.metadata.__dict__["_message_id"] = begun = answer.object_id
    state.message_res_store[begun] = answer
    state.message_ins_id_to_message_res_id[numbers[3]] = begun
    state.object_store.preregister(1, get_object_tree(answer))
    asked = set(numbers[:3])
    assert state.get_message_res(message_ids=asked, run_id=1) == []
    state.activate_node(nodes[0], 30.0)
    for number in (numbers[0], numbers[3]):
        (error,) = state.get_message_res(message_ids={number}, run_id=1)
        assert error.metadata.reply_to_message_id == number
        assert error.error.code == ErrorCode.NODE_UNAVAILABLE
        assert error.metadata.message_id in state.object_store  # from where it is fetched
    assert state.get_message_res(message_ids=set(numbers[1:3]), run_id=1) == []


def test_a_site_is_disconnected(superlink_app):
    state = patches.link_state(superlink_app)
    patches.register_node(state, "bern", "a public key")
    node = state.get_node_id_by_public_key(b"a public key")
    state.activate_node(node, 30.0)
    patches.remove_node(state, b"a public key")
    patches.remove_node(state, b"another key")
    assert [info.status for info in state.get_node_info(node_ids=[node])] == ["offline"]
