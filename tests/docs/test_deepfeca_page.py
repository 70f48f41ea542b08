"""The commands and the Python block of docs/deepfeca.md run, scaled down by the tables below."""

import re

import numpy as np
import pytest
from typer.main import get_command

from fedjigsaw import cli
from fedjigsaw.cli._shared import parse_params
from pages_as_code import blocks, commands, inline_commands, page, section

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.deep

PAGE = page("docs/deepfeca.md")
# Words of the page, and what stands for them here.
SUBSTITUTES = {"DATA": "cifar", "FILE": "rows.jsonl"}
# What is added to `deep train`, by its --data: of an option that is given twice, the last counts.
SMALLER = {
    "digits": "--rounds 1 --local-epochs 1 --subset 200 -k 6,6 --device cpu",
    "cifar": "--rounds 1 --local-epochs 1 --clients 2 --batch-size 8 --network small -k 4,4 "
    "--device cpu --force -s compile=false",  # compiling takes minutes, and has tests of its own
}
SMALLER["photos"] = SMALLER["cifar"]


@pytest.fixture(autouse=True)
def _in_a_folder_with_images(tmp_path, monkeypatch):
    """Work beside images of noise: 60 in CIFAR-10's official binary layout, 30 files of our own."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cifar"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        records = rng.integers(256, size=(10, 1 + 3 * 32 * 32), dtype=np.uint8)
        records[:, 0] = np.arange(10)  # labels
        (folder / name).write_bytes(records.tobytes())
    (tmp_path / "photos").mkdir()
    for i in range(30):
        pixels = rng.integers(256, size=(40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{i}.png")


def value(words, option):
    """The value of an option in a command."""
    return words[words.index(option) + 1]


def test_the_commands_run_in_the_order_of_the_page(run, tmp_path):
    done = []
    files = inline_commands(section(PAGE, "Files"), "fedjigsaw deep")
    for program, *words in commands(PAGE) + files:
        if program == "pip":
            continue
        assert program == "fedjigsaw"
        words = [SUBSTITUTES.get(word, word) for word in words]
        if words[:2] == ["deep", "train"]:
            words += SMALLER[value(words, "--data")].split()
        result = run(*words)
        assert result.exit_code == 0, (words, result.output)
        done.append(words[1])
    assert done == ["train", "evaluate", *["train"] * 3, "evaluate", "embed", "export"]
    assert {"features.parquet", "net.safetensors"} <= {path.name for path in tmp_path.iterdir()}


def test_the_python_block_prints_what_it_says(capsys):
    (code,) = blocks(PAGE, "python")
    exec(compile(code, "docs/deepfeca.md", "exec"), {"__name__": "__main__"})
    assert re.findall(r"^print\(.*\)  # (.*)$", code, re.M) == capsys.readouterr().out.splitlines()


def test_the_commands_behind_the_rows_have_options_and_settings_that_exist():
    verbs = get_command(cli.app).commands["deep"].command.commands
    shown = commands(page("reproduction/RESULTS.md"))
    assert len(shown) > 20
    for _, _, verb, *words in shown:
        context = verbs[verb].make_context(verb, list(words))
        assert_settings(context.params.get("setting") or ())


def test_the_settings_in_the_table_exist():
    settings = re.findall(
        r"-s (\w+=[\w.]+)", section(PAGE, "Options that matter").partition("|")[2]
    )
    assert len(settings) > 5
    for setting in settings:  # one by one: some exclude one another
        assert_settings([setting])


def assert_settings(settings):
    """Raise if DeepFeCA does not accept these settings of `-s`."""
    from fedjigsaw.deep import DeepFeCA

    DeepFeCA.from_settings(parse_params(list(settings)))
