"""Workflows, forms and hooks are valid, need little trust, and name what exists."""

import re
import tomllib

import pytest

from pages_as_code import ROOT, page

yaml = pytest.importorskip("yaml")

GITHUB = ROOT / ".github"
WORKFLOWS = {path.name: path.read_text() for path in sorted(GITHUB.glob("workflows/*.yml"))}
JOBS = [
    (name, job, content)
    for name, text in WORKFLOWS.items()
    for job, content in yaml.safe_load(text)["jobs"].items()
]
PROJECT = tomllib.loads(page("pyproject.toml"))["project"]
TARGETS = set(re.findall(r"^([\w-]+):", page("Makefile"), re.MULTILINE))
HOOKS = yaml.safe_load(page(".pre-commit-config.yaml"))
each_job = pytest.mark.parametrize(
    ("workflow", "name", "job"), JOBS, ids=[f"{file}:{job}" for file, job, _ in JOBS]
)


def commands(job):
    """What the steps of a job run."""
    return [step["run"] for step in job["steps"] if "run" in step]


def test_there_are_workflows_for_tests_and_release():
    assert set(WORKFLOWS) == {"tests.yml", "release.yml"}
    wanted = {"lint", "quick", "full", "long", "oldest", "newest", "package", "site"}
    assert {job for file, job, _ in JOBS if file == "tests.yml"} == wanted


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_only_read(name):
    assert yaml.safe_load(WORKFLOWS[name])["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_by_commit_and_say_their_version(name):
    used = re.findall(r"uses: (.*)", WORKFLOWS[name])
    assert used
    for line in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_the_same_action_has_the_same_commit_everywhere():
    used = re.findall(r"uses: ([^@]+)@(\w+)", "".join(WORKFLOWS.values()))
    assert len(dict(used)) == len(set(used))


@each_job
def test_a_job_ends_in_time_and_keeps_no_credentials(workflow, name, job):
    assert job["timeout-minutes"] <= 90
    assert not re.search(r"\$\{\{", "".join(commands(job)))  # words of others, run as commands
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
    rights = job.get("permissions", {"contents": "read"})
    assert rights == {"id-token": "write"} if name == "publish" else rights == {"contents": "read"}


@each_job
def test_a_job_runs_targets_that_exist(workflow, name, job):
    for command in commands(job):
        if command.startswith("make "):
            target, *variables = command.split()[1:]
            assert target in TARGETS
            for variable in variables:
                assert re.search(rf"^{variable.partition('=')[0]} \?=", page("Makefile"), re.M)
        else:
            assert name == "check"
    assert commands(job) or name == "publish"


def test_the_matrix_has_every_python_that_the_package_names():
    matrix = yaml.safe_load(WORKFLOWS["tests.yml"])["jobs"]["quick"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]  # text: YAML makes 3.1 of 3.10
    assert PROJECT["requires-python"] == f">={matrix['python'][0]}"
    found = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert found == matrix["python"][: len(found)]
    assert {system.partition("-")[0] for system in matrix["system"]} == {"ubuntu", "macos"}


def test_what_is_uploaded_is_what_the_target_leaves():
    for _, _, job in JOBS:
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/upload-artifact@"):
                assert step["with"]["path"].rstrip("/") in {"dist", "build/site"}
                assert step["with"]["if-no-files-found"] == "error"


def test_hooks_are_the_programs_of_lint():
    lint = page("Makefile").split("\nlint:")[1].split("\n\n")[0]
    programs = [re.sub(r"\$\(BIN\)/| \.$", "", line.strip()) for line in lint.splitlines()[1:]]
    (repo,) = HOOKS["repos"]
    assert repo["repo"] == "local"
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in repo["hooks"]]
    words = {" ".join(word for word in line.split() if word[0] != "-") for line in entries}
    wanted = {" ".join(word for word in line.split() if word[0] != "-") for line in programs}
    assert words == wanted
    assert all(hook["language"] == "system" for hook in repo["hooks"])


def test_pre_commit_accepts_the_hooks():
    clientlib = pytest.importorskip("pre_commit.clientlib")
    clientlib.load_config(ROOT / ".pre-commit-config.yaml")


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_a_form_has_what_the_host_requires(name):
    form = yaml.safe_load((GITHUB / f"ISSUE_TEMPLATE/{name}.yml").read_text())
    assert set(form) == {"name", "description", "labels", "body"}
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert {part["type"] for part in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)
    assert any(part.get("validations", {}).get("required") for part in fields)


def test_the_other_files_of_the_host_are_valid():
    chooser = yaml.safe_load((GITHUB / "ISSUE_TEMPLATE/config.yml").read_text())
    assert chooser == {"blank_issues_enabled": True}
    (updates,) = yaml.safe_load((GITHUB / "dependabot.yml").read_text())["updates"]
    assert updates["package-ecosystem"] == "github-actions"
    request = (GITHUB / "pull_request_template.md").read_text()
    for name in re.findall(r"[A-Z]+\.md", request):
        assert (ROOT / name).exists()
    for target in re.findall(r"`make ([\w-]+)`", request):
        assert target in TARGETS
