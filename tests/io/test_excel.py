"""Excel files: the first visible sheet, as text files are read."""

import subprocess
import sys
import zipfile
from datetime import date, datetime

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.columns.text import TextFormat
from fedjigsaw.errors import DataError
from fedjigsaw.io import excel
from fedjigsaw.io.tables import open_table

openpyxl = pytest.importorskip("openpyxl")
ENTITIES = ['<!ENTITY z0 "zzzzzzzzzz">', *(f'<!ENTITY z{j} "{f"&z{j - 1};" * 10}">' for j in range(1, 10))]  # fmt: skip
BOMB = f"<!DOCTYPE x [{''.join(ENTITIES)}]>".encode()  # 10 GB


@pytest.fixture
def save(tmp_path):
    def write(*rows, **sheets):
        book = openpyxl.Workbook()
        book.active.title = "first"
        for row in rows:
            book.active.append(row)
        for name, state in sheets.items():
            book.create_sheet(name).sheet_state = state
        book.save(tmp_path / "t.xlsx")
        return tmp_path / "t.xlsx"

    return write


def read(path, **options):
    table = open_table(path, **options)
    return np.concatenate([batch.rows for batch in table.batches()]).tolist()


def texts(path, *names):
    """The columns as the reader gives them."""
    (batch,) = open_table(path).reader.batches(names)
    return [column.to_pylist() for column in batch]


def test_numbers(save):
    path = save(["a", "b"], [1, 2.5], [0.1, -1e-30])
    assert read(path) == [[1, 2.5], [0.1, -1e-30]]
    assert read(path, columns=["b"]) == [[2.5], [-1e-30]]
    assert open_table(path).reader.told == ""


def test_formulas_without_saved_values_are_an_error(save):
    """As other programs than Excel write them: the column would be read as empty."""
    formulas = [[i, f"=A{i + 2}*10"] for i in range(20)]
    with pytest.raises(DataError, match=r"t.xlsx, column 'b', has formulas without saved values\."):
        open_table(save(["a", "b"], *formulas))
    assert texts(save(["a", "b"], [1, None], [2, None]), "b") == [["", ""]]


def test_cells_of_other_kinds_are_texts(save):
    path = save(
        ["d", "t", "w", "s", "e"],
        [date(2024, 12, 31), datetime(2024, 12, 31, 23, 59), True, "I10", "#N/A"],
        [None, None, False, 7, "#DIV/0!"],
    )
    found = texts(path, "d", "t", "w", "s", "e")
    assert found == [["2024-12-31", ""], ["2024-12-31 23:59:00", ""], ["true", "false"], ["I10", "7"], ["", ""]]  # fmt: skip


def test_formulas_have_the_values_that_were_stored(save, tmp_path):
    path = save(["a", "b"], [1, "=A2*2"])
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "v.xlsx", "w") as new:
        for name in old.namelist():  # openpyxl writes no values of formulas, Excel does
            new.writestr(name, old.read(name).replace(b"<v></v>", b"<v>2</v>").replace(b"<v />", b"<v>2</v>"))  # fmt: skip
    assert read(tmp_path / "v.xlsx") == [[1, 2]]


def test_numbers_in_texts_and_in_cells_go_together(save):
    path = save(["a", "b"], ["1,5", 2.5], [2.25, "k.A."])
    assert open_table(path).reader.text == TextFormat(",")
    assert "decimal comma" in open_table(path).reader.told
    assert read(path, columns=["a"]) == [[1.5], [2.25]]
    assert read(path, drop_missing=True) == [[1.5, 2.5]]


def test_the_first_visible_sheet_is_read_and_told(save):
    path = save(["a"], [1], notes="visible", old="hidden")
    assert open_table(path).reader.told == "sheet 'first', not 'notes', 'old'"


@pytest.mark.parametrize("rows", [[], [["Ward 3"], ["of", "Bern"]], [["field", "age"]]])
def test_errors_name_the_other_sheets_and_what_to_do(save, rows):
    path = save(*rows, data="visible")
    with pytest.raises(DataError) as error:
        sites.propose_schema(path)
    assert "sheet 'first', not 'data'" in str(error.value)
    assert "move that to the front" in str(error.value)


@pytest.mark.parametrize("place", [0, 1])
def test_sheets_of_charts_are_skipped_also_empty_ones(save, place):
    path = save(["a", "b"], [1, 2], [3, 4])
    book = openpyxl.load_workbook(path)
    book.create_chartsheet("chart", place)
    book.save(path)
    assert read(path) == [[1, 2], [3, 4]]
    assert open_table(path).reader.told == ""


