"""Files of text as people have them: delimiters, decimal signs, encodings, compression, headers."""

import codecs
import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import read, write
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.columns.text import TextFormat
from fedjigsaw.errors import DataError
from fedjigsaw.io import text_files
from fedjigsaw.io.tables import open_table
from fedjigsaw.sites import measure, propose_schema
from raising import raises

NONE = ""


# content, columns, rows, decimal sign, thousands, told
FILES = {
    "plain": ("a,b\n1,2.5\n", "ab", [[1, 2.5]], ".", "", NONE),
    "CRLF": ("a,b\r\n1,2.5\r\n", "ab", [[1, 2.5]], ".", "", NONE),
    "CR": ("a,b\r1,2.5\r", "ab", [[1, 2.5]], ".", "", NONE),
    "no line break at the end": ("a,b\n1,2.5", "ab", [[1, 2.5]], ".", "", NONE),
    "BOM": (codecs.BOM_UTF8 + b"a,b\n1,2.5\n", "ab", [[1, 2.5]], ".", "", NONE),
    "UTF-16": ("ä,b\n1,2.5\n".encode("utf-16"), "äb", [[1, 2.5]], ".", "", "UTF-16"),
    "UTF-16 of the other end": (codecs.BOM_UTF16_BE + "ä,b\r\n1,2\r\n".encode("utf-16-be"), "äb", [[1, 2]], ".", "", "UTF-16"),
    "Windows-1252": ("€,ä\n1,2.5\n".encode("cp1252"), "€ä", [[1, 2.5]], ".", "", "Windows-1252"),
    "Latin-1": (b"\x81,\xe4\n1,2.5\n", ["\x81", "ä"], DataError, ".", "", "Latin-1"),
    "German": ("a;b\r\n1,5;2\r\n-0,25;1.234,5\r\n".encode("cp1252"), "ab", [[1.5, 2], [-0.25, 1234.5]], ",", ".", "semicolons between columns, decimal comma, points between thousands"),
    "German, encoded": ("größe;b\n1,5;2\n".encode("cp1252"), ["größe", "b"], [[1.5, 2]], ",", "", "semicolons between columns, decimal comma, Windows-1252"),
    "semicolons and points": ("a;b\n1.5;2\n", "ab", [[1.5, 2]], ".", "", "semicolons between columns"),
    "tabs": ("a\tb\n1,5\t2\n", "ab", [[1.5, 2]], ",", "", "tabs between columns, decimal comma"),
    "bars": ("a|b\n1.5|2\n", "ab", [[1.5, 2]], ".", "", "vertical bars between columns"),
    "comma in a name": ("x, y;b\n1,5;2\n2;3,5\n", ["x, y", "b"], [[1.5, 2], [2, 3.5]], ",", "", "semicolons between columns, decimal comma"),
    "as many commas as semicolons": ("x, y;b\n1,5;2\n2,5;3\n", ["x, y", "b"], [[1.5, 2], [2.5, 3]], ",", "", "semicolons between columns, decimal comma"),
    "semicolons in quotes": ('"a;b;c;d",q\n1,2\n', ["a;b;c;d", "q"], [[1, 2]], ".", "", NONE),
    "quoted decimal commas": ('a,b\n"1,5","2"\n', "ab", [[1.5, 2]], ",", "", "decimal comma"),
    "one column": ("a\n1.5\n2\n", "a", [[1.5], [2]], ".", "", NONE),
    "one column, commas": ("a\n1,5\n2\n", "a", [[1.5], [2]], ",", "", "decimal comma"),
    "a line for Excel": ("sep=;\na;b\n1,5;2\n", "ab", [[1.5, 2]], ",", "", "semicolons between columns, decimal comma"),
    "empty lines first": ("\n\r\na,b\n1,2\n\n3,4\n\n", "ab", [[1, 2], [3, 4]], ".", "", NONE),
    "a sign at the end of each line": ("a;b;\n1;2;\n", "ab", [[1, 2]], ".", "", "semicolons between columns"),
    "spaces around names": ("a, b\n1, 2\n", "ab", [[1, 2]], ".", "", NONE),
    "American thousands": ('a,b\n"1,234,567",2\n"1,234",950\n', "ab", [[1234567, 2], [1234, 950]], ".", ",", "commas between thousands"),
    "American, both": ('a,b\n"1,234.5",2\n', "ab", [[1234.5, 2]], ".", ",", "commas between thousands"),
    "Swiss": ("a;b\n1'234.5;2\n1’000;3\n", "ab", [[1234.5, 2], [1000, 3]], ".", "'", "semicolons between columns, apostrophes between thousands"),
    "French": ("a;b\n1 234,5;2\n1\u00a0000;3\n", "ab", [[1234.5, 2], [1000, 3]], ",", " ", "semicolons between columns, decimal comma, spaces between thousands"),
    "thousands alone, points": ("a;b\n1.234.567;2\n", "ab", [[1234567, 2]], ",", ".", "semicolons between columns, decimal comma, points between thousands"),
    "guess: thousands, points": ("a;b\n1.234;2,5\n", "ab", [[1234, 2.5]], ",", ".", "semicolons between columns, decimal comma, points between thousands, 1.234 is read as 1234"),
    "no guess: decimal point": ("a,b\n1.234,2\n", "ab", [[1.234, 2]], ".", "", NONE),
    "no guess: other decimals": ("a;b\n1.234;2.5\n", "ab", [[1.234, 2.5]], ".", "", "semicolons between columns"),
    "no guess: no numbers": ("a;b;c\n12.345;2;A1\nx;3;A2\ny;4;A3\n", "abc", None, ".", "", "semicolons between columns"),
    "real minus": ("a;b\n−1,5;2\n–0,5;−1.234,5\n", "ab", [[-1.5, 2], [-0.5, -1234.5]], ",", ".", "semicolons between columns, decimal comma, points between thousands"),
    "real minus, points": ("a,b\n−1.5,2\n−,3\n", "ab", None, ".", "", NONE),
    "a leading zero tells": ("a;b\n0,123;2\n", "ab", [[0.123, 2]], ",", "", "semicolons between columns, decimal comma"),
    "powers": ("a;b\n1,234e3;2\n", "ab", [[1234, 2]], ",", "", "semicolons between columns, decimal comma"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_detection(tmp_path, name):
    content, columns, rows, decimal, thousands, told = FILES[name]
    path = write(tmp_path / "t.csv", content)
    if rows is DataError:
        with raises(DataError, "printable", file="t.csv"):
            open_table(path)
        return
    table = open_table(path)
    assert table.columns == tuple(columns)
    assert table.reader.text == TextFormat(decimal, thousands)
    assert table.reader.told == told
    if rows is not None:
        assert read(path) == rows


def test_texts_that_look_like_numbers_do_not_count(tmp_path):
    rows = "{};12.2024;8.30;E11.9;31.12.2024;{}\n"
    content = "bmi;month;clock;icd;day;code\n" + "".join(
        rows.format(bmi, code) for bmi, code in (("28,7", "1.5"), ("30,1", "A1"), ("30,2", "A2"))
    )
    table = open_table(write(tmp_path / "t.csv", content), columns=["bmi"])
    assert table.reader.text == TextFormat(",")


@pytest.mark.parametrize("ending", ["csv.gz", "tsv", "tsv.gz", "txt", "txt.gz", "CSV", "Csv.Gz"])
def test_endings(tmp_path, ending):
    data = b"a\tb\n1\t2\n"
    packed = gzip.compress(data) if ending.lower().endswith(".gz") else data
    assert read(write(tmp_path / f"t.{ending}", packed)) == [[1, 2]]


def test_an_umlaut_after_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "SAMPLE", 1000)
    monkeypatch.setattr(text_files, "CHUNK", 333)
    content = "ort,a\n" + "Bern,1\n" * 1000 + "Zürich,2\n"
    for encoding, told in (("cp1252", "Windows-1252"), ("utf-8", "")):
        path = write(tmp_path / "t.csv", content.encode(encoding))
        table = open_table(path, columns=["a"], id_column="ort")
        assert table.reader.told == told
        assert list(table.batches())[-1].ids[0][-1].as_py() == "Zürich"


@pytest.mark.parametrize("size", range(1000, 1009))
def test_the_sample_may_end_anywhere(tmp_path, monkeypatch, size):
    monkeypatch.setattr(text_files, "SAMPLE", size)
    path = write(tmp_path / "t.csv", "b,a\n" + '"x\ny",1\n' * 1000)
    assert len(read(path, columns=["a"])) == 1000


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize(
    ("first", "last", "number", "text"),
    [
        ("1;2\n", "3;1,5\n", 1.5, TextFormat(",")),
        ("1,5;2\n", "3;1.234,5\n", 1234.5, TextFormat(",", ".")),
        ("1,5;2\n", "3;1.234\n", 1234, TextFormat(",", ".")),
        ("1.5;2\n", "3;1,234\n", 1234, TextFormat(".", ",")),
        ("1.5,2\n", '3,"1,234.5"\n', 1234.5, TextFormat(".", ",")),
        ("1.5,2\n", "3,234\n", 234, TextFormat()),
        ("1,5;2\n", "x.123 y;7\n", 7, TextFormat(",")),
    ],
)
def test_signs_after_the_sample(tmp_path, monkeypatch, encoding, first, last, number, text):
    monkeypatch.setattr(text_files, "SAMPLE", 1000)
    monkeypatch.setattr(text_files, "CHUNK", 7)
    header = "größe;b\n" if ";" in first else "größe,b\n"
    path = write(tmp_path / "t.csv", (header + first * 3000 + last + first * 9).encode(encoding))
    assert open_table(path, columns=["b"]).reader.text == text
    assert read(path, columns=["b"])[3000] == [number]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(
        st.tuples(*[st.floats(-1e9, 1e9, allow_subnormal=False)] * 2), min_size=1, max_size=20
    ),
    decimal=st.sampled_from(".,"),
    thousands=st.sampled_from(["", ".", ",", "'", " ", "\u00a0", "’"]),
    delimiter=st.sampled_from(";\t|,"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    newline=st.sampled_from(["\n", "\r\n"]),
    packed=st.booleans(),
)
def test_what_is_written_is_read(
    tmp_path_factory, numbers, decimal, thousands, delimiter, encoding, newline, packed
):
    if thousands == decimal:
        thousands = ""
    signs = str.maketrans({",": thousands, ".": decimal})
    # two digits tell the decimal sign from thousands
    rows = [[f"{n:,.2f}".translate(signs) for n in row] for row in numbers]
    lines = [delimiter.join(f'"{cell}"' for cell in row) for row in [["größe", "b"], *rows]]
    data = newline.join([*lines, ""]).encode(encoding)
    path = tmp_path_factory.mktemp("any") / ("t.csv.gz" if packed else "t.csv")
    write(path, gzip.compress(data) if packed else data)
    assert read(path) == [[round(n, 2) for n in row] for row in numbers]


class TestHeader:
    @pytest.mark.parametrize(
        "content",
        [
            *("61.26,24.35\n58.1,30.2\n", "61,26;24,35\n58,1;30,2\n", "age,61.26\n58.1,30.2\n"),
            *(
                "1.061,26;f\n58,1;m\n",
                "x,2024-12-31\n1,2024-11-30\n",
                "x,31.12.2024\n1,30.11.2024\n",
            ),
            *("x,true\n1,false\n", "f,A61.26\nm,B1\nf,B2\n", "0,1\n1,0\n"),
            *("Zacharias,Yes\nPat,no\nPat,no\n", "Muster7,4\nMeiers12,5\nPatric9,6\n"),
        ],
    )
    def test_first_lines_that_look_like_data_are_refused_unseen(self, tmp_path, content):
        with raises(DataError, "no header line", file="t.csv") as caught:
            open_table(write(tmp_path / "t.csv", content))
        for part in content.split("\n")[0].replace(";", ",").split(","):
            assert part not in str(caught.value).replace(str(tmp_path), "").split()
        assert "61.26" not in str(caught.value)

    def test_the_place_of_what_looks_like_data_is_told(self, tmp_path):
        path = write(tmp_path / "t.csv", "age,bmi,2024\n61,27.5,1\n58,30.2,0\n")
        with raises(DataError, "column 3", file="t.csv"):
            open_table(path)

    @pytest.mark.parametrize(
        ("content", "columns"),
        [
            ("x0,x1\n1,2\n", ["x0", "x1"]),
            ("0,1,2\n1.5,2,3\n", ["0", "1", "2"]),
            (",0,1,2\n7,1.5,2,3\n", ["unnamed", "0", "1", "2"]),
            ("nan,inf\n1,2\n", ["nan", "inf"]),
            ("female,age\nfemale,2\n,3\n", ["female", "age"]),
            ("age,dose\n1,2\nage,dose\n", ["age", "dose"]),
            (",a\n5,1\n3,2\n", ["unnamed", "a"]),
            ("a,,b\n1,,2\n", ["a", "b"]),
            ("V1,t\n1,5\n2,6\n", ["V1", "t"]),
            ("T0,s,no\nhigh,1,7\nlow,0,8\n", ["T0", "s", "no"]),
            ("icd10,normal\nE11.9,x\nI10,y\n", ["icd10", "normal"]),
            ("q1,m\nyes,x\nno,s1\n", ["q1", "m"]),
            ("kg/m²,m\nhigh,1\nlow,2\n", ["kg/m²", "m"]),
        ],
    )
    def test_other_names_are_kept(self, tmp_path, content, columns):
        assert open_table(write(tmp_path / "t.csv", content)).reader.names == columns


class TestBadInput:
    LONG = "2" * 3_000_000
    BAD = (
        ("a;b\n1.5;x\n2;1,5\n3;7,5\n", "'1,5' in row 2, column 'b'", 1, "a"),
        ("a;b\n1.5;1\n1,5;1\n", "'1,5' in row 2, column 'a'", 1, "a"),
        ('a;b\n"1,234,567";1\n1,5;1\n', "'1,5' in row 2, column 'a'", 1, "a"),
        ("a,b\n1,2\n".encode("utf-16-le"), None, None, ""),
        (b"\xff\xfea", None, None, ""),
        (codecs.BOM_UTF8 + b"a\n\xff\n", "UTF-8", None, ""),
        (b"PK\x03\x04 and so on", "Excel", None, ""),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "t.csv.gz", None, ""),
        ('a,b\n1,"2\n3"\n' + "3,4\n" * 9, "'2', and more lines", 1, "b"),
        ('a,b\n5,6\n1,"2\n' + "3,4\n" * 600_000 + '3,"\n3,4\n', "quotation mark", 3, ""),
        (f"a,b\n1,{LONG}\n", "longer", 1, ""),
        (f"a,b\n1,ü{LONG}\n".encode("cp1252"), "longer", 1, ""),
        (f"a,{LONG}\n1,2\n", "its first line", None, ""),
    )

    @pytest.mark.slow
    @pytest.mark.parametrize(("content", "told", "row", "column"), BAD, ids=range(len(BAD)))
    def test_the_place_is_told(self, tmp_path, content, told, row, column):
        with raises(DataError, told, file="t.csv", row=row, column=column):
            read(write(tmp_path / "t.csv", content))

    def test_a_contradiction_after_the_sample(self, tmp_path, monkeypatch):
        monkeypatch.setattr(text_files, "SAMPLE", 1000)
        monkeypatch.setattr(text_files, "BLOCK", 2000)
        content = "a;b\n" + "1;2\n" * 1999 + "1.5;1\n1,5;2\n"
        with raises(DataError, "'1,5' in row 2001", file="t.csv", row=2000, column="a"):
            open_table(write(tmp_path / "t.csv", content))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("line", "row", "column"),
        [
            ("1.5;2\n", 1001, "a"),
            ("geheim\n", 1001, ""),
            ('1;"2\n' + "3;4\n" * 600_000 + '3;"\n', 1003, ""),
        ],
        ids=range(3),
    )
    def test_after_the_sample(self, tmp_path, monkeypatch, line, row, column):
        monkeypatch.setattr(text_files, "SAMPLE", 1000)
        path = write(tmp_path / "t.csv", "\na;b\n" + "1,5;2\n" * 1000 + line)
        with raises(DataError, file="t.csv", row=row, column=column) as caught:
            read(path)
        assert "geheim" not in str(caught.value)

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_a_sign_at_the_end_of_all_rows_but_not_of_the_header(self, tmp_path, end):
        path = write(tmp_path / "t.csv", end.join(["a;b", "1,5;2;", "3,5;4;", ""]))
        with raises(DataError, "end the first line with it", file="t.csv", row=1):
            open_table(path)
        content = path.read_text().replace("a;b", "a;b;")
        assert read(write(path, content)) == [[1.5, 2], [3.5, 4]]

    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
    @pytest.mark.parametrize("first", ["utf-8", "cp1252"])
    def test_lines_of_two_encodings_are_named(self, tmp_path, first, end):
        """Two exports that were joined: one category would become two."""
        second = "cp1252" if first == "utf-8" else "utf-8"
        lines = [b"a,b", b"x,1", "Köln,1".encode(first), b"Bern,2", "Malmö,3".encode(second)]
        lines_of = {first: 3, second: 5}
        with raises(DataError, f"line {lines_of['utf-8']} is UTF-8", file="t.csv", row=3):
            open_table(write(tmp_path / "t.csv", end.join(lines)))

    def test_one_encoding_beyond_ascii_is_one(self, tmp_path):
        for text in ("«CAFÉ»", "“CAFÉ”", "Ü®", "PRÉ–OP", "Nº 5 °C µg"):
            content = f"a,b\n{text},1\nKöln,2\n".encode("cp1252")
            assert open_table(write(tmp_path / "t.csv", content)).reader.told == "Windows-1252"


