"""The table of a rehearsed year, from the rows that ``benchmarks/year.py`` prints."""

from collections.abc import Sequence

from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.io.rows import Row


def year_table(rows: Sequence[Row]) -> str:
    """Return the weeks in which something happened, and a line for all others.

    Examples
    --------
    >>> quiet = {"week": 1, "events": [], "sites": 20, "k": 5}
    >>> joined = {"week": 2, "events": ["a site joined"], "sites": 21, "k": 5, "drift": 1.234}
    >>> later = {"week": 3, "events": [], "sites": 21, "k": 5, "drift": 0.9, "alarm": False}
    >>> print(year_table([quiet, joined | {"alarm": True}, later]))
    | week | what happened | sites | clusters | drift | alarm |
    |---|---|---|---|---|---|
    | 2 | a site joined | 21 | 5 | 1.2 | yes |
    | all others |  |  |  | at most 0.9 |  |
    """
    weeks = [row for row in rows if "week" in row]
    busy = [row for row in weeks if row["events"]]
    others = [row for row in weeks if not row["events"] and "drift" in row]
    table = [
        [
            str(row["week"]),
            "; ".join(row["events"]),
            str(row["sites"]),
            str(row["k"]),
            f"{row['drift']:.1f}",
            "yes" if row["alarm"] else "",
        ]
        for row in busy
    ]
    most = max((row["drift"] for row in others), default=0.0)
    alarms = "yes" if any(row["alarm"] for row in others) else ""
    table.append(["all others", "", "", "", f"at most {most:.1f}", alarms])
    head = ["week", "what happened", "sites", "clusters", "drift", "alarm"]
    return markdown_table(head, table)


def year_verdict(rows: Sequence[Row]) -> str:
    """Say in a sentence what held over the year.

    Examples
    --------
    >>> year_verdict([{"n_sites": 20, "n_weeks": 52, "ids_stayed": True, "tracebacks": []}])
    '20 sites, 52 weeks: every cluster kept its id, and no part printed a traceback.'
    """
    year = next(row for row in rows if "n_weeks" in row)
    kept = "every cluster kept its id" if year["ids_stayed"] else "some clusters changed their ids"
    parts = len(year["tracebacks"])
    printed = f"{parts} parts printed a traceback" if parts else "no part printed a traceback"
    return f"{year['n_sites']} sites, {year['n_weeks']} weeks: {kept}, and {printed}."
