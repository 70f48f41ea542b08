from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from doubles import CountsThreads, FailsOnNegative, OneByOne, ShuffledEngine, TwiceEngine
from fedjigsaw import Client, FeCA, FederatedMethod, KFed, ProcessEngine, SerialEngine, run_rounds
from fedjigsaw.errors import MessageError, ParameterError, QuorumError
from fedjigsaw.messages import Broadcast, Failure, Model, Summary


def clients(method, **shards):
    return [Client(name, np.asarray(rows, dtype=float), method) for name, rows in shards.items()]


GOOD = [[0.0], [1.0], [9.0]]
BAD = [[0.0], [-1.0], [9.0]]


class TestClient:
    def test_signs_its_summary(self):
        (client,) = clients(FeCA(2), berlin=GOOD)
        assert client.answer(Broadcast(0, 0)).client == "berlin"

    def test_answer_depends_on_name_seed_and_round_only(self, grid):
        data, _ = grid
        method = FeCA(60, n_init=1)

        def answer(name, seed, number):
            return Client(name, data.X, method).answer(Broadcast(number, seed))

        assert answer("a", 0, 0) == answer("a", 0, 0)
        base = answer("a", 0, 0).centers.tobytes()
        for other in (answer("b", 0, 0), answer("a", 1, 0), answer("a", 0, 1)):
            assert other.centers.tobytes() != base

    @pytest.mark.slow
    @pytest.mark.usefixtures("two_threads")
    @pytest.mark.parametrize("engine", [SerialEngine, ProcessEngine])
    def test_computes_on_one_thread(self, engine):
        with engine(clients(CountsThreads(2), a=GOOD, b=GOOD)) as running:
            for summary in running.ask(Broadcast(0, 0)):
                assert set(summary.tensors["threads"].tolist()) == {1}


class TestEnginesAgree:
    """The same bits, whoever runs the clients and in whatever order they answer."""

    def test_a_new_client_changes_nothing_for_the_others(self, grid):
        data, ids = grid
        method = FeCA(15)
        everyone = [Client(str(m), data.X[ids == m], method) for m in range(5)]
        alone = SerialEngine(everyone[1:2]).ask(Broadcast(0, 0))
        together = SerialEngine(everyone).ask(Broadcast(0, 0))
        assert together[1] == alone[0]


class Ones(FeCA):
    """Changes what a client sends, one client at a time."""

    def summarize(self, X, broadcast, rng):
        return replace(super().summarize(X, broadcast, rng), radii=None, tensors={"ones": [1]})


class Calls(FeCA):
    """Counts calls for many, and may fail in them."""

    sizes = ()
    fails = False

    def summarize_many(self, data, broadcasts, rngs):
        self.sizes += (len(data),)
        if self.fails and len(data) > 1:
            raise ValueError("too many")
        return super().summarize_many(data, broadcasts, rngs)


class TestBatches:
    def test_clients_are_summarized_in_few_calls(self, rng, monkeypatch):
        monkeypatch.setattr("fedjigsaw.engine.BATCH", 10)
        method = Calls(3, random_state=0)
        people = clients(method, **{f"c{i:02}": rng.normal(size=(9, 2)) for i in range(23)})
        replies = SerialEngine(people).ask(Broadcast(0, 1))
        assert method.sizes == (10, 10, 3)
        assert replies == OneByOne(people).ask(Broadcast(0, 1))

    def test_a_call_that_fails_for_nobody_alone_is_an_error_of_the_method(self):
        method = Calls(2)
        method.fails = True
        with pytest.raises(ValueError, match="too many"):
            SerialEngine(clients(method, a=GOOD, b=GOOD)).ask(Broadcast(0, 0))
        assert method.sizes == (2, 1, 1)

    def test_a_subclass_that_changes_summarize_is_asked_one_by_one(self):
        for reply in SerialEngine(clients(Ones(2), a=GOOD, b=GOOD)).ask(Broadcast(0, 0)):
            assert reply.radii is None

    def test_clients_of_different_methods(self):
        mixed = clients(FeCA(2), a=GOOD) + clients(KFed(2), b=GOOD)
        first, second = SerialEngine(mixed).ask(Broadcast(0, 0))
        assert first.radii is not None
        assert second.radii is None


