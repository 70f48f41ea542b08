from fedjigsaw.bench.speed_picture import seconds_over_sizes
from fedjigsaw.report.pictures import render


def test_a_picture_without_rows_is_drawn():
    assert b"received centers" in render(seconds_over_sizes([]), ".svg")
