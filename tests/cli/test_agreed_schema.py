"""What a site checks of a schema: that files were made by the agreed one, and its ledger."""

import json
from pathlib import Path

import pytest

from fedjigsaw.errors import BudgetError, MessageError, ParameterError

AGREED = 'format = 1\n[columns.age]\nkind = "number"\n[columns.salary]\nkind = "ignore"\n'
OTHER = AGREED.replace('kind = "ignore"', "weight = 0")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{30 + 40 * (i % 2) + i % 7},{1000 * i}\n" for i in range(60))
    (tmp_path / "bern.csv").write_text("age,salary\n" + rows)
    (tmp_path / "agreed.toml").write_text(AGREED)
    (tmp_path / "other.toml").write_text(OTHER)


def make(run, name):
    """A scaler and a model of one schema, as a coordinator has them."""
    run(f"stats bern.csv -o {name}.stats --schema {name}.toml")
    run(f"scaler {name}.stats -o {name}.json --schema {name}.toml")
    run(f"summarize bern.csv -k 2 -o {name}.summary --scaler {name}.json --schema {name}.toml")
    run(f"aggregate {name}.summary -k 2 -o {name}.model")


def test_a_scaler_or_model_of_another_schema_is_refused(folder, run):
    make(run, "agreed")
    make(run, "other")
    shown = run("score bern.csv --model other.model --profile -o seen.score --json").stdout
    assert "salary" in json.dumps(json.loads(shown))  # what the agreed schema ignores
    run("score bern.csv --model agreed.model --profile -o bern.score --schema agreed.toml")
    refused = "was not made by agreed.toml, the schema that was agreed on"
    for command in (
        "summarize bern.csv -k 2 -o x --scaler other.json --schema agreed.toml",
        "score bern.csv --model other.model --profile -o x --schema agreed.toml",
    ):
        with pytest.raises(MessageError, match=refused):
            run(command)
        assert not Path("x").exists()
    with pytest.raises(ParameterError, match="--scaler"):
        run("summarize bern.csv -k 2 -o x --schema agreed.toml")
    assert not Path("x").exists()


def test_a_limit_of_the_ledger_forbids_the_proposal_of_a_schema(folder, run):
    """A proposal is made from the rows, without noise."""
    run("schema init bern.csv -o before.toml")
    run("privacy set-limit bern.csv --epsilon 4 --delta 1e-6")
    with pytest.raises(BudgetError):
        run("schema init bern.csv -o after.toml")
    with pytest.raises(BudgetError):
        run("schema init bern.csv --json")
    assert not Path("after.toml").exists()