class TestMergedCells:
    """All but the first cell of a block would be missing values, without a word."""

    @pytest.fixture
    def merge(self, save):
        def write(*blocks, above=0, rows=20):
            path = save(
                *[[]] * above, ["a", "b", "c"], *[[i, i * i, i / 8] for i in range(1, rows)]
            )
            book = openpyxl.load_workbook(path)
            for block in blocks:
                book.active.merge_cells(block)
            book.save(path)
            return path

        return write

    @pytest.mark.parametrize(
        ("block", "column"), [("B3:B6", "b"), ("A3:B3", "b"), ("B4:C5", "b"), ("C20:C25", "c")]
    )
    def test_they_are_an_error_that_names_them(self, merge, block, column):
        words = rf"t.xlsx, column '{column}': the cells {block} are merged, .*Unmerge them"
        with pytest.raises(DataError, match=words):
            read(merge(block))

    def test_rows_are_those_of_the_sheet_in_each_batch(self, merge, monkeypatch):
        monkeypatch.setattr(excel, "BATCH", 4)
        monkeypatch.setattr(excel, "CHUNK", 50)
        with pytest.raises(DataError, match="the cells B14:B15 are merged"):
            read(merge("A1:C1", "B14:B15", above=1), drop_missing=True)

    @pytest.mark.parametrize("names", [["sex", "ward"], ["sex", None, "age"], ["Report of 2024"]])
    def test_names_that_are_merged_are_no_missing_values(self, save, names):
        path = save(names, [], *[["f", "A", 30 + i] for i in range(20)])
        book = openpyxl.load_workbook(path)
        blocks = {2: ("A1:A2", "B1:B2"), 3: ("A1:B1", "C1:C2"), 1: ("A1:C1",)}[len(names)]
        for block in blocks:
            book.active.merge_cells(block)
        book.save(path)
        with pytest.raises(DataError, match=f"the cells {blocks[0]} are merged, where the names of the columns should be. Unmerge"):  # fmt: skip
            open_table(path)

    def test_names_that_are_merged_with_empty_columns_do_no_harm(self, merge):
        assert len(read(merge("C1:E1", "G1:G4"))) == 19

    def test_other_columns_and_blocks_without_a_value_do_no_harm(self, merge):
        path = merge("B3:B6", "A9:B9", "A30:C31", "E2:E5")
        assert read(path, columns=["a", "c"]) == [[i, i / 8] for i in range(1, 20)]


def test_a_title_above_the_names_is_told_with_its_row(save):
    rows = [[], ["Ward 3"], [], ["age", "bmi"], *[[60 + i, 25.5] for i in range(9)]]
    with pytest.raises(DataError, match=r"names of the columns seem to be in row 4: delete the"):
        open_table(save(*rows))


def test_a_title_is_told_where_cells_at_the_end_of_rows_are_empty(save):
    names = ["age", "bmi", "note"]
    rows = [["Ward 3"], ["User", "meier"], names, *[[60 + i, 25.5] for i in range(9)]]
    with pytest.raises(DataError, match=r"names of the columns seem to be in row 3: delete the"):
        open_table(save(*rows))


def test_empty_rows_and_columns(save):
    path = save([], ["a", "b", None, None], [1, 2], [None, None], [3, 4], [None], ["", None])
    assert open_table(path).columns == ("a", "b")
    with pytest.raises(DataError, match="missing values: 1 in 'a', 1 in 'b'"):
        read(path)
    assert read(path, drop_missing=True) == [[1, 2], [3, 4]]


def test_batches_add_up(save, monkeypatch):
    monkeypatch.setattr(excel, "BATCH", 7)
    monkeypatch.setattr(excel, "SAMPLE", 3)
    path = save(["a", "b"], *([j, j / 7] for j in range(30)), [5, "x"])
    assert read(path, columns=["a"]) == [[j] for j in [*range(30), 5]]
    with pytest.raises(DataError, match=r"t.xlsx, row 31, column 'b': 'x' is not a finite number"):
        read(path)