class TestQuotationMarks:
    ROWS = "".join(f"{n},{'ab'[n % 2]}\n" for n in range(1, 501))

    @pytest.mark.parametrize("rows", ['"2\n3\n', '"2\n3\n4"\n', '"2\n3\n"4\n', '"2\n\n3"\n5\n'])
    def test_in_a_file_of_one_column_no_value_holds_rows(self, tmp_path, rows):
        path = write(tmp_path / "t.csv", f'x\n"0"\n1\n{rows}')
        with raises(DataError, file="t.csv", row=4):
            open_table(path, columns=["x"])

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
    @pytest.mark.parametrize("newline", ["\r\n", "\r"])
    @pytest.mark.parametrize(
        ("middle", "line"),
        [
            ('501,"a\n', 502),
            ('501,"a""\n', 502),
            ('501,"a\n502,"b"\n', 502),
            ('501,"a\n502,"b\n', 502),  # an even number of them
            ('501,"two\nlines"\n502,"x\n', 504),
        ],
    )
    def test_one_that_is_not_closed(self, tmp_path, monkeypatch, encoding, newline, middle, line):
        monkeypatch.setattr(text_files, "CHUNK", 7)
        content = f"x,größe\n{self.ROWS}{middle}{self.ROWS}".replace("\n", newline)
        path = write(tmp_path / "t.csv", content.encode(encoding))
        with raises(DataError, file="t.csv", row=line):
            open_table(path, columns=["x"])

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
    @pytest.mark.parametrize("size", [5, 7, 2**20])
    def test_others_are_read(self, tmp_path, monkeypatch, encoding, size):
        monkeypatch.setattr(text_files, "CHUNK", size)
        content = '"x",c\n1,5"\n2,"a ""b"""\n"3" ,"two\n""lines"""\n4,""\n5,ĢȢ∢"\n6,"z"'
        path = write(tmp_path / "t.csv", content.encode(encoding))
        assert read(path, columns=["x"]) == [[n] for n in range(1, 7)]


