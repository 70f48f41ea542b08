"""A test of what each patch of Flower at a site is for: they fail when Flower changes.

Each patch is applied to Flower's own modules, classes or memory wherever that is possible.
"""

import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib import import_module
from queue import Queue
from types import SimpleNamespace

import httpx
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode, Status, SubStatus
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.run import Run, RunNotRunningException
from flwr.supernode import start_client_internal
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from fedjigsaw.flower import node_patches as patches
from fedjigsaw.flower import supernode
from fedjigsaw.flower.folders import SiteSettings
from flower_doubles import numbered_question

# the package has a function of the same name
flower_supernode = import_module("flwr.supernode.cli.flower_supernode")


def copy_of(module, *names):
    """Some of a module's attributes, to be patched in its place."""
    return SimpleNamespace(**{name: getattr(module, name) for name in names})


def connected_loop(**callbacks):
    """A loop whose connection consists of these callbacks."""

    @contextmanager
    def connect():
        yield tuple(callbacks.get(name) for name in patches.Connection._fields)

    return SimpleNamespace(_init_connection=connect)


def test_an_error_leaves_as_a_number():
    arrived, failed = [], []

    def send(message, tree, seconds):
        arrived.append(message)
        return {message.metadata.message_id}, "session"

    def push(run, session, number, content):
        arrived.append(content)

    question = numbered_question(1)
    error = Message(Error(2, "patient 4711 in /home/ada"), reply_to=question)
    answer = Message(RecordDict(), reply_to=question)
    loop = connected_loop(send=send, push_object=push)
    patches.send_errors_without_text(loop, failed=lambda: failed.append(len(arrived)))
    with loop._init_connection() as line:
        results = [line.send(message, None, 0.1) for message in (error, answer)]
    assert failed == [0]  # told once, before it leaves
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


class TestAppsAreStarted:
    """Flower's own `_pull_and_store_message`, over its own memory of a node."""

    @pytest.fixture
    def state(self):
        state = InMemoryNodeState(InMemoryObjectStore())
        state.store_run(replace(Run.create_empty(1), fab_hash="a hash"))
        return state

    @pytest.fixture
    def pull(self, state):
        """How the server gives a part of a question, and hears that all are here -> run, if any."""
        self.started, self.gone = [], Queue()
        loop = copy_of(start_client_internal, "_pull_and_store_message")
        patches.start_apps_ourselves(
            loop, state, lambda *task: self.started.append(task), lambda: iter(self.gone.get, None)
        )

        def pull(pull_object=None, confirm=lambda run_id, number: None):
            self.question = numbered_question(7)
            parts = get_all_nested_objects(self.question)
            return loop._pull_and_store_message(
                state=state,
                object_store=state.object_store,
                node_config={},
                receive=lambda: (self.question, get_object_tree(self.question)),
                get_run=None,
                get_fab=None,
                pull_object=pull_object or (lambda run_id, number: parts[number].deflate()),
                confirm_message_received=confirm,
                trusted_entities=None,
            )

        yield pull
        self.gone.put(None)

    def ends(self, state):
        return {task.task_id: task.status.sub_status for task in state.get_tasks()}

    def test_each_with_a_token_when_its_question_is_here_and_ends_with_it(self, state, pull):
        def early(run_id, number):
            assert not self.started

        for _ in range(2):
            assert pull(confirm=early) == 1
            (number, token), *_ = self.started
            assert state.get_task_by_token(token).task_id == number
            assert state.activate_task(number)
            if len(self.ends(state)) == 1:
                assert state.finish_task(number, SubStatus.COMPLETED, "")  # the app itself
            self.gone.put(number)
            deadline = time.monotonic() + 30
            while any(task.status.status != Status.FINISHED for task in state.get_tasks()):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            self.started.clear()
        assert sorted(self.ends(state).values()) == [SubStatus.COMPLETED, SubStatus.FAILED]

    @pytest.mark.parametrize("when", ["pull_object", "confirm"])
    def test_none_for_a_question_whose_run_was_stopped_before_all_of_it_was_here(
        self, state, pull, when
    ):
        """Such an app would wait for the rest, and the site for the app."""

        def stopped(run_id, number):
            raise RunNotRunningException

        assert pull(**{when: stopped}) is None  # Flower does not wait for an answer
        withdrawn = self.question.metadata.message_id
        assert not self.started
        assert pull() == 1
        ((number, _),) = self.started
        assert self.ends(state)[number] == ""
        assert sorted(self.ends(state).values()) == ["", SubStatus.FAILED]
        assert list(state.msg_store) == [self.question.metadata.message_id] != [withdrawn]
        assert withdrawn not in state.object_store


def test_the_local_port_asks_for_the_secret(monkeypatch):
    main = import_module("flwr.supernode.main")
    monkeypatch.setattr(main, "create_app", main.create_app)
    patches.guard_local_port(b"a secret", lambda app, state: ("behind a gate", app, state))
    factory = SimpleNamespace(state=lambda: "the state")
    made, app, state = main.create_app(state_factory=factory, superexec_auth_secret=None)
    assert (made, state) == ("behind a gate", "the state")
    assert app.state.superexec_auth_secret == b"a secret"


def test_requests_and_answers_of_a_site_are_seen(monkeypatch):
    module = import_module("flwr.supernode.node_auth_http_interceptor")
    kind = module.NodeAuthHttpInterceptor
    monkeypatch.setattr(kind, "intercept", kind.intercept)
    seen = []
    patches.watch_requests(
        {"more": "x"}, lambda *answer: seen.append(answer), lambda: seen.append("none")
    )
    key = import_module("cryptography.hazmat.primitives.asymmetric.ec")
    private = key.generate_private_key(key.SECP384R1())
    request = SimpleNamespace(headers={})
    answer = SimpleNamespace(status_code=410, headers={"a": "b"})
    context = SimpleNamespace(request=request)
    node = kind(private, private.public_key())
    assert node.intercept(context, lambda c: answer) is answer
    assert request.headers["more"] == "x"
    assert "flwr-signature" in request.headers
    assert seen == [(410, {"a": "b"})]

    def lose(context):
        raise httpx.ConnectError("refused")

    with pytest.raises(httpx.ConnectError):  # Flower sends it again
        node.intercept(SimpleNamespace(request=SimpleNamespace(headers={})), lose)
    assert seen[1:] == ["none"]


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
