"""Small data, tables and summaries that several test modules use."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fedjigsaw import Summary
from fedjigsaw.io.tables import open_table


def blobs(rng, *, n_clients=4, k=5, d=2, per_cluster=20, width=1.0):
    """Clusters far apart, all of them at every client: one array per client, the true centers."""
    true = np.stack([np.arange(k) * 100.0, *rng.uniform(0, 50, (d - 1, k))], axis=1)
    shards = [
        np.concatenate([c + width * rng.normal(size=(per_cluster, d)) for c in true])
        for _ in range(n_clients)
    ]
    return shards, true


def summary(**changes):
    """Two centers with radii, of the five rows of client "a"; other fields by name."""
    fields = {
        "n_samples": 5,
        "centers": [[0.0, 1.0], [2.0, 3.0]],
        "radii": [1.0, 2.0],
        "client": "a",
    }
    return Summary(**{**fields, **changes})


def write_table(path, **columns):
    """Write columns as CSV or Parquet, by the ending of the name."""
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path)
    else:
        pa.csv.write_csv(pa.table(columns), path)
    return path


def write(path, content):
    """Write a file of bytes or of a text."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, **options):
    """All rows of a table."""
    table = open_table(path, **options)
    return np.concatenate([batch.rows for batch in table.batches()]).tolist()
