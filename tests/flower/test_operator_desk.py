"""What a server does for operators over a real connection, and what it does not."""

import json
import socket
import ssl
import time

import pytest

from fedjigsaw.errors import FederationError, ParameterError
from fedjigsaw.flower import (
    gate,
    jobs,
    operator_client,
    operator_desk,
    operators,
    places,
    status,
)
from fedjigsaw.flower.operator_client import OperatorPlace
from fedjigsaw.flower.operator_door import Allowance
from fedjigsaw.flower.operator_protocol import MAX_JOB, PATH
from fedjigsaw.flower.operator_run import main as do_run
from flower_clinic import wait_for
from flower_operators import FINISHES, WAITS, Office, runs_are

JOB = {"method": "feca", "n_clusters": 3}


@pytest.fixture
def office(tmp_path):
    with Office(tmp_path).open() as office:
        yield office


@pytest.fixture
def anna(office):
    return office.add("anna")


def ask(office, folder, verb, content, **more):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return office.post(verb, office.signed(folder, verb, body, **more), body)


def start(office, folder, job=JOB):
    return ask(office, folder, "start", {"job": job, "resume": False}).json()["run"]


def wait_until_ended(office, folder, name):
    def events():
        return ask(office, folder, "events", {"run": name, "from": 0}).json()

    wait_for(lambda: events()["state"] != "running", "the run to end")
    return events()


def test_a_run_from_another_machine(office, anna, monkeypatch, tmp_path):
    """The folder is elsewhere; events, result and model arrive, and nothing else does."""
    runs_are(monkeypatch, FINISHES)
    elsewhere = anna.rename(tmp_path / "anna")
    place = places.find_place(elsewhere)
    events = []
    model, transcript = place.run(jobs.Job("feca", 3), events.append, resume=False)
    assert model.read_bytes() == b"a model" * 1000000
    assert transcript == {"rounds": []}
    assert [(event["event"], event["site"]) for event in events] == [("asked", "bern")]
    found = {path.name for path in model.parent.iterdir()}
    assert found == {"job.json", "model", "result.json"}
    assert model.parent.parent == elsewhere / "runs"
    kept = office.home / "runs" / model.parent.name
    assert jobs.Job.load(kept) == jobs.Job("feca", 3, without=[])
    assert json.loads((kept / "operator.json").read_text())["operator"] == "anna"


def test_a_request_cannot_be_sent_again_after_a_restart_of_the_server(tmp_path, monkeypatch):
    """The nonces are gone then, and the word of the server is another."""
    runs_are(monkeypatch, WAITS)
    office = Office(tmp_path)
    anna = office.add("anna")
    body = json.dumps({"job": JOB, "resume": False}).encode()
    with office.open():
        headers = office.signed(anna, "start", body)
    with office.open():
        answer = office.post("start", headers, body)
        assert answer.status_code == 409
        assert answer.json() == {"word": office.desk.word}
        # whoever has the key learns the word, and signs again
        monkeypatch.setattr(
            operator_desk.OperatorDesk, "status", lambda *about: {"connected": {"b": True}}
        )
        assert OperatorPlace(anna).sites([], print) == ["b"]
    assert not list((office.home / "runs").iterdir())


def test_bodies_that_are_none(office, anna):
    bodies = [b"", b"{", b"[]", b"3", b"[" * 100_000, b"\xff\xfe", b'{"job": 1e999}', b"9" * 10_000]
    bodies += [b'{"job": {}}', b'{"job": [], "resume": false}', b'{"job": {}, "resume": 1}']
    bodies.append(b'{"job": [' + b"[]," * 1_000_000 + b"[]]}")
    for body in bodies:
        office.desk.starts = Allowance(1, 1)
        answer = ask(office, anna, "start", body)
        assert (answer.status_code, answer.json()["exit_code"]) == (400, 2), body
    assert not list((office.home / "runs").iterdir())


def test_a_run_is_no_path(office, anna):
    """Not even where the operator's own mark is in the folder that the path leads to."""
    key = office.signed(anna, "file")["fedjigsaw-operator"]
    real = jobs.new_job_folder(office.home)
    for folder in (office.home, office.home / "runs", real):
        (folder / "operator.json").write_text(json.dumps({"key": key}))
        (folder / "model").write_text("a model")
    names = ["..", "../..", "../runs", "", ".", None, 3, [], {}, "/etc", str(real)]
    names += [f"./{real.name}", f"{real.name}/..", f"{real.name}\n", f"{real.name}g", "*"]
    for name in names:
        for verb in ("events", "file", "stop"):
            answer = ask(office, anna, verb, {"run": name, "from": 0, "name": "model"})
            assert (answer.status_code, answer.json()) == (404, {}), (verb, name)
    (real / "checkpoint").touch()
    assert ask(office, anna, "file", {"run": real.name, "name": "model"}).text == "a model"
    wait_for(lambda: not (real / "checkpoint").exists(), "that she has the model")


