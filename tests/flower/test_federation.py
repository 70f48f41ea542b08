"""Folders, certificates, keys and settings; jobs; what commands say when something is missing."""

import asyncio
import json
import re
import shlex
import signal
import socket
import ssl
import stat
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_private_key
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import SubStatus
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.superlink.federation import NoOpFederationManager
from flwr.supernode import start_client_internal
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState
from typer.main import get_command
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.cli import federation as cli_federation
from fedjigsaw.errors import (
    DataError,
    ExtraError,
    FederationError,
    FedJigsawError,
    ParameterError,
)
from fedjigsaw.flower import bundle, folders, jobs, processes, supernode
from fedjigsaw.flower.records import Question
from fedjigsaw.flower.site import PunctualSite, Site, load_site
from fedjigsaw.flower.superlink import MAX_REQUEST, Gate, deliver_until_confirmed, take_over
from fedjigsaw.io import formats
from fedjigsaw.messages import Broadcast, Model
from flower_doubles import LocalGrid, context


@pytest.fixture
def clinic(tmp_path):
    folder = tmp_path / "clinic"
    folders.init(folder, ["bern", "lyon"], "127.0.0.1", 9092, b"an app")
    return folder


class TestInit:
    def test_every_site_gets_its_own_key_and_the_server_knows_it(self, clinic):
        settings = folders.ServerSettings.load(clinic / "server")
        assert list(settings.sites) == ["bern", "lyon"]
        privates = [
            load_ssh_private_key((clinic / name / "site.key").read_bytes(), None)
            for name in settings.sites
        ]
        publics = [load_pem_public_key(key.encode()) for key in settings.sites.values()]
        assert [key.public_key() for key in privates] == publics
        assert publics[0] != publics[1]

    def test_secrets_are_for_their_owner_alone_and_the_authority_has_none(self, clinic):
        for path in [*clinic.rglob("*.key"), clinic, clinic / "bern", clinic / "server"]:
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        assert {path.name for path in clinic.rglob("*.key")} == {"site.key", "server.key"}
        assert not list((clinic / "bern").glob("server*"))

    def test_sites_pin_the_app(self, clinic):
        settings = folders.SiteSettings.load(clinic / "bern")
        assert settings.app == sha256(b"an app").hexdigest()
        assert (settings.name, settings.host, settings.port) == ("bern", "127.0.0.1", 9092)

    def test_the_bundle_is_always_the_same_and_has_a_licence(self):
        assert bundle.build() == bundle.build()
        assert b"LICENSE" in bundle.build()
        assert len(bundle.build()) < 10_000

    @pytest.mark.parametrize(
        ("sites", "host", "port"),
        [
            ([], "a.org", 1),
            (["a", "a"], "a.org", 1),
            (["a", "A"], "a.org", 1),  # one folder on some disks
            (["server"], "a.org", 1),
            (["../a"], "a.org", 1),
            (["a/b"], "a.org", 1),
            ([".hidden"], "a.org", 1),
            (["a" * 65], "a.org", 1),
            (["ä"], "a.org", 1),
            (["a"], "a.org:90", 1),
            (["a"], "", 1),
            (["a"], "a b", 1),
            (["a"], "a.org", 0),
            (["a"], "a.org", 65536),
        ],
    )
    def test_bad_parameters_make_nothing(self, sites, host, port, tmp_path):
        with pytest.raises(ParameterError):
            folders.init(tmp_path / "new", sites, host, port, b"")
        assert not list(tmp_path.iterdir())

    def test_a_site_without_its_key_is_told_so(self, clinic):
        (clinic / "bern" / "site.key").unlink()
        with pytest.raises(FederationError, match="must be the key of the site"):
            folders.SiteSettings.load(clinic / "bern")

    def test_what_is_there_is_kept(self, clinic, tmp_path):
        with pytest.raises(DataError, match="is kept"):
            folders.init(clinic, ["a"], "a.org", 1, b"")
        assert (clinic / "bern").is_dir()
        (tmp_path / "file").write_text("x")
        with pytest.raises(DataError, match="is kept"):
            folders.init(tmp_path / "file", ["a"], "a.org", 1, b"")
        with pytest.raises(DataError, match="no folder"):
            folders.init(tmp_path / "no" / "new", ["a"], "a.org", 1, b"")
        (tmp_path / "empty").mkdir()
        folders.init(tmp_path / "empty", ["a"], "::1", 1, b"")
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]

    @pytest.mark.parametrize(
        "text",
        ["", "[]", "{}", '{"format": 1, "kind": "server"}', '{"format": 2, "kind": "site"}',
         '{"format": 1, "kind": "site", "name": 3, "host": "h", "port": 1, "app": ""}'],
    )  # fmt: skip
    def test_settings_of_others_are_refused(self, clinic, text):
        (clinic / "bern" / "settings.json").write_text(text)
        with pytest.raises(FederationError, match="settings.json"):
            folders.SiteSettings.load(clinic / "bern")
        with pytest.raises(FederationError, match="federation init"):
            folders.ServerSettings.load(clinic / "lyon")


