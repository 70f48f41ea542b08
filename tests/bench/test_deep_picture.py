from fedjigsaw.bench import deep_picture, deep_runs
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.report.pictures import render

BEST = {"targets": "swapped", "weight_decay": 0.0005}


def rows(split, *rounds, method="feca", dataset="cifar10", config=None, **more):
    """Make the rows of a run that was evaluated after these rounds."""
    settings = {"n_clusters": 10, "local_epochs": 5, "batch_size": 128, "n_rounds": 150}
    about = {"dataset": dataset, "split": split, "method": method, **more}
    about["config"] = {**settings, **(config or {})}
    return [{**about, "rounds": r, "linear_accuracy": 0.5 + r / 128} for r in rounds]


def texts(figure):
    """Return the words of the legend."""
    (legend,) = figure.legends
    return [text.get_text().replace("\n", " ") for text in legend.get_texts()]


def test_a_panel_for_each_split_in_the_order_of_the_paper():
    runs = {
        "a": rows("central", 5, method="central"),
        "b": rows("dirichlet", 5, 10, alpha=0.3),
        "c": rows("dirichlet", 5, 10, method="kfed", alpha=0.3),
        "d": rows("iid", 5, dataset="cifar100"),
        "deep-try1-e": rows("iid", 5),
        "deep-table-f": rows("iid", 5),
    }
    drawn = deep_picture.accuracy_over_epochs(runs)
    assert [axes.get_title() for axes in drawn.axes] == ["Dirichlet(0.3)", "centralized"]
    lines = drawn.axes[0].get_lines()
    assert len(lines) == 3
    assert list(lines[0].get_ydata()) == [63.7, 63.7]  # the paper's
    assert lines[1].get_xydata().tolist() == [[25, 53.90625], [50, 57.8125]]
    assert lines[1].get_color() == CLUSTERERS["feca"].color
    again = deep_picture.accuracy_over_epochs(runs)
    assert render(drawn, ".svg") == render(again, ".svg")
    three = deep_picture.accuracy_over_epochs(runs | {"e": rows("iid", 5)})
    places = [axes.get_subplotspec() for axes in three.axes]
    assert [(at.rowspan.start, at.colspan.start) for at in places] == [(0, 0), (0, 1), (1, 0)]
    assert three.axes[2].get_ylabel() == three.axes[0].get_ylabel() == "linear probe, %"


def test_a_configuration_looks_alike_in_all_panels_and_is_in_the_legend_once():
    runs = {
        "a": rows("iid", 5),
        "b": rows("iid", 5, config=BEST),
        deep_runs.BEST: rows("dirichlet", 5, alpha=0.1, config=BEST),
        "c": rows("dirichlet", 5, 9, alpha=0.1),
    }
    figure = deep_picture.accuracy_over_epochs(runs)
    looks = [
        {line.get_marker(): line.get_linestyle() for line in axes.get_lines()[1:]}
        for axes in figure.axes
    ]
    assert looks == [{"o": "-", "s": "-."}] * 2
    usual = "FeCA, k = 10, 5 epochs a round"
    best = f"best: {usual}, swapped targets, weight decay 0.0005"
    assert texts(figure) == ["the paper, 750 epochs", usual, best]
    shown = [(line.get_marker(), line.get_linestyle()) for line in figure.legends[0].get_lines()]
    assert shown[1:] == [("o", "-"), ("s", "-.")]


def test_lines_of_one_color_can_be_told_apart_and_the_legend_leaves_the_panel_alone():
    runs = {
        f"deep-{decay}-{r}": rows("iid", r, config={**BEST, "weight_decay": decay})
        for r, decay in ((5, 1e-4), (10, 5e-4), (30, 5e-4), (20, 1e-3))
    }
    figure = deep_picture.accuracy_over_epochs(runs)
    (axes,) = figure.axes
    lines = axes.get_lines()[1:]
    looks = [(line.get_marker(), line.get_linestyle()) for line in lines]
    assert looks == [("o", "-."), ("s", "-."), ("s", "--"), ("D", "-.")]
    assert texts(figure)[2:4] == [
        "FeCA, k = 10, 5 epochs a round, swapped targets, weight decay 0.0005",
        "the same, 150 of 750 epochs",
    ]
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.y1 < axes.xaxis.label.get_window_extent().y0
    assert legend.y0 >= 0
    assert legend.x1 <= figure.bbox.x1
    assert axes.get_window_extent().height > 1.5 * figure.dpi
