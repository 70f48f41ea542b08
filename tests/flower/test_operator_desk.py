"""What a server does for operators over a real connection, and what it does not."""

import json
import signal
import socket
import ssl
import subprocess
import threading
import time
from contextlib import ExitStack

import httpx
import pytest
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.errors import FederationError, MessageError, ParameterError
from fedjigsaw.flower import (
    founding,
    gate,
    jobs,
    operator_client,
    operator_desk,
    operators,
    places,
    resuming,
    status,
)
from fedjigsaw.flower.operator_client import OperatorPlace
from fedjigsaw.flower.operator_door import Allowance
from fedjigsaw.flower.operator_protocol import MAX_JOB, PATH
from fedjigsaw.flower.operator_run import main as do_run
from flower_clinic import COMMAND, PATIENCE, end_with_the_tests, wait_for
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
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = ask(office, folder, "events", {"run": name, "from": 0}).json()
        if found["state"] != "running":
            return found
        time.sleep(0.2)
    raise AssertionError("the run does not end")


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
    assert sorted(path.name for path in model.parent.iterdir()) == [
        "job.json",
        "model",
        "result.json",
    ]
    assert model.parent.parent == elsewhere / "runs"
    kept = office.home / "runs" / model.parent.name
    assert jobs.Job.load(kept) == jobs.Job("feca", 3, without=[])
    assert json.loads((kept / "operator.json").read_text())["operator"] == "anna"


def test_a_folder_may_be_read_only(office, anna, monkeypatch):
    """As a secret of a container; root may write everywhere, so a file is in the way here."""
    runs_are(monkeypatch, FINISHES)
    (anna / "runs").write_text("no folder")
    place = OperatorPlace(anna)
    model, _ = place.run(jobs.Job("feca", 3), lambda event: None, resume=False)
    assert model.stat().st_size == 7_000_000
    del place
    assert not model.exists()


def test_a_job_may_be_large_but_not_too_large(office, anna, monkeypatch):
    """It may hold an earlier model."""
    runs_are(monkeypatch, FINISHES)
    place = OperatorPlace(anna)
    job = jobs.Job("feca", 3, {"n_init": "x" * (MAX_JOB - 1000)})
    monkeypatch.setattr(jobs.Job, "make_method", lambda self: None)
    model, _ = place.run(job, lambda event: None, resume=False)
    assert jobs.Job.load(office.home / "runs" / model.parent.name).params == job.params
    job = jobs.Job("feca", 3, {"n_init": "x" * MAX_JOB})
    with pytest.raises(ParameterError, match="Start the run on the server's machine"):
        place.run(job, lambda event: None, resume=False)


def test_a_request_cannot_be_sent_again(office, anna, monkeypatch):
    runs_are(monkeypatch, WAITS)
    body = json.dumps({"job": JOB, "resume": False}).encode()
    headers = office.signed(anna, "start", body)
    assert office.post("start", headers, body).status_code == 200
    assert office.post("start", headers, body).status_code == 401
    assert len(list((office.home / "runs").iterdir())) == 1


def test_nor_after_a_restart_of_the_server(tmp_path, monkeypatch):
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


def test_a_body_is_the_one_that_was_signed(office, anna):
    signed = office.signed(anna, "start", b"{}")
    answer = office.post("start", signed, b"[]")
    assert answer.status_code == 400
    assert "not the one that was signed" in answer.text


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
    names = [
        "..",
        "../..",
        "../runs",
        "",
        ".",
        None,
        3,
        [],
        {},
        "/etc",
        str(real),
        f"./{real.name}",
    ]
    names += [f"{real.name}/..", f"{real.name}\n", f"{real.name}/", f"{real.name}g", "*"]
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
    others = [
        "secret",
        "operator.json",
        "job.json",
        "../../server.key",
        "../../../server/server.key",
    ]
    for file in [*others, "/etc/passwd", "", ".", None, 3, [], "model/", "checkpoint", "MODEL"]:
        answer = ask(office, anna, "file", {"run": name, "name": file})
        assert (answer.status_code, answer.json()) == (404, {}), file


def test_nothing_is_fetched_from_a_run_that_has_not_ended(office, anna, monkeypatch):
    runs_are(monkeypatch, WAITS)
    name = start(office, anna)
    jobs.write_result(office.home / "runs" / name, error="RuntimeError: patient 4711", exit_code=1)
    assert ask(office, anna, "file", {"run": name, "name": "result.json"}).status_code == 404
    assert ask(office, anna, "events", {"run": name, "from": 0}).json()["files"] == {}


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


