"""Every block of every page does what the page says; a new page is found by existing.

Python and shell blocks run in the order of the page, in a folder of its own, and each ``text``
block is what they printed. On the pages of EXCERPTS, which leave out what a reader has (data,
servers, hours), Python compiles and commands parse.
"""

import contextlib
import io
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from glob import glob

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from typer.main import get_command

from fedjigsaw import cli, methods, partition, sites
from fedjigsaw.cli._config import settable
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from pages_as_code import ROOT, blocks, page

MADE = ("docs/api/generated/", "docs/gallery/")  # by `make site`
TOP = [f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")]
FOUND = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))
PAGES = [*TOP, "reproduction/RESULTS.md", *(name for name in FOUND if not name.startswith(MADE))]
EXCERPTS = {
    "CONTRIBUTING.md", "reproduction/RESULTS.md", "docs/configuration.md", "docs/deepfeca.md",
    "docs/federation.md", "docs/formats.md", "docs/index.md", "docs/jigsaw.md",
    "docs/number-of-clusters.md", "docs/operations.md", "docs/peers.md", "docs/reproduction.md",
    "docs/tutorials/federation.md",
}  # fmt: skip
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HERE = {"python", "head", "sed", "mkdir"}  # programs that run, beside fedjigsaw
FREE = {"docs/compare.md", "docs/privacy.md"}  # numbers of a machine, or with noise


def blocks_of(name):
    """Return (language, content) of each block, in the order of a page."""
    return [match.groups() for match in BLOCK.finditer(page(name))]


def has_code(name):
    return any(language in ("python", "sh") for language, _ in blocks_of(name))


def lines_of(script):
    """Yield the words of each command, and whether ``|| true`` says that it fails."""
    open_quote = ""  # what came before, of a text over several lines
    for line in script.replace("\\\n", " ").splitlines():
        command, _, fails = f"{open_quote}{line}".partition(" || ")
        try:
            words, open_quote = shlex.split(command.replace("...", "x"), comments=True), ""
        except ValueError:
            words, open_quote = [], f"{command}\n"
        if words:
            yield words, bool(fails)


def parsed(words):
    """Return the context of a command, with its options; raise if it has not got them."""
    words, command = [w for w in words if w not in ("--check-config", "&")], get_command(cli.app)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
        command = getattr(command, "command", command)  # of a lazy one
    if "--config" in words or "--help" in words:
        return None
    return command.make_context(name, words)


@pytest.mark.parametrize("name", sorted(EXCERPTS))
def test_an_excerpt_compiles_and_its_commands_have_these_options(name):
    for code in blocks(page(name), "python"):
        compile(code, name, "exec")
    for words, _ in lines_of("".join(blocks(page(name), "sh"))):
        if words[0] == "fedjigsaw":
            context = parsed(words[1:])
            if context and "setting" in context.params:
                pytest.importorskip("torch")
                from fedjigsaw.cli._shared import parse_params
                from fedjigsaw.deep import DeepFeCA

                DeepFeCA.from_settings(parse_params(list(context.params["setting"] or ())))


@pytest.mark.parametrize("name", ["docs/configuration.md", "docs/operations.md"])
def test_config_files_have_keys_that_exist(name):
    pytest.importorskip("flwr")
    from fedjigsaw.cli import federation

    commands = get_command(federation.app).commands
    for verb, text in zip(("server", "site"), blocks(page(name), "toml"), strict=True):
        assert set(tomllib.loads(text)) <= set(settable(commands[verb]))


@pytest.mark.parametrize("name", PAGES)
def test_links_to_files_and_headings_exist(name):
    for target in re.findall(r"\]\(([^)\s]+)\)", page(name)):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        path = (ROOT / name).parent / file if file else ROOT / name
        assert path.exists(), target
        headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE) if anchor else []
        ids = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
        assert not anchor or anchor in ids, target


