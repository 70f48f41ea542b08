"""A real federation on this machine: TLS, keys, a server, three sites, intruders and mishaps.

Starting the parts takes long, so the tests share them; before each test, what an earlier one has
ended or changed is brought back.
"""

import io
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from fedjigsaw import FuzzyCMeans, Jigsaw, cli
from fedjigsaw.flower import bundle, folders, founding
from fedjigsaw.flower.gate import MAX_REQUEST
from fedjigsaw.flower.patches import build_app
from fedjigsaw.flower.processes import environment, free_port
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.records.journal import Journal
from fedjigsaw.records.ledger import LEDGER, Ledger
from fedjigsaw.sites.aggregate import with_reports
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

SECRET = "patient 4711"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    clinic = Clinic(tmp_path_factory.mktemp("real"), make_shards())
    try:
        clinic.start_site("bern")
        clinic.wait_to_say("bern", "Waiting for the server")  # it may start first
        clinic.start("server", "server", clinic.home)
        clinic.wait_to_say("server", "Press Ctrl-C to end it")
        yield clinic
    finally:
        clinic.end()


@pytest.fixture(autouse=True)
def restored(clinic, monkeypatch, request):
    """Every test begins in the same state, and with the sites' backend in this process."""
    monkeypatch.setenv(*BACKEND)
    clinic.restore(getattr(request.function, "needs", NAMES))


def in_process(clusterer, shards):
    fitted = clusterer.fit_clients(shards)
    model = with_reports(clusterer, fitted.summaries_, fitted.model_)
    return replace(model, feature_names=("age", "dose"))


def test_two_runs_at_once_each_give_their_own_bits(clinic):
    """One round and several, at the same time: neither sees anything of the other."""
    first = clinic.start_run("one", "--seed", 7)
    options = ["--method", "fuzzy", "-p", "n_rounds=1", "--json"]
    code, printed = clinic.run("several", *options)
    assert code == 0, clinic.story(printed)
    assert '"number": 1' in printed
    assert first.wait(PATIENCE) == 0, clinic.output("run one")
    assert "answered oslo" in clinic.output("run one")
    assert "3 sites, 360 rows" in clinic.output("run one")
    inside = {
        "one": Jigsaw(3, random_state=7),  # the default
        "several": FuzzyCMeans(3, n_rounds=1, random_state=0),
    }
    for label, clusterer in inside.items():
        file = formats.load(clinic.folder / label, ModelFile)
        assert file.model == in_process(clusterer, clinic.shards)
        assert (file.clients, file.n_samples) == (NAMES, 360)
    last = CliRunner().invoke(cli.app, ["inspect", str(clinic.home / "bern" / "last.summary")])
    assert "A summary of site 'bern'" in last.stdout


