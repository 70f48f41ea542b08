"""Files as people have them: each is read right or refused, and never read wrong in silence."""

import gzip
import re

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from builders import read, write
from fedjigsaw import sites, sources
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import DataError, FedJigsawError, ParameterError
from fedjigsaw.io.bounds import read_bounds
from fedjigsaw.io.formats import load_any, load_scaler
from fedjigsaw.io.schemas import load_schema
from fedjigsaw.io.tables import open_table
from raising import check_place, raises

HEAD = "x,note,y\n"
ROWS = "".join(f"{n},n{n},{n % 7}.5\n" for n in range(1, 1501))
MARKED = "".join(f'"{n}","n{n}","{n % 7}.5"\n' for n in range(1, 40_001))  # 240,000 marks


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
    with raises(DataError, file="t.csv", row=line):
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


SEX = Column("sex", "category", categories=("female", "male"))
GRADE = Column("grade", "ordered", categories=("1", "2", "3"))


def shares(path, *columns, missing=()):
    """Means of all features, by name."""
    stats = sites.measure(path, schema=Schema(columns, missing=missing), min_rows=1)
    return dict(zip(stats.columns, stats.mean.tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "values", "same"),
    [
        (SEX, ["Female", "MALE", " male ", "female"], ["female", "male", "male", "female"]),
        (Column("sex", "category", categories=("Not known", "m")), ["not  KNOWN", "M"], ["Not known", "m"]),
        (Column("sex", "category", categories=("Zürich", "b")), ["ZU\u0308RICH", "B"], ["Zürich", "b"]),
        (GRADE, ["1.0", "2.0", "3.00", "2"], ["1", "2", "3", "2"]),
        (Column("code", "category", categories=("1", "2")), ["1.0", "2.0"], ["1", "2"]),
        (Column("code", "category", categories=("1.0", "2.0")), ["1", "2.0"], ["1.0", "2.0"]),
        (Column("ill", "boolean"), ["1.0", "0.0", "1.0"], ["1", "0", "1"]),
        (Column("ill", "boolean"), ["Yes", "NO", "yes"], ["1", "0", "1"]),
    ],
)  # fmt: skip
def test_spellings_of_a_category_are_one(tmp_path, column, values, same):
    other = Column("x")
    head = f"x,{column.name}\n"
    texts = [head + "".join(f"{i},{v}\n" for i, v in enumerate(some)) for some in (values, same)]
    written, plain = (write(tmp_path / f"{i}.csv", text) for i, text in enumerate(texts))
    assert shares(written, other, column) == shares(plain, other, column)
    assert sites.check_file(written, Schema((other, column))).fits
    copy = tmp_path / "copy.parquet"
    sites.apply_schema(written, Schema((other, column)), copy)
    assert shares(copy, other, column) == shares(plain, other, column)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("mark", ["9", "9.0", "9.00"])