# ------------------------------------------------------------------------------- pages that run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder beside the examples, from which nothing stays known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/mlruns")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    splits = dict(partition.SPLITS)
    monkeypatch.setattr(methods, "_registered", {})
    monkeypatch.setattr(partition, "_own", {})
    monkeypatch.setattr(partition, "WITHOUT_CLASSES", list(partition.WITHOUT_CLASSES))
    yield tmp_path
    sys.modules.pop("my_ward", None)
    for name in set(partition.SPLITS) - set(splits):
        del partition.SPLITS[name]


def plain(text, *, free):
    """Return lines without fingerprints and sizes of files, and those of tables apart, as words."""
    text = re.sub(r"\b[0-9a-f]{16}\b", "fingerprint", text)
    text = re.sub(r" \([\d,]+ bytes\)|[*†]" + r"|-?\d[\d,.]*" * free, " ", text)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    table = [line for line in lines if line.startswith(tuple("┏┃┡│└"))]
    return [line for line in lines if line not in table], {
        word for line in table for word in re.findall(r"[\w.%>-]+", line)
    }


def files_of_bern_and_dresden():
    """Two files of one kind: the names and units of one differ."""
    rng = np.random.default_rng(0)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"patient_id": [f"P{i}" for i in range(90)]})
    frame["age"] = rng.integers(20, 90, 90)
    frame["glucose"] = rng.normal(110, 20, 90).round(1)
    frame["sex"] = rng.choice(["female", "male"], 90)
    frame.to_csv("bern.csv", index=False)
    other = frame.rename(columns={"age": "Alter"}).replace({"sex": {"female": "w"}})
    other["glucose"] = (other["glucose"] / 18).round(2)
    other.to_csv("dresden.csv", index=False, sep=";", decimal=",")


def files_of_a_run(run):
    subprocess.run([sys.executable, "examples/three_hospitals.py", "."], check=True)
    columns = ("--columns", "age,dose")
    for file in ("bern.csv", "lyon.parquet", "oslo.csv"):
        name = file.partition(".")[0]
        run("stats", file, "-o", f"{name}.stats", *columns)
        run("summarize", file, "-k", "4", "-o", f"{name}.summary", *columns)
    run("aggregate", *(f"{n}.summary" for n in ("bern", "lyon", "oslo")), "-k", "4", "-o", "model")
    for file in ("bern.csv", "lyon.parquet", "oslo.csv"):
        name = file.partition(".")[0]
        run("score", file, "--model", "model", "--profile", "-o", f"{name}.score")


BEFORE = {
    "docs/report.md": files_of_a_run,
    "docs/schema.md": lambda run: files_of_bern_and_dresden(),
}


def the_groups_are_found(folder, run):
    """The messy tables of three hospitals end in the groups that made them, and in no names."""
    messy = runpy.run_path(str(ROOT / "examples/messy_hospitals.py"))
    groups = messy["write_exports"](folder)
    model = formats.load(folder / "model", ModelFile)
    files = ("bern.csv", "lyon.parquet", "oslo.tsv.gz")
    labels = [part.labels for name in files for part in sites.assign(folder / name, model)]
    found = np.concatenate([part.to_numpy(zero_copy_only=False) for part in labels])
    # 0.86 to 0.99 over eight seeds of the sites
    assert adjusted_rand_score(messy["labels_of"](groups), found) >= 0.85
    shown = (folder / "report.html").read_text()
    assert "üller" not in shown  # a note of a patient
    assert not re.search(r"\b[BLO]\d{5}\b", shown)  # an identifier


def drift_is_an_alarm(folder, run):
    assert run("diff", "june.model", "july.model", "--alarm", "2").exit_code == 10
    assert run("diff", "may.model", "june.model", "--alarm", "2").exit_code == 0


