import pytest

from fedjigsaw.bench import speed_tables
from fedjigsaw.bench.speed_rows import MISSING
from fedjigsaw.bench.speed_tables import TABLES, growth, plan_table
from fedjigsaw.bench.speed_targets import targets_table
from speed_benchmarks import fitted, served

REGION = {
    "benchmark": "region",
    "n_sites": 1_000,
    "n_centers_sent": 400,
    "seconds": 2.0,
    "bytes_per_site": 14_000.0,
    "bytes_sent": 100_000,
}


def test_a_part_without_rows_says_so():
    assert {make([]) for make in TABLES.values()} == {MISSING}
    assert speed_tables.grouping([]) == MISSING


def test_methods_are_compared_with_the_kernel_and_targets_are_those_that_were_asked():
    sizes = {"n_rows": 500, "n_columns": 2, "n_clusters": 15, "kernel_microseconds": 1300.0}
    ratios = {"jigsaw_ratio": 1.1, "feca_ratio": 1.6, "kfed_ratio": 1.9}
    rows = [{"benchmark": "clients_part", **sizes, **ratios}, fitted(10_000, 1.0, "kfed")]
    assert TABLES["parts"](rows).splitlines()[2] == (
        "| 500 x 2, k = 15 | 1,300 µs | 1.10 | 1.60 | 1.90 |"
    )
    assert [
        line.strip("| ").split(" | ")[::3] for line in targets_table(rows).splitlines()[2:]
    ] == [
        ["Jigsaw, clients of 500 x 2, k = 15: of the kernel", "yes"],
        ["FeCA, clients of 500 x 2, k = 15: of the kernel", "no"],
    ]


def test_growth_is_the_power_between_sizes():
    rows = [fitted(100, 1.0), fitted(1_000, 10.0), fitted(10_000, 1000.0)]
    assert growth(rows).startswith("clients: 1.00, 2.00; received centers, blurred: (not measured)")


def test_the_plan_multiplies_regions_and_reads_off_the_server():
    rows = [REGION, served(40_000, 1.0), served(400_000, 10.0)]
    small, large = (
        line.strip("| ").split(" | ")
        for line in plan_table(rows, sites=(100_000, 1_000_000)).splitlines()[2:]
    )
    assert small == [
        "100,000",
        "100",
        "14.0 MB",
        "2.0",
        "40,000",
        "10.0 MB, 0.08 s",
        "1.0",
        "1.4 GB",
    ]
    assert large[4:] == ["400,000", "100.0 MB, 0.80 s", "10.0", "14.0 GB"]


@pytest.mark.parametrize(
    ("centers", "seconds"), [(10_000, 0.1), (100_000, 1.0), (10_000_000, 100.0)]
)
def test_seconds_are_read_off_in_line_with_what_was_measured(centers, seconds):
    rows = [served(10_000, 0.1), served(1_000_000, 10.0)]
    assert speed_tables._between(rows, centers) == pytest.approx(seconds)


def test_simulators_are_compared_with_fit_and_one_that_did_not_end_has_no_times():
    row = {"benchmark": "simulators", "n_clients": 100}
    times = {"seconds": 12.34, "process_seconds": 20.0, "ratio": 6.17, "process_ratio": 4.0}
    flower = {"contender": "flower", "versions": {"flwr": "1.2", "ray": "3.4"}, **times}
    flare = {"contender": "flare", "versions": {"nvflare": "5.6"}}
    rows = [
        row | flower | {"same_result": True},
        row | flare | times | {"same_result": False},
        row | flare | {"limit_seconds": 300},
    ]
    assert TABLES["simulators"](rows).splitlines()[2:] == [
        "| 100 | Flower 1.2, Ray 3.4 | 12.3 s | 6.2 | 20.0 s | 4.0 | yes |",
        "| 100 | NVIDIA FLARE 5.6 | 12.3 s | 6.2 | 20.0 s | 4.0 | no |",
        "| 100 | NVIDIA FLARE 5.6 | – | – | more than 300 s | – | – |",
    ]


def test_the_gpu_is_compared_with_what_was_measured_beside_it():
    sizes = {"n_rows": 9_000, "n_columns": 2, "n_clusters": 5}
    times = {"ours_milliseconds": 1.8, "torch_milliseconds": 9.0}
    objectives = {"ours_objective": 1.0, "torch_objective": 1.0}
    alone = {"benchmark": "gpu_lloyd", **sizes, **times, **objectives}
    assert TABLES["gpu-lloyd"]([alone]).splitlines()[2:] == [
        "| fedjigsaw | 1.80 ms | 1.00000 |",
        "| plain torch, float32 | 9.00 ms | 1.00000 |",
    ]
    assert targets_table([alone]) == MISSING
    assert "| 1.60 | no |" in targets_table([alone | {"ratio": 1.6}])
    client = {"benchmark": "gpu_clients", **sizes, "gpu_milliseconds": 4.0, "cpu_milliseconds": 2.0}
    assert "| 10 | 4.0 ms | 2.0 ms | 0.50 |" in TABLES["gpu-clients"]([client])
    server = {"benchmark": "gpu_server", "input": "alone", "n_centers": 1_000, "seconds": 2.0}
    assert "| 1,000 | alone | 2.0 s | – | – | – |" in TABLES["gpu-server"]([server])
