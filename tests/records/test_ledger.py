"""The ledger of a site: no order of releases, crashes or processes passes its limit unnoticed."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedjigsaw.errors import BudgetError, DataError, MessageError, ParameterError
from fedjigsaw.privacy.dp import epsilon_of, multiplier_for
from fedjigsaw.records.budget import Account, Limit, Release, round_down
from fedjigsaw.records.fingerprints import fingerprint
from fedjigsaw.records.journal import Journal
from fedjigsaw.records.ledger import LEDGER, Ledger, default_path

pytest.importorskip("opendp")
DELTA = 1e-6
ONE = multiplier_for(1.0, DELTA)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / LEDGER)


def spend(ledger, epsilon=1.0, data_set="bern", content="aa", **others):
    """Write down a release; None is one without privacy."""
    multiplier = None if epsilon is None else multiplier_for(epsilon, DELTA)
    return ledger.spend(data_set, content, "summary", multiplier, DELTA, **others)


def kinds(ledger):
    return [record["kind"] for record in Journal(ledger.path).records()]


def test_a_release_is_written_down_in_full(ledger):
    number = ledger.spend("bern", "aa", "round 1", ONE, DELTA, unit="site", to="Anna")
    (release,) = ledger.read().releases
    assert number == release.number == 0
    assert (release.data_set, release.fingerprint, release.what) == ("bern", "aa", "round 1")
    assert (release.to, release.unit, release.multiplier) == ("Anna", "site", ONE)
    assert release.epsilon == pytest.approx(1.0, rel=1e-5)
    assert release.delta == DELTA
    assert release.time.endswith("+00:00")
    assert not release.confirmed
    ledger.confirm(number)
    assert ledger.read().releases[0].confirmed


def test_who_gets_it_is_the_coordinator_unless_told(ledger):
    spend(ledger)
    assert ledger.read().releases[0].to == "the coordinator"


def test_a_release_that_nobody_knows_is_confirmed_without_harm(ledger):
    spend(ledger)
    ledger.confirm(7)
    ledger.confirm(None)
    assert len(ledger.read().releases) == 1


class TestPlace:
    def test_beside_the_data(self, tmp_path):
        assert default_path(tmp_path / "bern.csv") == tmp_path / "privacy-ledger.jsonl"
        assert default_path(Path("bern.csv")) == Path("privacy-ledger.jsonl")

    def test_a_link_leads_to_the_ledger_of_its_target(self, tmp_path):
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "bern.csv").write_text("x\n1\n")
        (tmp_path / "link.csv").symlink_to(tmp_path / "a" / "bern.csv")
        assert default_path(tmp_path / "link.csv") == tmp_path.resolve() / "a" / LEDGER


class TestSum:
    def test_four_releases_with_half_the_noise_of_one(self, ledger):
        for _ in range(4):
            ledger.spend("bern", "aa", "summary", 2 * ONE, DELTA)
        assert ledger.account("bern").spent(DELTA) == pytest.approx(1.0, rel=1e-5)

    def test_both_units_add_up(self, ledger):
        for unit in ("row", "site"):
            ledger.spend("bern", "aa", "summary", ONE * math.sqrt(2), DELTA, unit=unit)
        assert ledger.account("bern").spent(DELTA) == pytest.approx(1.0, rel=1e-5)

    def test_a_release_without_privacy_is_without_limit(self, ledger):
        spend(ledger)
        spend(ledger, None)
        assert ledger.account("bern").spent() == math.inf

    def test_nothing_is_zero(self, ledger):
        assert ledger.account("bern").spent() == 0.0
        assert ledger.account("bern").left() == math.inf


class TestSameData:
    def test_changed_data_of_the_same_name(self, ledger):
        spend(ledger, content="aa")
        assert not ledger.account("bern").changed
        spend(ledger, content="bb")
        account = ledger.account("bern", "cc")
        assert len(account.releases) == 2
        assert account.changed

    def test_a_renamed_copy(self, ledger):
        spend(ledger, data_set="bern", content="aa")
        assert len(ledger.account("copy", "aa").releases) == 1
        assert ledger.account("copy", "aa").names == ("copy", "bern")

    def test_by_way_of_others(self, ledger):
        spend(ledger, data_set="a", content="1")
        spend(ledger, data_set="c", content="3")
        assert len(ledger.account("a", "1").releases) == 1
        spend(ledger, data_set="b", content="3")
        spend(ledger, data_set="b", content="1")
        for name in "abc":
            assert len(ledger.account(name).releases) == 4
        assert len(ledger.read().accounts()) == 1

    def test_other_data_have_their_own_budget(self, ledger):
        spend(ledger, data_set="bern", content="aa")
        spend(ledger, data_set="basel", content="bb")
        assert [a.names for a in ledger.read().accounts()] == [("bern",), ("basel",)]
        assert ledger.account("bern").spent() == pytest.approx(1.0, rel=1e-5)

    def test_a_renamed_copy_does_not_get_around_the_limit(self, ledger):
        ledger.set_limit(1.0, DELTA)
        spend(ledger, data_set="bern", content="aa")
        for name, content in (("bern", "bb"), ("copy", "aa")):
            with pytest.raises(BudgetError):
                spend(ledger, data_set=name, content=content)
        spend(ledger, data_set="basel", content="bb")


class TestLimit:
    def test_the_refusal_says_what_is_spent_and_what_is_left(self, ledger):
        ledger.set_limit(1.2, DELTA)
        spend(ledger)
        left = round_down(ledger.account("bern").left())
        with pytest.raises(BudgetError) as caught:
            spend(ledger)
        assert all(word in str(caught.value) for word in ("'bern'", f"{left:g}", str(ledger.path)))
        assert kinds(ledger) == ["limit", "spent"]
        spend(ledger, left)
        with pytest.raises(BudgetError):
            spend(ledger, 0.1)

    def test_it_may_be_reached_exactly(self, ledger):
        ledger.set_limit(1.0, DELTA)
        spend(ledger, 1.0)
        assert ledger.account("bern").left() == 0.0
        with pytest.raises(BudgetError, match="Nothing is left"):
            spend(ledger, 0.01)

    @pytest.mark.parametrize("n_rounds", [2, 3, 7])
    def test_rounds_that_share_a_budget_fill_it_exactly(self, ledger, n_rounds):
        ledger.set_limit(1.0, DELTA)
        for number in range(n_rounds):
            ledger.spend("bern", "aa", f"round {number}", ONE * math.sqrt(n_rounds), DELTA)
        with pytest.raises(BudgetError):
            spend(ledger, 0.05)

    def test_the_last_one_counts(self, ledger):
        ledger.set_limit(0.5, DELTA)
        ledger.set_limit(2.0, DELTA)
        spend(ledger)
        ledger.set_limit(0.5, DELTA)  # below what is spent
        assert ledger.account("bern").left() == 0.0
        with pytest.raises(BudgetError):
            spend(ledger, 0.01)

    def test_a_data_set_may_have_its_own(self, ledger):
        ledger.set_limit(0.5, DELTA)
        ledger.set_limit(2.0, DELTA, data_set="bern")
        spend(ledger, data_set="bern", content="aa")
        with pytest.raises(BudgetError):
            spend(ledger, data_set="basel", content="bb")

    def test_of_two_names_of_the_same_data_both_limits_hold(self, ledger):
        ledger.set_limit(0.5, DELTA)
        ledger.set_limit(2.0, DELTA, data_set="bern")
        with pytest.raises(BudgetError):
            spend(ledger, data_set="copy", content="aa")
        spend(ledger, data_set="bern", content="aa")
        assert len(ledger.account("copy", "aa").limits) == 2
        assert ledger.account("copy", "aa").left() == 0.0

    def test_a_limit_holds_for_the_content_that_it_was_set_for(self, ledger):
        ledger.set_limit(1.0, DELTA, "bern", "aa")
        with pytest.raises(BudgetError):
            spend(ledger, 1.1, data_set="other", content="aa")
        spend(ledger, 1.0, data_set="other", content="aa")
        for name, content in (("bern", "bb"), ("third", "aa"), ("other", "cc")):
            with pytest.raises(BudgetError):
                spend(ledger, 0.1, data_set=name, content=content)
        spend(ledger, 2.0, data_set="third", content="dd")  # neither name nor content
        (one, two) = ledger.read().accounts()
        assert (set(one.names), two.names) == ({"bern", "other"}, ("third",))

    def test_the_deltas_of_limit_and_release_may_differ(self, ledger):
        ledger.set_limit(1.0, 1e-9)
        with pytest.raises(BudgetError):
            spend(ledger, 1.0)
        spend(ledger, round_down(ledger.account("bern").left(DELTA)))

    def test_a_release_without_privacy_is_refused(self, ledger):
        ledger.set_limit(4.0, DELTA)
        with pytest.raises(BudgetError, match="without noise"):
            spend(ledger, None)
        assert kinds(ledger) == ["limit"]

    def test_no_limit_counts_only(self, ledger):
        assert spend(ledger, None) is None
        assert not ledger.path.exists()
        for _ in range(3):
            spend(ledger, 50.0)
        assert spend(ledger, None) == 3

    def test_after_a_release_without_privacy_a_limit_leaves_nothing(self, ledger):
        spend(ledger)
        spend(ledger, None)
        ledger.set_limit(50.0, DELTA)
        assert ledger.account("bern").left() == 0.0
        with pytest.raises(BudgetError, match="earlier releases have no bound"):
            spend(ledger, 0.1)

    @pytest.mark.parametrize(
        ("epsilon", "delta"), [(0, 1e-6), (-1, 1e-6), (math.inf, 1e-6), (101, 1e-6), (1, 0), (1, 1)]
    )
    def test_values_that_are_no_limit(self, ledger, epsilon, delta):
        with pytest.raises(ParameterError, match="of a limit"):
            ledger.set_limit(epsilon, delta)
        assert not ledger.path.exists()

    def test_a_limit_too_small_for_any_noise(self, ledger):
        with pytest.raises(ParameterError, match="No noise is large enough"):
            ledger.set_limit(1e-300, 1e-300)


@pytest.mark.slow
@given(
    st.sampled_from([(0.5, 1e-9), (1.0, DELTA), (8.0, 1e-4)]),
    st.lists(st.tuples(st.integers(1, 10), st.sampled_from(["row", "site"])), max_size=8),
)
@settings(max_examples=40, deadline=None)
def test_no_sequence_of_releases_passes_the_limit(limit, asked):
    """Releases that take sixteenths of the limit are accepted while they fit, and never else."""
    whole, accepted = multiplier_for(*limit), []
    for share, unit in asked:
        multiplier = whole * math.sqrt(16 / share)
        fits = sum(share for share, _ in accepted) + share <= 16
        account = Account(("a",), tuple(release for _, release in accepted), (Limit(*limit),))
        try:
            account.check(multiplier, DELTA, Path(LEDGER))
        except BudgetError:
            assert not fits
        else:
            assert fits
            values = (len(accepted), "", "a", "aa", "summary", "x", multiplier)
            accepted.append((share, Release(*values, 1.0, DELTA, unit)))
    account = Account(("a",), tuple(release for _, release in accepted), (Limit(*limit),))
    assert account.spent() <= limit[0] * (1 + 1e-9)
    left = 16 - sum(share for share, _ in accepted)
    expected = epsilon_of(whole * math.sqrt(16 / left), limit[1]) if left else 0.0
    assert account.left() == pytest.approx(expected, rel=1e-5, abs=1e-6)


# ------------------------------------------------------------------------- files and processes


def run(program, *words):
    """Run a program as its own process; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


