"""Files of a run, written without clustering anything: a model, and scores of its sites."""

import numpy as np

from fedjigsaw.columns.profiles import Profile
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.io.formats import ModelFile, Score, encode, fingerprint, save
from fedjigsaw.messages import Model
from fedjigsaw.number.confidence import Doubt, KFindings

SITES = ("Bern", "Lyon", "Oslo")
COLUMNS = (
    "age",
    "bmi",
    "systolic blood pressure",
    "glucose",
    "creatinine",
    "length of stay",
    "dose",
    "visits",
)
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "{{7*7}}",
    "</title><script>alert(3)</script>",
    "</style></svg>",
    "&lt;b&gt; $x^2$ 'quoted'",
    "very-long-name-" * 12,
    "\u0627\u0644\u0639\u0645\u0631",  # an honest name that is written from right to left
)


def k_findings(k, confidence=0.98, **changes):
    """Return what a model of k clusters says about its k; all is well, but for changes."""
    plain = {
        "runner_up": k + 1,
        "closest": (0, 1) if k > 1 else None,
        "background": 0.0,
        "elongation": np.ones(k),
        "columns": np.zeros(0, dtype=np.int64),
        "doubts": Doubt(0),
        "separation": np.linspace(0.7, 1.0, k),
    }
    return KFindings(confidence=confidence, **(plain | changes))


def write_run(
    folder,
    *,
    k=5,
    columns=COLUMNS,
    clients=SITES,
    scores=True,
    findings=None,
    levels=(),
    seed=0,
):
    """Write a model and one score per site; return their paths, the model first.

    With `findings`, of `k_findings`, the model says how sure its number of clusters is. Without
    them that was given.

    With `levels`, scores have profiles of the columns and of a category with these levels.
    """
    rng = np.random.default_rng(seed)
    d = len(columns)
    shares = rng.dirichlet(np.full(k, 2.0), size=len(clients))
    counts = np.stack([rng.multinomial(400 * k, share) for share in shares])
    counts[-1, 0] *= k == 1  # one site lacks one cluster
    k_curve = np.column_stack(
        [np.arange(2, 12), 1000.0 / np.arange(2, 12), -abs(np.arange(2, 12) - k) + 20.0]
    )
    tensors = {
        "support_clients": (counts > 0).sum(axis=0),
        "support_points": counts.sum(axis=0),
        "support_spread": rng.uniform(1, 2, k),
        "site_rows": counts.sum(axis=1),
        "site_clusters": (counts > 0).sum(axis=1),
        "site_alone": np.zeros(len(clients), dtype=np.int64),
        "site_notes": np.zeros(len(clients), dtype=np.int64),
        "site_influence": np.ones(len(clients)),
        "skew": np.array([0.2]),
        **({} if findings is None else {"k_curve": k_curve, **findings.tensors()}),
    }
    model = ModelFile(
        Model(rng.normal(size=(k, d)), "jigsaw", {"n_clusters": k}, tuple(columns), tensors),
        Scaler(tuple(columns), rng.uniform(0, 100, d), rng.uniform(1, 20, d)),
        tuple(clients),
        int(counts.sum()),
    )
    paths = [folder / "model"]
    save(model, paths[0])
    for i, client in enumerate(clients if scores else ()):
        paths.append(folder / f"{i}.score")
        sse = counts[i] * rng.uniform(1, 3, k)
        profile = _profile(rng, counts[i], model, levels) if levels else None
        save(Score(client, fingerprint(encode(model)), counts[i], sse, profile), paths[-1])
    return paths


def _profile(rng, counts, model, levels):
    count = np.repeat(counts[:, None], len(model.columns), axis=1)
    mean = np.where(count > 0, model.scaler.unscale(model.model.centers), 0)
    shares = rng.dirichlet(np.full(len(levels), 0.5), size=len(counts))
    by_level = np.floor(shares * counts[:, None]).astype(np.int64)
    squares = count * model.scaler.deviation**2 * 0.5
    return Profile(
        model.columns, count, mean, squares, {"kind": tuple(levels)}, {"kind": by_level}, 5
    )