@pytest.fixture
def tls_server():
    """Serve TLS handshakes with a folder's certificate, on a free port; folder -> port."""
    listeners = []

    def start(folder, host="127.0.0.1"):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "server.crt", folder / "server.key")
        listener = socket.create_server((host, 0))
        listeners.append(listener)

        def serve():
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                try:
                    tls.wrap_socket(plain, server_side=True).close()
                except OSError:
                    plain.close()

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    yield start
    for listener in listeners:
        listener.close()


class TestCertificates:
    def test_the_server_is_known_by_its_host_and_on_its_own_machine(self, clinic, tls_server):
        port = tls_server(clinic / "server")
        assert processes.answers("127.0.0.1", port, clinic / "bern" / "ca.crt")
        assert processes.answers("localhost", port, clinic / "bern" / "ca.crt")

    def test_a_name_that_the_certificate_does_not_hold_for(self, clinic, tls_server):
        port = tls_server(clinic / "server", "127.0.0.2")
        with pytest.raises(FederationError, match="certificate does not hold"):
            processes.answers("127.0.0.2", port, clinic / "bern" / "ca.crt")

    def test_another_authority_is_refused(self, clinic, tls_server, tmp_path):
        folders.init(tmp_path / "other", ["bern"], "127.0.0.1", 9092, b"")
        port = tls_server(tmp_path / "other" / "server")
        with pytest.raises(FederationError, match="not the one that this folder was made for"):
            processes.answers("127.0.0.1", port, clinic / "bern" / "ca.crt")

    @pytest.mark.parametrize("content", [None, b"", b"no certificate"])
    def test_without_an_authority_there_is_nothing_to_wait_for(self, clinic, content):
        authority = clinic / "bern" / "ca.crt"
        authority.unlink() if content is None else authority.write_bytes(content)
        with pytest.raises(FederationError, match="must be the certificate of an authority"):
            processes.answers("127.0.0.1", processes.free_port(), authority)

    def test_nobody_there_is_no_error(self, clinic):
        port = processes.free_port()
        assert not processes.answers("127.0.0.1", port, clinic / "bern" / "ca.crt")
        assert not processes.wait_until_answers(
            "127.0.0.1", port, clinic / "bern" / "ca.crt", seconds=0.1
        )