class TestFailures:
    @pytest.mark.parametrize("engine", [SerialEngine, OneByOne, ProcessEngine])
    def test_run_goes_on_with_enough_clients(self, engine):
        method = FailsOnNegative(2, random_state=0)
        people = clients(method, a=GOOD, b=BAD, c=GOOD)
        with engine(people) as running:
            model, transcript, summaries = run_rounds(method, running, seed=0, min_clients=2)
        assert [summary.client for summary in summaries] == ["a", "c"]
        assert transcript.clients == ("a", "c")
        assert transcript.failures == (Failure("b", "RuntimeError: cannot take a negative number"),)
        assert model == run_rounds(method, SerialEngine(people[::2]), seed=0).model

    def test_by_default_all_must_answer(self):
        method = FailsOnNegative(2)
        engine = SerialEngine(clients(method, a=GOOD, b=BAD))
        words = "Only 1 of 2 clients answered, .* 2 must: client 'b' failed: RuntimeError: cannot"
        with pytest.raises(QuorumError, match=words) as caught:
            run_rounds(method, engine, seed=0)
        assert isinstance(caught.value.__cause__, RuntimeError)
        words = "Only 1 of 2 sites answered, but at least 2 must: site 'b' failed"
        with pytest.raises(QuorumError, match=words):
            run_rounds(method, engine, seed=0, called="site")

    @pytest.mark.parametrize("engine", [SerialEngine, OneByOne, ProcessEngine])
    def test_a_wrong_configuration_raises_as_itself(self, engine):
        """Not as a quorum that was missed; even if the other client would be enough."""
        method = KFed(2, n_local_clusters={"a": 1})
        with pytest.raises(ParameterError, match="has no entry for client 'b'"):
            method.fit_clients({"a": GOOD, "b": GOOD}, engine=engine, min_clients=1)

    def test_nobody_answers(self):
        method = FailsOnNegative(2)
        engine = SerialEngine(clients(method, a=BAD, b=BAD))
        with pytest.raises(QuorumError, match=r"No client answered \(2 of 2 failed\): client 'a'"):
            run_rounds(method, engine, seed=0, min_clients=1)

    def test_through_the_estimator(self):
        method = FailsOnNegative(2, random_state=0)
        method.fit_clients({"a": GOOD, "b": BAD}, min_clients=1)
        assert [failure.client for failure in method.transcript_.failures] == ["b"]
        data = np.concatenate([GOOD, BAD])
        method.fit(data, clients=["a"] * 3 + ["b"] * 3, min_clients=1)
        assert method.transcript_.clients == ("a",)
        assert method.transcript_.bytes_down == 2 * 16  # all were asked
        assert len(method.labels_) == 6

    def test_the_record_keeps_no_traceback(self):
        """A traceback holds local variables, and so the client's rows."""
        method = FailsOnNegative(2, random_state=0)
        method.fit_clients({"a": GOOD, "b": BAD}, min_clients=1)
        assert method.transcript_.failures[0].cause is None

    def test_a_client_that_answers_twice(self):
        method = FeCA(2)
        with pytest.raises(MessageError, match="replies of client 'a'"):
            run_rounds(method, TwiceEngine(clients(method, a=GOOD)), seed=0)

    def test_clients_with_other_columns(self):
        method = FeCA(1)
        engine = SerialEngine(clients(method, a=[[0.0]], b=[[0.0, 1.0]]))
        with pytest.raises(MessageError, match="client 'b'"):
            run_rounds(method, engine, seed=0)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"min_clients": 3}, "at most the number of clients asked, 2"),
            ({"min_clients": 0}, "min_clients"),
            ({"n_rounds": 0}, "n_rounds"),
        ],
    )
    def test_bad_options(self, options, words):
        method = FeCA(2)
        with pytest.raises(ParameterError, match=words):
            run_rounds(method, SerialEngine(clients(method, a=GOOD, b=GOOD)), seed=0, **options)