def test_only_results_can_be_fetched(office, anna, monkeypatch):
    runs_are(monkeypatch, FINISHES)
    name = start(office, anna)
    found = wait_until_ended(office, anna, name)
    assert found["files"].keys() == {"model", "result.json"}
    others = ["secret", "operator.json", "job.json", "../../server.key", "/etc/passwd", "", "."]
    for file in [*others, None, 3, [], "model/", "checkpoint", "MODEL"]:
        answer = ask(office, anna, "file", {"run": name, "name": file})
        assert (answer.status_code, answer.json()) == (404, {}), file


def test_a_run_is_its_operators_own(office, anna, monkeypatch):
    """Neither another operator gets at it, nor one of the same name with a new key."""
    runs_are(monkeypatch, FINISHES)
    name = start(office, anna)
    wait_until_ended(office, anna, name)
    bob = office.add("bob")
    anna.rename(office.clinic / "old")
    operators.remove(office.home, "anna")
    anna = office.add("anna")
    coordinators = jobs.new_job_folder(office.home)
    for folder, run in ((bob, name), (anna, name), (bob, coordinators.name)):
        for verb in ("events", "file", "stop"):
            answer = ask(office, folder, verb, {"run": run, "from": 0, "name": "model"})
            assert (answer.status_code, answer.json()) == (404, {})


def test_a_removed_operator_is_refused_and_the_runs_are_stopped(office, anna, monkeypatch):
    runs_are(monkeypatch, WAITS)
    bob = office.add("bob")
    names = [start(office, anna), start(office, bob)]
    office.desk.stop_removed()
    operators.remove(office.home, "anna")
    assert ask(office, anna, "status", {}).status_code == 412
    with pytest.raises(FederationError, match="does not know the key of operator anna"):
        OperatorPlace(anna).status()
    processes = [office.desk.runs[name].process for name in names]
    office.desk.stop_removed()
    assert processes[0].wait(10) != 0
    assert processes[1].poll() is None
    result = jobs.read_result(office.home / "runs" / names[0])
    assert result["stopped_by"] == "the removal of its operator"


def test_a_run_can_be_stopped_later_by_its_name(office, anna, monkeypatch):
    """By its operator and the coordinator, and nobody else."""
    runs_are(monkeypatch, WAITS)
    monkeypatch.setattr(status, "read_status", lambda home: {"connected": {"bern": True}})
    bob = office.add("bob")
    names = [start(office, anna), start(office, anna)]
    processes = [office.desk.runs[name].process for name in names]
    assert list(OperatorPlace(anna).status()["runs"]) == sorted(names)
    assert OperatorPlace(bob).status()["runs"] == {}
    with pytest.raises(ParameterError, match=f"There is no run '{names[0]}'. `fedjigsaw"):
        OperatorPlace(bob).stop(names[0])
    with pytest.raises(ParameterError, match=f"Did you mean {names[0]}?"):
        OperatorPlace(anna).stop(names[0] + "x")
    assert processes[0].poll() is None

    found = places.find_place(anna).stop(names[0])
    text = "The run was stopped by operator anna."
    by = {"error": text, "stopped_by": "operator anna"}
    assert found == {"run": names[0], "stopped": True, **by}
    assert processes[0].wait(10) != 0
    assert OperatorPlace(anna).stop(names[0]) == {"run": names[0], "stopped": False, **by}
    assert processes[1].poll() is None
    assert places.find_place(office.clinic).stop(names[1])["stopped"]
    assert OperatorPlace(anna).stop(names[1])["stopped_by"] == "the coordinator"
    assert processes[1].wait(10) != 0


def test_runs_at_once_are_limited(office, anna, monkeypatch):
    runs_are(monkeypatch, WAITS)
    for _ in range(operator_desk.MAX_RUNS):
        assert start(office, anna)
    answer = ask(office, anna, "start", {"job": JOB, "resume": False})
    assert answer.status_code == 400
    assert "has 4 runs that have not ended" in answer.json()["error"]
    bob = office.add("bob")
    name = start(office, bob)
    assert ask(office, bob, "stop", {"run": name}).status_code == 200
    assert wait_until_ended(office, bob, name)["state"] == "done"