def a_package_is_found(folder, run):
    """The file of the page, packed as the page says, is installed and known by its name."""
    pytest.importorskip("setuptools", minversion="77")
    (folder / "package").mkdir()
    (folder / "my_ward.py").rename(folder / "package" / "my_ward.py")
    (toml,) = blocks(page("docs/own-method.md"), "toml")
    (folder / "package" / "pyproject.toml").write_text(toml)
    words = "-m pip install -q --no-deps --no-index --no-build-isolation --target found ./package"
    subprocess.run([sys.executable, *words.split()], check=True, timeout=120)
    code = "from fedjigsaw.methods import find; print(find('my-ward').source)"
    environment = {"PYTHONPATH": f"{folder / 'found'}:{ROOT / 'src'}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.stdout == b"my-ward 1.0\n", done.stderr


AFTER = {
    "docs/tables.md": the_groups_are_found,
    "docs/over-time.md": drift_is_an_alarm,
    "docs/own-method.md": a_package_is_found,
}


def run_script(script, run):
    """Run the commands of a block, those of servers excepted; return what they print."""
    printed = []
    for (program, *words), fails in lines_of(script):
        if program == "fedjigsaw" and words[0] != "federation":
            methods._registered.clear()  # each command is a process of its own
            words = [each for word in words for each in (glob(word) or [word])]
            done = run(*words)
            refused = 3 * (words[:2] == ["schema", "check"])  # a file that does not fit
            assert fails or done.exit_code in (0, refused), (words, done.output)
            printed.append(done.stdout)
        elif program in HERE:
            command = [sys.executable if program == "python" else program, *words]
            done = subprocess.run(command, capture_output=True, check=True, timeout=60)
            printed.append(done.stdout.decode("cp1252" if "lyon.csv" in words else "utf-8-sig"))
    return "".join(printed)


RUN = [name for name in PAGES if name not in EXCERPTS and has_code(name)]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_a_page_runs_and_prints_what_it_shows(name, folder, run):
    BEFORE.get(name, lambda run: None)(run)
    names, printed = {"__name__": "page"}, ""
    for language, content in blocks_of(name):
        if language == "json":
            (folder / "columns.json").write_text(content)
        elif language == "sh":
            printed += run_script(content, run)
        elif language == "python" and (file := re.match(r"# (\w+\.py)\n", content)):
            (folder / file[1]).write_text(content)
        elif language == "python":
            caught = io.StringIO()
            with contextlib.redirect_stdout(caught):
                exec(compile(content, name, "exec"), names)
            printed += caught.getvalue()
        elif language == "text":
            shown, there = (plain(text, free=name in FREE) for text in (content, printed))
            rest = iter(there[0])
            missing = [line for line in shown[0] if line not in ("...", "") and line not in rest]
            assert missing == []  # all, in this order
            assert shown[1] <= there[1]
    AFTER.get(name, lambda folder, run: None)(folder, run)


@pytest.mark.deep
def test_the_python_of_deepfeca_prints_what_it_says(capsys):
    pytest.importorskip("torch")
    (code,) = blocks(page("docs/deepfeca.md"), "python")
    exec(compile(code, "docs/deepfeca.md", "exec"), {"__name__": "page"})
    assert re.findall(r"^print\(.*\)  # (.*)$", code, re.M) == capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "docs/api").glob("*.rst")))
def test_names_on_pages_of_the_api_exist(name):
    text = (ROOT / "docs/api" / name).read_text()
    if "torch" in text or "fedjigsaw.deep" in text:
        pytest.importorskip("torch")
    modules = [
        "fedjigsaw",
        *re.findall(r"^\.\. (?:auto|current)module:: (\S+)", text, re.MULTILINE),
    ]
    for wanted in re.findall(r"^   ([A-Za-z_][\w.]*)$", text, re.MULTILINE):
        for module in modules:
            with contextlib.suppress(ImportError, AttributeError):
                pkgutil.resolve_name(f"{module}.{wanted}")
                break
        else:
            pytest.fail(wanted)