ROWS = "".join(f"{40 + i}{{0}}2{i % 10}.5{{0}}{'fm'[i % 2]}\n" for i in range(30))


@pytest.mark.parametrize(
    ("title", "line"),
    [
        ("Export of ward 3\n", 2),
        ("Export of ward 3\n\n", 3),
        ("Export of ward 3{0}{0}\n\n", 3),
        ("Export{0}ward 3{0}\n", 2),
        ("\nExport of ward 3{0} 2024-10-24\nPatients: 60\n\n", 5),
        ("Vital signs{0}{0}Person\n", 2),  # merged cells
    ],
)
@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("schema", [None, Schema((Column("age"), Column("bmi")))])
def test_a_title_above_the_names_is_told_with_its_line(tmp_path, title, line, delimiter, schema):
    content = f"{title}age{{0}}bmi{{0}}sex\n{ROWS}".replace("{0}", delimiter)
    with raises(DataError, f"line {line}: delete", file="x.csv"):
        measure(write(tmp_path / "x.csv", content), schema=schema)


TABLE = f"age,bmi,sex\n{ROWS}".replace("{0}", ",")
PAIRS = "age,bmi\n" + "".join(f"{40 + i},2{i % 10}.5\n" for i in range(30))
LABS = "".join(f"{40 + i},{'fm'[i % 2]},2{i % 10}.5,{90 + i}\n" for i in range(30))
UNITS = ("years,,kg/m2,mg/dl", ",,kg/m2,mg/dl", "years,-,kg/m2,n/a", "%,,%,%", "years,x,%,%")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("Export,ward 3,2024-10-24\n" + TABLE, "in line 2"),
        ("Ward,3,B\n" + TABLE, "in line 2"),
        ("Hospital,Bern,\nUser,meier,\n" + TABLE, "in line 3"),
        ("Export,ward A,Dr. Secret\n" + TABLE, "lines 1 to 2"),
        ("Age,BMI,Sex\nyears,kg/m2,code\n" + TABLE, "lines 1 to 3"),
        ("Hospital,Bern\nUser,meier\n\n" + PAIRS, "lines 1 to 4"),  # keys and values
        *((f"age,sex,bmi,glucose\n{units}\n{LABS}", "lines 1 to 2") for units in UNITS),
    ],
)
def test_no_schema_is_made_of_a_title_as_wide_as_the_table(tmp_path, content, told):
    with raises(DataError, told, file="x.csv") as error:
        propose_schema(write(tmp_path / "x.csv", content))
    assert "Secret" not in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        "age,bmi\n61,27.5\n70,22.1\n35,24.0\n",
        "town,age,bmi,crp\nBern,not asked,x,5\n" + "Lyon,61,27.5,\n" * 9,
        "town,age,bmi\nBern,k.A.,unknown\n" + "Lyon,61,27.5\n" * 9,
        "town,age\nBern,not asked\n" + "Lyon,61\n" * 9,
        "age,bmi\n61,27.5\nnot asked,refused\n" + "70,22.1\n" * 9,
        "id,crp,egfr\na,<5,>90\n" + "b,7,61.5\n" * 9,
        "id,chromosome,allele\na,X,T\n" + "b,7,1\n" * 9 + "c,Y,G\n",
        "bmi\n27,5\n22,1\n24,0\n",
        "note\nfall, left\nfall, right\n1, 2\n",
        "a,b\nx,\n,y\nname,other\n1,2\n3,4\n",
    ],
)
def test_other_files_have_no_title(tmp_path, content):
    assert open_table(write(tmp_path / "x.csv", content)).reader.hint == ""


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("n_blank", [1, 3, 700])
def test_empty_rows_at_the_end_are_no_rows(tmp_path, monkeypatch, encoding, n_blank):
    monkeypatch.setattr(text_files, "BLOCK", 2**11)  # they are more than the last block
    rows = "".join(f"{i};größer;{i}\r\n" for i in range(300))
    content = f"x;ä;y\r\n{rows}" + ';"";\r\n' * n_blank + "\r\n"
    path = write(tmp_path / "x.csv", content.encode(encoding))
    table = open_table(path, columns=["x", "y"])
    assert sum(len(batch.rows) for batch in table.batches()) == 300
    assert f"{n_blank} empty row{'s' * (n_blank > 1)} at the end" in table.reader.told
    more = ";;\r\n" * 30_000
    with raises(DataError, "empty rows", file="x.csv"):
        open_table(write(path, (content + more).encode(encoding)))


