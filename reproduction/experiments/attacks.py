"""Attacks on what a site sends: how much of one row they find out, with and without protection.

Each attack is given the benefit of the doubt: where it has several guesses, the best one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from fedjigsaw import Client, Guard, Jigsaw, Privacy
from fedjigsaw.engine import aggregate_round
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.messages import NOISE, OWN, Broadcast, Model, Summary
from fedjigsaw.privacy.summaries import PrivateRound
from reproduction.experiments.audit import Neighbors
from reproduction.studies import Floats, Ints, Row

GUARDS = {
    "nothing": Guard(min_cluster_size=1),
    "guard": Guard(),
    "guard, rounded counts": Guard(counts="rounded"),
}
EPSILONS = (0.5, 1.0, 4.0)
PROTECTIONS = (*GUARDS, *(f"epsilon {epsilon:g}" for epsilon in EPSILONS))
DATA = {"mixture": 6, "overlap": 12, "digits": 10}  # data set -> number of clusters
WIDTHS = {"mixture": 0.15, "overlap": 0.3}  # standard deviation of a Gaussian
N_ROWS, N_COLUMNS = 2000, 4  # of a mixture
PATIENTS = 17  # for each seed
CLOSE = 0.01  # of the range of every column: a row that is so close counts as recovered
FALSE_ALARMS = 0.01
CERTAIN = 100.0  # log likelihood ratio of an attacker who has no doubt
RUNS = 200  # of a private answer, with and without the row
TARGETS, SHADOWS, SITE_ROWS = 6, 16, 100  # of the attacker who knows the population
SITES = 5  # that answer in several rounds


@dataclass(frozen=True)
class Table:
    """Rows, and their public bounds."""

    rows: Floats
    n_clusters: int
    low: float
    high: float

    @property
    def typical(self) -> float:
        """Mean distance between two rows."""
        one, other = default_rng(0).integers(len(self.rows), size=(2, 2000))
        return float(np.linalg.norm(self.rows[one] - self.rows[other], axis=1).mean())

    def within(self, guesses: Floats) -> Floats:
        """Move guesses into the bounds, as any attacker would."""
        return np.asarray(np.clip(guesses, self.low, self.high))

    def close(self, guesses: Floats, rows: Floats) -> np.ndarray:
        """Tell which guesses are close to their row in every column."""
        limit = CLOSE * (self.high - self.low)
        return np.asarray((np.abs(guesses - rows) <= limit).all(axis=-1))


@cache
def table(name: str, seed: int) -> Table:
    """Return a mixture of Gaussians, or scikit-learn's handwritten digits of 64 pixels."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return Table(load_digits().data, DATA[name], 0.0, 16.0)
    rng = default_rng([7, seed])
    centers = rng.uniform(-0.7, 0.7, (DATA[name], N_COLUMNS))
    labels = rng.integers(len(centers), size=N_ROWS)
    rows = centers[labels] + WIDTHS[name] * rng.standard_normal((N_ROWS, N_COLUMNS))
    return Table(np.clip(rows, -1, 1), DATA[name], -1.0, 1.0)


@dataclass(frozen=True)
class Case:
    """One attack on one kind of protection.

    Parameters
    ----------
    data : one of :data:`DATA`.
    protection : one of :data:`PROTECTIONS`.
    n_rounds : of the run that is attacked.
    """

    data: str
    protection: str
    seed: int
    n_rounds: int = 1
    delta: float = 1e-6

    @property
    def table(self) -> Table:
        return table(self.data, self.seed)

    @property
    def method(self) -> Jigsaw:
        return Jigsaw(self.table.n_clusters, n_rounds=self.n_rounds)

    def privacy(self, noise_seed: int = 0) -> Privacy | None:
        """Return the promise, or None if the protection makes none."""
        if self.protection in GUARDS:
            return None
        epsilon = float(self.protection.removeprefix("epsilon "))
        bounds = self.table.low, self.table.high
        return Privacy(epsilon, self.delta, bounds, cells=OWN, insecure_seed=noise_seed)

    def client(self, rows: Floats, noise_seed: int = 0, name: str = "a") -> Client:
        """Return a site with these rows. Every answer needs a noise seed of its own."""
        guard = GUARDS.get(self.protection, GUARDS["nothing"])
        return Client(name, rows, self.method, guard, self.privacy(noise_seed))

    def patients(self) -> Ints:
        """Draw the rows that are attacked."""
        rng = default_rng([1, self.seed])
        return rng.choice(len(self.table.rows), PATIENTS, replace=False)