class TestGate:
    """Only what sites need passes the port that sites reach."""

    def scope(self, path, port=9092, headers=((b"content-length", b"5"),), kind="http"):
        return {"type": kind, "path": path, "server": ("0.0.0.0", port), "headers": headers}

    @pytest.mark.parametrize(
        ("path", "headers", "status"),
        [
            ("/v1/fleet/pull-messages", [(b"content-length", b"5")], None),
            ("/v1/fleet/push-object", [(b"Content-Length", str(MAX_REQUEST).encode())], None),
            ("/v1/fleet/push-object", [(b"content-length", str(MAX_REQUEST + 1).encode())], 413),
            ("/v1/fleet/push-object", [(b"transfer-encoding", b"chunked")], 411),
            (
                "/v1/fleet/push-object",
                [(b"content-length", b"5"), (b"Transfer-Encoding", b"chunked")],
                411,
            ),
            ("/v1/fleet/push-object", [(b"content-length", b"-5")], 411),
            ("/v1/fleet/push-object", [(b"content-length", b"5")] * 2, 411),
            ("/v1/control/start-run", [(b"content-length", b"5")], 404),
            ("/v1/control/register-node", [(b"content-length", b"5")], 404),
            ("/v1/runtime/acquire-task", [(b"content-length", b"5")], 404),
            ("/docs", [], 404),
            ("/health", [], 404),
            ("//v1/fleet/x", [], 404),
        ],
    )
    def test_who_passes(self, path, headers, status):
        gate = Gate(None, private_port=1)
        assert gate.refusal(self.scope(path, headers=headers)) == status
        assert gate.refusal(self.scope(path, port=1, headers=headers)) is None

    def test_nothing_but_http(self):
        gate = Gate(None, private_port=1)
        assert gate.refusal(self.scope("/v1/fleet/x", kind="websocket")) == 404
        assert gate.refusal({"type": "lifespan"}) is None

    def test_a_refusal_is_an_answer(self):
        sent = []

        async def send(message):
            sent.append(message)

        async def app(scope, receive, send):
            sent.append("through")

        gate = Gate(app, private_port=1)
        asyncio.run(gate(self.scope("/v1/control/start-run"), None, send))
        assert [message.get("status") for message in sent] == [404, None]
        asyncio.run(gate(self.scope("/v1/control/start-run", port=1), None, send))
        assert sent[-1] == "through"

    def test_a_key_takes_over_from_a_process_that_was_killed(self):
        calls = []
        state = SimpleNamespace(
            activate_node=lambda node, interval: calls.append(("on", node, interval)) or True,
            deactivate_node=lambda node: calls.append(("off", node)),
        )
        take_over(state)
        assert state.activate_node(7, 30.0) is True
        assert calls == [("off", 7), ("on", 7, 30.0)]

    def test_a_question_is_delivered_until_it_is_confirmed(self):
        """Flower's own in-memory state; a site confirms by having the server forget the content."""
        state = InMemoryLinkState(NoOpFederationManager(), InMemoryObjectStore())
        state._check_stored_messages = lambda numbers: None  # there is no run, nor a federation
        questions = [numbered_question(node) for node in (7, 8)]
        for question in questions:
            state.message_ins_store[question.metadata.message_id] = question
            state.object_store.preregister(1, get_object_tree(question))
        deliver_until_confirmed(state)
        assert state.get_message_ins(node_id=8, limit=None) == questions[1:]
        for _ in range(2):
            assert state.get_message_ins(node_id=7, limit=1) == questions[:1]
        state.object_store.delete(questions[0].metadata.message_id)
        assert state.get_message_ins(node_id=7, limit=1) == []
        assert questions[1].metadata.delivered_at  # what one site does is nothing to another


def numbered_question(node):
    question = Message(RecordDict(), dst_node_id=node, message_type="query.summary")
    question.metadata.__dict__["_message_id"] = question.object_id
    return question


class TestLeash:
    """What a SuperNode may fetch and send."""

    def conversation(self, messages):
        """Send messages over a leashed connection; what arrives at the server's end."""
        arrived = []

        def send(message, tree, seconds):
            arrived.append(message)
            return {message.metadata.message_id}, "session"

        def push(run, session, number, content):
            arrived.append(content)

        @contextmanager
        def connect():
            fab = Fab("hash", b"content", {})
            yield 1, None, send, None, lambda number, run: fab, None, push, None

        with supernode.leashed(connect) as line:
            results = [line[2](message, None, 0.1) for message in messages]
            assert line[4]("hash", 1).verifications["valid_license"]
        return arrived, results

    def test_an_error_leaves_as_a_number(self):
        question = Message(RecordDict(), dst_node_id=1, message_type="query.summary")
        question.metadata.__dict__["_message_id"] = "m"
        error = Message(Error(2, "patient 4711 in /home/ada"), reply_to=question)
        answer = Message(RecordDict(), reply_to=question)
        arrived, results = self.conversation([error, answer])
        assert b"4711" not in b"".join(x for x in arrived if isinstance(x, bytes))
        assert (arrived[0].error.code, arrived[0].error.reason) == (2, "")
        assert arrived[0].metadata.reply_to_message_id == "m"
        assert arrived[-1] is answer
        assert results[0] == (set(), "session")  # its content is already sent
        # under another number, which Flower must not look for in its own memory
        assert arrived[0].metadata.message_id != error.metadata.message_id == ""