@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Column("c"), ["1.5", "9.0", "2", "9", "9.00", "2.5"]),
        (Column("c", outside="missing", range=(0, 5)), ["1.5", "9.000", "2", "9", "9e0", "2.5"]),
        (Column("c", "category", categories=("1", "2")), ["1", "9.0", "2", "9", "9.00", "2.0"]),
        (Column("c", "ordered", categories=("1", "2")), ["1", "9.0", "2.0", "9", "9.00", "2"]),
        (Column("c", "boolean"), ["1", "9.0", "0.0", "9", "9.00", "yes"]),
    ],
)
def test_a_mark_of_missing_values_is_one_however_it_is_written(
    tmp_path, column, mark, values, ending
):
    path, plain, copy = (tmp_path / name for name in (f"t.{ending}", "o.csv", "copy.parquet"))
    emptied = ["" if value.startswith("9") else value for value in values]
    write(plain, "x,c\n" + "".join(f"{i},{v}\n" for i, v in enumerate(emptied)))
    if ending == "csv":
        write(path, "x,c\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)))
    else:
        cells = pa.array(values)
        if column.kind == "number":
            cells = pa.array([float(value) for value in values])
        parquet.write_table(pa.table({"x": range(6), "c": cells}), path)
    columns = (Column("x"), column)
    schema, expected = Schema(columns, missing=(mark,)), shares(plain, *columns)
    assert shares(path, *columns, missing=(mark,)) == expected
    found = sites.check_file(path, schema).columns[1]
    assert (found.n_missing, found.n_outside, found.n_unreadable) == (3, 0, 0)
    assert not sites.apply_schema(path, schema, copy).said
    assert shares(copy, *columns) == expected
    changes = sites.Changes(missing_in={"c": [mark]})
    sites.apply_schema(path, Schema(columns), copy, changes)
    assert shares(copy, *columns) == expected


def test_two_categories_that_differ_by_capital_letters_stay_two(tmp_path):
    column = Column("unit", "category", categories=("mg", "Mg", "g"))
    path = write(tmp_path / "t.csv", "x,unit\n1,mg\n2,Mg\n3,MG\n4,G\n")
    assert sites.check_file(path, Schema((Column("x"), column))).columns[1].unknown == {"MG": 1}


def test_what_is_proposed_of_a_file_is_read_from_it(tmp_path):
    sexes = ["female", "Female", "male", "MALE", "FEMALE"] * 80
    flags = ["1.0", "0.0", "0.0", "1.0"] * 100
    rng = np.random.default_rng(0)
    rows = zip(rng.normal(25, 3, 400).round(2), sexes, flags, strict=True)
    text = "bmi,sex,ill\n" + "".join(f"{x},{sex},{flag}\n" for x, sex, flag in rows)
    path = write(tmp_path / "t.csv", text)
    schema = sites.propose_schema(path).schema
    assert [column.kind for column in schema.columns] == ["number", "category", "boolean"]
    found = shares(path, *schema.columns)
    assert found["ill"] == 0.5
    assert sorted(found[f"sex: {name}"] for name in schema["sex"].categories) == [0.4, 0.6]
    assert not sites.check_file(path, schema).columns[1].unknown


AGE_SEEN = Schema((Column("age", range=(0, 120)), Column("seen", "date")))
DAYS = "".join(f"{30 + n},2020-01-{n + 1:02}\n" for n in range(20))
SCALER = '{"kind": "scaler", "format": 1, "columns": ["a"], "mean": [1], "deviation": [1]}'
MESSY = [  # a file, and the row and column that some command names
    ("no.csv", None, None, ""),
    ("folder.csv", ..., None, ""),
    ("t.xls", "a", None, ""),
    ("t.csv", "", None, ""),
    ("t.csv", "age,seen\n", None, ""),
    ("t.csv", "age,age,seen\n1,2,3\n", None, "age"),
    ("t.csv", "age,seen,\n1,2,3\n,2,3\n", None, ""),
    ("t.csv", DAYS, None, ""),
    ("t.csv", f"Ward 3\nage,seen\n{DAYS}", None, ""),
    ("t.csv", f"age,days\n{DAYS}", None, "seen"),
    ("t.csv", f"age,seen\n{DAYS}old,2020-01-01\n", 21, "age"),
    ("t.csv", f"age,seen\n{DAYS}inf,2020-01-01\n", 21, "age"),
    ("t.csv", f"age,seen\n{DAYS}1e200,2020-01-01\n", 21, "age"),
    ("t.csv", f"age,seen\n{DAYS}1_000,2020-01-01\n", 21, "age"),
    ("t.csv", f"age,seen\n{DAYS},2020-01-01\n", None, "age"),
    ("t.csv", f"age,seen\n{DAYS}130,2020-01-01\n", 21, "age"),
    ("t.csv", f"age,seen\n{DAYS}31,gestern\n", 21, "seen"),
    ("t.csv", f"age,seen\n{DAYS}31,2020-01-01 13:00\n", 21, "seen"),
    ("t.csv", "age,seen\n" + "31,01/02/2020\n" * 20, None, "seen"),
    ("t.csv", f"age,seen\n{DAYS}31\n", 21, ""),
    ("t.csv", f"age,seen\n{DAYS}total,2020-01-30\n", None, "age"),
    ("t.csv", f'age,seen\n{DAYS}31,"2020\n{DAYS}31,"2020\n', 22, ""),
    ("t.csv", "age;seen\n7.470;2020-01-01\n" + "9;2020-01-01\n" * 20, 1, "age"),
    ("t.csv", 'age;seen\n1.5;2\n1,5;2\n', 1, "age"),
    ("t.csv", "age,seen\nä,1\n".encode() + "ö,1\n".encode("cp1252"), 2, ""),
    ("t.csv", b"age,seen\n\xff\xfe,1\n", 1, "age"),
    ("t.csv", b"age,seen\n1,2\x00\n", None, ""),
    ("t.csv", "age,sex\n" + "".join(f"{i},{'fm'[i % 2]}\n" for i in range(30)) + "age,sex\n1,f\n", 31, ""),
    *(("t.csv", f"{header}\n1,2\n", None, "") for header in ('age,"seen', 'age,seen"')),
    *(("t.csv.gz", data, None, "") for data in (b"age\n1\n", gzip.compress(b"age\n" + b"1\n" * 99)[:-9])),
    *((name, junk, None, "") for name in ("t.xlsx", "t.parquet", "t.npy") for junk in ("PK", "a;b\n")),
    ("s.toml", b"\xff", None, ""),
    ("s.toml", "format = ", None, ""),
    ("s.toml", "format = 1\n" + "a." * 20 + "b = 1\n", 2, ""),
    ("s.toml", "format = 1\n[columns.age]\nscale = 'log'\nrange = [-5, 5]\n", None, "age"),
    ("s.toml", "format = 1\n[columns.age]\nkid = 'number'\n", None, "age"),
    ("b.json", '{"age": [0, NaN]}', None, "age"),
    ("b.json", SCALER.replace("[1]", "[null]"), None, ""),
    ("a.summary", b"0" * 100, None, ""),
]  # fmt: skip
OTHER_FILES = {
    ".toml": [load_schema],
    ".json": [lambda p: read_bounds(str(p)), load_scaler],
    ".summary": [load_any],
}
TABLES = [
    lambda path: read(path, columns=["age"]),
    lambda path: sites.measure(path, schema=AGE_SEEN),
    lambda path: sites.check_file(path, AGE_SEEN),
    lambda path: sites.apply_schema(path, AGE_SEEN, path.with_name("copy.parquet")),
    sites.propose_schema,
]


@pytest.mark.parametrize(("name", "content", "row", "column"), MESSY, ids=range(len(MESSY)))
def test_every_error_about_a_file_knows_its_place(tmp_path, name, content, row, column):
    path = tmp_path / name
    if content is ...:
        path.mkdir()
    elif content is not None:
        write(path, content)
    places = set()
    for use in OTHER_FILES.get(path.suffix, TABLES):
        try:
            use(path)
        except FedJigsawError as error:
            check_place(error, path)
            places.add((error.row, error.column))
    assert (row, column) in places


@pytest.mark.parametrize("day", ["01.02.45", "1-Feb-45", "01/02/45", "01-02-45"])
def test_years_of_two_digits_are_refused(tmp_path, day):
    rows = "".join(f"{i},{day}\n" for i in range(20))
    path = write(tmp_path / "t.csv", "x,born\n" + rows)
    schema = Schema((Column("x"), Column("born", "date")))
    with raises(DataError, "four digits", file="t.csv", row=1, column="born"):
        sites.measure(path, schema=schema)
    check = sites.check_file(path, schema).columns[1]
    assert check.problems
    assert any("four digits" in remark for remark in check.remarks)
    days = [f"{i + 1:02}{day[2:]}" for i in range(20)]
    rows = "".join(f"{i % 7}.5,{d}\n" for i, d in enumerate(days))
    other = write(tmp_path / "o.csv", "x,born\n" + rows)
    proposed = next(c for c in sites.propose_schema(other).columns if c.column.name == "born")
    assert proposed.column.kind == "ignore"
    with raises(ParameterError, "format", column="born"):
        Column("born", "date", format="%d.%m.%y")


def test_files_are_known_by_their_ending_in_any_case(tmp_path):
    for clients, name in ((["a", "b"], "A.PARQUET"), (["b", "c"], "b.Parquet")):
        parquet.write_table(pa.table({"x": [1.0, 2.0], "site": clients}), tmp_path / name)
    assert list(sources.by_client(tmp_path, "site")) == ["a", "b", "c"]
    assert list(sources.by_client(tmp_path / "A.PARQUET", "site")) == ["a", "b"]
    part = sites.Assigned(pa.array([0, 1]), pa.array([3.0, 2.0]))
    for name in ("L.PARQUET", "L.CSV"):
        assert sites.write_labels(tmp_path / name, [part]) == 2
    assert parquet.read_table(tmp_path / "L.PARQUET")["label"].to_pylist() == [0, 1]


DOUBTFUL = {  # content, the sign that makes a fraction of it, the row, both readings
    "thousands?": ("x;y\n980;1\n7.470;2\n", ".", 2, "7.47 or 7470"),
    "of a comma": ("x;y\n980;1\n7,470;2\n", ",", 2, "7.47 or 7470"),
    "in quotes": ('x,y\n980,1\n"7,470",2\n', ",", 2, "7.47 or 7470"),
    "later": ("x;y\n" + "980;1\n" * 700_000 + "7.470;2\n", ".", 700_001, "7.47 or 7470"),
    "all alike": ("x;y\n-1.234;1\n-7.470;2\n", ".", 1, "1.234 or -1234"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_number_that_can_be_read_in_two_ways_is_refused_with_both(tmp_path, name):
    content, sign, row, told = DOUBTFUL[name]
    path = write(tmp_path / "t.csv", content)
    with raises(DataError, told, file="t.csv", row=row, column="x", parameter="decimal"):
        open_table(path, columns=["x"])
    assert read(path, columns=["x"], decimal=sign)[-1][0] in (7.47, -7.47)
    assert read(path, columns=["x"], decimal=",."[sign == ","])[-1][0] in (7470, -7470)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "numbers"),
    [
        ("x;y\n980;1,5\n7.470;2\n", [980, 7470]),
        ("x;y\n980;1.5\n7.470;2\n", [980, 7.47]),
        ("x;y\n980;1\n7.470;2\n7.4701;3\n", [980, 7.47, 7.4701]),
        ("x;y\n980;1\n7.470;2\n0.470;3\n", [980, 7.47, 0.47]),
        ("x;y\n980;1\n7.470;2\n1.5;3\n", [980, 7.47, 1.5]),
        ("x;y\n980;1\n7.470;2\n1.007.470;3\n", [980, 7470, 1007470]),
        ("x;y\n980;1\n7.470;2\n1.007,5;3\n", [980, 7470, 1007.5]),
        ("x,y\n980,1\n7.470,2\n", [980, 7.47]),
        ("x;y\n" + "980;1\n" * 700_000 + "7.470;2\n0,5;1\n", [7470, 0.5]),
        ("x;y\n7.470;1\n" + "980;1\n" * 700_000 + "0,5;1\n", [980, 0.5]),
    ],
)
def test_a_file_decides_what_its_signs_mean(tmp_path, content, numbers):
    path = write(tmp_path / "t.csv", content)
    assert [row[0] for row in read(path, columns=["x"])[-len(numbers) :]] == numbers
    if content.startswith("x;y\n7.470"):
        assert read(path, columns=["x"])[0] == [7470]


def test_a_decimal_sign_is_one_of_two(tmp_path):
    path = write(tmp_path / "t.csv", "x;y\n7.470;1\n")
    with pytest.raises(ParameterError):
        open_table(path, decimal="'")


@pytest.mark.parametrize("sign", "^~#§")
def test_a_delimiter_that_is_not_read_is_named(tmp_path, sign):
    path = write(tmp_path / "t.csv", "age,bmi,sex\n61,27.5,f\n70,22.1,m\n".replace(",", sign))
    with raises(DataError, re.escape(repr(sign)), file="t.csv"):
        open_table(path)


def test_one_column_may_have_any_sign(tmp_path):
    path = write(tmp_path / "t.csv", "time:now\n12:30:00\n7\n")
    assert open_table(path, columns=["time:now"]).columns == ("time:now",)