KILLED_EVERYWHERE = """
import os, signal, sys
from pathlib import Path
import numpy as np
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.records.ledger import Ledger
from fedjigsaw.privacy.dp import Noise

traced = ("<string>", "ledger.py", "journal.py", "_locks.py", "budget.py", "noise.py", "atomic.py")

def release(folder):
    ledger = Ledger(folder / "privacy-ledger.jsonl")
    number = ledger.spend("bern", "aa", "summary", 5.0, 1e-6)
    noisy = Noise().add(np.zeros(3, dtype=np.int64), 5.0)
    (folder / "drawn").touch()
    write_whole(folder / "result", noisy.tobytes())
    ledger.confirm(number)
    (folder / "done").touch()

def killed_after(n_lines):
    def trace(frame, event, arg):
        nonlocal n_lines
        if os.path.basename(frame.f_code.co_filename) not in traced:
            return None
        if event == "line":
            if not n_lines:
                os.kill(os.getpid(), signal.SIGKILL)
            n_lines -= 1
        return trace
    return trace

release(Path(sys.argv[1]))  # loads everything
for n_lines in range(100_000):
    folder = Path(sys.argv[1]) / str(n_lines)
    folder.mkdir()
    child = os.fork()
    if not child:
        sys.settrace(killed_after(n_lines))
        release(folder)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(n_lines)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_killed_at_any_line_has_spent_what_it_may_have_released(tmp_path):
    n_lines = int(run(KILLED_EVERYWHERE, tmp_path))
    assert n_lines > 50
    seen = set()
    for i in range(n_lines + 1):
        folder = tmp_path / str(i)
        ledger = Ledger(folder / LEDGER)
        state = tuple((folder / name).exists() for name in ("drawn", "result", "done"))
        releases = ledger.read().releases
        assert len(releases) == 1 or not any(state)
        seen.add((len(releases), *state))
        if i % 10 == 0:  # whatever is left there, the ledger can be used
            ledger.spend("bern", "aa", "summary", 5.0, DELTA)
            assert len(ledger.read().releases) == len(releases) + 1
    # before it, after it, after the noise, after the result, after all
    assert {(0, False, False, False), (1, False, False, False), (1, True, False, False)} < seen
    assert {(1, True, True, False), (1, True, True, True)} < seen


AT_ONCE = """
import os, sys
from pathlib import Path
from fedjigsaw.errors import BudgetError
from fedjigsaw.privacy.dp import multiplier_for
from fedjigsaw.records.ledger import Ledger