class TestPatience:
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
        """Flower's own module, but for what talks to the server."""
        self.sent = []
        loop = SimpleNamespace(
            _insert_message=start_client_internal._insert_message,
            _pull_and_store_message=lambda state: None,
            _push_messages=lambda state: self.sent.extend(state.get_messages_legacy(is_reply=True)),
        )
        supernode.patient(loop)
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

    def end(self, state, how=SubStatus.COMPLETED):
        assert state.finish_task(self.task, how, "")

    def told(self):
        return [m.error.code if m.has_error() else "an answer" for m in self.sent]

    def test_an_answer_is_sent_when_it_is_whole(self, state, loop, monkeypatch):
        slept = []

        def meanwhile(seconds):
            slept.append(seconds)
            if len(slept) == 1:
                self.parts = self.announce(state)
            elif self.parts:
                number, part = self.parts.popitem()
                state.object_store.put(number, part.deflate())
            assert not self.sent

        monkeypatch.setattr(supernode, "sleep", meanwhile)
        loop._push_messages(state=state)
        assert self.told() == ["an answer"]
        assert len(slept) == 4  # announced, then a message, a record and a record within it

    @pytest.mark.parametrize("announced", [False, True])
    def test_an_app_that_ended_without_one_is_told(self, state, loop, announced):
        if announced:
            self.announce(state)
        self.end(state, SubStatus.FAILED)
        loop._push_messages(state=state)
        assert self.told() == [8]
        assert self.sent[0].metadata.reply_to_message_id == self.question.metadata.message_id

    def test_so_is_one_whose_heart_stopped(self, state, loop):
        state.task_token_store[self.task].active_until = datetime.now(UTC)
        loop._push_messages(state=state)
        assert self.told() == [8]

    def test_a_question_in_memory_is_not_forgotten(self, state, loop):
        assert loop._pull_and_store_message(state=state) is not None
        state.delete_messages()
        assert loop._pull_and_store_message(state=state) is None

    def test_without_what_starts_apps_the_process_ends(self, monkeypatch):
        ended = threading.Event()
        monkeypatch.setattr(supernode, "leave", ended.set)
        process = supernode.watched(["sleep", "600"])
        assert not ended.wait(0.2)
        process.kill()
        assert ended.wait(30)

    def test_nor_without_a_thread_that_failed(self, monkeypatch):
        ended = threading.Event()
        monkeypatch.setattr(supernode, "leave", ended.set)
        monkeypatch.setattr(threading, "excepthook", supernode.give_up)
        ending = threading.Thread(target=sys.exit)
        ending.start()
        ending.join()
        assert not ended.is_set()  # it just ended
        threading.Thread(target=lambda: 1 / 0).start()
        assert ended.wait(30)

    def test_a_port_that_is_taken_is_no_refusal(self, clinic):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            arguments = str(clinic / "bern"), str(taken.getsockname()[1])
            with processes.running(
                "fedjigsaw.flower.supernode", *arguments, folder=clinic / "bern"
            ) as process:
                assert process.wait(60) not in (None, processes.NEVER_CONNECTED)
        assert "address already in use" in (clinic / "bern" / "flower.log").read_text()

    def test_flower_has_what_is_replaced(self):
        for name in ("_pull_and_store_message", "_push_messages", "_insert_message", "_verify_fab"):
            assert callable(getattr(start_client_internal, name))
        assert start_client_internal.subprocess.Popen


class TestProcesses:
    def test_a_group_is_ended_as_a_whole(self, tmp_path, monkeypatch):
        script = "import subprocess as s, sys, time\n"
        script += "print(s.Popen(['sleep', '600']).pid, flush=True)\ntime.sleep(600)\n"
        (tmp_path / "with_child.py").write_text(script)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        log = tmp_path / "flower.log"
        with processes.running("with_child", folder=tmp_path) as process:
            while not log.read_text().strip():
                time.sleep(0.05)
            assert process.poll() is None
        assert process.returncode is not None
        child, deadline = Path(f"/proc/{int(log.read_text())}/stat"), time.monotonic() + 30
        while child.exists() and child.read_text().split()[2] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def test_signals_interrupt(self):
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), processes.stopped_by_signals():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is before

    def test_a_log_is_shown_as_it_grows(self, tmp_path, capsys):
        (tmp_path / "log").write_text("old\n")
        with (
            cli_federation.printed_as_it_grows(tmp_path / "log"),
            (tmp_path / "log").open("a") as f,
        ):
            f.write("new [x]\n")
        assert capsys.readouterr().out == "new [x]\n"

    def test_a_site_gives_up_when_nobody_waits(self, monkeypatch):
        monkeypatch.setattr(Site, "answer", lambda self, question: time.sleep(60))
        question = Question(Broadcast(0, 0), "feca", {"n_clusters": 1}, 0.1)
        with pytest.raises(TimeoutError, match="nobody waits"):
            PunctualSite(Site("a", Path("a.csv"))).answer(question)


