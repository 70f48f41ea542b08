"""Show the journal of a site, or its privacy ledger: a part of `fedjigsaw inspect`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from fedjigsaw.cli._shared import escape, out, print_json
from fedjigsaw.errors import MessageError
from fedjigsaw.records.journal import last_hash, read
from fedjigsaw.records.ledger import LIMIT, RELEASED, SPENT

MAX_TEXT = 300


def show_journal(path: Path, as_json: bool) -> None:
    """Show every record of a journal and whether the chain holds; exit code 4 if it does not."""
    records, problems = [], []
    for record, problem in read(path):
        if record is not None:
            records.append(record)
        if problem is not None:
            problems.append(problem)
    if as_json:
        print_json(
            {
                "file": str(path),
                "bytes": path.stat().st_size,
                "kind": "journal",
                "records": records,
                "problems": problems,
                "last_hash": None if problems else last_hash(path),
            }
        )
    else:
        out.print(_table(records))
        out.print(_verdict(records, problems, path))
    if problems:
        raise typer.Exit(MessageError.exit_code)


def _verdict(records: list[dict[str, Any]], problems: list[str], path: Path) -> str:
    if problems:
        return "\n".join(f"[red]{escape(problem)}[/]" for problem in problems)
    kinds = [record.get("kind") for record in records]
    counts = ", ".join(
        f"{kinds.count(kind)} {kind}s" for kind in ("question", "answer", "refusal", "failure")
    )
    if {SPENT, LIMIT} & set(kinds):
        counts = f"A privacy ledger: {kinds.count(SPENT)} releases; `privacy status` adds them up"
    last = f"The last record is number {len(records) - 1}, with the hash {last_hash(path)}."
    return f"{counts}. The chain of hashes holds. {last} Note both elsewhere."


def _table(records: list[dict[str, Any]]) -> Table:
    table = Table("record", "time", "what", "details")
    for record in records:
        shown = (record.get("n"), record.get("time"), record.get("kind"), _details(record))
        table.add_row(*(escape(str(value)[:MAX_TEXT]) for value in shown))
    return table


def _details(record: Mapping[str, Any]) -> str:
    kind, to = record.get("kind"), record.get("to")
    if kind == "question":
        model = "" if record.get("model") is None else ", with a model"
        if record.get("task"):
            return f"{record['task']}{model}"
        asked = f"round {record.get('round')} of {record.get('method')}{model}"
        return f"{asked}; seed {record.get('seed')}; {record.get('params')}"
    if kind == "answer":
        again = ", as before" if record.get("repeated") else ""
        what = record.get("task") or f"{record.get('centers')} centers"
        sent = f"{what}, {record.get('bytes')} bytes"
        return f"to {to}: {sent}{again}; sha256 {record.get('answer')}"
    if kind in ("refusal", "failure"):
        return f"to {to}: {record.get('reason')}"
    if kind == SPENT:
        whose = f"{record.get('what')} of {record.get('data_set')}, to {to}"
        return f"{whose}; {_promise(record)}; data {record.get('fingerprint')}"
    if kind == LIMIT:
        data = f"; data {record['fingerprint']}" if record.get("fingerprint") else ""
        return f"of {record.get('data_set') or 'all others'}: {_promise(record)}{data}"
    if kind == RELEASED:
        return f"the result of {record.get('of')} was written"
    return str(record.get("text", ""))


def _promise(record: Mapping[str, Any]) -> str:
    if record.get("epsilon") is None:
        return "no bound"
    return f"epsilon {record['epsilon']} at delta {record.get('delta')}"
