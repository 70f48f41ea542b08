"""Rounds of a run besides those of its method: statistics before it, scores and labels after it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import monotonic

import numpy as np
from flwr.app import RecordDict

from fedjigsaw import sites
from fedjigsaw._received import MIN_SITES
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.errors import QuorumError, counted
from fedjigsaw.flower import engine as engines
from fedjigsaw.flower import tasks
from fedjigsaw.flower.agreement import describe_columns
from fedjigsaw.flower.records import Question
from fedjigsaw.flower.retries import RetryingEngine
from fedjigsaw.flower.scaler_values import LARGEST
from fedjigsaw.flower.tasks import Labeling, Result, Scoring, Statistics, Task
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score
from fedjigsaw.messages import Broadcast, Failure
from fedjigsaw.validation import MAX_SAMPLES


def make_scaler(engine: RetryingEngine, min_sites: int | None = None) -> Scaler:
    """Ask all sites for statistics, and return the scaler of their rows together.

    What is impossible beside the statistics of the others is set aside, and told.

    Parameters
    ----------
    min_sites : smallest number of sites that must answer; None is all that were asked.
    """
    found, failures = collect(engine, Statistics(engine.timeout))
    stats = {name: one for name, one in found.items() if isinstance(one, Stats)}
    n_asked = len(found) + len(failures)
    usual = Counter(tuple(sorted(one.columns)) for one in stats.values()).most_common(1)
    for name in sorted(stats):
        columns = sorted(stats[name].columns)
        if tuple(columns) != usual[0][0]:
            del stats[name]
            reason = describe_columns(columns, usual[0][0])
            failures.append(engine.fail(name, reason))
    for name in _unusable(stats):
        del stats[name]
        failures.append(engine.fail(name, engines.INVALID_ANSWER))
    needed = n_asked if min_sites is None else min_sites
    if len(stats) < needed or not stats:
        reasons = "; ".join(f"{failure.client}: {failure.reason}" for failure in failures)
        raise QuorumError(
            f"{counted(len(stats), 'site')} sent statistics, but at least {max(needed, 1)} must: "
            f"{reasons}."
        )
    ordered = {name: stats[name] for name in sorted(stats)}
    scaler, verdicts = sites.merge_statistics(ordered)
    units = sites.unlike_units(ordered, verdicts)
    for column in units:
        engine.tell("warning", "", str(column))
    for verdict in sites.untold(verdicts, units):
        if verdict.reason:
            aside = "its statistics were set aside, since " if verdict.used is None else ""
            engine.tell("warning", verdict.stats.client, f"{aside}{verdict.reason}")
    return scaler


def _unusable(stats: Mapping[str, Stats]) -> list[str]:
    """Return the sites whose numbers no scaler can have, where too few are left to outvote them."""
    if len(stats) >= MIN_SITES:
        return []
    deviations = {name: np.sqrt(s.sum_of_squares / s.n_samples) for name, s in stats.items()}
    found = [
        name
        for name, one in stats.items()
        if max(np.abs(one.mean).max(), deviations[name].max()) > LARGEST / 2
    ]
    left = sorted((one.n_samples, name) for name, one in stats.items() if name not in found)
    while sum(n_rows for n_rows, _ in left) > MAX_SAMPLES:
        found.append(left.pop()[1])
    return found


def collect_scores(engine: RetryingEngine, file: ModelFile, seed: int) -> dict[str, Score]:
    """Ask all sites how well a model fits their rows; return the scores of those that answered."""
    method, shown = engine.method, engine.shown
    question = Question(
        Broadcast(method.total_rounds, seed, file.model, cells=engine.cells),
        method.method,
        method.configuration(),
        engine.timeout,
        engine.columns,
        shown,
        engine.scaler,
    )
    found, _ = collect(engine, Scoring(question, formats.fingerprint(formats.encode(file))))
    return {name: found[name] for name in sorted(found) if isinstance(found[name], Score)}  # type: ignore[misc]


def push_model(engine: RetryingEngine, file: ModelFile) -> list[str]:
    """Send a model to all sites; return those that have labeled their rows by it."""
    found, _ = collect(engine, Labeling(file, engine.timeout))
    return sorted(found)


def collect(engine: RetryingEngine, task: Task) -> tuple[dict[str, Result], list[Failure]]:
    """Ask all sites for a task, some of them again; return results by site, and failures."""
    with engine.only(engine.names):
        found, failures = _once(engine, task)
    for number in range(engine.retries):
        lost = [failure.client for failure in failures if engine.is_lost(failure)]
        if not lost:
            break
        engine.tell_again(lost, number)
        with engine.only(lost):
            more, failed = _once(engine, task)
        found |= more
        failures = [f for f in failures if f.client not in lost] + failed
    return found, failures


def _once(engine: RetryingEngine, task: Task) -> tuple[dict[str, Result], list[Failure]]:
    """Ask once."""
    nodes = engine.connected(engine.wait)
    missing = [name for name in engine.names or () if name not in nodes]
    failures = [engine.fail(name, engines.NOT_CONNECTED) for name in missing]
    verb = tasks.VERBS[type(task)]
    waiting = engine.send(nodes, verb, tasks.pack_task(task), engine.timeout, verb)
    for name in nodes:
        engine.tell("asked", name, verb)
    found: dict[str, Result] = {}
    deadline = monotonic() + engine.timeout
    read: Callable[[str, RecordDict], Result | str] = partial(tasks.unpack_result, task)
    replies: Iterator[tuple[str, Result | str]] = engine.receive(waiting, deadline, read)
    for name, result in replies:
        if isinstance(result, str):
            failures.append(engine.fail(name, result))
        else:
            engine.tell("answered", name, verb)
            found[name] = result
    return found, failures
