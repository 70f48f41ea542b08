import json

from fedjigsaw.bench import deep_runs, deep_tables


def deep_row(rounds, accuracy, **more):
    config = {"n_clusters": 10, "local_epochs": 5, "n_rounds": 150, "batch_size": 128}
    config |= {"ema": 0.0, "clusterer_params": {}, **more.pop("config", {})}
    return {
        "dataset": "cifar10", "split": "iid", "method": "feca", "rounds": rounds, "linear_accuracy": accuracy,
        "knn_accuracy": 0.25, "views_per_second": 50_000.0, "seconds": 90.0, "config": config, **more,
    }  # fmt: skip


def test_a_later_evaluation_counts_if_it_is_about_the_same_images():
    last = deep_row(20, 0.5)
    later = {n: v for n, v in deep_row(20, 0.625, probe_decay=0.01).items() if n != "seconds"}
    again, others = later | {"evaluated_on": "cifar10"}, later | {"evaluated_on": "cifar100"}
    for run, text in (
        ([last, again, others], "62.5 | - | 0.01"),
        ([last, others], "50.0 | - | 0.0001"),
    ):
        table = deep_tables.runs_table({"deep-a": run}).splitlines()[-1]
        assert f"| 20 | {text} |" in table
        assert "| 50,000 | 1.5 |" in table
        assert f"| {text[:4]} (20 of 150 rounds) |" in deep_tables.quality_table({"deep-a": run})
        words = "fedjigsaw deep evaluate deep-a.st --data cifar --rows deep-a.jsonl\n"
        assert (words in deep_tables.commands({"deep-a": run})) is (again in run)


def summary_lines(runs):
    runs = {
        deep_runs.BEST: [jigsaw_row(60, 0.8, split="dirichlet", alpha=0.1, config=LIKE)],
        **runs,
    }
    table, _, notes = deep_tables.summary_table(runs).partition("\n\n")
    found = dict(line.removeprefix("| ").split(" | ", 1) for line in table.splitlines()[2:])
    return found | dict(note.removeprefix("- ").split(": ", 1) for note in notes.splitlines())


def jigsaw_row(*given, **more):
    return deep_row(*given, method="jigsaw", **more)


LIKE = {"clusterer": "jigsaw", "targets": "swapped", "weight_decay": 0.0005, "n_rounds": 60}


def test_the_summary_shows_the_run_most_like_the_best_settings_not_the_best_result():
    near = jigsaw_row(60, 0.7, config=LIKE | {"weight_decay": 0.0001})
    far = jigsaw_row(150, 0.9, config=LIKE | {"weight_decay": 0.0001, "targets": "stored"})
    other = deep_row(60, 0.9, config=LIKE | {"weight_decay": 0.0001, "clusterer": "feca"})
    found = summary_lines({"deep-near": [near], "deep-far": [far], "deep-other": [other]})
    assert found["CIFAR-10, IID"] == "44.6 to 53.6 | 55.3 | 90.0 (300) | 70.0 (300) a |"
    assert found["a"] == "`weight_decay=0.0001`"
    assert found["CIFAR-10, Dirichlet(0.1)"] == "45.1 to 49.1 | 59.9 | - | 80.0 (300) |"
    assert found["CIFAR-10, Dirichlet(0.3)"] == "48.2 to 50.1 | 63.7 | - | - |"
    assert found["Tiny-ImageNet, centralized"] == "- | 36.6 | - | - |"


def test_the_summary_shows_the_longest_run_with_the_papers_method_and_clusters():
    once = {"local_epochs": 1}
    short = deep_row(60, 0.9, config=LIKE | once)
    long = deep_row(70, 0.6, config=LIKE | once | {"n_rounds": 80})
    heads = deep_row(90, 0.9, config=LIKE | once | {"n_clusters": [10, 10], "n_rounds": 90})
    fine = deep_row(90, 0.9, config=LIKE | once | {"n_clusters": 100, "n_rounds": 90})
    trial = deep_row(99, 0.9, config=LIKE | once | {"n_rounds": 99})
    runs = {"deep-a": [long], "deep-b": [short], "deep-c": [heads], "deep-d": [fine]}
    runs |= {"deep-try7": [trial], "deep-table-feca-iid": [trial]}
    assert summary_lines(runs)["CIFAR-10, IID"].startswith(
        "44.6 to 53.6 | 55.3 | 60.0 (70 of 80) |"
    )
    other = fine | {"dataset": "cifar100"}
    assert "35.3 | 90.0 (90) |" in summary_lines({"deep-a": [other]})["CIFAR-100, IID"]


