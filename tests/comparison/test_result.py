"""What a comparison shows: means, tables for papers, a picture."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import compare
from fedjigsaw.comparison.contenders import Contender
from fedjigsaw.comparison.result import Comparison
from fedjigsaw.errors import DataError

HOSTILE = r"50%_<b>&$x$#{~^}|\input"


@pytest.fixture(scope="module")
def found(grid):
    """Three methods and the benchmark, with three seeds."""
    data, _ = grid
    return compare(
        {"mine": "jigsaw", HOSTILE: ("jigsaw", {"n_init": 1}), "M-Avg": "match", "pooled": "central"},
        data.X, clients="dirichlet", y=data.y, n_clients=5, n_clusters=15, seeds=3,
    )  # fmt: skip


def made(numbers, *, pools=()):
    """A comparison of known objectives, by method and seed; a text is why a run failed."""
    labels = list(numbers)
    contenders = tuple(
        Contender(label, "#000000", label, {}, PoolsOrNot(label in pools)) for label in labels
    )
    n_seeds = len(numbers[labels[0]])
    measured = {True: "objective_ratio", False: "failed"}
    rows = tuple(
        {"method": label, "seed": seed, measured[isinstance(value, float)]: value}
        for seed in range(n_seeds)
        for label in labels
        for value in [numbers[label][seed]]
    )
    return Comparison(rows, contenders, tuple(range(n_seeds)), "toy")


class PoolsOrNot:
    n_clusters = 4

    def __init__(self, pools_data):
        self.pools_data = pools_data


class TestMeans:
    def test_they_are_those_of_pandas(self, found):
        expected = (
            found.frame.drop(columns="failed").groupby("method", sort=False).agg(["mean", "std"])
        )
        summary = found.summary()
        assert summary.index.tolist() == found.methods
        for name in ("objective_ratio", "ari", "bytes_per_client", "seconds"):
            assert np.allclose(summary[name], expected[name])
        assert summary["seeds", "count"].tolist() == [3] * 4

    def test_by_hand(self):
        found = made({"a": [1.0, 2.0, 3.0], "b": [4.0, 4.0, 4.0]})
        assert found.means() == {
            "a": {"objective_ratio": {"mean": 2.0, "std": 1.0}},
            "b": {"objective_ratio": {"mean": 4.0, "std": 0.0}},
        }
        assert "2.000±1.000" in repr(found)

    def test_one_seed_has_no_deviation(self):
        found = made({"a": [1.5], "b": [2.0]})
        assert found.means()["a"]["objective_ratio"] == {"mean": 1.5, "std": None}
        assert "±" not in repr(found)
        assert "With one seed, a difference may be chance." in repr(found)

    def test_p_values(self, found):
        table = found.significance()
        assert table.index.tolist() == found.methods
        assert table.loc["pooled"].isna().all()
        verdict = found.verdicts()["objective_ratio"]
        assert table["objective_ratio"].dropna().to_dict() == pytest.approx(
            {label: p for label, p in verdict.p_values.items() if p is not None}
        )


class TestWhatIsBest:
    def test_pooled_k_means_takes_no_part(self):
        found = made({"pooled": [1.0, 1.0], "a": [1.1, 1.1], "b": [1.2, 1.3]}, pools=["pooled"])
        assert found.verdicts()["objective_ratio"].best == ("a",)
        assert "without pooled, which pools all rows" in repr(found)


class TestMoreClustersThanAskedFor:
    """With a center for each row, every objective is 0."""

    def with_found(self, n_found):
        found = made({"a": [1.1, 1.2, 1.0], "large": [0.2, 0.3, 0.1], "b": [3.0, 3.1, 2.9]})
        rows = [
            {**row, "n_found": n_found if (row["method"], row["seed"]) == ("large", 1) else 4}
            for row in found.rows
        ]
        return replace(found, rows=tuple(rows))

    def test_they_do_not_make_a_method_the_best(self):
        found = self.with_found(5)
        assert found.verdicts()["objective_ratio"].best == ("a",)
        assert np.isnan(found.significance().loc["large", "objective_ratio"])
        left_out = (
            "without large, which found more clusters than asked for and was not tested. "
            "All others that were tested are significantly worse"
        )
        for text in (repr(found), found.to_latex(), found._repr_html_()):
            assert left_out in text

    def test_as_many_or_fewer_take_part(self):
        assert self.with_found(4).verdicts()["objective_ratio"].best == ("large",)
        assert self.with_found(3).verdicts()["objective_ratio"].best == ("large",)

    def test_of_a_real_method(self, toy):
        found = compare([toy.ClientMeans(1), toy.ClientMeans(2, shift=1.0)], toy.X,
                        clients=toy.clients, seeds=1)  # fmt: skip
        assert [contender.n_clusters for contender in found.competitors()] == [2]


class TestFailedWithASeed:
    NUMBERS = {  # noqa: RUF012
        "a": [1.0, 1.1, 0.9], "b": [3.0, 3.1, 2.9], "bad": [1.0, "no luck", 0.9],
    }  # fmt: skip

    def test_nothing_is_claimed_about_methods_that_were_not_tested(self):
        found = made({"pooled": [1.0, 1.0, 1.0], **self.NUMBERS}, pools=["pooled"])
        left_out = (
            "without pooled, which pools all rows, and without bad, which failed with a seed and "
            "was not tested. All others that were tested are significantly worse (paired"
        )
        assert np.isnan(found.significance().loc["bad", "objective_ratio"])
        for text in (repr(found), found.to_latex(), found._repr_html_()):
            assert left_out in text
            assert "All others are" not in text


def cells(line):
    """The cells of a line of a LaTeX table; an escaped & is none of its borders."""
    return re.split(r"(?<!\\)&", line.removesuffix(r" \\"))


class TestLatex:
    def test_structure(self, found):
        tex = found.to_latex(caption=r"Methods for $k = 15$", label="tab:methods")
        bare = re.sub(r"\\[{}$&%#_]", "", tex)  # without escaped signs
        depth = np.cumsum([(c == "{") - (c == "}") for c in bare])
        assert depth.min() >= 0
        assert depth[-1] == 0
        assert bare.count("$") % 2 == 0
        assert re.findall(r"\\(begin|end)\{(\w+)\}", tex) == [
            ("begin", "table"), ("begin", "tabular"), ("end", "tabular"), ("end", "table"),
        ]  # fmt: skip
        assert [tex.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
        (columns,) = re.findall(r"\\begin\{tabular\}\{(l+r+)\}", tex)
        lines = [line for line in tex.splitlines() if line.endswith(r" \\")]
        assert len(lines) == 5
        assert {len(cells(line)) for line in lines} == {len(columns)}
        assert r"\caption{Methods for $k = 15$}" in tex
        assert r"\label{tab:methods}" in tex

    def test_signs_of_names_are_escaped(self, found):
        tex = found.to_latex()
        escaped = (
            r"50\%\_\textless{}b\textgreater{}\&\$x\$\#\{\textasciitilde{}\textasciicircum{}\}"
        )
        assert escaped + r"\textbar{}\textbackslash{}input & " in tex
        assert not re.search(r"(?<!\\)[%#]", tex.split("\n", 1)[1])

    def test_the_best_is_bold_and_what_is_not_worse_is_told(self):
        found = made({"a": [1.0, 1.1, 0.9], "b": [1.05, 1.0, 1.0], "c": [3.0, 3.1, 2.9]})
        tex = found.to_latex()
        assert r"a & \textbf{1.000$\pm$0.100} \\" in tex
        assert r"b & 1.017$\pm$0.029$^{\dagger}$ \\" in tex
        assert r"c & 3.000$\pm$0.100 \\" in tex
        assert "Bold: the best mean of the column." in tex
        assert (
            r"$^{\dagger}$: not significantly worse than the best (paired t-test over 3 seeds"
            in tex
        )
        assert r"level 5\%" in tex

    def test_one_method_is_not_the_best_of_anything(self):
        assert r"\textbf" not in made({"a": [1.0, 1.1]}).to_latex()


class TestOtherForms:
    def test_csv_has_every_number(self, found, tmp_path):
        path = tmp_path / "rows.csv"
        text = found.to_csv(path)
        assert path.read_text() == f"{text}\n"
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == 12
        assert list(rows[0]) == found.frame.columns.tolist()
        assert [float(row["ari"]) for row in rows] == found.frame["ari"].tolist()
        assert rows[1]["method"] == HOSTILE

    def test_a_notebook_shows_names_as_text(self, found):
        html = found._repr_html_()
        assert "50%_&lt;b&gt;&amp;$x$" in html
        assert html.count("<tr>") == html.count("</tr>") == 5

    def test_files_are_written_whole_or_not_at_all(self, found, tmp_path):
        with pytest.raises(DataError, match="Cannot write"):
            found.to_latex(tmp_path / "nowhere" / "table.tex")
        found.to_latex(str(tmp_path / "table.tex"))
        assert [path.name for path in tmp_path.iterdir()] == ["table.tex"]


class TestPicture:
    def test_bars_error_bars_and_colors(self):
        from matplotlib.colors import to_hex

        found = made({"a": [1.4, 1.6], "b": [1.0, 1.0]})
        (axes,) = found.plot().axes
        bars = [patch for patch in axes.patches if patch.get_height() > 0.5]
        assert [bar.get_width() for bar in bars] == pytest.approx([0.5, 0.0])
        (line, *_) = [c for c in axes.collections if hasattr(c, "get_segments")]
        ((left, _), (right, _)) = line.get_segments()[0]
        assert (right - left) / 2 == pytest.approx(np.std([1.4, 1.6], ddof=1))
        assert {to_hex(bar.get_facecolor()) for bar in bars} == {"#000000"}
        assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