def connect(office):
    context = ssl.create_default_context(cafile=office.home / "ca.crt")
    plain = socket.create_connection(("127.0.0.1", office.port), timeout=20)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def send_head(office, headers, size):
    """A connection over which the head of a request to start a run was sent, and no body."""
    headers = {**headers, "host": "x", "content-length": str(size)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    end = connect(office)
    end.sendall(f"POST {PATH}start HTTP/1.1\r\n{lines}\r\n".encode())
    return end


def test_huge_bodies_are_not_read(office, anna):
    """The refusal comes before the body."""
    for headers in (office.signed(anna, "start"), {}):
        with send_head(office, headers, MAX_JOB + 1) as end:
            assert end.recv(100).startswith(b"HTTP/1.1 413")

    def parts():
        yield b"{}"

    assert office.post("start", office.signed(anna, "start"), parts()).status_code == 411


def test_slow_bodies_hold_up_nobody(office, anna, monkeypatch):
    """An operator has 16 requests at a time; others are served, and a body must come to its end."""
    monkeypatch.setattr(gate, "BODY_SECONDS", 2.0)
    bob = office.add("bob")
    ends = []
    for _ in range(gate.MAX_AT_ONCE):
        ends.append(send_head(office, office.signed(anna, "start"), 1000))
        ends[-1].sendall(b"{")
    time.sleep(0.3)
    assert ask(office, bob, "events", {"run": ""}).status_code == 404
    began = time.monotonic()
    assert ask(office, anna, "events", {"run": ""}).status_code == 503
    answers = [end.recv(100) for end in ends]
    assert time.monotonic() - began < 15
    # one of them made place for the last connection
    assert sum(answer.startswith(b"HTTP/1.1 408") for answer in answers) >= gate.MAX_AT_ONCE - 1
    assert ask(office, anna, "events", {"run": ""}).status_code == 404
    for end in ends:
        end.close()


# ------------------------------------------------------------------------- the process of a run


def job_folder(home, content):
    folder = jobs.new_job_folder(home)
    (folder / "job.json").write_text(json.dumps(content))
    return folder


NO_JOBS = {
    "method": [3, None, "../feca", ["feca"]],
    "n_clusters": ["x" * 10_000, {"a": 1}, [[3]], None, True, -1, 1e308],
    "params": [[], "x", {"n_init": {"a": []}}, {"__class__": 1}, {"n_clusters": 3}],
    "seed": ["0", 1.5, True, None, 10**400],
    "min_sites": ["all", 0],
    "timeout": ["1", 1e9, float("inf"), float("nan")],
    "wait": [True, 1e9],
    "without": ["bern", [3], {"bern": 1}, ["nobody"]],
    "retries": [-1, 10**9],
    "ask": ["everybody"],
    "keep": [1],
    "scale": ["yes"],
    "scaler": ["/etc/passwd"],
    "score": ["scores"],
    "assign": [None],
    "like": [3],
    "color": ["red"],
    "__class__": ["x"],
    "self": [1],
}


@pytest.mark.parametrize("name", NO_JOBS)
def test_jobs_that_are_none(clinic, name):
    """Each leaves a sentence and the exit code of a wrong parameter, as `run` has."""
    for value in NO_JOBS[name]:
        folder = job_folder(clinic / "server", JOB | {name: value})
        do_run(clinic / "server", folder.name, False)
        result = json.loads((folder / "result.json").read_text())
        assert result["exit_code"] == 2, result
        assert len(result["error"]) < 1000
        assert "Traceback" not in result["error"]


# ------------------------------------------------------------------------------ at the operator's


def losing_connections(office, monkeypatch, verb, times):
    """The server's connections are cut before it answers, so often."""
    original = getattr(operator_desk.OperatorDesk, verb)
    left = [None] * times

    def lose(self, *args):
        if left:
            left.pop()
            office.cut()
        return original(self, *args)

    monkeypatch.setattr(operator_desk.OperatorDesk, verb, lose)
    return left


@pytest.fixture
def quick_waits(monkeypatch):
    monkeypatch.setattr(operator_client, "FIRST_WAIT", 0.01)


def test_a_lost_connection_costs_no_run(office, anna, monkeypatch, quick_waits):
    runs_are(monkeypatch, FINISHES)
    left = [losing_connections(office, monkeypatch, verb, 2) for verb in ("events", "file")]
    model, _ = OperatorPlace(anna).run(jobs.Job("feca", 3), lambda event: None, resume=False)
    assert model.stat().st_size == 7_000_000
    assert left == [[], []]


def test_a_start_that_may_have_arrived_is_not_sent_again(office, anna, monkeypatch):
    """Or there would be two runs."""
    runs_are(monkeypatch, WAITS)
    losing_connections(office, monkeypatch, "start", 1)
    with pytest.raises(FederationError, match=f"may have done so. .* status {anna}` lists runs"):
        OperatorPlace(anna).run(jobs.Job("feca", 3), print, resume=False)
    wait_for(lambda: office.desk.runs, "the run that was started all the same")
