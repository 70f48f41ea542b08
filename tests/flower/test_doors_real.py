"""Who stands at the doors of a real federation: strangers, thieves, liars, and a revoked site."""

import json
import re
import secrets
import shutil
import signal
import socket
import ssl
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.flower import bundle, folders, patches, processes, records
from fedjigsaw.flower.certificates import load_certificate
from fedjigsaw.flower.site import Site
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.rows import read_rows
from fedjigsaw.io.tables import from_array
from flower_clinic import (
    BACKEND,
    NAMES,
    PATIENCE,
    POLICY,
    Clinic,
    command_of,
    make_shards,
    members,
    needs,
    wait_for,
)
from flower_doubles import unchecked
from flower_rogues import die, in_background, reply, rogue, wait_for_question

ROGUES = ("rome", "turin", "zug")
TOKEN = re.compile(rb"[0-9a-f]{64,}")


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    clinic = Clinic(tmp_path_factory.mktemp("doors"), make_shards(), ROGUES)
    try:
        yield clinic
    finally:
        clinic.end()


@pytest.fixture(autouse=True)
def restored(clinic, monkeypatch, request):
    monkeypatch.setenv(*BACKEND)
    clinic.restore(getattr(request.function, "needs", NAMES))


def name_of(number):
    with suppress(OSError):
        return Path(f"/proc/{number}/comm").read_text().strip()
    return ""


APPS = {"flwr-clientapp", "flwr-serverapp"}  # forked: in all else they look like their parent


def process_of(folder, word):
    """The process of a part of the federation with this word in its command."""
    found = [n for n in members(folder) if word.encode() in command_of(n)]
    (found,) = [n for n in found if name_of(n) not in APPS]
    return found


def events_of(clinic):
    """The events of the latest run."""
    latest = max((clinic.home / "server" / "runs").iterdir())
    return read_rows(latest / "events.jsonl")


def command(clinic, verb, *words):
    done = CliRunner().invoke(cli.app, ["federation", verb, str(clinic.home), *words])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    return done.stdout


def status(clinic):
    return json.loads(command(clinic, "status", "--json"))


# ------------------------------------------------------- on the machines of a site and of the server


def local_api(folder):
    """Address and authority of the API that gives tasks to the processes of apps."""
    if folder.name != "server":
        *_, port, _ = command_of(process_of(folder, "fedjigsaw.flower.supernode"))
        return f"127.0.0.1:{port.decode()}", True, None
    options = dict(pairwise(command_of(process_of(folder, "flower-superexec"))))
    authority = Path(options[b"--root-certificates"].decode()).read_bytes()
    return options[b"--runtime-api-address"].decode(), False, authority


@pytest.mark.parametrize("part", ["server", "bern"])
@pytest.mark.parametrize("secret", [None, b"a guess"])
def test_nobody_takes_a_task_without_the_secret(clinic, part, secret):
    """A process on the same machine, with and without a secret of its own."""
    more = [RuntimeVersionHttpInterceptor("SuperExec")]
    if secret:
        methods = ["/flwr.proto.Runtime/AcquireTask"]
        more.append(SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=methods))
    with RuntimeHttpClient.from_server_address(*local_api(clinic.home / part), more) as client:
        kinds = [TaskType.CLIENT_APP, TaskType.SERVER_APP]
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            client.AcquireTask(AcquireTaskRequest(supported_task_types=kinds))
    kept = clinic.home / "server" / folders.TASK_SECRET  # at a site, nobody has one
    assert kept.stat().st_mode & 0o777 == 0o600


