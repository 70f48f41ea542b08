"""Speed and memory: `make bench`, or `python benchmarks/speed.py [NAME ...]`.

Each benchmark measures contenders in turn in one run and reports ratios, which depend less on the
load of the machine than seconds do. Its rows replace those of before in results/benchmarks.jsonl.
All of them take about ten minutes on two cores. faiss and scikit-learn-intelex are measured where
they are installed, DeepFeCA on a GPU alone. `FEDJIGSAW_BACKEND=torch` measures the others on a GPU.
"""

import sys

from clients import small_clients
from deep_speed import deep_speed
from files import files, large_file
from fits import many_clients, overhead, pooled, sites
from measuring import run
from server import grouping, server
from startup import first_minute, startup

if __name__ == "__main__":
    run(
        *(first_minute, startup, small_clients, overhead, many_clients, pooled, sites),
        *(server, grouping, files, large_file, deep_speed),
        names=sys.argv[1:],
    )