def test_a_run_with_the_papers_method_is_never_shown_as_ours():
    found = summary_lines({"deep-a": [deep_row(60, 0.7, config=LIKE | {"clusterer": "feca"})]})
    assert found["CIFAR-10, IID"].endswith("| 70.0 (300) | - |")
    assert "a" not in found


def test_of_runs_with_the_same_settings_the_summary_shows_the_longest():
    short, long = jigsaw_row(40, 0.9, config=LIKE), jigsaw_row(60, 0.7, config=LIKE)
    found = summary_lines({"deep-a": [long], "deep-b": [short], "deep-try9": [short]})
    assert found["CIFAR-10, IID"].endswith("| 70.0 (300) |")
    often = jigsaw_row(100, 0.9, config=LIKE | {"local_epochs": 2, "n_rounds": 100})
    other = jigsaw_row(60, 0.7, config=LIKE | {"weight_decay": 0.0001})
    found = summary_lines({"deep-a": [other], "deep-b": [often]})  # each has one other setting
    assert found["CIFAR-10, IID"].endswith("| 70.0 (300) a |")


def test_pooled_training_has_no_clustering_step_to_choose():
    config = LIKE | {"clusterer": "central"}
    pooled = deep_row(60, 0.7, split="central", method="central", config=config)
    found = summary_lines({"deep-a": [pooled]})
    assert found["CIFAR-10, centralized"].endswith("| 70.0 (300) |")


