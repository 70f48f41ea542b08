"""Excel files: the first visible sheet, as text files are read."""

import zipfile
from datetime import date, datetime

import pytest

from builders import read
from fedjigsaw import sites
from fedjigsaw.columns.text import TextFormat
from fedjigsaw.errors import DataError, DataWarning
from fedjigsaw.io import excel
from fedjigsaw.io.tables import open_table
from raising import raises

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


def rewrite(path, change):
    """Write a workbook whose parts are changed, each by its name."""
    changed = path.with_name("x.xlsx")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return changed


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
    with raises(DataError, "formulas", file="t.xlsx", column="b"):
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


def test_formulas_have_the_values_that_were_stored(save):
    def store(_, data):  # openpyxl writes no values of formulas, Excel does
        return data.replace(b"<v></v>", b"<v>2</v>").replace(b"<v />", b"<v>2</v>")

    assert read(rewrite(save(["a", "b"], [1, "=A2*2"]), store)) == [[1, 2]]


def test_numbers_in_texts_and_in_cells_go_together(save):
    path = save(["a", "b"], ["1,5", 2.5], [2.25, "k.A."])
    assert open_table(path).reader.text == TextFormat(",")
    assert "decimal comma" in open_table(path).reader.told
    assert read(path, columns=["a"]) == [[1.5], [2.25]]
    assert read(path, drop_missing=True) == [[1.5, 2.5]]


@pytest.mark.parametrize("n_above", [0, 9])
def test_texts_that_can_be_read_in_two_ways_are_refused_and_cells_of_numbers_are_not(
    save, monkeypatch, n_above
):
    monkeypatch.setattr(excel, "BATCH", 4)
    monkeypatch.setattr(excel, "SAMPLE", 4)
    numbers = [[7.123, 980]] * n_above
    path = save(["x", "y"], *numbers, ["1.234", 1.5], ["980", 7.47], ["7.470", 3])
    place = {"file": "t.xlsx", "row": n_above + 1, "column": "x"}
    with raises(DataError, "1.234 or 1234", parameter="decimal", **place):
        read(path)
    assert read(path, decimal=".")[n_above:] == [[1.234, 1.5], [980, 7.47], [7.47, 3]]
    path = save(["x", "y"], *numbers, [1.234, "1,5"], [1234, "2,5"])
    if n_above:
        with raises(DataError, file="t.xlsx", parameter="decimal"):
            read(path, columns=["x"])
    assert read(path, decimal=",")[-2:] == [[1.234, 1.5], [1234, 2.5]]


@pytest.mark.parametrize("chunk", [2**20, 700])
def test_hidden_rows_and_columns_are_told(save, monkeypatch, chunk):
    monkeypatch.setattr(excel, "CHUNK", chunk)
    path = save(["a", "b", "c"], *[[i, i / 8, i] for i in range(40)])
    book = openpyxl.load_workbook(path)
    for row in (4, 5, 30, 99):  # the last has no cells
        book.active.row_dimensions[row].hidden = True
    book.active.column_dimensions["B"].hidden = True
    book.save(path)
    with pytest.warns(DataWarning, match=r"t\.xlsx.* 3 rows, column 'b'"):
        assert len(read(path, columns=["a"])) == 40


def test_the_first_visible_sheet_is_read_and_told(save):
    path = save(["a"], [1], notes="visible", old="hidden")
    assert open_table(path).reader.told == "sheet 'first', not 'notes', 'old'"


@pytest.mark.parametrize("rows", [[], [["Ward 3"], ["of", "Bern"]], [["field", "age"]]])
def test_errors_name_the_other_sheets_and_what_to_do(save, rows):
    path = save(*rows, data="visible")
    with raises(DataError, "sheet 'first', not 'data'.*move that to the front", file="t.xlsx"):
        sites.propose_schema(path)


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
        with raises(DataError, f"{block} are merged", file="t.xlsx", column=column):
            read(merge(block))

    def test_rows_are_those_of_the_sheet_in_each_batch(self, merge, monkeypatch):
        monkeypatch.setattr(excel, "BATCH", 4)
        monkeypatch.setattr(excel, "CHUNK", 50)
        with raises(DataError, "B14:B15 are merged", file="t.xlsx", column="b"):
            read(merge("A1:C1", "B14:B15", above=1), drop_missing=True)

    @pytest.mark.parametrize("names", [["sex", "ward"], ["sex", None, "age"], ["Report of 2024"]])
    def test_names_that_are_merged_are_no_missing_values(self, save, names):
        path = save(names, [], *[["f", "A", 30 + i] for i in range(20)])
        book = openpyxl.load_workbook(path)
        blocks = {2: ("A1:A2", "B1:B2"), 3: ("A1:B1", "C1:C2"), 1: ("A1:C1",)}[len(names)]
        for block in blocks:
            book.active.merge_cells(block)
        book.save(path)
        with raises(DataError, f"{blocks[0]} are merged", file="t.xlsx"):
            open_table(path)

    def test_names_that_are_merged_with_empty_columns_do_no_harm(self, merge):
        assert len(read(merge("C1:E1", "G1:G4"))) == 19

    def test_other_columns_and_blocks_without_a_value_do_no_harm(self, merge):
        path = merge("B3:B6", "A9:B9", "A30:C31", "E2:E5")
        assert read(path, columns=["a", "c"]) == [[i, i / 8] for i in range(1, 20)]