class TestBadInput:
    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            ([], "t.xlsx is empty"),
            ([["a", "b"]], "has no rows"),
            ([["a", "a"], [1, 2]], "several columns named 'a'"),
            ([[61.26, 24.35], [1.5, 2]], "has no header line"),
            ([[date(2024, 12, 31), "x"], [1.5, 2]], "has no header line"),
            ([[None, "a", None, "b"], [1, 2, 3, 4]], "columns without a name: 1, 3"),
            ([["Patients of Bern"], ["age", "dose"], [1, 2]], "t.xlsx, row 1, has values in columns without a name"),
            ([["a", "b"], [1, 2], [1, "oops"]], "t.xlsx, row 2, column 'b': 'oops' is not a finite number"),
        ],
    )  # fmt: skip
    def test_sheets(self, save, rows, words):
        with pytest.raises(DataError, match=words):
            read(save(*rows))

    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            (b'<row r="2"', b'<row r="999999999"', "more than 1,048,576 rows or 16,384 columns"),
            (b'r="A2"', b'r="ZZZ2"', "more than 1,048,576 rows or 16,384 columns"),
            (b"<v>7</v>", b"<v>" + b"x" * 32_768 + b"</v>", "more than 32,767 characters"),
        ],
    )
    def test_more_than_excel_has(self, save, tmp_path, old, new, words):
        with zipfile.ZipFile(save(["a"], [7])) as book, zipfile.ZipFile(tmp_path / "x.xlsx", "w") as changed:  # fmt: skip
            for name in book.namelist():
                data = book.read(name)
                if "sheet1" in name:
                    assert old in data
                    data = data.replace(old, new).replace(b't="n"><v>x', b't="str"><v>x')
                changed.writestr(name, data)
        with pytest.raises(DataError, match=f"x.xlsx cannot be read .*{words}"):
            read(tmp_path / "x.xlsx")

    def test_no_value_of_the_first_line_is_shown(self, save):
        with pytest.raises(DataError) as caught:
            open_table(save([61.26, 24.35], [1.5, 2]))
        assert "61" not in str(caught.value).split("t.xlsx")[1]

    @pytest.mark.parametrize("content", [b"PK junk", b"a;b\n1;2\n"])
    def test_other_files(self, tmp_path, content):
        (tmp_path / "t.xlsx").write_bytes(content)
        with pytest.raises(DataError, match="t.xlsx cannot be read as XLSX"):
            open_table(tmp_path / "t.xlsx")

    def test_other_archives(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as file:
            file.writestr("a.txt", "a")
        with pytest.raises(DataError, match="t.xlsx cannot be read as XLSX"):
            open_table(tmp_path / "t.xlsx")

    def test_a_part_that_unpacks_to_too_much(self, save, monkeypatch):
        path = save(["a"], [1])
        monkeypatch.setattr(excel, "MAX_TEXTS", 10)
        with pytest.raises(DataError, match=r"inside it has [0-9,]+ bytes. Save the sheet as CSV"):
            open_table(path)

    @pytest.mark.parametrize(
        ("part", "end", "limit"),
        [
            ("xl/styles.xml", b"</styleSheet>", "MAX_TREE"),
            ("xl/workbook.xml", b"</workbook>", "MAX_TREE"),
            ("xl/worksheets/sheet1.xml", b"</worksheet>", "MAX_BYTES"),
        ],
    )
    def test_a_small_file_that_unpacks_to_much_is_refused(
        self, save, tmp_path, monkeypatch, part, end, limit
    ):
        with zipfile.ZipFile(save(["a"], [1])) as old, zipfile.ZipFile(tmp_path / "x.xlsx", "w", zipfile.ZIP_DEFLATED) as new:  # fmt: skip
            for name in old.namelist():
                data = old.read(name)
                new.writestr(name, data.replace(end, b"<a/>" * 2**19 + end) if name == part else data)  # fmt: skip
        assert (tmp_path / "x.xlsx").stat().st_size < 2**14
        monkeypatch.setattr(excel, limit, 2**20)
        with pytest.raises(DataError, match=rf"'{part}' inside it has [0-9,]+ bytes. Save"):
            open_table(tmp_path / "x.xlsx")

    @pytest.mark.parametrize(
        ("padding", "words"),
        [(b"", "was not written by Excel"), (b"<!--" + b"x" * 10**6 + b"-->", "read as XLSX")],
    )
    def test_entities_are_refused(self, save, tmp_path, padding, words):
        with zipfile.ZipFile(save(["a"], [1])) as old, zipfile.ZipFile(tmp_path / "x.xlsx", "w") as new:  # fmt: skip
            for name in old.namelist():
                data = old.read(name)
                if "sheet1" in name:
                    data = padding + BOMB + data.replace(b"<v>1</v>", b"<v>&z9;</v>")
                new.writestr(name, data)
        with pytest.raises(DataError, match=f"x.xlsx cannot be .*{words}"):
            open_table(tmp_path / "x.xlsx")


def test_without_the_extra_the_error_says_so(save):
    code = (
        "import sys; sys.modules['openpyxl'] = None\n"
        "from fedjigsaw.io.tables import open_table\n"
        "from fedjigsaw.errors import ExtraError\n"
        "try: open_table(sys.argv[1])\n"
        "except ExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, save(["a"], [1])], capture_output=True, text=True)  # fmt: skip
    assert done.stdout.strip() == "Reading Excel files requires openpyxl: pip install 'fedjigsaw[excel]'."  # fmt: skip


@pytest.mark.parametrize("n", [20, 2046, 2047, 2048, 5000])  # 2048 rows are seen at first
def test_a_total_below_the_rows_is_refused(save, n):
    rows = [["id", "x", "y"], *[[f"A{i}", i, 1.5] for i in range(n)], ["Summe", 190, None]]
    with pytest.raises(DataError, match=r"its last row has 'Summe' in column 'id'"):
        read(save(*rows), columns=["x"])


def test_a_note_below_the_rows_is_refused(save):
    rows = [["id", "x", "y"], *[[f"A{i}", i, 1.5] for i in range(20)], ["as of 12 March"]]
    with pytest.raises(DataError, match=r"'as of 12 March' in column 'id', and seems to be a note"):
        read(save(*rows), columns=["x"])
