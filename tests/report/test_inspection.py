import warnings
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.columns import scaling
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import CountsWarning, MessageError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score
from fedjigsaw.messages import Model
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.report.inspection import describe
from fedjigsaw.report.values import file_values


def test_a_summary_without_a_guard_says_that_a_center_is_a_row(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[0.0], [0.1], [0.2], [50.0]]))
    file = sites.summarize(tmp_path / "a.npy", 2, guard=Guard(1, "exact"))
    text = "\n".join(describe(file, 123))
    assert "the center of one row is that row" in text
    assert "without a guard, any center may be a single row" in text
    assert "123 bytes" in text


def test_every_kind(grid_sites):
    path = grid_sites[0][0]
    file = sites.summarize(path, 30, scaler=scaling.merge([sites.measure(path)]))
    model = sites.aggregate({"a": file}, 3)
    stats = sites.measure(path)
    alone = scaling.measure("b", ("x",), [np.array([[3.0]])])
    one = Score("a", "m", np.array([1]), np.array([4.0]))
    for content, words in (
        (file, "Columns (2): x, y"),
        (model, "Made from 1 site: 0"),
        (model, "Method: jigsaw, with assign = nearest, detail = None, liars = 0, "),
        (stats, "Column statistics of site '0'"),
        (alone, "the mean of one row is that row"),
        (one, "the distance of that row to its center"),
        (scaling.merge([stats]), "A scaler for 2 columns"),
    ):
        assert words in "\n".join(describe(content, 1))


def test_every_number_that_leaves_is_shown(grid_sites):
    path = grid_sites[0][0]
    file = sites.summarize(path, 30, scaler=scaling.merge([sites.measure(path)]))
    few, every = (describe(file, 1, **most) for most in ({}, {"most": 99}))
    assert sum("; sse " in line for line in few) == 20
    assert f"  ... and {len(file.summary.centers) - 20} more; --all shows them" in few
    shown = [line for line in every if "; sse " in line]
    assert len(shown) == len(file.summary.centers)
    for line, n, sse in zip(shown, file.summary.counts, file.summary.sse, strict=True):
        assert line.endswith(f"; {n} rows; sse {sse:.6g}")
    mean, deviation = file.scaler.mean[1], file.scaler.deviation[1]
    sign = "-" if mean >= 0 else "+"
    assert f"  (y {sign} {abs(mean):.6g}) / {deviation:.6g}" in every
    score = Score("a", "m", np.array([2, 3]), np.array([0.25, 8.0]))
    assert "  1: 3 rows, summed squared distance 8" in describe(score, 1)
    assert "  ... and 1 more" in describe(score, 1, most=1)
    other = replace(file.summary, tensors={"support": np.array([0.5, 2.0, 3.0])})
    file = replace(file, summary=other)
    assert "  support: 0.5, 2, 3" in describe(file, 1)
    assert "  support: 0.5, 2, ... and 1 more" in describe(file, 1, most=2)


def test_statistics_are_shown_as_standard_deviations():
    stats = scaling.measure("b", ("x",), [np.array([[1.0], [5.0]])])
    assert "  x: mean 3, standard deviation 2" in describe(stats, 1)


def test_a_model_without_counts_calls_its_rows_guesses(grid_sites):
    for counts, guessed in (("exact", False), ("none", True)):
        files = {
            str(path): sites.summarize(path, 3, guard=Guard(5, counts)) for path in grid_sites[0]
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CountsWarning)
            model = sites.aggregate(files, 3)
        text = "\n".join(describe(formats.decode(formats.encode(model)), 1))
        assert ("rows are guesses" in text) is guessed
        assert ("Mutual information of site and cluster" in text) is not guessed


@pytest.mark.parametrize(
    ("bits", "rule"),
    [(0.29, "Nearest-center labels"), (1.0, "Local-center labels (assign --local)")],
)
def test_the_rule_for_labels_is_recommended(bits, rule):
    model = Model([[0.0]], "jigsaw", {}, ("x",), {"skew": np.array([bits])})
    text = f"Mutual information of site and cluster: {bits:.2f} bits. {rule} are recommended."
    assert text in describe(ModelFile(model, None, ("a",), 9), 1)


def test_a_foreign_model_with_wrong_support(grid_sites):
    path = grid_sites[0][0]
    file = sites.aggregate({"a": sites.summarize(path, 3)}, 3)
    wrong = replace(file.model, tensors={**file.model.tensors, "support_points": np.ones(4)})
    with pytest.raises(MessageError, match="support of a model"):
        describe(replace(file, model=wrong), 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("name", ["clients", "points", "spread"])
def test_a_foreign_model_with_support_that_is_no_number(name, value):
    tensors = {f"support_{n}": np.ones(1) for n in ("clients", "points", "spread")}
    tensors[f"support_{name}"] = np.array([value])
    model = ModelFile(Model([[0.0]], "jigsaw", {}, ("x",), tensors), None, ("a",), 5)
    with pytest.raises(MessageError, match=f"support_{name} of a model must be finite"):
        describe(model, 1)


def test_a_foreign_model_with_a_curve_over_no_numbers():
    tensors = {"k_curve": np.array([[np.nan, 1.0, 1.0]]), "k_confidence": np.ones(1)}
    model = ModelFile(Model([[0.0]], "jigsaw", {}, ("x",), tensors), None, ("a",), 5)
    with pytest.raises(MessageError, match="k of the k_curve of a model"):
        describe(model, 1)


def test_a_gap_in_statistics_is_no_value(tmp_path):
    rows = "".join(
        f"{5 + i % 3},{'' if i % 4 else 2},{'' if i % 2 else 'yes'}\n" for i in range(40)
    )
    (tmp_path / "bern.csv").write_text("x,glucose,ill\n" + rows)
    glucose = Column("glucose", range=(0, 40), scale="log")
    schema = Schema((Column("x"), glucose, Column("ill", "boolean"), Column("no", "ignore")))
    path = tmp_path / "bern.csv"
    path.write_text(path.read_text().replace("\n", ",\n").replace("ill,\n", "ill,no\n"))
    stats = sites.measure(path, schema=schema)
    lines = list(describe(stats, 1))
    values = file_values(stats, lines)["columns"]
    assert values["glucose"]["mean"] == pytest.approx(np.log1p(2))
    assert values["glucose"]["deviation"] == pytest.approx(0, abs=1e-6)
    assert values["ill"]["mean"] == pytest.approx(1)
    assert values["x"]["mean"] == pytest.approx(np.mean([5 + i % 3 for i in range(40)]))
    (line,) = [line for line in lines if line.startswith("  glucose: geo")]
    assert "mean 2," in line
    line = next(line for line in lines if line.startswith("  ill: "))
    assert "20 rows yes (100 %)" in line
