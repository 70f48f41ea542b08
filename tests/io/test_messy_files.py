"""Files as people have them: each is read right or refused, and never read wrong in silence."""

import numpy as np
import pytest

from fedjigsaw.errors import DataError
from fedjigsaw.io.tables import open_table

HEAD = "x,note,y\n"
ROWS = "".join(f"{n},n{n},{n % 7}.5\n" for n in range(1, 1501))
MARKED = "".join(f'"{n}","n{n}","{n % 7}.5"\n' for n in range(1, 40_001))  # 240,000 marks


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, **options):
    table = open_table(path, **options)
    return np.concatenate([batch.rows for batch in table.batches()]).tolist()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (f'{HEAD}{ROWS}7,"see,1\n{ROWS}8,below",1\n{ROWS}', 1502),
        (f'{HEAD}1,"see,1\n2,below",1\n', 2),
        (f'{HEAD}1,"see,1\n2,n,3\n3,below",1\n4,"a",1\n', 2),
        (f'{HEAD}"1","two\nlines, of text","3"\n1,"see,1\n2,n,3\n3,below",1\n', 4),
        (f'{HEAD}{MARKED}7,"see,1\n{ROWS}8,below",1\n', 40_002),
        (f'{HEAD}{MARKED}7,"see,1\n{MARKED}8,"below,1\n', 40_002),
        (f'{HEAD}{MARKED}7,"see,1\n{ROWS}', 40_002),
    ],
    ids=["closed", "two rows", "three", "after lines", "many", "many, even", "many, odd"],
)
@pytest.mark.parametrize("columns", [["x"], ["x", "y"]])
def test_quotation_marks_that_do_not_pair_up_are_refused(tmp_path, content, line, columns):
    path = write(tmp_path / "t.csv", content)
    with pytest.raises(DataError, match=rf"line {line}\b"):
        read(path, columns=columns)


@pytest.mark.parametrize(
    "value",
    [
        '"two\nlines"',
        '"fever, cough\nno pain"',
        '"fever\nand, since May, cough"',
        '"a ""b""\n\nc, d\ne"',
        '5"',
        "\n".join(['"a report', *["of many lines, and long,"] * 40, 'at the end"']),
    ],
)
def test_quotation_marks_that_pair_up_are_read(tmp_path, value):
    path = write(tmp_path / "t.csv", f"{HEAD}{ROWS}7,{value},1\n8,n,2\n")
    assert read(path, columns=["x"])[-2:] == [[7], [8]]