def test_runs_in_a_row_are_limited(office, anna, monkeypatch):
    runs_are(monkeypatch, "")
    monkeypatch.setattr(operator_desk, "MAX_RUNS", 99)
    for _ in range(operator_desk.STARTS[1]):
        start(office, anna)
    answer = ask(office, anna, "start", {"job": JOB, "resume": False})
    assert "starts runs too fast" in answer.json()["error"]


def test_ctrl_c_stops_the_run_at_the_server(office, anna, monkeypatch):
    program = 'import sys, pathlib; f = pathlib.Path(sys.argv[1]) / "runs" / sys.argv[2] / "events.jsonl"; '
    program += (
        """f.write_text('{"event": "asked", "site": "bern"}\\n'); import time; time.sleep(60)"""
    )
    runs_are(monkeypatch, program)

    def interrupt(event):
        raise KeyboardInterrupt

    class Impatient(OperatorPlace):
        def _ask(self, client, verb, content):
            if verb == "stop":
                signal.raise_signal(signal.SIGINT)  # Ctrl-C once more
            return super()._ask(client, verb, content)

    with pytest.raises(KeyboardInterrupt):
        Impatient(anna).run(jobs.Job("feca", 3), interrupt, resume=False)
    (run,) = office.desk.runs.values()
    assert run.process.wait(10) != 0


def test_a_run_that_could_not_be_stopped_is_not_told_as_stopped(
    office, anna, monkeypatch, tmp_path
):
    runs_are(monkeypatch, WAITS)
    monkeypatch.setattr(
        operator_desk.OperatorDesk, "status", lambda *about: {"connected": {"a": 1}}
    )
    losing_connections(office, monkeypatch, "stop", 999)

    def interrupt(self, *about):
        raise KeyboardInterrupt

    monkeypatch.setattr(OperatorPlace, "_follow", interrupt)
    words = ["federation", "run", str(anna), "-k", "3", "-o", str(tmp_path / "model")]
    done = CliRunner().invoke(cli.app, words)
    (name,) = office.desk.runs
    assert isinstance(done.exception, FederationError)
    assert f"does not answer (RemoteProtocolError). So it could not be told to stop run {name}" in (
        str(done.exception)
    )
    assert str(done.exception).endswith(f"Stop it later: fedjigsaw federation stop {anna} {name}")
    assert "was stopped" not in done.output + str(done.exception)


def test_ctrl_c_while_a_run_is_being_started_stops_it_too(office, anna, monkeypatch, tmp_path):
    """The operator's process does not know the name of the run yet, and waits for it."""
    runs_are(monkeypatch, WAITS)
    asked, start_run = threading.Event(), operator_desk.OperatorDesk.start

    def slow_start(self, *request):
        asked.set()
        time.sleep(1)
        return start_run(self, *request)

    monkeypatch.setattr(
        operator_desk.OperatorDesk, "status", lambda *about: {"connected": {"a": 1}}
    )
    monkeypatch.setattr(operator_desk.OperatorDesk, "start", slow_start)
    words = [COMMAND, "federation", "run", anna, "-k", "3", "-o", tmp_path / "model"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, preexec_fn=end_with_the_tests)
    try:
        assert asked.wait(PATIENCE)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, b"The run was stopped" in said) == (130, True), said
    (run,) = office.desk.runs.values()
    assert run.process.wait(10) != 0