class TestJobs:
    def test_a_job_survives(self, tmp_path):
        job = jobs.Job("feca", 4, {"refine": False}, 7, 2, 5.0, 0.0)
        job.save(tmp_path)
        assert jobs.Job.load(tmp_path) == job
        assert job.clusterer().get_params()["refine"] is False

    @pytest.mark.parametrize(
        "options",
        [
            {"seed": -1},
            {"seed": 2**53 + 1},
            {"min_sites": 0},
            {"timeout": 0},
            {"timeout": float("inf")},
            {"wait": -1.0},
            {"method": "none"},
            {"method": "central"},
            {"n_clusters": "auto"},
            {"params": {"color": "red"}},
        ],
    )
    def test_bad_parameters(self, options):
        with pytest.raises(ParameterError):
            jobs.Job(**{"method": "feca", "n_clusters": 4} | options).clusterer()

    def test_no_two_runs_share_a_folder(self, clinic):
        made = {jobs.new_job_folder(clinic / "server") for _ in range(20)}
        assert len(made) == 20
        assert all(jobs.job_folder(clinic / "server", path.name) == path for path in made)

    @pytest.mark.parametrize("name", ["", "..", "../../etc", "20260101-000000-0000000g", "a"])
    def test_a_job_is_a_folder_of_its_own(self, clinic, name):
        with pytest.raises(ParameterError, match="name of a job"):
            jobs.job_folder(clinic / "server", name)

    def test_the_servers_half_leaves_its_result_whatever_happens(self, clinic, monkeypatch):
        home = clinic / "server"
        monkeypatch.setenv(processes.FOLDER, str(home))

        def result_of(job):
            folder = jobs.new_job_folder(home)
            job.save(folder)
            told = context()
            told.run_config["job"] = folder.name
            bundle.make_server_app()(LocalGrid({}), told)
            return jobs.read_result(folder)

        result = result_of(jobs.Job("feca", 4, wait=0.0))
        assert result["exit_code"] == 5
        assert "bern" in result["error"]
        assert "lyon" in result["error"]
        monkeypatch.setattr(bundle, "federate", lambda *a, **k: 1 / 0)
        assert result_of(jobs.Job("feca", 4, wait=0.0)) == {
            "error": "ZeroDivisionError: division by zero",
            "exit_code": 1,
        }

    def test_the_sites_half_finds_its_data(self, tmp_path, monkeypatch):
        (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
        options = {"name": "a", "data": str(tmp_path / "a.csv"), "columns": ["y"], "scaler": None}
        options |= {
            "images": None,
            "min_cluster_size": 1,
            "counts": None,
            "max_rows": 5,
            "drop_missing": False,
        }
        question = Question(Broadcast(0, 0), "feca", {"n_clusters": 1}, 60.0)
        file = load_site(options).answer(question)
        assert file.summary.centers.tolist() == [[3.0]]
        assert file.columns == ("y",)


def test_only_one_at_a_time(tmp_path):
    with (
        processes.alone(tmp_path, "The server"),
        pytest.raises(FederationError, match="already running"),
        processes.alone(tmp_path, "The server"),
    ):
        pass
    with processes.alone(tmp_path, "The server"):
        pass


def test_nothing_is_sent_anywhere_else(tmp_path):
    variables = processes.environment(tmp_path)
    assert variables["FLWR_TELEMETRY_ENABLED"] == "0"
    assert variables["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert variables["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert variables["FLWR_HOME"] == str(tmp_path / "flower")


class TestCommands:
    def run(self, *words):
        return CliRunner().invoke(cli.app, ["federation", *map(str, words)])

    def test_init(self, tmp_path):
        done = self.run("init", tmp_path / "new", "--sites", "a,b", "--host", "10.1.2.3")
        assert done.exit_code == 0, done.output
        assert "goes to b" in done.output
        settings = folders.ServerSettings.load(tmp_path / "new" / "server")
        assert (settings.host, settings.port) == ("10.1.2.3", 9092)

    @pytest.mark.parametrize("verb", ["run", "status"])
    def test_without_a_server(self, clinic, verb, tmp_path):
        more = ["-k", 3, "-o", tmp_path / "model"] if verb == "run" else []
        done = self.run(verb, clinic, *more)
        assert isinstance(done.exception, FederationError)
        assert "No server" in str(done.exception)
        (clinic / "server" / "running.json").write_text('{"control_port": 9}')
        done = self.run(verb, clinic, *more)
        assert "does not answer" in str(done.exception)

    def test_bad_input(self, clinic, tmp_path):
        (tmp_path / "a.csv").write_text("x\n1\n")
        for words in (
            ["server", tmp_path],
            ["site", tmp_path, "--data", tmp_path / "a.csv"],
            ["site", clinic / "bern", "--data", tmp_path / "none.csv"],
            ["site", clinic / "bern", "--data", tmp_path / "a.csv", "--columns", "z"],
            ["site", clinic / "bern", "--data", tmp_path / "a.csv", "--scaler", tmp_path / "a.csv"],
            ["run", clinic, "-k", 0, "-o", tmp_path / "m"],
            ["run", clinic, "-k", "x", "-o", tmp_path / "m"],
            ["run", clinic, "-k", 3, "-o", tmp_path / "m", "--method", "central"],
            ["run", clinic, "-k", 3, "-o", tmp_path / "m", "--min-sites", 3],
            ["run", clinic, "-k", 3, "-o", tmp_path / "m", "-p", "color=red"],
            ["run", clinic, "-k", 3, "-o", tmp_path / "a.csv"],
            ["status", tmp_path],
        ):
            done = self.run(*words)
            own = isinstance(done.exception, FedJigsawError)
            assert (done.exception if own else done).exit_code in (2, 3, 4, 8), words
        assert not (tmp_path / "m").exists()

    def test_the_page_has_no_option_that_is_not_there(self):
        page = (Path(__file__).parents[2] / "docs" / "federation.md").read_text()
        lines = re.findall(r"fedjigsaw federation (\w+ [^`\n]*?)(?: &| \.\.\.)?(?:`|\n)", page)
        verbs = get_command(cli_federation.app).commands
        assert {line.split()[0] for line in lines} == set(verbs)
        for line in lines:
            verb, *words = shlex.split(line)
            verbs[verb].make_context(verb, words)

    def test_without_flower(self, clinic, monkeypatch):
        monkeypatch.setattr(cli_federation.importlib.util, "find_spec", lambda name: None)
        done = self.run("status", clinic)
        assert isinstance(done.exception, ExtraError)
        assert "fedjigsaw[flower]" in str(done.exception)

    @pytest.mark.parametrize(
        ("host", "listen"),
        [
            ("127.0.0.1", "127.0.0.1"),
            ("localhost", "127.0.0.1"),
            ("::1", "::1"),
            ("10.0.0.1", "0.0.0.0"),
            ("fe80::1", "::"),
            ("127.example.org", "0.0.0.0"),
        ],
    )
    def test_where_a_server_listens(self, host, listen):
        assert cli_federation.listen_address(host) == listen


def test_a_report_says_who_is_missing(capsys, tmp_path):
    model = formats.ModelFile(Model([[1.0]], "feca", {}, ("x",)), None, ("bern", "lyon"), 5)
    round_ = {"number": 0, "bytes_up": {"bern": 8, "lyon": 8}, "failures": {"oslo": "it hung"}}
    transcript = {"rounds": [round_]}
    three = ("bern", "lyon", "oslo")
    cli_federation.report(model, transcript, three, tmp_path / "m", as_json=True)
    assert json.loads(capsys.readouterr().out)["missing"] == ["oslo"]
    cli_federation.report(model, transcript, three, tmp_path / "m", as_json=False)
    shown = capsys.readouterr().out
    assert "Without oslo" in shown
    assert "it hung" in shown
    assert "not in every round" not in shown
    cli_federation.report(
        replace(model, partly=("lyon",)), transcript, three, tmp_path / "m", as_json=False
    )
    assert "lyon not in every round" in capsys.readouterr().out
