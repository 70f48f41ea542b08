"""Reproduce studies into a folder of rows, from Python or by ``fedjigsaw reproduce``.

::

    work = Reproduction(find(["table1"]), Path("results"))
    work.run()
    tables(studies()["table1"], work.rows()["table1"])
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedjigsaw.bench import runner
from fedjigsaw.bench.study import Study, Task, tasks_of
from fedjigsaw.io.rows import Row, read_rows
from fedjigsaw.report.provenance import provenance


@dataclass(frozen=True)
class Reproduction:
    """Studies, the folder of their rows, and the number of seeds of each cell.

    Parameters
    ----------
    runs : None is as many seeds as each study has.
    """

    studies: Sequence[Study]
    folder: Path
    runs: int | None = None

    @property
    def tasks(self) -> list[Task]:
        return [task for study in self.studies for task in tasks_of(study, self.runs)]

    def missing(self) -> list[Task]:
        """Return the tasks that have no row yet."""
        return runner.missing(self.tasks, self.folder)

    def lacking(self) -> dict[str, int]:
        """Return what is missing to compute some tasks -> the number of these tasks."""
        found = [task.lacks() for task in self.missing()]
        return {text: found.count(text) for text in dict.fromkeys(found) if text}

    def delete_rows(self) -> None:
        """Delete all rows of these studies, after checking that new ones can be computed."""
        runner.delete_rows(self.tasks, self.folder)

    def run(
        self, *, n_jobs: int | None = None, progress: Callable[[], object] = lambda: None
    ) -> None:
        """Compute the missing rows; see :func:`fedjigsaw.bench.runner.run_tasks`."""
        runner.run_tasks(self.tasks, self.folder, n_jobs=n_jobs, progress=progress)

    def rows(self) -> dict[str, list[Row]]:
        """Return the finished rows of each study."""
        done = list(runner.finished(self.tasks, self.folder).values())
        return {
            study.name: [row for row in done if row["table"] == study.name]
            for study in self.studies
        }

    def other_provenances(self) -> list[str]:
        """Return the commits and backends of rows that this code did not compute."""
        return sorted(
            {
                f"{row['commit']} ({row['backend']})"
                for study in self.studies
                for row in read_rows(runner.result_file(self.folder, study.name))
                if not _is_of(row, provenance(study.backend))
            }
        )

    def outdated(self) -> list[str]:
        """Return the keys of rows that will be replaced since their cells have changed."""
        todo = self.missing()
        files = {runner.result_file(self.folder, task.study) for task in todo}
        found = {runner.key_of(row) for path in files for row in read_rows(path)}
        return [task.key for task in todo if task.key in found]


def _is_of(row: Row, source: Row) -> bool:
    return all(row[name] == source[name] for name in ("commit", "backend"))