def attack(attack: str, seed: int, **settings: Any) -> Row:
    """Make one of :data:`ATTACKS`."""
    return ATTACKS[attack](Case(seed=seed, **settings))


# ----------------------------------------------------------- before and after one row was added


def differencing(case: Case) -> Row:
    """Subtract two summaries of a site, before and after one row was added."""
    data, errors, blind, recovered = case.table, [], [], 0
    for i, patient in enumerate(case.patients()):
        row, others = data.rows[patient], np.delete(data.rows, patient, axis=0)
        before, after = (
            case.client(rows, 1000 * case.seed + 2 * i + j).answer(Broadcast(0, case.seed))
            for j, rows in enumerate((others, data.rows))
        )
        guesses = data.within(np.array(list(row_guesses(before, after))))
        errors.append(float(np.linalg.norm(guesses - row, axis=1).min()) / data.typical)
        blind.append(float(np.linalg.norm(others.mean(axis=0) - row)) / data.typical)
        recovered += int(data.close(guesses, row).any())
    middle = {"error": float(np.median(errors)), "blind_error": float(np.median(blind))}
    return {**middle, "recovered": recovered, "patients": PATIENTS}


def row_guesses(before: Summary, after: Summary) -> Iterator[Floats]:
    """Yield what the new row could be: from all sums, and from the center that moved most."""
    sizes, more = np.asarray(before.counts), np.asarray(after.counts)
    yield more @ after.centers - sizes @ before.centers
    nearest = nearest_centers(after.centers, before.centers)[0]
    moved = after.centers - before.centers[nearest]
    j = int((np.abs(moved).sum(axis=1) * more).argmax())
    yield after.centers[j] + (int(more[j]) - 1) * moved[j]


# -------------------------------------------------------------------------------- is a row in it?


def found_out(without: Sequence[float], with_: Sequence[float]) -> Row:
    """Return the advantage at the best threshold in theory, and the share found with few errors."""
    limit = np.quantile(without, 1 - FALSE_ALARMS, method="higher")
    advantage = np.mean(np.array(with_) > 0) - np.mean(np.array(without) > 0)
    return {"advantage": float(advantage), "found": float(np.mean(np.array(with_) > limit))}


def all_but_one(case: Case) -> Row:
    """Tell whether a site holds a row, knowing all its other rows.

    Without noise, the attacker computes both answers and compares. With noise, the attacker has the
    likelihood ratio of all noisy tables, even of those that do not leave.
    """
    if case.privacy() is None:
        scores = [CERTAIN * _differ(case, patient) for patient in case.patients()]
        return found_out([-score for score in scores], scores)
    return found_out(_ratios(case, held=False), _ratios(case, held=True))


def _differ(case: Case, patient: int) -> bool:
    rows = case.table.rows
    one, other = (
        case.client(part).answer(Broadcast(0, case.seed))
        for part in (rows, np.delete(rows, patient, axis=0))
    )
    return one != other


def _ratios(case: Case, *, held: bool) -> list[float]:
    """Return log likelihood ratios of private answers, with or without a row."""
    data, found, patients = case.table, [], case.patients()
    noise, question = default_rng([case.seed, held]), _question(case)
    for i in range(RUNS):
        others = np.delete(data.rows, patients[i % PATIENTS], axis=0)
        pair = Neighbors((question,), others, data.rows)
        product, length = pair.ratio(noise, 1.0, held=held)
        found.append(product - length / 2)
    return found


def _question(case: Case) -> PrivateRound:
    k, privacy = case.table.n_clusters, case.privacy()
    assert privacy is not None
    return PrivateRound(privacy, 1, Broadcast(0, case.seed, client="a"), k, 4 * k, 16 * k)


def population(case: Case) -> Row:
    """Tell whether a small site holds a row, knowing only rows of the same kind.

    The attacker draws many sites from these, with and without the row, and fits a Gaussian to what
    their summaries say about the row: how far the nearest center is, and its count and spread.
    """
    rng = default_rng([2, case.seed])
    scores: dict[str, list[float]] = {"without": [], "with": []}
    for patient in case.patients()[:TARGETS]:
        features = {
            name: np.array([_about(case, patient, name == "with", rng) for _ in range(SHADOWS)])
            for name in scores
        }
        for name, found in scores.items():
            found += _left_out_scores(features, name)
    return found_out(scores["without"], scores["with"])