def test_no_token_in_a_process_list_and_a_dead_app_is_missed_at_once(clinic):
    """One app ends abruptly, one waits while its arguments are read. The next run has them all."""
    clinic.behave("bern", "die")
    clinic.behave("lyon", "pause")
    clinic.start_run("short", "--wait", 1, "--min-sites", 1)
    clinic.wait_to_say("run short", "failed: bern (its half of the app ended abruptly)")
    (failed,) = (
        event["time"]
        for event in events_of(clinic)
        if event["event"] == "failed" and event["site"] == "bern"
    )
    assert failed - float(clinic.mode("bern").removeprefix("died ")) < 30  # it was 60
    wait_for(lambda: {name_of(n) for n in members(clinic.folder)} >= APPS, "both apps to run")
    for number in members(clinic.folder):
        assert not TOKEN.search(b"\0".join(command_of(number))), command_of(number)
    clinic.behave("lyon", "well")
    assert clinic.parts.pop("run short").wait(PATIENCE) == 0, clinic.output("run short")
    clinic.behave("bern", "well")
    code, printed = clinic.run("next", "--wait", 1, "--min-sites", 3)
    assert code == 0, clinic.story(printed)
    assert formats.load(clinic.folder / "next", ModelFile).clients == NAMES


def test_nobody_starts_a_run_without_the_secret(clinic, tmp_path):
    """Who can only reach the private port of the server runs no code."""
    home = clinic.home / "server"
    running = home / "running.json"
    assert running.stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    code = (
        f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\napp = None\n".encode()
    )
    files = {"pyproject.toml": bundle.PROJECT.encode(), "LICENSE": b"mine"}
    halves = {f"fedjigsaw_app/{half}.py": code for half in ("__init__", "client", "server")}
    app = patches.build_app({**files, **halves})
    port, authority = (
        json.loads(running.read_text())["control_port"],
        (home / "ca.crt").read_bytes(),
    )
    for headers in ({}, {"fedjigsaw-secret": ""}, {"fedjigsaw-secret": secrets.token_hex(32)}):
        control = patches.Control(port, authority, headers)
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            control.start_run(app, {})
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            control.online()
        control.close()
    time.sleep(3)  # longer than it takes to start an app
    assert not (tmp_path / "ran").exists()


# -------------------------------------------------------------------------------- over the network


