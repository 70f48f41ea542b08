"""Fit every method with every seed, and measure it."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.comparison.contenders import COMMON, Contender, changed, contenders
from fedjigsaw.comparison.measures import fit_and_measure, without_classes
from fedjigsaw.comparison.problems import Problem, make_problem, seeds_of
from fedjigsaw.comparison.result import Comparison
from fedjigsaw.datasets import Dataset
from fedjigsaw.engine import CONFIGURATION_ERRORS
from fedjigsaw.errors import (
    DataError,
    FailedRunsWarning,
    FedJigsawError,
    FewerClustersWarning,
    ParameterError,
    counted,
    shorten,
    warn,
)
from fedjigsaw.io.rows import Row
from fedjigsaw.kernels.backends import VARIABLE
from fedjigsaw.parameters import Rule, integer, is_integer, one_of
from fedjigsaw.report.number import number_values
from fedjigsaw.report.provenance import provenance

# follows the progress over a list: what tqdm.tqdm does
Track = Callable[[Sequence[Any]], Iterable[Any]]

WARM_UP_ROWS = 300
MAX_REASON = 300  # characters of the reason why a run failed
N_JOBS = Rule(
    "an integer >= 1, or -1 for all cores",
    lambda value: is_integer(value) and (value == -1 or integer(1).accepts(value)),
)


def compare(
    methods: Any = None,
    X: Any = None,
    *,
    clients: Any = None,
    y: Any = None,
    n_clusters: int | str | None = None,
    seeds: int | Sequence[int] = 5,
    n_clients: int | None = None,
    n_jobs: int = 1,
    progress: bool | Track = False,
    on_error: str = "record",
    **options: Any,
) -> Comparison:
    """Compare methods on the same data, the same clients and the same seeds.

    All rows are in one place here, which no federation could have: use data that you may pool.

    Parameters
    ----------
    methods : list, or mapping of labels to methods
        Each is a name (``fedjigsaw methods`` lists them), an estimator, a class, or a pair of a
        name or class and parameters, such as ``("jigsaw", {"n_init": 20})``. None is every method
        of the table that supports `n_clusters`.
    X : array or DataFrame of shape (n_samples, n_features), or list of them
        A list, or a mapping of names to tables, has the rows of each client; `clients` is then
        None.
    clients : array of shape (n_samples,), str, callable, list of arrays, or None
        Who has which row: ids; the name of a column of `X`; or, with `X` None, a list of tables.
        A column is preferred to a split of the same name.
        Or how to deal rows, anew for every seed: the name of a split (one of
        ``fedjigsaw.partition.SPLITS``), or a function ``split(X, y, n_clients, rng)`` that returns
        ids. All methods see the same split for the same seed.
    y : array of shape (n_samples,), str or None
        The true class of each row, or the name of a column of `X`, to measure ARI, NMI and purity.
    n_clusters : int, "auto" or None
        Number of clusters, for all methods that do not have one of their own. Estimators have.
    seeds : int or sequence of int
        Number of seeds, from 0 on, or the seeds themselves.
    n_clients, **options :
        Number of clients of a split, 10 by default, and its options, such as ``alpha=0.1`` (0.3 by
        default).
    n_jobs : int
        Number of runs at the same time, in worker processes; -1 is one per core. Results are the
        same, but seconds are longer.
    progress : bool or callable
        Show progress and the time left, or a wrapper of the list of runs such as ``tqdm.tqdm``.
    on_error : {"record", "raise"}
        A method that fails with a seed is recorded with the reason, and the others go on; or its
        error is raised. Wrong parameters are always raised, at once.

    Returns
    -------
    Comparison
        Print it, or ask for `frame`, `summary()`, `significance()` or `plot()`.

    Raises
    ------
    ParameterError
        If a method, a split, or one of their parameters is wrong or missing.
    DataError
        If rows or classes cannot be used, or every run failed.

    Examples
    --------
    >>> import fedjigsaw
    >>> data = fedjigsaw.datasets.load("gaussian-grid")
    >>> found = fedjigsaw.compare(
    ...     ["jigsaw", "kfed"], data.X, y=data.y, clients="dirichlet", n_clusters=15, seeds=2
    ... )
    >>> found.frame[["method", "seed", "n_found"]].values.tolist()
    [['Jigsaw', 0, 15], ['k-FED', 0, 15], ['Jigsaw', 1, 15], ['k-FED', 1, 15]]
    """
    N_JOBS.check("n_jobs", "compare", n_jobs)
    one_of("record", "raise").check("on_error", "compare", on_error)
    chosen, numbers, track = contenders(methods, n_clusters), seeds_of(seeds), _track(progress)
    problem = make_problem(X, clients, y, n_clients, options)
    found = run(chosen, problem, numbers, n_jobs=n_jobs, track=track, on_error=on_error)
    failed = found.failures()
    if failed:
        warn(" ".join(failed), FailedRunsWarning)
    return found


def run(
    chosen: Sequence[Contender],
    problem: Problem,
    seeds: Sequence[int],
    *,
    n_jobs: int = 1,
    track: Track = iter,
    on_error: str = "record",
    title: str | None = None,
) -> Comparison:
    """Fit every method with every seed; return what was measured."""
    ids = {seed: problem.clients(seed) for seed in seeds}  # all of them first: they may fail
    tasks = [
        (contender, problem.data, ids[seed], seed, problem.columns, on_error, seed == seeds[0])
        for seed in seeds
        for contender in chosen
    ]
    if n_jobs == 1:
        for contender in chosen:
            _warm_up(contender, problem.data.X, seeds[0])
    rows = list(_each(_run_once, tasks, n_jobs, track))
    if all("failed" in row for row in rows):
        first = rows[0]
        raise DataError(
            f"Every run failed. {first['method']}, seed {first['seed']}: {first['failed']}"
        )
    rows = _with_ratios(rows, chosen, problem.data, n_jobs, track)
    rows = [{**row, **provenance()} for row in rows]
    rows = rows if problem.has_classes else without_classes(rows)
    words = title or _title(chosen, problem, ids[seeds[0]])
    return Comparison(tuple(rows), tuple(chosen), tuple(seeds), words)


def _warm_up(contender: Contender, X: Floats, seed: int) -> None:
    """Fit a method to few rows, not timed: the first fit loads libraries and compiles code."""
    few = X[:: -(-len(X) // WARM_UP_ROWS)]
    with warnings.catch_warnings(), suppress(Exception):  # the run itself will tell
        warnings.simplefilter("ignore")
        contender.copy(seed).fit(few, clients=np.arange(len(few)) % 2)


def _run_once(
    contender: Contender,
    data: Dataset,
    ids: Any,
    seed: int,
    columns: Sequence[str] | None,
    on_error: str,
    first: bool,
) -> Row:
    """Fit one method with one seed; what goes wrong becomes the field `failed`."""
    row: Row = {"method": contender.label, "params": dict(contender.params), "seed": seed}
    try:
        method = contender.copy(seed)
        privacy = contender.privacy
        if privacy is not None:
            row["epsilon"] = privacy.epsilon
            privacy = replace(privacy, insecure_seed=seed)
        row |= fit_and_measure(method, data, ids, privacy=privacy)
        of_k = number_values(method.model_.with_feature_names(columns))
    except Exception as error:
        if on_error == "raise" or (first and isinstance(error, CONFIGURATION_ERRORS)):
            raise
        return {**row, "failed": _reason(error)}
    return row if of_k is None else {**row, "k": of_k}


def _reason(error: Exception) -> str:
    kind = "" if isinstance(error, FedJigsawError) else f"{type(error).__name__}: "
    words = re.sub(r" at 0x[0-9a-fA-F]+", "", f"{kind}{error}")  # addresses of objects
    return shorten(" ".join(words.split()), MAX_REASON)


def _with_ratios(
    rows: list[Row], chosen: Sequence[Contender], data: Dataset, n_jobs: int, track: Track
) -> list[Row]:
    """Add the objective relative to pooled k-means (`objective_ratio`) and to the best (`ratio`).

    Pooled k-means has the same seed and the same number of clusters: the one that was asked for,
    or, if the method was to find it, the one that it found.
    """
    by_label = {contender.label: contender for contender in chosen}
    pooled: dict[tuple[int, int], float] = {}
    keys: dict[int, tuple[int, int]] = {}  # place of a row -> seed and number of clusters
    for place, row in enumerate(rows):
        if "failed" not in row:
            contender = by_label[row["method"]]
            keys[place] = row["seed"], contender.n_clusters or row["n_found"]
            if _is_reference(contender):
                pooled[keys[place]] = row["inertia"]
    missing = [(data.X, k, seed) for seed, k in sorted(set(keys.values()) - pooled.keys())]
    for (_, k, seed), objective in zip(
        missing, _each(_pooled_objective, missing, n_jobs, track), strict=True
    ):
        pooled[seed, k] = objective
    best: dict[int, float] = {}
    for place, (seed, _) in keys.items():
        best[seed] = min(best.get(seed, np.inf), rows[place]["inertia"])
    return [
        row
        if place not in keys
        else {
            **row,
            "ratio": _ratio(row["inertia"], best[row["seed"]]),
            "objective_ratio": _ratio(row["inertia"], pooled[keys[place]]),
        }
        for place, row in enumerate(rows)
    ]


def _ratio(objective: float, reference: float) -> float | None:
    """Return a ratio; 1 if both are 0, and None if only the reference is."""
    if reference == 0:
        return 1.0 if objective == 0 else None
    return objective / reference


def _is_reference(contender: Contender) -> bool:
    """Whether a method is what others are relative to: pooled k-means as it is by default."""
    from fedjigsaw.methods.central import CentralKMeans

    plain = contender.privacy is None and all(
        name in COMMON for name in changed(contender.estimator)
    )
    return plain and type(contender.estimator) is CentralKMeans


def _pooled_objective(X: Floats, k: int, seed: int) -> float:
    from fedjigsaw.methods.central import CentralKMeans

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewerClustersWarning)
        return CentralKMeans(k, random_state=seed).fit(X).inertia_


def _each(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], n_jobs: int, track: Track
) -> Iterator[Any]:
    """Call a function for every task, here or in workers; results are in the order of the tasks."""
    if not tasks:
        return
    if n_jobs == 1:
        for task in track(tasks):
            yield function(*task)
        return
    from joblib import Parallel, delayed, parallel_config

    setting = os.environ.get(VARIABLE)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs, return_as="generator", batch_size=1)
        results = parallel(delayed(_in_worker)(setting, function, task) for task in tasks)
        for _ in track(tasks):
            yield next(results)


def _in_worker(setting: str | None, function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    if setting is not None:  # workers outlive a change of the environment
        os.environ[VARIABLE] = setting
    else:
        os.environ.pop(VARIABLE, None)
    return function(*task)


def _track(progress: Any) -> Track:
    if progress is True:
        return _shown
    if progress is False or progress is None:
        return iter
    if callable(progress):
        found: Track = progress
        return found
    raise ParameterError(
        f"progress of compare must be True, False or a function such as tqdm; got {progress!r}."
    )


def _shown(items: Sequence[Any]) -> Iterator[Any]:
    """Show progress and the time left on the error stream."""
    from rich.console import Console
    from rich.progress import track

    yield from track(list(items), "Comparing", console=Console(stderr=True), transient=True)


def _title(chosen: Sequence[Contender], problem: Problem, ids: Any) -> str:
    numbers = dict.fromkeys(str(contender.estimator.n_clusters) for contender in chosen)
    split = f" ({problem.split})" if problem.split else ""
    clients = counted(len(np.unique(ids)), "client")
    return f"{len(problem.data.X):,} rows, {clients}{split}, k = {', '.join(numbers)}"