@pytest.mark.slow
@pytest.mark.parametrize(("n_columns", "n_blank"), [(700, 95), (2000, 40), (8000, 9)])
def test_empty_rows_of_wide_tables_are_no_rows_either(tmp_path, n_columns, n_blank):
    """They may be more than the bytes in which they are looked for: then, somebody is told."""
    names, row = (",".join(f"{a}{j}" for j in range(n_columns)) for a in ("x", ""))
    rows = f"{names}\n" + f"{row}\n" * 4
    assert sum(len(b.rows) for b in open_table(write(tmp_path / "x.csv", rows)).batches()) == 4
    path = write(tmp_path / "x.csv", rows + ("," * (n_columns - 1) + "\n") * n_blank)
    with raises(DataError, "empty rows", file="x.csv"):
        open_table(path)


def test_empty_rows_elsewhere_are_rows(tmp_path):
    path = write(tmp_path / "x.csv", "x,y\n1,2\n,\n3,4\n")
    assert sum(len(b.kept) for b in open_table(path, drop_missing=True).batches()) == 3


@pytest.mark.parametrize("row", ["Summe;;77,5;", "TOTAL:;;1.234;", ";Mittelwert;3;", "Moyenne;;3;",
                                 "Gesamt;2;77,5;3", "-;Mean;3;1e5", ";;28;Total"])  # fmt: skip