@pytest.mark.parametrize(
    ("title", "names", "row"),
    [
        ([[], ["Ward 3"], []], ["age", "bmi"], 4),
        ([["Ward 3"], ["User", "meier"]], ["age", "bmi", "note"], 3),  # cells at the end are empty
    ],
)
def test_a_title_above_the_names_is_told_with_its_row(save, title, names, row):
    with raises(DataError, f"row {row}", file="t.xlsx"):
        open_table(save(*title, names, *[[60 + i, 25.5] for i in range(9)]))


def test_empty_rows_and_columns(save):
    path = save([], ["a", "b", None, None], [1, 2], [None, None], [3, 4], [None], ["", None])
    assert open_table(path).columns == ("a", "b")
    with raises(DataError, "1 in 'b'", file="t.xlsx", column="a", parameter="drop_missing"):
        read(path)
    assert read(path, drop_missing=True) == [[1, 2], [3, 4]]


def test_batches_add_up(save, monkeypatch):
    monkeypatch.setattr(excel, "BATCH", 7)
    monkeypatch.setattr(excel, "SAMPLE", 3)
    path = save(["a", "b"], *([j, j / 7] for j in range(30)), [5, "x"])
    assert read(path, columns=["a"]) == [[j] for j in [*range(30), 5]]
    with raises(DataError, file="t.xlsx", row=31, column="b"):
        read(path)


class TestBadInput:
    @pytest.mark.parametrize(
        ("rows", "words", "row", "column"),
        [
            ([], "empty", None, ""),
            ([["a", "b"]], "no rows", None, ""),
            ([["a", "a"], [1, 2]], "several", None, "a"),
            ([[61.26, 24.35], [1.5, 2]], "header", None, ""),
            ([[date(2024, 12, 31), "x"], [1.5, 2]], "header", None, ""),
            ([[None, "a", None, "b"], [1, 2, 3, 4]], "1, 3", None, ""),
            ([["Patients of Bern"], ["age", "dose"], [1, 2]], "without a name", 1, ""),
            ([["a", "b"], [1, 2], [1, "oops"]], "oops", 2, "b"),
        ],
    )
    def test_sheets(self, save, rows, words, row, column):
        with raises(DataError, words, file="t.xlsx", row=row, column=column):
            read(save(*rows))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'<row r="2"', b'<row r="999999999"'),
            (b'r="A2"', b'r="ZZZ2"'),
            (b"<v>7</v>", b"<v>" + b"x" * 32_768 + b"</v>"),
        ],
    )
    def test_more_than_excel_has(self, save, old, new):
        def change(name, data):
            assert old in data or "sheet1" not in name
            return data.replace(old, new).replace(b't="n"><v>x', b't="str"><v>x')

        with raises(DataError, "more than", file="x.xlsx"):
            read(rewrite(save(["a"], [7]), change))

    def test_other_archives(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as file:
            file.writestr("a.txt", "a")
        with raises(DataError, "cannot be read as XLSX", file="t.xlsx"):
            open_table(tmp_path / "t.xlsx")

    @pytest.mark.parametrize(
        ("part", "limit"),
        [
            ("xl/styles.xml", "MAX_TREE"),
            ("xl/styles.xml", "MAX_TEXTS"),
            ("xl/workbook.xml", "MAX_TREE"),
            ("xl/worksheets/sheet1.xml", "MAX_BYTES"),
        ],
    )
    def test_a_small_file_that_unpacks_to_much_is_refused(self, save, monkeypatch, part, limit):
        def fill(name, data):
            before, end, after = data.rpartition(b"</")
            return before + b"<a/>" * 2**19 + end + after if name == part else data

        path = rewrite(save(["a"], [1]), fill)
        assert path.stat().st_size < 2**14
        monkeypatch.setattr(excel, limit, 2**20)
        with raises(DataError, f"'{part}'", file="x.xlsx"):
            open_table(path)

    @pytest.mark.slow
    @pytest.mark.parametrize("padding", [b"", b"<!--" + b"x" * 10**6 + b"-->"])
    def test_entities_are_refused(self, save, padding):
        def change(name, data):
            data = data.replace(b"<v>1</v>", b"<v>&z9;</v>")
            return padding + BOMB + data if "sheet1" in name else data

        with raises(DataError, file="x.xlsx"):
            open_table(rewrite(save(["a"], [1]), change))


@pytest.mark.slow
@pytest.mark.parametrize("last", [["Summe", 190, None], ["Summe", 190, 1.5], ["as of 12 March"]])
@pytest.mark.parametrize("n", [20, 2046, 2047, 2048, 5000])  # 2048 rows are seen at first
def test_a_total_or_a_note_below_the_rows_is_refused(save, n, last):
    rows = [["id", "x", "y"], *[[f"A{i}", i, 1.5] for i in range(n)], last]
    with raises(DataError, last[0], file="t.xlsx", column="id"):
        read(save(*rows), columns=["x"])