class Counter(FederatedMethod):
    """A method that hands a number back and forth: each round, the server adds up the replies."""

    sends = ()

    def summarize(self, X, broadcast, rng):
        known = 0.0 if broadcast.model is None else broadcast.model.centers[0, 0]
        return Summary(n_samples=len(X), centers=[[known + 1]])

    def aggregate(self, summaries, broadcast, rng):
        return Model([[sum(summary.centers[0, 0] for summary in summaries)]])


class Recorder(Counter):
    """Keeps what reaches the server."""

    def aggregate(self, summaries, broadcast, rng):
        self.names = [summary.client for summary in summaries]
        self.draws = [*getattr(self, "draws", []), int(rng.integers(2**60))]
        self.threads = {library["num_threads"] for library in threadpool_info()}
        return super().aggregate(summaries, broadcast, rng)


@pytest.mark.usefixtures("two_threads")
def test_the_server_sees_replies_by_name_on_one_thread_with_a_stream_per_round():
    method = Recorder()
    people = clients(method, b=GOOD, c=GOOD, a=GOOD)
    run_rounds(method, ShuffledEngine(people), seed=0, n_rounds=2)
    assert method.names == ["a", "b", "c"]
    assert method.threads == {1}
    again = Recorder()
    run_rounds(again, SerialEngine(people), seed=0, n_rounds=2)
    assert again.draws == method.draws
    assert len(set(method.draws)) == 2
    run_rounds(again, SerialEngine(people), seed=1)
    assert len(set(again.draws)) == 3


def test_rounds_build_on_one_another():
    engine = SerialEngine(clients(Counter(), a=GOOD, b=GOOD))
    model, transcript, summaries = run_rounds(Counter(), engine, seed=0, n_rounds=3)
    assert model.centers[0, 0] == 14  # 2, then 2 * 3, then 2 * 7
    assert [summary.centers[0, 0] for summary in summaries] == [7, 7]  # those of the last round
    assert [r.number for r in transcript.rounds] == [0, 1, 2]
    assert [r.bytes_down for r in transcript.rounds] == [2 * 16, 2 * 24, 2 * 24]


class WithSecret(Counter):
    """A method whose server remembers something that clients must not see."""

    def aggregate(self, summaries, broadcast, rng):
        known = {} if broadcast.model is None else broadcast.model.tensors
        times = known.get("server.times", np.zeros(1)) + 1
        found = super().aggregate(summaries, broadcast, rng)
        return replace(found, tensors={"server.times": times, "open": np.ones(1)})


class Recording(SerialEngine):
    """Keeps what was sent."""

    def ask(self, broadcast):
        self.sent = [*getattr(self, "sent", []), broadcast]
        return super().ask(broadcast)


def test_what_only_the_server_needs_is_not_sent():
    engine = Recording(clients(WithSecret(), a=GOOD, b=GOOD))
    model, transcript, _ = run_rounds(WithSecret(), engine, seed=0, n_rounds=3)
    assert model.tensors["server.times"].tolist() == [3]
    assert [set(one.model.tensors) for one in engine.sent[1:]] == [{"open"}] * 2
    assert [r.bytes_down for r in transcript.rounds] == [2 * one.nbytes for one in engine.sent]


def test_a_run_goes_on_where_it_stopped():
    engine = SerialEngine(clients(Counter(), a=GOOD, b=GOOD))
    whole, _, _ = run_rounds(Counter(), engine, seed=0, n_rounds=3)
    start, _, _ = run_rounds(Counter(), engine, seed=0, n_rounds=1)
    rest, transcript, _ = run_rounds(Counter(), engine, seed=0, n_rounds=2, first=1, model=start)
    assert rest == whole
    assert [r.number for r in transcript.rounds] == [1, 2]
