"""What is in a file, as plain values for JSON: all that `inspection` puts into words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isnan, sqrt
from typing import Any

from fedjigsaw._typing import Floats
from fedjigsaw.columns.profiles import Profile
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.io.formats import Content, ModelFile, NoisyStats, Score, SummaryFile
from fedjigsaw.io.regions import is_region, region_of
from fedjigsaw.kernels.indices import SKEWED
from fedjigsaw.messages import SHAPE_CLUSTERS, Model, Summary, Tensors
from fedjigsaw.methods._support import k_curve_of, knows_no_counts, support_of
from fedjigsaw.number.shapes import knows_noise
from fedjigsaw.report.centers import read_centers
from fedjigsaw.report.number import number_values
from fedjigsaw.report.preparation import known_moments
from fedjigsaw.report.privacy import privacy_values
from fedjigsaw.report.regions import without_region
from fedjigsaw.report.trust import lone_values, reports_of, strange_sites

Values = dict[str, Any]
INFERRED = "What could be inferred"


def file_values(content: Content | Scaler, lines: Sequence[str]) -> Values:
    """Return what is in a file.

    Parameters
    ----------
    lines : what :func:`~fedjigsaw.report.inspection.describe` says about it.
    """
    if isinstance(content, SummaryFile):
        found = _summary(content)
    elif isinstance(content, ModelFile):
        found = _model(content)
    elif isinstance(content, Score):
        found = _score(content)
    elif isinstance(content, Stats):
        found = _stats(content)
    else:
        found = _scaler(content)
    common = {"inferences": inferences(lines), "privacy": privacy_values(content)}
    return {**found, **common}


def shown_bytes(content: Content | Scaler) -> int:
    """Return how many bytes the numbers of a file have that its values show: all but weights."""
    if isinstance(content, Score):
        profile = 0 if content.profile is None else content.profile.nbytes
        return content.counts.nbytes + content.sse.nbytes + profile
    if isinstance(content, (SummaryFile, ModelFile)):
        message = content.summary if isinstance(content, SummaryFile) else content.model
        named = message.tensors.items()
        return message.nbytes - sum(a.nbytes for n, a in named if n.startswith("weights."))
    return 0  # those of statistics and scalers have a name each, and headers are short


def inferences(lines: Sequence[str]) -> list[str]:
    """Return what could be inferred from a file, of the lines that describe it.

    Examples
    --------
    >>> inferences(["Rows: 5.", "What could be inferred:", "- how many.", "Size: 3 bytes."])
    ['how many.']
    """
    for i, line in enumerate(lines):
        if line.startswith(INFERRED):
            first = line.partition(":")[2].strip()
            more = [text[2:] for text in lines[i + 1 :] if text.startswith("- ")]
            return [first, *more] if first else more
    return []


def _summary(file: SummaryFile) -> Values:
    summary = without_region(file.summary)
    own = {"radius": summary.radii, "rows": summary.counts, "sse": summary.sse}
    sent = {name: array.tolist() for name, array in own.items() if array is not None}
    centers = _centers(summary.centers, file.columns, file.scaler)
    return {
        "kind": "summary",
        "client": summary.client,
        "rows": summary.n_samples,
        "skipped": file.n_skipped,
        "clustered": file.n_used,
        **_origin(file.method, file.params, file.columns, file.scaler),
        "seed": file.seed,
        "guard": None if file.privacy is not None else dict(file.guard),
        "merged": summary.merged,
        "region": _region(file.summary),
        "sent": [*sent, *["tensors"] * bool(summary.tensors)],
        "clusters": [
            {"center": center, **{name: values[i] for name, values in sent.items()}}
            for i, center in enumerate(centers)
        ],
        **_tensors(summary.tensors),
    }


def _region(summary: Summary) -> Values | None:
    if not is_region(summary):
        return None
    region = region_of(summary)
    return {"sites": dict(region.sites), "merged": region.members is None}


def _model(file: ModelFile) -> Values:
    model, support = file.model, support_of(file.model) or {}
    centers = _centers(model.centers, file.columns, file.scaler)
    curve = k_curve_of(model)
    return {
        "kind": "model",
        "n_clusters": len(model.centers) - model.n_lone,
        "clients": list(file.clients),
        "partly": list(file.partly),
        "rows": file.n_samples,
        "skipped": file.n_skipped,
        **_origin(model.method, model.params, file.columns, file.scaler),
        "ids": list(file.cluster_ids),
        "next_id": file.next_id if file.ids else None,
        "clusters": [
            {
                "id": number,
                "center": center,
                "support": {name: values[i].item() for name, values in support.items()} or None,
            }
            for i, (number, center) in enumerate(zip(file.cluster_ids, centers, strict=True))
        ],
        "guessed_rows": knows_no_counts(model),
        "k": number_values(model, file.ids),
        "k_curve": curve and {name: values.tolist() for name, values in curve.items()},
        "lone": lone_values(file),
        "sites": [asdict(report) for report in reports_of(file)],
        "strange": strange_sites(file),
        "labels": _labels(model),
        "n_weights": _n_weights(model.tensors),
    }


def _labels(model: Model) -> Values:
    """Return how rows are labeled, and which rule is recommended."""
    skew, components = model.tensors.get("skew"), model.tensors.get(SHAPE_CLUSTERS)
    bits, rule = None, None
    if skew is not None and skew.size == 1 and not knows_no_counts(model):
        bits = skew.item()
        rule = "local" if bits >= SKEWED else "nearest"
    return {
        "mutual_information": bits,
        "recommended": rule,
        "components": None if components is None else len(components),
        "noise": knows_noise(model),
    }


def _score(score: Score) -> Values:
    known = score.privacy is None or bool(score.sse.any())
    sse = score.sse.tolist() if known else [None] * len(score.counts)
    return {
        "kind": "score",
        "client": score.client,
        "model": score.model,
        "rows": score.n_rows,
        "skipped": score.n_skipped,
        "noise": score.n_noise,
        "inertia": float(score.sse.sum()) if known else None,
        "clusters": [
            {"id": number, "rows": rows, "sse": part}
            for number, rows, part in zip(
                score.cluster_ids, score.counts.tolist(), sse, strict=True
            )
        ],
        "profile": None if score.profile is None else _profile(score.profile),
        "made_by": score.made_by and score.made_by.to_dict(),
    }


def _profile(profile: Profile) -> Values:
    return {
        "min_cluster_size": profile.min_cluster_size,
        "numbers": {name: _moments(profile, j) for j, name in enumerate(profile.numbers)},
        "categories": {
            column: [dict(zip(names, row, strict=True)) for row in counts]
            for column, names in profile.levels.items()
            for counts in [profile.level_counts[column].tolist()]
        },
    }


def _moments(profile: Profile, j: int) -> list[Values]:
    """Return what is known about a column of numbers in each cluster."""
    columns = (profile.count[:, j], profile.mean[:, j], profile.sum_of_squares[:, j])
    return [
        {
            "rows": n,
            "mean": mean if n else None,
            "deviation": sqrt(squares / n) if n else None,
            "sum_of_squares": squares if n else None,
        }
        for n, mean, squares in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _stats(stats: Stats) -> Values:
    return {
        "kind": "statistics",
        "client": stats.client,
        "rows": stats.n_samples,
        "noisy": isinstance(stats, NoisyStats),
        "schema": stats.schema or None,
        "made_by": stats.made_by and stats.made_by.to_dict(),
        "quantiles": list(stats.sketches),
        "columns": {
            name: {"mean": None if isnan(mean) else mean, "deviation": None if isnan(mean) else d}
            for name, (mean, d) in known_moments(stats).items()
        },
    }


def _scaler(scaler: Scaler) -> Values:
    return {"kind": "scaler", **scaler_values(scaler)}


def scaler_values(scaler: Scaler) -> Values:
    """Return the fingerprint of a scaler, how it scales each column, and how it prepares them."""
    encoding = scaler.encoding
    return {
        "fingerprint": scaler.fingerprint,
        "columns": {
            name: {"mean": mean, "deviation": deviation}
            for name, mean, deviation in zip(
                scaler.columns, scaler.mean.tolist(), scaler.deviation.tolist(), strict=True
            )
        },
        "schema": None if encoding is None else encoding.schema.fingerprint,
        "encoding": None if encoding is None else encoding.to_dict(),
    }


# ----------------------------------------------------------------------------------------- parts


def _origin(
    method: str, params: Mapping[str, Any], columns: Sequence[str], scaler: Scaler | None
) -> Values:
    encoding = None if scaler is None else scaler.encoding
    return {
        "method": method,
        "params": dict(params),
        "columns": list(columns if encoding is None else encoding.sources),
        "features": list(columns),
        "scaler": None if scaler is None else scaler_values(scaler),
    }


def _centers(centers: Floats, columns: Sequence[str], scaler: Scaler | None) -> list[Values]:
    """Return centers in the units of the files: a number for each column, or what it stands for."""
    if scaler is not None and scaler.encoding is not None:
        read = read_centers(centers, columns, scaler)
        return [{name: one.to_dict() for name, one in center.items()} for center in read]
    rows = centers if scaler is None else scaler.unscale(centers)
    return [dict(zip(columns, row, strict=True)) for row in rows.tolist()]


def _tensors(tensors: Tensors) -> Values:
    shown = {n: tensor.tolist() for n, tensor in tensors.items() if not n.startswith("weights.")}
    return {"tensors": shown, "n_weights": _n_weights(tensors)}


def _n_weights(tensors: Tensors) -> int:
    return sum(tensor.size for name, tensor in tensors.items() if name.startswith("weights."))
