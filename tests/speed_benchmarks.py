"""Rows such as ``benchmarks/speed.py`` writes."""


def served(n_centers, seconds, kind="blurred", objective=0.95):
    row = {"benchmark": "server", "input": kind, "n_centers": n_centers, "seconds": seconds}
    return row | {"extra_megabytes": 500.0, "objective": objective, "points_objective": 0.9}


def fitted(n_clients, seconds, method="jigsaw"):
    row = {"benchmark": "many_clients", "method": method, "n_clients": n_clients}
    return row | {"seconds": seconds, "ratio": 1.2, "peak_megabytes": 900.0}
