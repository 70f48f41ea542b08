"""At the coordinator: aggregate the summaries of all sites into a model."""

from collections.abc import Mapping, Sequence

from fedjigsaw.engine import aggregate_round, warn_of_fewer_clusters
from fedjigsaw.errors import ParameterError
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import make
from fedjigsaw.sites.compatibility import check_fit_together, reorder


def aggregate(
    files: Mapping[str, SummaryFile],
    n_clusters: int | str,
    *,
    without: Sequence[str] = (),
    seed: int = 0,
) -> ModelFile:
    """Aggregate summaries into a model.

    Parameters
    ----------
    files : file name -> its content; the names are for error messages.
    without : sites to leave out, as if they had never sent a summary.
    """
    kept = _forget(files, without)
    check_fit_together(kept)
    ordered = sorted(kept.values(), key=lambda file: file.summary.client)
    first = ordered[0]
    ordered = [reorder(file, first.columns) for file in ordered]
    params = {k: v for k, v in first.params.items() if k not in ("n_clusters", "random_state")}
    estimator = make(first.method, n_clusters, seed, **params)
    broadcast = Broadcast(0, seed)
    for file in ordered:
        estimator.check_answer(file.summary, broadcast)
    model = aggregate_round(estimator, [file.summary for file in ordered], broadcast)
    warn_of_fewer_clusters(n_clusters, len(model.centers))
    return ModelFile(
        model.with_feature_names(first.columns),
        first.scaler,
        tuple(file.summary.client for file in ordered),
        sum(file.summary.n_samples for file in ordered),
    )


def _forget(files: Mapping[str, SummaryFile], without: Sequence[str]) -> dict[str, SummaryFile]:
    clients = {file.summary.client for file in files.values()}
    unknown = sorted(set(without) - clients)
    if unknown:
        names, known = (", ".join(map(repr, found)) for found in (unknown, sorted(clients)))
        raise ParameterError(f"No summary is from {names}. Sites: {known}.")
    kept = {name: file for name, file in files.items() if file.summary.client not in without}
    if not kept:
        raise ParameterError(f"Without {', '.join(map(repr, without))}, no summary is left.")
    return kept