@pytest.mark.parametrize("end", ["", "\n", "\n;;;\n;;;\n"])
def test_a_total_below_the_rows_is_refused(tmp_path, row, end):
    rows = "".join(f"A{i};w;{i},5;x\n" for i in range(30))
    path = write(tmp_path / "x.csv", f"id;sex;bmi;kind\n{rows}{row}{end}")
    (word,) = (cell for cell in row.split(";") if cell[:1].isalpha())
    column = ("id", "sex", "bmi", "kind")[row.split(";").index(word)]
    with raises(DataError, word, file="x.csv", column=column):
        open_table(path)


@pytest.mark.parametrize("note", ["* preliminary values", "Quelle: KIS, Stand 12.03.2024"])
def test_a_note_below_the_rows_is_refused(tmp_path, note):
    """It would be a row of missing values: with a schema, of means."""
    rows = "".join(f"A{i};w;{i},5\n" for i in range(30))
    path = write(tmp_path / "x.csv", f"id;sex;bmi\n{rows}{note};;\n{note};;\n;;\n")
    with raises(DataError, "note", file="x.csv", column="id"):
        open_table(path)
    path = write(tmp_path / "x.csv", f"id;sex;bmi\n{rows}{note}\n")
    with raises(DataError, "note", file="x.csv", row=31):
        read(path, columns=["bmi"])


