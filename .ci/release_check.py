"""Check everything that a release needs, and leave the two checked files in dist/.

    python .ci/release_check.py [PYTHON ...]

The wheel is installed into an empty environment of this interpreter, and of each PYTHON. Nothing is
uploaded. Packages come from the index that pip uses on this machine, and from nowhere else.
"""

import email
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
RELATIVE_LINK = re.compile(r"!?\[[^\]]*\]\((?!https?://)[^)\s]*\)")
SMALL_TABLE = "x,y\n" + "".join(f"{x},{x % 7}.5\n" for x in (*range(40), *range(500, 540)))


class ReleaseError(Exception):
    """What must be mended before a release."""


def main(pythons: list[str]) -> None:
    """Run all checks; end with a sentence at the first one that fails."""
    with TemporaryDirectory(prefix="release-") as name:
        work = Path(name)
        copy_tree(work / "source")
        sdist, wheel = build(work / "source", work / "dist")
        run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
        say("twine has no complaint")
        check_sdist_makes_the_same(wheel, work)
        metadata = check_content(wheel)
        check_description(metadata)
        for number, python in enumerate([sys.executable, *pythons]):
            try_wheel(wheel, metadata["Version"], python, work / f"try-{number}")
        keep(sdist, wheel)
    say(f"fedjigsaw {metadata['Version']} may be released: dist/{sdist.name}, dist/{wheel.name}")


def say(text: str) -> None:
    print(f"ok  {text}", flush=True)


def run(*words: object, folder: Path | None = None, **variables: str) -> str:
    """Run a command, and return what it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=clean_environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        command = " ".join(map(str, words))
        raise ReleaseError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """Return this environment without what would show the checkout to an installed package."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FEDJIGSAW"))}


def tracked(*folders: str) -> list[str]:
    """Return the files of the checkout that git knows or would add."""
    words = ("git", "ls-files", "-co", "--exclude-standard", "--deduplicate", "-z", "--", *folders)
    names = run(*words, folder=ROOT).split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def copy_tree(target: Path) -> None:
    """Copy the checkout without anything that was built in it."""
    for name in tracked():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


def build(source: Path, target: Path, *kinds: str) -> list[Path]:
    """Build in a folder: the archive and the wheel made of it, unless one kind is named."""
    when = run("git", "log", "-1", "--format=%ct", folder=ROOT).strip()
    words = ("build", "--no-isolation", "--outdir", target, *kinds, source)
    run(sys.executable, "-m", *words, SOURCE_DATE_EPOCH=when)
    found = sorted(target.glob("*.tar.gz")) + sorted(target.glob("*.whl"))
    say(f"built {', '.join(path.name for path in found)}")
    return found


def members(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel with their content."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def check_sdist_makes_the_same(wheel: Path, work: Path) -> None:
    """`wheel` was made of the archive: the checkout must give the same."""
    (direct,) = build(work / "source", work / "direct", "--wheel")
    first, second = members(wheel), members(direct)
    other = sorted(name for name in first | second if first.get(name) != second.get(name))
    if other:
        raise ReleaseError(f"The wheels of archive and checkout differ in {', '.join(other)}.")
    say(f"archive and checkout give the same wheel, of {len(first)} files")


def check_content(wheel: Path) -> Message:
    """Check that a wheel has every file of the package and no other; return its metadata."""
    found = members(wheel)
    wanted = {name.removeprefix("src/") for name in tracked("src")}
    packed = {name for name in found if ".dist-info/" not in name}
    if wanted != packed:
        names = ", ".join(sorted(wanted ^ packed))
        raise ReleaseError(f"Not both in src and in the wheel (package-data?): {names}.")
    data = [name for name in packed if not name.endswith(".py")]
    say(f"the wheel has all files of src, {len(data)} of them data")
    (name,) = [name for name in found if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(found[name])


def check_description(metadata: Message) -> None:
    """Check that the page of the package index has no link that leads nowhere."""
    page = metadata.get_payload()
    if not isinstance(page, str) or len(page) < 1000:
        raise ReleaseError("The metadata have no description: is README.md there?")
    if broken := RELATIVE_LINK.findall(page):
        raise ReleaseError(f"Links that do not work on the package index: {broken}")
    say(f"no link of the description is relative, in {len(page):,} characters")


def try_wheel(wheel: Path, version: str, python: str, folder: Path) -> None:
    """Install a wheel into an empty environment, without and with extras, and use it."""
    folder.mkdir()
    if python == sys.executable:
        venv.create(folder / "env", with_pip=True)
    else:
        run(python, "-m", "venv", folder / "env")
    program, used = folder / "env/bin/fedjigsaw", folder / "env/bin/python"
    install = (used, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    run(*install, wheel, folder=folder)
    if run(program, "--version", folder=folder).strip() != f"fedjigsaw {version}":
        raise ReleaseError(f"`fedjigsaw --version` does not print {version}.")
    use_core(program, folder)
    run(*install, f"{wheel}[plots,report]", folder=folder)
    run(used, "-m", "pip", "check", folder=folder)
    use_pictures(program, folder)
    say(f"{run(used, '--version').strip()}: the installed wheel works")


def use_core(program: Path, folder: Path) -> None:
    """One round by file, with nothing but what the core installs."""
    for site in ("bern", "lyon"):
        (folder / f"{site}.csv").write_text(SMALL_TABLE)
        summarize = (program, "summarize", f"{site}.csv", "-k", 2, "-o", f"{site}.summary")
        run(*summarize, folder=folder)
    aggregate = (program, "aggregate", "bern.summary", "lyon.summary", "-k", 2, "-o", "model")
    printed = run(*aggregate, folder=folder)
    if "2 sites" not in printed:
        raise ReleaseError(f"`fedjigsaw aggregate` does not tell of two sites:\n{printed}")


def use_pictures(program: Path, folder: Path) -> None:
    """What needs data files of the package: the demo, and a page made of templates."""
    run(program, "demo", "--out", "demo.png", folder=folder)
    words = ("compare", "bern.csv", "lyon.csv", "-k", 2, "-o", "c.png", "--html", "c.html")
    run(program, *words, folder=folder)
    sizes: Mapping[str, int] = {"demo.png": 10_000, "c.png": 10_000, "c.html": 10_000}
    for name, size in sizes.items():
        if (folder / name).stat().st_size < size:
            raise ReleaseError(f"{name}, made by the installed wheel, is almost empty.")


def keep(*files: Path) -> None:
    """Leave the checked files in dist/, and no others."""
    target = ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path in files:
        shutil.copy2(path, target / path.name)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ReleaseError as error:
        sys.exit(f"NOT  {error}")
