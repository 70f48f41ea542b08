"""The errors that a data manager meets most often, word by word.

All other tests of errors assert their type, and the file, row, column or option that they name.
"""

import pytest

from fedjigsaw.errors import FedJigsawError

ROWS = "".join(f"{30 + i},{20 + i % 7}.5,{'fm'[i % 2]}\n" for i in range(20))
GOOD = f"age,bmi,sex\n{ROWS}"
SCHEMA = """
format = 1
[columns.age]
range = [0, 120]
[columns.seen]
kind = "date"
"""
STATS = "stats bern.csv -o out"
BY_SCHEMA = f"{STATS} --schema s.toml"
AGAIN = "30,2020-01-01\n" * 9
# a file, a command and its error
ERRORS = [
    ("", STATS, "bern.csv is empty."),
    ("age,bmi\n", STATS, "bern.csv has no rows."),
    (GOOD, "stats none.csv -o out", "Cannot read none.csv: no such file or directory."),
    ("a,a\n1,2\n", STATS, "bern.csv has several columns named 'a'. Rename all but one of each in the file."),
    ("61.2,24.3\n" * 9, STATS, "bern.csv has no header line: its first line looks like data. Add a line with the names of the columns. A name must not be a number, a date, or a value of its own column; see column 1."),
    (f"Export of ward 3\n{GOOD}", STATS, "bern.csv does not begin with one line of names. The names of the columns seem to be in line 2: delete the lines above it."),
    ("age,bmi\n1,2\n3\n", STATS, "bern.csv, row 2, has 1 value, and the header has 2 names (separated by commas). Correct the row, or delete it if it is a note; a value that contains commas needs quotation marks."),
    ("age,bmi\n1,2\n3,four\n", STATS, "bern.csv, row 2, column 'bmi': 'four' is not a finite number. Correct the value, or leave this column out."),
    ("age,bmi\n1,2\n,3\n4,\n", STATS, "bern.csv has missing values: 1 in 'age', 1 in 'bmi'. Skip these rows, or fill in the values first."),
    ("age;bmi\n7.470;1\n" + "9;2\n" * 9, STATS, "bern.csv, row 1, column 'age': '7.470' can be 7.47 or 7470, and nothing in the file tells which. Name the decimal sign, a point or a comma, or give a Parquet file."),
    ('age,bmi\n1,"2\n' + "3,4\n" * 9 + '5,6"\n', STATS, "bern.csv, line 2: a quotation mark opens a value and is not closed at its end. Close it, or remove it; inside such a value, write it twice."),
    (f"{GOOD}Summe,600,\n", STATS, "bern.csv: its last row has 'Summe' in column 'age', and seems to sum up the others. Delete it: it would count as a row. If it is a row like the others, move it up: only the last one is looked at."),
    ("age,bmi\n1,2\n3,4\n", STATS, "bern.csv has 2 rows; statistics of fewer than 5 rows may not leave (min_rows=5)."),
    (GOOD, f"{STATS} --columns age,weight", "bern.csv has no column 'weight'. It has 'age', 'bmi', 'sex'."),
    (GOOD, BY_SCHEMA, "bern.csv has no column 'seen', which the schema names. Rename a column of the file (`fedjigsaw schema apply --rename`), or ignore it in the schema of all sites."),
    (f"age,seen\n130,2020-01-01\n{AGAIN}", BY_SCHEMA, "bern.csv, row 1, column 'age': 130 is outside the range of the schema, 0 to 120. Correct it, or set outside = 'missing' for 'age' in the schema."),
    ("age,seen\n" + "30,01/02/2020\n" * 9, BY_SCHEMA, "bern.csv, row 1, column 'seen': dates can be read with the day or with the month first. Set format = '%d/%m/%Y' or '%m/%d/%Y' in the schema."),
    ("age,seen\n" + "30,01.02.45\n" * 9, BY_SCHEMA, "bern.csv, row 1, column 'seen': '01.02.45' is not a date. Write years with four digits: 45 may be 1945 or 2045."),
    (GOOD, f"{STATS} --columns age --epsilon 1", '--epsilon needs --bounds, the least and greatest value of each column: a file such as {"age": [0, 120]}, or two numbers for all columns. Take them from knowledge of the field, never from the rows. With a schema, its ranges are the bounds.'),
    (GOOD, "aggregate bern.csv -k 2 -o out", "bern.csv is not a fedjigsaw file, or it is truncated. Correct or leave out that file."),
]  # fmt: skip


@pytest.mark.parametrize(("content", "words", "sentence"), ERRORS, ids=range(len(ERRORS)))
def test_an_error_says_what_happened_where_and_what_to_do(
    run, tmp_path, monkeypatch, content, words, sentence
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bern.csv").write_text(content)
    (tmp_path / "s.toml").write_text(SCHEMA)
    with pytest.raises(FedJigsawError) as error:
        run(words)
    assert str(error.value) == sentence
    assert not (tmp_path / "out").exists()