ledger = Ledger(Path(sys.argv[1]))
ledger.set_limit(1.0, 1e-6)
noise = multiplier_for(1.0, 1e-6) * 3  # nine of them fill the limit
for process in range(4):
    if not os.fork():
        accepted = 0
        for i in range(6):
            try:
                ledger.confirm(ledger.spend("bern", "aa", f"{process} {i}", noise, 1e-6))
                accepted += 1
            except BudgetError:
                pass
        os._exit(accepted)
print(sum(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(4)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_at_once_neither_pass_the_limit_nor_lose_a_record(ledger):
    assert int(run(AT_ONCE, ledger.path)) == 9
    releases = ledger.read().releases
    assert len(releases) == len({release.what for release in releases}) == 9
    assert all(release.confirmed for release in releases)
    assert ledger.account("bern").spent() <= 1.0 * (1 + 1e-9)


FULL_DISK = """
import resource, sys
from pathlib import Path
from fedjigsaw.errors import DataError
from fedjigsaw.privacy.dp import load_opendp
from fedjigsaw.records.ledger import Ledger

load_opendp()  # an older SciPy writes a file when it is loaded
for word in sys.argv[1:]:
    path, _, room = word.rpartition(":")
    ledger = Ledger(Path(path))
    size = ledger.path.stat().st_size if ledger.path.exists() else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(room), resource.RLIM_INFINITY))
    try:
        ledger.spend("bern", "aa", "summary", 5.0, 1e-6)
    except DataError as error:
        print(error)
    ledger.confirm(0)
"""


def test_a_full_disk_releases_nothing(tmp_path):
    pytest.importorskip("resource")
    new, torn, old = (Ledger(tmp_path / name) for name in ("new", "torn", "old"))
    spend(old)
    said = run(FULL_DISK, f"{new.path}:0", f"{torn.path}:100", f"{old.path}:100").splitlines()
    for ledger, line in zip((new, torn, old), said, strict=True):
        assert line.startswith(f"Cannot write {ledger.path}: file too large. Nothing was released.")
        before = len(ledger.read().releases)
        assert before == (ledger is old)
        assert ledger is new or not ledger.path.read_bytes().endswith(b"\n")
        spend(ledger)
        assert len(ledger.read().releases) == before + 1


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(DataError, match="Cannot write .*no such file.* Nothing was released"):
        spend(Ledger(tmp_path / "none" / LEDGER))


def test_a_folder_that_may_not_be_written(with_modes):
    folder, block = with_modes
    folder.chmod(0o500)
    with block(), pytest.raises(DataError, match="permission denied"):
        spend(Ledger(folder / LEDGER))


def test_a_pipe_is_no_ledger_and_nobody_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / LEDGER)
    for place in (tmp_path, tmp_path / LEDGER):
        with pytest.raises(DataError, match="a folder, a pipe or a device"):
            spend(Ledger(place))


def test_a_torn_last_line_is_no_release(ledger):
    ledger.set_limit(1.0, DELTA)
    before = ledger.path.stat().st_size
    spend(ledger)
    content = ledger.path.read_bytes()
    for cut in (before + 1, before + 30, len(content) - 1):
        ledger.path.write_bytes(content[:cut])
        assert not ledger.read().releases
        spend(ledger)
        assert kinds(ledger) == ["limit", "note", "spent"]
        with pytest.raises(BudgetError):
            spend(ledger)


class TestChanged:
    def check(self, ledger, content, words="was changed"):
        ledger.path.write_bytes(content)
        for act in (spend, Ledger.read, lambda ledger: ledger.set_limit(9.0)):
            with pytest.raises(MessageError, match=words):
                act(ledger)
        assert ledger.path.read_bytes() == content

    def test_a_release_with_more_noise_than_it_had(self, ledger):
        spend(ledger)
        spend(ledger)
        content = ledger.path.read_bytes()
        self.check(ledger, content.replace(b'"multiplier":4.5', b'"multiplier":9.5', 1))

    def test_a_release_that_is_gone(self, ledger):
        for _ in range(3):
            spend(ledger)
        first, _, last = ledger.path.read_bytes().splitlines(keepends=True)
        self.check(ledger, first + last, "does not follow record 0")

    def test_the_journal_of_a_site(self, ledger):
        Journal(ledger.path).add("question", text="hello")
        self.check(ledger, ledger.path.read_bytes(), "record 0 is not one of a privacy ledger")

    @pytest.mark.parametrize(
        "values",
        [
            {"multiplier": float("nan")},
            {"multiplier": -1.0},
            {"multiplier": True},
            {"delta": 2.0},
            {"epsilon": "1"},
            {"unit": "none"},
            {"data_set": None},
            {"what": "\x1b[2J"},
            {"to": "a" * 1000},
        ],
    )
    def test_a_record_that_no_ledger_wrote(self, ledger, values):
        good = {"data_set": "bern", "fingerprint": "aa", "what": "summary", "to": "x"}
        good |= {"multiplier": 5.0, "epsilon": 1.0, "delta": DELTA, "unit": "row"}
        Journal(ledger.path).add("spent", **good)
        assert len(ledger.read().releases) == 1
        ledger.path.unlink()
        Journal(ledger.path).add("spent", **{**good, **values})
        self.check(ledger, ledger.path.read_bytes(), "record 0 is not one of a privacy ledger")

    @pytest.mark.parametrize("content", [b"a file of something else", b"x,y\n1,2\n"])
    def test_a_file_of_something_else_is_not_cut(self, ledger, content):
        ledger.path.write_bytes(content)
        with pytest.raises(MessageError):
            spend(ledger)
        assert ledger.path.read_bytes() == content


@pytest.mark.parametrize("epsilon", [1.0, None])
def test_a_link_to_a_ledger_that_is_not_there_lets_nothing_leave(tmp_path, epsilon):
    """As of a drive that is not connected: there may be a limit."""
    drive = tmp_path / "drive"
    ledger = Ledger(tmp_path / LEDGER)
    ledger.path.symlink_to(drive / "ledger.jsonl")
    for _ in range(2):  # without the folder, then with an empty one
        with pytest.raises(DataError, match="is a link to a ledger that is not there"):
            spend(ledger, epsilon)
        drive.mkdir(exist_ok=True)
    assert not list(drive.iterdir())
    Ledger(drive / "ledger.jsonl").set_limit(4.0)
    assert ledger.exists()


@pytest.mark.parametrize("first", [0, 1])
def test_a_name_is_the_same_however_its_letters_are_written(ledger, first):
    names = ("Z\u00fcrich", "Zu\u0308rich")
    ledger.set_limit(1.0, DELTA, names[first])
    spend(ledger, data_set=names[1 - first], content="aa")
    with pytest.raises(BudgetError, match="Z\u00fcrich"):
        spend(ledger, data_set=names[first], content="bb")
    (account,) = ledger.read().accounts()
    assert (account.names, len(account.releases)) == (names[:1], 1)


def test_real_files_that_were_changed_or_renamed(tmp_path, ledger):
    data = tmp_path / "bern.csv"
    data.write_text("x\n1\n2\n")
    ledger.set_limit(1.0, DELTA)
    spend(ledger, content=fingerprint(data))
    copy = tmp_path / "other.csv"
    copy.write_bytes(data.read_bytes())
    data.write_text("x\n1\n2\n3\n")
    for name, path in (("bern", data), ("other", copy)):
        with pytest.raises(BudgetError):
            spend(ledger, data_set=name, content=fingerprint(path))
    copy.write_text("x\n7\n")
    spend(ledger, data_set="other", content=fingerprint(copy))


@pytest.mark.parametrize("text", ["", "a" * 201, "\x1b[2J", 3, None])
@pytest.mark.parametrize("name", ["data_set", "fingerprint", "what", "to"])
def test_texts_that_are_refused(ledger, name, text):
    texts = {"data_set": "bern", "fingerprint": "aa", "what": "summary", "to": "x", name: text}
    with pytest.raises(DataError, match=f"{name} of a release must be printable"):
        ledger.spend(**texts, multiplier=1.0, delta=DELTA)
    assert not ledger.path.exists()


@pytest.mark.parametrize(
    "values", [{"multiplier": 0.0}, {"multiplier": math.inf}, {"delta": 0}, {"unit": "person"}]
)
def test_promises_that_are_refused(ledger, values):
    promise = {"multiplier": 1.0, "delta": DELTA, "unit": "row", **values}
    with pytest.raises(ParameterError, match="of a release"):
        ledger.spend("bern", "aa", "summary", **promise)
    assert not ledger.path.exists()