def test_settings_unlike_the_best_have_a_letter_for_each_combination():
    less, more = ({"weight_decay": decay} for decay in (0.0001, 0.01))
    runs = {
        "deep-a": [jigsaw_row(60, 0.7, config=LIKE | less)],
        "deep-b": [jigsaw_row(60, 0.6, dataset="cifar100", config=LIKE | more | {"ema": 0.5})],
        "deep-c": [jigsaw_row(60, 0.5, dataset="tiny-imagenet", image_size=[64, 64], config=LIKE | less)],
    }  # fmt: skip
    found = summary_lines(runs)
    ends = [found[f"{name}, IID"][-14:] for name in ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet")]
    assert ends == ["70.0 (300) a |", "60.0 (300) b |", "50.0 (300) a |"]
    assert (found["a"], found["b"]) == ("`weight_decay=0.0001`", "`ema=0.5`, `weight_decay=0.01`")
    assert "c" not in found


def test_what_chooses_a_round_is_shown_beside_the_evaluation():
    found = {"loss": 2.0, "validation_loss": 2.5, "information": 3.125, "nmi": 0.3}
    run = [
        {"rounds": 4, **found},
        deep_row(5, 0.5, **found),
        deep_row(9, 0.75, agreement=0.8, **found),
    ]
    lines = deep_tables.choice_table({"deep-a": run, "deep-b": [deep_row(1, 0.5)]}).splitlines()
    assert lines[2:] == [
        "| deep-a | 5 of 150 | 2.00 | 2.50 | 3.12 | - | 0.300 | 50.0 | 25.0 |",
        "| deep-a | 9 of 150 | 2.00 | 2.50 | 3.12 | 0.80 | 0.300 | 75.0 | 25.0 |",
    ]


def test_the_round_that_was_kept_is_shown_beside_the_best_that_was_evaluated():
    run = [
        deep_row(20, 0.75),
        deep_row(40, 0.5, best_round=33, best_linear_accuracy=0.625),
    ]
    lines = deep_tables.kept_table({"deep-a": run, "deep-b": [deep_row(1, 0.5)]}).splitlines()
    assert lines[2:] == ["| deep-a | 33 | 62.5 | 20 | 75.0 |"]


def test_a_profile_is_shown_in_percent():
    lines = deep_tables.profile_table([{"part": "clients", "share": 0.8604}]).splitlines()
    assert lines[2:] == ["| clients | 86.0% |"]


def test_targets_are_named_unless_they_are_stored():
    def first(targets):
        row = deep_row(5, 0.5, config={"targets": targets})
        return deep_tables.quality_table({"deep-a": [row]}).splitlines()[-1]

    assert "| ours, FeCA, k = 10, 5 epochs a round, swapped targets | 50.0" in first("swapped")
    assert "| ours, FeCA, k = 10, 5 epochs a round | 50.0" in first("stored")


def test_a_final_rate_is_named_unless_it_is_the_usual_one():
    def first(rate):
        row = deep_row(5, 0.5, config={"final_learning_rate": rate})
        return deep_tables.quality_table({"deep-a": [row]}).splitlines()[-1]

    assert "| ours, FeCA, k = 10, 5 epochs a round, final rate 0.02 | 50.0" in first(0.02)
    assert "| ours, FeCA, k = 10, 5 epochs a round | 50.0" in first(0.0005)


def test_weight_decay_is_named_unless_it_is_the_usual_one():
    def last(decay):
        row = deep_row(5, 0.5, config={"weight_decay": decay})
        return deep_tables.quality_table({"deep-a": [row]}).splitlines()[-1]

    assert "| ours, FeCA, k = 10, 5 epochs a round, weight decay 0.0005 | 50.0" in last(0.0005)
    assert "| ours, FeCA, k = 10, 5 epochs a round | 50.0" in last(0.0001)


def test_images_that_were_scaled_are_told_from_those_of_their_own_size():
    def made(side):
        row = deep_row(5, 0.5, dataset="tiny-imagenet", image_size=[side, side])
        runs = {"deep-a": [row | {"evaluated_on": "tiny-imagenet"}]}
        table = deep_tables.quality_table(runs, "tiny-imagenet").splitlines()
        return table[-1], deep_tables.commands(runs).splitlines()[1:-1]

    line, commands = made(32)
    assert "| ours, FeCA, k = 10, 5 epochs a round, 32 x 32 pixels | 50.0" in line
    assert all("--data tiny-imagenet-200 --size 32 --" in command for command in commands)
    line, commands = made(64)
    assert "| ours, FeCA, k = 10, 5 epochs a round | 50.0" in line
    assert len(commands) == 2
    assert all("--data tiny-imagenet-200 --" in command for command in commands)
    assert not any("--size" in command for command in commands)


def test_the_paper_is_shown_for_tiny_imagenet_too():
    row = deep_row(5, 0.5, dataset="tiny-imagenet", image_size=[64, 64])
    table = deep_tables.quality_table({"deep-a": [row]}, "tiny-imagenet")
    assert "| the paper, DeepFeCA | 26.7 | 26.4 | 26.1 | 36.6 |" in table


def test_deep_tables(tmp_path):
    files = {
        "deep-a.jsonl": [{"rounds": 1, "loss": 2.0}, deep_row(10, 0.5), deep_row(20, 0.575)],
        "deep-b.jsonl": [
            deep_row(
                30,
                0.625,
                split="dirichlet",
                alpha=0.3,
                probe_decay=0.01,
                held_out_accuracy=0.6125,
                config={
                    "n_clusters": [300, 300],
                    "ema": 0.5,
                    "batch_size": 32,
                    "clusterer_params": {"version": 2},
                },
            )
        ],
        "deep-c.jsonl": [deep_row(40, 0.8125, split="central", method="central")],
        "deep-d.jsonl": [{"rounds": 1, "loss": 2.0}],  # nothing to tell yet
        "other.jsonl": [deep_row(1, 0.1)],
    }
    for name, rows in files.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = deep_runs.read_runs(tmp_path)
    assert list(runs) == ["deep-a", "deep-b", "deep-c"]
    quality = deep_tables.quality_table(runs).splitlines()
    assert "| the paper, DeepFeCA | 55.3 | 63.7 | 59.9 | 80.9 |" in quality
    assert (
        "| ours, FeCA, k = 10, 5 epochs a round | 57.5 (20 of 150 rounds) | - | - | - |" in quality
    )
    text = "FeCA, version = 2, k = 300 in 2 heads, 5 epochs a round, batches of 32"
    assert f"| ours, {text} | - | 62.5 (30 of 150 rounds) | - | - |" in quality
    assert any("81.2 (40 of 150 rounds) |" in line for line in quality)
    table = deep_tables.runs_table(runs).splitlines()
    assert table[0].startswith(
        "| run | data | split | configuration | rounds | ema | linear | held out |"
    )
    cells = "30 | 0.5 | 62.5 | 61.3 | 0.01 | 25.0 | 50,000 | 1.5"
    assert f"| deep-b | cifar10 | Dirichlet(0.3) | {text} | {cells} |" in table
    assert "| 81.2 | - | 0.0001 | 25.0 |" in table[-1]  # before it was chosen
    assert len(table) == 5
    words = deep_tables.commands(runs)
    start = "fedjigsaw deep train --data cifar --split"
    assert (
        f"{start} iid --method feca -k 10 --rounds 150 --local-epochs 5 --batch-size 128 -s ema=0.0 -o"
        in words
    )
    assert f"{start} dirichlet --alpha 0.3 --method feca -k 300,300 --rounds" in words
    assert (
        f"{start} central -k 10 --rounds 150 --local-epochs 5 --batch-size 128 -s ema=0.0 -o deep-c.st"
        in words
    )
    assert "-s ema=0.5 -p version=2 -o deep-b.st --rows deep-b.jsonl\n" in words


def test_each_data_set_has_a_table_of_its_own():
    done, ended = deep_row(150, 0.5, dataset="cifar100"), deep_row(72, 0.25)
    runs = {"deep-a": [done], "deep-b": [ended], "deep-try1-c": [done]}
    lines = deep_tables.quality_table(runs, "cifar100").splitlines()
    assert "| the paper, DeepFeCA | 35.3 | 34.9 | 35.2 | 50.1 |" in lines
    ours = "| ours, FeCA, k = 10, 5 epochs a round |"
    assert lines[-1] == f"{ours} 50.0 (150 rounds) | - | - | - |"
    lines = deep_tables.quality_table(runs).splitlines()
    assert lines[-1] == f"{ours} 25.0 (72 of 150 rounds) | - | - | - |"
    words = deep_tables.commands(runs).splitlines()
    assert [line.split()[4] for line in words[1:3]] == ["cifar100", "cifar"]
    other = deep_tables.commands({"deep-a": [{**done, "seed": 3}]})
    assert "--batch-size 128 --seed 3 -o deep-a.st" in other


def test_settings_that_older_rows_lack_have_their_defaults():
    newer = {"targets": "swapped", "stored_share": 0.25, "stored_falls": False}
    runs = {"deep-a": [deep_row(9, 0.5)], "deep-b": [deep_row(9, 0.5, config=newer)]}
    head, _, old, new = deep_tables.runs_table(runs).splitlines()
    assert "| rounds | stored_share | targets | linear |" in head  # stored_falls does not differ
    assert "| 9 | 0.0 | stored | 50.0 |" in old
    assert "| 9 | 0.25 | swapped | 50.0 |" in new
    assert '-s stored_share=0.0 -s targets="stored" -o deep-a.st' in deep_tables.commands(runs)


def test_methods_side_by_side():
    """All runs count that are like the longest one named for it, in all but the method and split.

    What a method did not run on is left open.
    """
    skewed = {"split": "dirichlet", "alpha": 0.3}
    more_skewed = {"split": "dirichlet", "alpha": 0.1}
    first = {"clusterer_params": {"version": 1, "n_rounds": 1}}
    runs = {
        "deep-long": [deep_row(90, 0.75)],
        "deep-table-a": [deep_row(9, 0.25), deep_row(10, 0.5)],
        "deep-table-b": [deep_row(10, 0.375, **skewed)],
        "deep-table-c": [deep_row(10, 0.4375, method="fuzzy", config=first)],
        "deep-table-d": [deep_row(10, 0.5625, method="jigsaw")],  # not in the paper
        "deep-table-e": [deep_row(10, 0.125, dataset="cifar100")],
        "deep-table-f": [deep_row(9, 0.25, **more_skewed)],  # too short
        "deep-table-g": [deep_row(20, 0.25, config={"local_epochs": 2}, **more_skewed)],
        "deep-same": [deep_row(10, 0.625, method="kfed", config={"lanes": 10})],  # only faster
    }
    assert deep_tables.methods_table(runs).strip().splitlines() == [
        "| clustering step | IID | Dirichlet(0.3) | Dirichlet(0.1) |",
        "|---|---|---|---|",
        "| FFCMv1(Rd=1) | 43.8 (44.6) | - | - |",
        "| k-FED | 62.5 (46.8) | - | - |",
        "| FeCA | 50.0 (55.3) | 37.5 (63.7) | - |",
        "| Jigsaw | 56.2 | - | - |",
    ]
    assert "ours, FFCM" not in deep_tables.quality_table(runs)
    assert "75.0 (90 of 150 rounds) | -" in deep_tables.quality_table(runs)
    assert "deep-table" not in deep_tables.progress_table(runs)


def test_runs_are_in_the_order_of_their_numbers(tmp_path):
    for name in ("deep-try10-b", "deep-try9-a", "deep-table-a2-b", "deep-iid", "deep-table-a2-a"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(deep_row(1, 0.5)) + "\n")
    wanted = ["deep-iid", "deep-table-a2-a", "deep-table-a2-b", "deep-try9-a", "deep-try10-b"]
    assert list(deep_runs.read_runs(tmp_path)) == wanted


def test_progress_and_speed():
    def run(local_epochs, *nmi):
        rows = [{"rounds": r, "nmi": n} for r, n in nmi]
        return [*rows, deep_row(99, 0.5, nmi=0.5, config={"local_epochs": local_epochs})]

    lines = deep_tables.progress_table(
        {"a": run(5, (2, 0.1), (3, 0.2), (10, 0.3)), "b": run(1, (20, 0.25))}
    ).splitlines()
    assert lines[0].startswith("| run | split | 10 epochs | 20 epochs | 50 epochs |")
    assert lines[2].startswith("| a | IID | 0.100 | - | 0.300 | - |")
    assert lines[3].startswith("| b | IID | - | 0.250 | - |")
    row = {"variant": "32x10+compile", "sizes": [7, 7], "views_per_second": 1234.5}
    row |= {"train_seconds": 2.0, "cluster_seconds": 0.25, "prepare_seconds": 9.0}
    row |= {"local_epochs": 2, "peak_gigabytes": 7.5, "commit": "238175d3a56f"}
    table = deep_tables.speed_table([row, {"variant": "1x1", "error": "not done after 9 s"}])
    assert "| 2.0 | 0.25 | 11% | 9.0 | 7.5 | 1 | 238175d3 |" in table
    assert "| 32x10, compile | 7 | 2 | 1,234 | 2.0 |" in table
    several = deep_tables.speed_table([row | {"rounds_measured": 5}])
    assert "| 7.5 | 5 | 238175d3 |" in several
    assert "1x1" not in table


def test_weights_in_fewer_bytes():
    rows = [
        {"config": {"wire": kind}, "bytes_up": n, "linear_accuracy": a, "knn_accuracy": 0.25}
        for kind, n, a in (("float32", 2000, 0.5), ("bf16", 1000, 0.625), ("float32", 2000, 0.75))
    ]
    assert deep_tables.wire_table(rows).splitlines()[2:] == [
        "| `float32` | 2,000 | 50.0, 75.0 | 25.0, 25.0 |",
        "| `bf16` | 1,000 | 62.5 | 25.0 |",
    ]


def test_the_mean_of_the_last_rounds_is_below_the_last_round_of_its_run():
    names = ("linear_accuracy", "held_out_accuracy", "knn_accuracy")
    last, mean, last_of_2, mean_of_2 = (
        {"dataset": "x", "seed": 1, "probe_decay": 0.001, **dict.fromkeys(names, value)}
        | {"config": {"local_epochs": n, "n_rounds": 500 // n}}
        for value, n in ((0.5, 5), (0.75, 5), (0.25, 2), (0.375, 2))
    )
    table = deep_tables.averages_table(
        {"deep-fedu2-2": [last_of_2], "deep-fedu2": [last], "deep-other": [last]},
        [{**mean, "averaged_rounds": 20}, {**mean_of_2, "averaged_rounds": 50}],
    )
    assert table.splitlines()[2:] == [
        "| 1 | 5 | 1 | 50.0 | 50.0 | 50.0 | 0.001 |",
        "| 1 | 5 | 20 | 75.0 | 75.0 | 75.0 | 0.001 |",
        "| 1 | 2 | 1 | 25.0 | 25.0 | 25.0 | 0.001 |",
        "| 1 | 2 | 50 | 37.5 | 37.5 | 37.5 | 0.001 |",
    ]