def _about(case: Case, patient: int, held: bool, rng: Generator) -> Floats:
    rows = case.table.rows
    others = rng.choice(np.delete(np.arange(len(rows)), patient), SITE_ROWS - held, replace=False)
    drawn = rows[np.append(others, patient)] if held else rows[others]
    answer = case.client(drawn, int(rng.integers(2**31))).answer(Broadcast(0, case.seed))
    assert answer.counts is not None
    assert answer.sse is not None
    labels, distances = nearest_centers(rows[[patient]], answer.centers)
    count = float(answer.counts[labels[0]])
    return np.array([distances[0], np.log(count), np.log1p(answer.sse[labels[0]] / count)])


def _left_out_scores(features: dict[str, Floats], name: str) -> list[float]:
    """Return the log likelihood ratio of each run, by Gaussians fitted to all other runs."""
    found = []
    for i, seen in enumerate(features[name]):
        rest = {**features, name: np.delete(features[name], i, axis=0)}
        means = {which: part.mean(axis=0) for which, part in rest.items()}
        spread = np.concatenate([part - means[which] for which, part in rest.items()])
        covariance = np.cov(spread.T) + 1e-6 * np.eye(spread.shape[1])
        direction = np.linalg.solve(covariance, means["with"] - means["without"])
        middle = (means["with"] + means["without"]) / 2
        found.append(float((seen - middle) @ direction))
    return found


# --------------------------------------------------------------------------------- several rounds


def rounds(case: Case) -> Row:
    """Find rows that move from one cluster to another between two rounds.

    The idea is that of TAR (arXiv 2511.07073): cells of successive rounds differ by few rows, so
    their sums are equations with few unknowns. Here the simplest of them are solved: where a cell
    lost one row and another gained one, the difference of sums is that row. The server asks
    honestly; it only keeps what it receives.
    """
    data, total = case.table, {"recovered": 0, "moved": 0, "guesses": 0}
    last: dict[str, tuple[Floats, Ints]] = {}
    for client, answer, model in _several_rounds(case):
        if model is None:
            continue
        now = _table_of(answer, model), nearest_centers(client.data, model.centers)[0]
        if client.id in last:
            before, labels = last[client.id]
            movers = client.data[now[1] != labels]
            guesses = data.within(_movers(before, now[0]))
            total["recovered"] += int(data.close(movers[:, None], guesses).any(axis=1).sum())
            total["moved"] += len(movers)
            total["guesses"] += len(guesses)
        last[client.id] = now
    noise = answer.tensors.get(NOISE)
    return {**total, "count_noise": 0.0 if noise is None else float(noise[0, 0])}


def _several_rounds(case: Case) -> Iterator[tuple[Client, Summary, Model | None]]:
    """Run a federation, and yield each answer with the model that it was asked about."""
    rows, model = case.table.rows, None
    clients = [case.client(rows[i::SITES], 1000 * case.seed + i, f"site{i}") for i in range(SITES)]
    for number in range(case.n_rounds):
        broadcast = Broadcast(number, case.seed, model)
        answers = [client.answer(broadcast) for client in clients]
        for client, answer in zip(clients, answers, strict=True):
            yield client, answer, model
        model = aggregate_round(case.method, answers, broadcast)


def _table_of(answer: Summary, model: Model) -> Floats:
    """Return count and sum of each cluster of the model; each mean lies in its own case."""
    assert answer.counts is not None
    labels = nearest_centers(answer.centers, model.centers)[0]
    sums = np.column_stack([answer.counts, answer.counts[:, None] * answer.centers])
    found: Floats = np.zeros((len(model.centers), sums.shape[1]))
    np.add.at(found, labels, sums)
    return found


def _movers(before: Floats, after: Floats) -> Floats:
    """Return a guess for every pair of cells of which one lost rows and the other gained some."""
    change = after - before
    lost, gained = np.flatnonzero(change[:, 0] < 0), np.flatnonzero(change[:, 0] > 0)
    pairs = [change[b] - change[a] for a in lost for b in gained]
    return np.array([pair[1:] / pair[0] for pair in pairs]).reshape(-1, change.shape[1] - 1)


ATTACKS: dict[str, Callable[[Case], Row]] = {
    "differencing": differencing,
    "all but one": all_but_one,
    "population": population,
    "rounds": rounds,
}
