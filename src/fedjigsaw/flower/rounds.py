"""Run all rounds of a method over the sites of an engine, and make one model file of them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fedjigsaw.engine import run_rounds, warn_of_fewer_clusters
from fedjigsaw.flower.engine import FlowerEngine
from fedjigsaw.flower.progress import Progress
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.regions import clients_of, n_rows_of, unpacked
from fedjigsaw.messages import Model, Round, Transcript
from fedjigsaw.random import resolve_seed
from fedjigsaw.sites.admission import aggregate_round
from fedjigsaw.sites.aggregate import weakest, with_reports, within_bounds
from fedjigsaw.validation import MAX_COUNT


def federate(
    engine: FlowerEngine,
    *,
    seed: int | None = None,
    min_sites: int | None = None,
    checkpoint: Path | None = None,
) -> tuple[ModelFile, Transcript]:
    """Run the engine's method over its sites.

    Parameters
    ----------
    seed : seed of the run; by default from the method's `random_state`.
    min_sites : smallest number of sites that must answer in every round; None is all of them.
    checkpoint : file that keeps the run after every round. If it exists, the run goes on from
        there. Only methods that learn from images, which train for long, have one.
    """
    method = engine.method
    method.check_federated()
    if seed is None:  # a file can store at most MAX_COUNT exactly
        seed = resolve_seed(method.random_state) % MAX_COUNT
    if method.data_kind != "images":  # later rounds show sites the summaries of the one before
        checkpoint = None
    model, transcript = _run(engine, seed, min_sites, checkpoint)
    took_part = [engine.files[name] for name in transcript.clients]
    asked, summaries = method.configuration().get("n_clusters"), [f.summary for f in took_part]
    warn_of_fewer_clusters(asked, len(model.centers) - model.n_lone, summaries)
    model = with_reports(method, summaries, model)
    failed = {failure.client for failure in transcript.failures}
    privacy = weakest([file.privacy for file in took_part], len(engine.columns))
    model = within_bounds(model.for_clients(), privacy, took_part[0].scaler)
    members = unpacked(file.summary for file in took_part)
    clients = clients_of(members, method.method, method.configuration())
    file = ModelFile(
        model.with_feature_names(engine.columns),
        took_part[0].scaler,
        clients,
        n_rows_of(members),
        tuple(name for name in clients if name in failed),
        privacy,
    )
    return file, transcript


def _run(
    engine: FlowerEngine, seed: int, min_sites: int | None, checkpoint: Path | None
) -> tuple[Model, Transcript]:
    """Run all rounds, or those that are left, and keep each in the checkpoint."""
    method = engine.method
    model: Model | None = None
    done: list[Round] = []
    if checkpoint is not None and checkpoint.exists():
        start = Progress.load(checkpoint)
        start.check_same(method, seed)
        model, done = start.model, list(start.rounds)
        engine.files |= start.files()
        engine.tell("resumed", "", f"after round {done[-1].number}")

    def keep(model: Model, last: Round) -> None:
        done.append(last)
        if checkpoint is not None:
            sites = {name: file.summary.n_samples for name, file in engine.files.items()}
            params = method.configuration()
            found = Progress(method.method, params, seed, model, tuple(done), sites, engine.columns)
            found.save(checkpoint)

    left = method.total_rounds - len(done)
    if left or model is None:
        model, _, _ = run_rounds(
            method,
            engine,
            seed=seed,
            n_rounds=left,
            min_clients=min_sites,
            first=len(done),
            model=model,
            cells=engine.cells,
            called="site",
            aggregate=aggregate_round,
            after=keep,
        )
    rounds = tuple(_without_kept(one, engine.kept) for one in done)
    return model, Transcript(seed, rounds)


def _without_kept(one: Round, kept: Mapping[str, object]) -> Round:
    """Say that sites whose kept summaries took part have sent nothing."""
    sent = {name: 0 if name in kept else size for name, size in one.bytes_up.items()}
    return replace(one, bytes_up=sent)