def test_an_unexpected_error_stays_at_the_server(office, anna, monkeypatch, capfd):
    def fail(*about):
        raise RuntimeError("patient 4711")

    monkeypatch.setattr(operator_desk.OperatorDesk, "status", fail)
    answer = ask(office, anna, "status", {})
    assert (answer.status_code, answer.json()) == (500, {})
    assert "4711" in capfd.readouterr().err
    with pytest.raises(FederationError, match=r"could not answer \(status 500\); see flower.log"):
        OperatorPlace(anna).status()


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
    (folder / "job.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


@pytest.mark.parametrize(
    "change",
    [
        {"method": 3},
        {"method": None},
        {"method": "../feca"},
        {"method": ["feca"]},
        {"n_clusters": "x" * 10_000},
        {"n_clusters": {"a": 1}},
        {"n_clusters": [[3]]},
        {"n_clusters": None},
        {"n_clusters": True},
        {"n_clusters": -1},
        {"n_clusters": 1e308},
        {"params": []},
        {"params": "x"},
        {"params": {"n_init": {"a": []}}},
        {"params": {"__class__": 1}},
        {"params": {"n_clusters": 3}},
        {"seed": "0"},
        {"seed": 1.5},
        {"seed": True},
        {"seed": None},
        {"seed": 10**400},
        {"min_sites": "all"},
        {"min_sites": 0},
        {"timeout": "1"},
        {"timeout": 1e9},
        {"timeout": float("inf")},
        {"timeout": float("nan")},
        {"wait": True},
        {"wait": 1e9},
        {"without": "bern"},
        {"without": [3]},
        {"without": {"bern": 1}},
        {"without": ["nobody"]},
        {"ask": "everybody"},
        {"keep": 1},
        {"retries": -1},
        {"retries": 10**9},
        {"scale": "yes"},
        {"scaler": "/etc/passwd"},
        {"score": "scores"},
        {"assign": None},
        {"like": 3},
        {"color": "red"},
        {"__class__": "x"},
        {"self": 1},
    ],
)
def test_jobs_that_are_none(clinic, change):
    """Each leaves a sentence and the exit code of a wrong parameter, as `run` has."""
    folder = job_folder(clinic / "server", JOB | change)
    do_run(clinic / "server", folder.name, False)
    result = json.loads((folder / "result.json").read_text())
    assert result["exit_code"] == 2, result
    assert len(result["error"]) < 1000
    assert "Traceback" not in result["error"]


def test_the_text_of_an_unexpected_error_stays_at_the_server(clinic, monkeypatch, capfd):
    def fail(*args, **more):
        raise RuntimeError("patient 4711")

    monkeypatch.setattr(jobs, "run_job", fail)
    folder = job_folder(clinic / "server", JOB)
    do_run(clinic / "server", folder.name, False)
    assert "4711" not in (folder / "result.json").read_text()
    assert "4711" in capfd.readouterr().err


def test_nor_does_one_of_the_app_at_the_server_leave(clinic, monkeypatch):
    """The app leaves its text for the coordinator; an operator gets a sentence."""

    def fail(home, job, folder, **more):
        jobs.write_result(folder, error="RuntimeError: patient 4711", exit_code=1)
        return jobs.finished(folder)

    monkeypatch.setattr(jobs, "run_job", fail)
    folder = job_folder(clinic / "server", JOB)
    do_run(clinic / "server", folder.name, False)
    assert "4711" not in (folder / "result.json").read_text()


def test_checkpoints_of_others_are_not_taken(clinic, monkeypatch):
    """Those of the coordinator and of other operators stay; one's own is found."""
    home = clinic / "server"
    found = {}
    for owner in ("anna", "bob", None):
        found[owner] = job_folder(home, JOB)
        (found[owner] / "checkpoint").touch()
        jobs.write_end(found[owner], "lost", 8)
        if owner:
            (found[owner] / "operator.json").write_text(json.dumps({"key": owner}))
    mine = job_folder(home, JOB)
    (mine / "operator.json").write_text('{"key": "bob"}')
    from fedjigsaw.flower.operator_run import _same_owner

    monkeypatch.setattr(resuming, "_check", lambda home, job, checkpoint: None)
    job = jobs.Job("feca", 3)
    assert resuming.unfinished(home, job, _same_owner(mine)) == found["bob"]
    (mine / "operator.json").unlink()
    with pytest.raises(ParameterError, match="no checkpoint"):
        resuming.unfinished(home, job, _same_owner(mine))


# ------------------------------------------------------------------------------ at the operator's


def test_an_error_at_the_server_is_raised_as_itself(office, anna):
    """The real process of a run, without a server of Flower behind it."""
    with pytest.raises(FederationError, match="is not running on this machine"):
        OperatorPlace(anna).run(jobs.Job("feca", 3), lambda event: None, resume=False)


def test_a_run_whose_process_dies_is_an_error(office, anna, monkeypatch):
    runs_are(monkeypatch, "import os; os._exit(9)")
    with pytest.raises(FederationError, match="ended without a result"):
        OperatorPlace(anna).run(jobs.Job("feca", 3), lambda event: None, resume=False)


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


def test_a_server_that_is_not_there_yet_costs_no_run(tmp_path, monkeypatch, quick_waits):
    """It is restarted, say; each wait is told, and twice as long as the last."""
    runs_are(monkeypatch, FINISHES)
    office, told = Office(tmp_path), []
    place = OperatorPlace(office.add("anna"))
    with ExitStack() as stack:

        def tell(event):
            told.append(event)
            if len(told) == 3:
                stack.enter_context(office.open())

        model, _ = place.run(jobs.Job("feca", 3), tell, resume=False)
    assert model.stat().st_size == 7_000_000
    assert [event["event"] for event in told] == ["waiting"] * 3 + ["asked"]
    text = f"The server at 127.0.0.1:{office.port} does not answer. Asking again in 0 s."
    assert (told[0]["site"], told[0]["detail"]) == ("the server", text)


@pytest.mark.parametrize("refused", [True, False])
def test_a_start_that_did_not_arrive_is_sent_again(office, anna, monkeypatch, quick_waits, refused):
    runs_are(monkeypatch, FINISHES)
    request, left, told = httpx.Client.stream, [None] * 2, []
    if refused:
        monkeypatch.setattr(office.door, "requests", Allowance(5.0, 0))

    def fail(client, method, path, **more):
        if left and path.endswith("start") and not refused:
            left.pop()
            raise httpx.ConnectError("no route")
        return request(client, method, path, **more)

    def tell(event):
        told.append(event)
        if len(told) == 2:
            office.door.requests = Allowance(99.0, 99)

    monkeypatch.setattr(httpx.Client, "stream", fail)
    OperatorPlace(anna).run(jobs.Job("feca", 3), tell, resume=False)
    assert [event["event"] for event in told] == ["waiting", "waiting", "asked"]
    assert ("too many requests" if refused else "ConnectError") in told[0]["detail"]
    assert len(list((office.home / "runs").iterdir())) == 1


def test_a_start_that_may_have_arrived_is_not_sent_again(office, anna, monkeypatch):
    """Or there would be two runs."""
    runs_are(monkeypatch, WAITS)
    losing_connections(office, monkeypatch, "start", 1)
    with pytest.raises(FederationError, match=f"may have done so. .* status {anna}` lists runs"):
        OperatorPlace(anna).run(jobs.Job("feca", 3), print, resume=False)
    wait_for(lambda: office.desk.runs, "the run that was started all the same")


def test_a_connection_that_stays_lost_is_an_error(office, anna, monkeypatch):
    runs_are(monkeypatch, WAITS)
    monkeypatch.setattr(operator_client, "PATIENCE", 2.0)
    losing_connections(office, monkeypatch, "events", 999)
    with pytest.raises(FederationError, match="does not answer"):
        OperatorPlace(anna).run(jobs.Job("feca", 3), lambda event: None, resume=False)


def test_clocks_that_differ_are_told(office, anna, monkeypatch):
    from fedjigsaw.flower import operator_protocol

    now = time.time() + 300
    monkeypatch.setattr(operator_client, "time", lambda: now)
    monkeypatch.setattr(operator_client, "sign", lambda *args: late(operator_protocol, args))

    def late(protocol, args):
        right, protocol.time = protocol.time, lambda: now
        try:
            return protocol.sign(*args)
        finally:
            protocol.time = right

    with pytest.raises(FederationError, match="the clocks differ by (299|300|301) s"):
        OperatorPlace(anna).status()


def test_a_server_that_is_not_there_or_is_another(office, anna, tmp_path):
    place = OperatorPlace(anna)
    founding.init(tmp_path / "other", ["a"], "127.0.0.1", 1, b"an app")
    (anna / "ca.crt").write_bytes((tmp_path / "other" / "server" / "ca.crt").read_bytes())
    with pytest.raises(FederationError, match="is not the server of this federation"):
        place.status()
    settings = json.loads((anna / "settings.json").read_text())
    (anna / "settings.json").write_text(json.dumps(settings | {"port": 1}))
    with pytest.raises(FederationError, match="The server at 127.0.0.1:1 does not answer"):
        OperatorPlace(anna).status()


def test_answers_that_are_none(office, anna, monkeypatch):
    """A server that has gone bad makes an error, and no traceback."""
    place = OperatorPlace(anna)
    for answer in ([], {}, {"connected": 3}, "x"):
        monkeypatch.setattr(operator_desk.OperatorDesk, "status", lambda *about, a=answer: a)
        with pytest.raises(MessageError, match="cannot be used"):
            place.status()
    for name in ("..", 3, "../../x"):
        monkeypatch.setattr(operator_desk.OperatorDesk, "start", lambda *args, n=name: n)
        with pytest.raises(MessageError, match="cannot be used"):
            place.run(jobs.Job("feca", 3), lambda event: None, resume=False)
    assert not list((anna / "runs").iterdir())


def test_results_that_are_none(office, anna, monkeypatch):
    for content in ("[]", "{", '{"error": "x"}', '{"error": "x", "exit_code": []}', "{}"):
        runs_are(monkeypatch, FINISHES.replace("json.dumps", f"(lambda x: {content!r})"))
        with pytest.raises(MessageError, match="cannot be used"):
            OperatorPlace(anna).run(jobs.Job("feca", 3), lambda event: None, resume=False)


def test_a_large_answer_is_not_read_to_its_end(office, anna, monkeypatch):
    runs_are(monkeypatch, FINISHES)
    monkeypatch.setattr(operator_client, "MAX_FILE", 1000)
    with pytest.raises(MessageError, match="over 1000 bytes"):
        OperatorPlace(anna).run(jobs.Job("feca", 3), lambda event: None, resume=False)
    assert not list((anna / "runs").rglob("*model*"))
    monkeypatch.setattr(operator_client, "MAX_ANSWER", 10)
    with pytest.raises(MessageError, match="over 10 bytes"):
        OperatorPlace(anna).status()