def test_texts_of_several_words_are_values_where_others_are(tmp_path):
    rows = "".join(f"ward {i};w;{i},5\n" for i in range(30))
    path = write(tmp_path / "x.csv", f"ward;sex;bmi\n{rows}intensive care;;\n")
    table = open_table(path, columns=["bmi"], drop_missing=True)
    assert sum(len(batch.kept) for batch in table.batches()) == 31


def test_a_row_that_looks_like_a_total_is_read_where_the_error_says(tmp_path):
    """A patient named Som, or an operation that was total: only a person can tell."""
    rows = "".join(f"partial;{i};{i},5\n" for i in range(30))
    path = write(tmp_path / "x.csv", f"type;age;bmi\n{rows}total;66;\n")
    with raises(DataError, file="x.csv", column="type"):
        open_table(path)
    path = write(tmp_path / "x.csv", f"type;age;bmi\ntotal;66;\n{rows}")
    table = open_table(path, columns=["age"])
    assert sum(len(batch.rows) for batch in table.batches()) == 31


@pytest.mark.parametrize("word", ["total", "media"])
def test_a_category_is_no_total(tmp_path, word):
    """A total prosthesis, and education in Spanish: other rows have the word as well."""
    rows = "".join(f"{(word, 'partial')[i % 2]};{i};{i},5\n" for i in range(30))
    path = write(tmp_path / "x.csv", f"type;age;bmi\n{rows}{word};66;\n")
    assert len(read(path, columns=["age"])) == 31


@pytest.mark.parametrize("row", ["A9;w;3;total", "total;w;3;x", "A9;;3;x", "total;;;"])
def test_other_last_rows_are_rows(tmp_path, row):
    rows = "".join(f"A{i};w;{i},5;x\n" for i in range(30))
    path = write(tmp_path / "x.csv", f"id;sex;bmi;kind\n{rows}{row}\n")
    table = open_table(path, columns=["bmi"], drop_missing=True)
    assert sum(len(batch.kept) for batch in table.batches()) == 31


def test_a_line_of_commas_does_not_fill_the_memory(tmp_path):
    """A file of 2 MB needed seven gigabytes."""
    (tmp_path / "t.csv").write_text("," * 140_000 + "\n" + "," * 140_000 + "\n")
    with raises(DataError, "131,072 columns", file="t.csv"):
        open_table(tmp_path / "t.csv")