def memory_of(number):
    text = Path(f"/proc/{number}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) / 1024


def test_a_stranger_cannot_fill_the_memory(clinic):
    """Sixteen connections offer 60 MB each, without a key."""
    settings = folders.SiteSettings.load(clinic.home / "bern")
    trust = ssl.create_default_context(cafile=clinic.home / "bern" / "ca.crt")
    head = b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
    server = process_of(clinic.home / "server", "fedjigsaw.flower.superlink")
    before = memory_of(server)
    answers, enough = [], threading.Barrier(17)

    def offer():
        with (
            suppress(threading.BrokenBarrierError),
            socket.create_connection(("127.0.0.1", settings.port), timeout=30) as plain,
            trust.wrap_socket(plain, server_hostname="127.0.0.1") as line,
        ):
            line.sendall(head + b"Content-Length: 60000001\r\n\r\n")
            with suppress(OSError):
                for _ in range(60):
                    line.sendall(bytes(1_000_000))
            with suppress(OSError):
                line.settimeout(1)
                answers.append(line.recv(100))
            enough.wait(60)

    threads = [threading.Thread(target=offer) for _ in range(16)]
    for thread in threads:
        thread.start()
    enough.wait(60)  # all have sent what they could, and are still there
    grown = memory_of(server) - before
    for thread in threads:
        thread.join()
    assert grown < 100, f"{grown:.0f} MB"
    assert all(answer.startswith(b"HTTP/1.1 401") for answer in answers)
    assert set(NAMES) <= set(clinic.connected())


def lie(line, rows):
    """Answer with counts that cannot be, under a guard that would explain them."""
    question = wait_for_question(line)
    asked = records.unpack_question(question.content)
    file = Site("turin", from_array(rows, ["age", "dose"])).answer(asked)
    counts = np.full(len(file.summary.centers), 2**29)
    guard = {**file.guard, "min_cluster_size": 2**30}
    spoiled = unchecked(file, summary=unchecked(file.summary, counts=counts), guard=guard)
    reply(line, question, records.pack_answer(spoiled))


def stall(line):
    """Announce an answer, and deliver a small part of it every second; it never ends."""
    question = wait_for_question(line)
    parts = {str(i): ConfigRecord({"x": i}) for i in range(600)}
    reply(line, question, RecordDict(parts), pause=1.0)


def run_of_six(clinic, seconds):
    """A run of which three sites are no help: exit code, what it printed, how long it took."""
    with rogue(clinic.home / "rome") as rome, rogue(clinic.home / "turin") as turin:
        die(clinic.home / "zug")
        wait_for(lambda: len(clinic.connected()) == 6, "all six")
        rows = clinic.shards["oslo"]
        with in_background(stall, rome), in_background(lie, turin, rows):
            code, printed = clinic.run("six", "--timeout", seconds, "--wait", 1, "--min-sites", 3)
            ended = time.time()
    return code, printed, ended - events_of(clinic)[0]["time"]


def test_hanging_lying_and_dead_sites_cost_a_run_neither_time_nor_its_model(clinic):
    """Three of six do not answer: the run keeps its timeout, and makes a model of the others."""
    for seconds in clinic.timeouts:
        code, printed, took = run_of_six(clinic, seconds)
        assert took < 2 * seconds + 10  # rome never ends
        late = f"it did not answer within {seconds} s"
        assert f"failed: rome ({late})" in printed
        assert f"failed: zug ({late})" in printed
        if not any(f"failed: {name} ({late})" in printed for name in (*NAMES, "turin")):
            break  # all that can answer had the time for it
    assert code == 0, clinic.story(printed)
    assert "failed: turin (its answer is not valid)" in printed
    assert formats.load(clinic.folder / "six", ModelFile).clients == NAMES


def offer(line, message):
    """Push a message as a site does; return the session, or None if the server wants none of it."""
    message.metadata.__dict__["_message_id"] = message.object_id
    try:
        wanted, session = line.send(message, get_object_tree(message), 0.1)
    except httpx.HTTPStatusError:
        return None
    return session if wanted else None


def push_whatever_flower_takes(line, taken):
    """Try to have the server keep more than one answer to one question, then give that answer."""
    question = wait_for_question(line)
    run, me = question.metadata.run_id, question.metadata.dst_node_id
    server = question.metadata.src_node_id
    for receiver, what in ((server, "asked the server"), (me, "asked a site")):
        asked = Message(RecordDict(), dst_node_id=receiver, message_type="query.summary")
        asked.metadata.__dict__.update(_src_node_id=server, _run_id=run)
        taken[what] = offer(line, asked)
    first, second, third = (
        Message(RecordDict({"x": ConfigRecord({"x": c})}), reply_to=question) for c in "abc"
    )
    for answer, sender in ((first, me), (second, me), (third, me + 1)):
        answer.metadata.__dict__["_src_node_id"] = sender
    taken["answered for another"] = offer(line, third)
    taken["answered"] = offer(line, first)
    taken["answered again"] = session = offer(line, first)  # an answer of the server may be lost
    taken["answered otherwise"] = offer(line, second)
    second.metadata.__dict__["_message_id"] = first.object_id
    tree = get_object_tree(second)
    tree.object_id = first.object_id
    taken["added to the answer"] = line.send(second, tree, 0.1)[0]
    for number, part in get_all_nested_objects(first).items():
        line.push_object(run, session, number, part.deflate())


def test_a_site_can_push_one_answer_to_its_own_question_and_nothing_else(clinic):
    taken = {}
    with rogue(clinic.home / "rome") as rome:
        wait_for(lambda: "rome" in clinic.connected(), "rome")
        with in_background(push_whatever_flower_takes, rome, taken):
            others = ("--without", "turin", "--without", "zug")
            code, printed = clinic.run("one", *others, "--min-sites", 3)
    assert code == 0, clinic.story(printed)
    assert "failed: rome (its answer is not valid)" in printed, taken
    assert {what for what, session in taken.items() if session} == {"answered", "answered again"}


def test_a_key_that_is_used_from_two_places_is_told_at_both_ends(clinic):
    with rogue(clinic.home / "bern") as twin:

        def told():
            assert twin.receive() is None
            return "this site's key is used from two places at once" in clinic.output("bern")

        wait_for(told, "bern to tell of its twin")
        clinic.wait_to_say("server", "the key of site bern is used from two places at once")
        assert list(status(clinic)["twins"]) == ["bern"]
    printed = command(clinic, "status")
    assert "its key was used from two places at once (127.0.0.1; last seen" in printed
    assert "oslo: connected\n  rome" in printed  # nothing is said of the others


def test_a_revoked_site_is_out_within_ten_seconds_and_stays_out(clinic):
    began = time.monotonic()
    command(clinic, "revoke", "oslo")
    wait_for(lambda: "oslo" not in clinic.connected(), "oslo to be gone")
    with pytest.raises(httpx.HTTPStatusError, match="410"):
        die(clinic.home / "oslo")  # one who has a copy of the key
    assert time.monotonic() - began < max(10, clinic.timeouts[0])  # by the machine's pace
    assert clinic.parts.pop("oslo").wait(PATIENCE) == 8
    said = " ".join(clinic.output("oslo").split())
    assert "no longer accepts the key of site oslo: it was revoked" in said
    assert list(status(clinic)["revoked"]) == ["oslo"]


# ----------------------------------------------------------------- the members change for good


@needs()
def test_a_site_is_added_and_takes_part_and_others_are_removed(clinic):
    command(clinic, "add", "milan")
    (clinic.home / "milan" / "policy.toml").write_text(POLICY)
    clinic.start_site("milan", data=clinic.folder / "oslo.csv")
    clinic.wait_to_say("milan", "connected to the server")
    for name in ("lyon", *ROGUES):
        command(clinic, "remove", name)
    code, printed = clinic.run("two")
    assert code == 0, clinic.story(printed)
    assert formats.load(clinic.folder / "two", ModelFile).clients == ("bern", "milan")
    wait_for(lambda: "site lyon was removed" in clinic.output("server"), "the server to notice")
    with pytest.raises(httpx.HTTPStatusError, match="410"):
        die(clinic.home / "lyon")
    command(clinic, "remove", "milan")
    assert clinic.parts.pop("milan").wait(PATIENCE) == 8
    assert "no longer accepts the key of site milan" in " ".join(clinic.output("milan").split())
    wait_for(lambda: clinic.connected() == ["bern"], "the others to be gone")


@needs()
def test_a_new_key_is_accepted_and_the_old_one_refused(clinic):
    copy = clinic.folder / "copy"
    shutil.copytree(clinic.home / "bern", copy)
    command(clinic, "rekey", "bern")
    wait_for(lambda: "may connect with a new key" in clinic.output("server"), "the new key")
    assert clinic.parts.pop("bern").wait(PATIENCE) == 8
    with pytest.raises(httpx.HTTPStatusError, match="410"):
        die(copy)
    assert clinic.connected() == []
    clinic.start_site("bern")
    wait_for(lambda: clinic.connected() == ["bern"], "bern with its new key")


@needs()
def test_after_a_restart_sites_come_back_without_a_traceback_and_the_revoked_one_does_not(clinic):
    """The server is killed, so that it can tell nobody."""
    clinic.interrupt("server", signal.SIGKILL)
    wait_for(lambda: not members(clinic.home / "server"), "what the server left behind")
    command(clinic, "renew")
    clinic.start("server", "server", clinic.home)
    clinic.wait_to_say("bern", "connected to the server")
    clinic.wait_to_say("bern", "connecting again")
    for text in (clinic.output("bern"), clinic.since(clinic.home / "bern" / "site.log")):
        assert "Traceback" not in text
        assert "Error" not in text
    settings = folders.SiteSettings.load(clinic.home / "bern")
    shown = processes.greet(settings.host, settings.port, clinic.home / "bern" / "ca.crt")
    renewed = load_certificate(clinic.home / "server" / "server.crt").serial_number
    assert int(shown["serialNumber"], 16) == renewed
    clinic.start_site("oslo")
    assert clinic.parts.pop("oslo").wait(PATIENCE) == 8
    assert "oslo: revoked on" in command(clinic, "status")