def test_intruders_get_nowhere(clinic, tmp_path):
    port = folders.SiteSettings.load(clinic.home / "bern").port
    # one who knows the authority, and has no key
    no_key = subprocess.Popen(
        [Path(sys.executable).parent / "flower-supernode", "--superlink", f"127.0.0.1:{port}",
         "--host", "127.0.0.1", "--port", str(free_port()),
         "--root-certificates", clinic.home / "bern" / "ca.crt"],
        env=environment(tmp_path) | {"FEDJIGSAW_FOLDER": str(clinic.folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    clinic.parts["no key"] = no_key
    # one with a key that the server does not know
    unknown = clinic.folder / "unknown"
    unknown.mkdir()
    for name in ("ca.crt", "settings.json"):
        (unknown / name).write_bytes((clinic.home / "bern" / name).read_bytes())
    key = ec.generate_private_key(ec.SECP384R1())
    folders.write_secret(
        unknown / "site.key",
        key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
    )
    clinic.start_site("unknown", unknown, clinic.folder / "bern.csv")
    # one who was made for a server of another authority
    founding.init(clinic.folder / "other", ["foreign"], "127.0.0.1", port, bundle.build())
    clinic.start_site("foreign", clinic.folder / "other" / "foreign", clinic.folder / "bern.csv")
    assert clinic.parts.pop("foreign").wait(PATIENCE) == 8
    assert "is not the server of this federation" in clinic.output("foreign").replace("\n", " ")
    assert clinic.parts.pop("unknown").wait(PATIENCE) == 8
    assert "does not know this site's key" in clinic.output("unknown").replace("\n", " ")
    assert no_key.wait(PATIENCE) != 0
    assert b"Failed to initialize the connection" in no_key.stdout.read()
    done = CliRunner().invoke(cli.app, ["federation", "status", str(clinic.home)])
    assert done.output.count(": connected") == 3, done.output


def test_the_port_of_the_sites_serves_sites_alone(clinic):
    settings = folders.SiteSettings.load(clinic.home / "bern")
    trust = ssl.create_default_context(cafile=clinic.home / "bern" / "ca.crt")
    control = json.loads((clinic.home / "server" / "running.json").read_text())["control_port"]
    with httpx.Client(verify=trust, trust_env=False) as client:

        def status(port, path, **options):
            return client.post(f"https://127.0.0.1:{port}{path}", **options).status_code

        for path in ("/v1/control/list-nodes", "/v1/control/start-run", "/v1/runtime/acquire-task"):
            assert status(settings.port, path) == 404
            assert status(control, path) != 404
        assert status(settings.port, "/v1/fleet/pull-messages", content=b"x") in (400, 401, 415)
    head = f"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\nContent-Length: {MAX_REQUEST + 1}"
    with (
        socket.create_connection(("127.0.0.1", settings.port), timeout=30) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as line,
    ):
        line.sendall(f"{head}\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 413 ")  # before a single byte was sent


def test_what_fails_at_a_site_stays_there(clinic):
    """Two sites raise, in our half and outside: the third makes a model that says it was alone."""
    clinic.behave("lyon", "raise")
    clinic.behave("oslo", "raise outside")
    code, printed = clinic.run("alone", "--min-sites", 1)
    assert code == 0, clinic.story(printed)
    assert "failed: lyon (its part of the work failed" in printed
    assert "failed: oslo (its half of the app failed; its disk may be full" in printed
    assert "Sites lyon, oslo did not take part." in printed
    assert formats.load(clinic.folder / "alone", ModelFile).clients == ("bern",)
    assert not clinic.in_server(SECRET)
    assert SECRET not in printed
    heard = clinic.mode("server")
    assert heard == "heard 2 None\n"  # the number of oslo's error, and not a word of its text
    for name, log in (("lyon", "site.log"), ("oslo", "flower.log")):
        path = clinic.home / name / log
        wait_for(lambda path=path: SECRET in clinic.since(path), f"the traceback in {path}")
    assert "failed before it could answer" in clinic.since(clinic.home / "oslo" / "site.log")


def test_a_question_that_a_policy_does_not_allow_is_refused_and_in_the_journal(clinic):
    """Attack A needs a model of its own in a later round: one site allows no later rounds."""
    path = clinic.home / "bern" / "policy.toml"
    path.write_text(POLICY.replace("rounds = 1000", "rounds = 1"))
    code, printed = clinic.run("refused", "-p", "n_rounds=2", "--min-sites", 2)
    assert code == 0, clinic.story(printed)
    assert "failed: bern (its policy refuses this question" in printed
    assert "rounds are more than" not in printed
    assert formats.load(clinic.folder / "refused", ModelFile).clients == ("lyon", "oslo")
    *_, first, refusal, second, again = Journal(clinic.home / "bern" / "journal.jsonl").records()
    assert [first["round"], second["round"]] == [0, 1]
    for record in (refusal, again):
        assert record["kind"] == "refusal"
        assert record["reason"] == "RefusedError: 2 rounds are more than 1"
    answers = list(Journal(clinic.home / "oslo" / "journal.jsonl").records())
    assert [r["round"] for r in answers if r["kind"] == "answer"][-2:] == [0, 1]


def test_an_interrupted_run_leaves_nothing_and_the_next_one_works(clinic):
    """Even where a question has not arrived yet, where an app ends without a word, and where the
    starters of apps end, at two places.
    """
    clinic.behave("bern", "dawdle")
    clinic.behave("oslo", "mute")
    run = clinic.start_run("stopped")
    clinic.wait_to_say("run stopped", "asked bern")
    wait_for(lambda: clinic.mode("bern") == "dawdles", "bern to take the question in")
    wait_for(lambda: clinic.mode("oslo") == "was mute", "oslo to say nothing")
    assert clinic.interrupt("run stopped") == 130
    assert run.poll() is not None
    clinic.behave("bern", "well")
    assert not (clinic.folder / "stopped").exists()
    for name, starter in {"lyon": b"warm", "server": b"launcher"}.items():
        for number in members(clinic.home / name):
            if b"fedjigsaw.flower." + starter in command_of(number):
                with suppress(ProcessLookupError):  # an app that ended with its starter
                    os.kill(number, signal.SIGKILL)
    clinic.wait_to_say("server", "it is started again")
    clinic.wait_to_say("lyon", "The connection has ended; connecting again.")
    code, printed = clinic.run("again", "--method", "jigsaw", "-k", "auto")
    assert code == 0, clinic.story(printed)
    file = formats.load(clinic.folder / "again", ModelFile)
    assert file.model == in_process(Jigsaw("auto", random_state=0), clinic.shards)


def test_a_run_is_stopped_from_another_shell_even_if_its_method_never_ends(clinic):
    clinic.behave("server", "endless")
    run = clinic.start_run("endless")
    wait_for(lambda: clinic.mode("server") == "computes", "the server to compute")

    def apps():
        names = [Path(f"/proc/{number}/comm") for number in members(clinic.home / "server")]
        return [path for path in names if path.exists() and "flwr-serverapp" in path.read_text()]

    def command(*words):
        done = CliRunner().invoke(cli.app, ["federation", *map(str, words), "--json"])
        assert done.exit_code == 0, clinic.story(done.output)
        return json.loads(done.stdout)

    assert len(apps()) == 1
    (name,) = command("status", clinic.home)["runs"]
    assert command("stop", clinic.home, name)["stopped"] is True
    assert run.wait(PATIENCE) == 130
    text = "The run was stopped by the coordinator."
    assert text in " ".join(clinic.output("run endless").split())
    wait_for(lambda: not apps(), "the app at the server to end")
    folder = clinic.home / "server" / "runs" / name
    assert json.loads((folder / "result.json").read_text())["exit_code"] == 130
    ended = f"run {name} was stopped"
    assert ended in clinic.since(clinic.home / "server" / "server.log")
    assert {path.name for path in folder.iterdir()} == {"job.json", "events.jsonl", "result.json"}
    assert not (clinic.folder / "endless").exists()
    assert command("stop", clinic.home, name)["stopped"] is False
    assert command("status", clinic.home)["runs"] == {}


def test_a_site_runs_no_app_but_its_own(clinic):
    own = clinic.home / "server" / "app.fab"
    handed = own.read_bytes()
    with zipfile.ZipFile(io.BytesIO(handed)) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name[0] != "."}
    files["fedjigsaw_app/client.py"] += b"# now it could do anything\n"
    own.write_bytes(build_app(files))
    try:
        code, printed = clinic.run("other app", "--min-sites", 1)
    finally:
        own.write_bytes(handed)
    assert code == 5, printed
    assert printed.count("it refused the app") >= 3
    clinic.wait_to_say("oslo", "refused an app")  # a log is shown a moment after it is written


@pytest.mark.long
def test_sites_that_are_killed_while_they_send_are_not_waited_for(clinic):
    """One of them is started again, which is noticed at once; the other one after a minute."""
    for name in ("bern", "lyon"):
        clinic.behave(name, "send nothing")
    run = clinic.start_run("begun", "--min-sites", 1, "--timeout", 600)
    for name in ("bern", "lyon"):
        wait_for(lambda name=name: clinic.mode(name) == "sends nothing", f"{name} to send")
        os.killpg(clinic.parts[name].pid, signal.SIGKILL)
        clinic.parts.pop(name).wait()
        wait_for(lambda name=name: not members(clinic.home / name), f"what {name} left behind")
    clinic.behave("lyon", "well")
    clinic.start_site("lyon")
    clinic.wait_to_say("run begun", "failed: lyon (it lost its connection)")
    assert run.poll() is None
    assert run.wait(PATIENCE) == 0, clinic.story(clinic.output("run begun"))
    assert "failed: bern (it lost its connection)" in clinic.output("run begun")
    assert formats.load(clinic.folder / "begun", ModelFile).clients == ("oslo",)


@pytest.mark.long
def test_sites_find_a_server_that_was_started_again(clinic):
    """The server ends in the middle of a run; the sites outlive it."""
    run = clinic.start_run("orphan")
    clinic.wait_to_say("run orphan", "asked oslo")
    assert clinic.interrupt("server") == 0
    assert run.wait(PATIENCE) == 8, clinic.output("run orphan")
    wait_for(lambda: not members(clinic.home / "server"), "what the server left behind")
    clinic.wait_to_say("bern", "the server does not answer; this site goes on trying")
    clinic.start("server", "server", clinic.home)
    wait_for(lambda: "running.json" in os.listdir(clinic.home / "server"), "the server")
    wait_for(lambda: clinic.connected() == list(NAMES), "sites to connect again")
    second = clinic.start("second", "server", clinic.home)
    assert second.wait(PATIENCE) == 8
    assert "already running" in clinic.output("second")


# --------------------------------------------- the tests below end sites, or start others: no test
# ------------------------------------------------- that needs all sites as they were comes after it


def run_of_none(clinic, seconds):
    """A run that no site helps: one hangs, one is killed while it works, one answers garbage."""
    clinic.behave("bern", "hang")
    clinic.behave("lyon", "hang")  # until it is killed: it must not be faster than that
    clinic.behave("oslo", "garbage")
    label = f"quorum{seconds}"
    run = clinic.start_run(label, "--timeout", seconds, "--min-sites", 1)
    clinic.wait_to_say(f"run {label}", "asked lyon")
    clinic.interrupt("lyon", signal.SIGKILL)
    assert run.wait(PATIENCE + seconds) == 5
    assert not (clinic.folder / label).exists()
    wait_for(lambda: not members(clinic.home / "lyon"), "what lyon left behind")
    return " ".join(clinic.output(f"run {label}").split())


def test_too_few_sites_is_an_error_and_no_model(clinic):
    for seconds in clinic.timeouts:
        printed = run_of_none(clinic, seconds)
        late = f"it did not answer within {seconds} s"
        if f"failed: oslo ({late})" not in printed:
            break  # it had the time to answer
        clinic.restore()
    assert "No site answered (3 of 3 failed)" in printed
    assert f"failed: bern ({late})" in printed
    lost = "it lost its connection"  # if the timeout is longer than the server waits for a sign
    assert f"failed: lyon ({late})" in printed or f"failed: lyon ({lost})" in printed
    assert "site 'oslo' failed: its answer is not valid" in printed


@needs("bern", "oslo")
def test_ctrl_c_ends_a_site_and_all_it_started(clinic):
    numbers = {"bern": signal.SIGINT, "oslo": signal.SIGTERM}
    for name, number in numbers.items():
        assert members(clinic.home / name)
        assert clinic.interrupt(name, number) == 0
    for name in numbers:
        wait_for(lambda name=name: not members(clinic.home / name), f"what {name} left behind")
        wait_for(lambda name=name: name not in clinic.connected(), f"{name} to be missed")


@needs()
def test_sites_under_differential_privacy_pay_once_and_stop_at_their_limit(clinic):
    """Two sites, started with --epsilon: a model, the same question again, and one too many."""
    homes = [clinic.home / name for name in ("bern", "lyon")]
    try:
        for home in homes:
            _forget(clinic, home)
            Ledger(home / LEDGER).set_limit(25)
            data = clinic.site_words(home.name)[3]
            words = ("--data", data, "--accept-policy", "--epsilon", 20, "--bounds", "0,100")
            clinic.start(home.name, "site", home, *words)
        for home in homes:
            clinic.wait_to_say(home.name, "connected to the server")
        for label, seed in (("private", 0), ("private again", 1)):
            code, printed = clinic.run(label, "--without", "oslo", "--seed", seed, "--cells", "own")
            assert code == 0, clinic.story(printed)
            assert "Differential privacy at every site: With or without any one row" in printed
            assert [len(Ledger(home / LEDGER).read().releases) for home in homes] == [1, 1]
        model = formats.load(clinic.folder / "private", ModelFile)
        assert (model.clients, model.privacy.epsilon) == (("bern", "lyon"), 20.0)
        assert "Spent on 'bern' so far: epsilon 20" in clinic.since(homes[0] / "site.log")
        code, printed = clinic.run(
            "more", "--without", "oslo", "-p", "n_local_clusters=4", "--cells", "own"
        )
        assert code == 5
        assert "bern (its policy refuses this question" in printed
        assert "budget" not in printed
        for home in homes:
            *_, refusal = Journal(home / "journal.jsonl").records()
            assert refusal["reason"].startswith("BudgetError: The privacy budget of")
    finally:
        for home in homes:
            _forget(clinic, home)


def _forget(clinic, home):
    """End a site, and remove what it remembers: other tests have no limit."""
    if clinic.runs(home.name):
        clinic.interrupt(home.name)
    for name in (LEDGER, "journal.jsonl"):
        (home / name).unlink(missing_ok=True)
    shutil.rmtree(home / "groups", ignore_errors=True)
