"""Pipes and devices are refused at once, whatever reads."""

import os
from pathlib import Path

import pytest

from fedjigsaw.errors import DataError
from fedjigsaw.io import formats
from fedjigsaw.io.regular import open_regular, read_regular
from fedjigsaw.io.rows import append_row, read_rows
from fedjigsaw.io.tables import open_table
from raising import raises


@pytest.mark.parametrize(
    "read",
    [
        *(open_regular, read_regular, open_table, read_rows, lambda path: append_row(path, {})),
        *(formats.load_any, formats.load_scaler, formats.is_scaler),
    ],
)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "pipe.csv")
    with raises(DataError, file="pipe.csv"):
        read(tmp_path / "pipe.csv")


def test_a_device_and_a_folder(tmp_path):
    (tmp_path / "zeros.csv").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "zeros.csv", tmp_path):
        for read in (formats.load_any, open_table):
            with raises(DataError, file=str(path)):
                read(path)


def test_a_file(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    with open_regular(tmp_path / "a") as file:
        assert file.read() == b"content"
