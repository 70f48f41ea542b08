"""The result of a comparison: numbers of every run, their means, a picture, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw.comparison.contenders import Contender
from fedjigsaw.comparison.significance import LEVEL, TEST, Verdict, judge
from fedjigsaw.comparison.tables import NUMBERS, MarkedTable, cell_text, rows_as_csv
from fedjigsaw.errors import ExtraError, counted, shorten
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.rows import Row
from fedjigsaw.report.page.view import Table
from fedjigsaw.report.page.words import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    "objective_ratio", "ari", "nmi", "purity", "l2", "mse", "bytes_per_client", "rounds", "seconds",
    "n_found", "confidence", "inertia",
)  # fmt: skip
COUNTS = ("n_found", "bytes_per_client", "rounds")  # a deviation of 0 is not shown
MAX_REASON = 100  # characters, in tables, of the reason why a run failed
# numbers of which one is the best -> whether that is the smallest
GOALS = {
    "objective_ratio": True,
    "ari": False,
    "nmi": False,
    "purity": False,
    "bytes_per_client": True,
}


@dataclass(frozen=True, repr=False)
class Comparison:
    """What :func:`fedjigsaw.compare` found. Printing it shows the means and what they tell.

    Attributes
    ----------
    frame : DataFrame
        One row for every method and seed; requires pandas. `objective_ratio` is the summed squared
        distance of all rows to their nearest centers, over that of k-means on all rows in one place
        with the same seed. `ari`, `nmi` and `purity` need true classes. `bytes_per_client` is what
        a client sends on average, `rounds` how often, `n_found` the number of clusters, `inertia`
        the objective itself. `failed` is the reason why a run failed, in short, or None.
    methods : list of str
        Labels of the methods.
    seeds : tuple of int
    rows : tuple of dict
        The same numbers without pandas, with the parameters of the method, and the version, commit
        and k-means backend that they were computed with.
    contenders : tuple of Contender
        The methods with their parameters.
    title : str
        What was compared.

    Examples
    --------
    >>> import fedjigsaw
    >>> rows = [[0.0], [1.0], [9.0], [10.0]] * 5
    >>> found = fedjigsaw.compare(
    ...     ["jigsaw", "kfed"], rows, clients="iid", n_clients=2, n_clusters=2, seeds=2
    ... )
    >>> found.title, found.methods
    ('20 rows, 2 clients (iid split), k = 2', ['Jigsaw', 'k-FED'])
    >>> found.means()["Jigsaw"]["objective_ratio"]
    {'mean': 1.0, 'std': 0.0}
    """

    rows: tuple[Row, ...]
    contenders: tuple[Contender, ...]
    seeds: tuple[int, ...]
    title: str

    @property
    def methods(self) -> list[str]:
        """Labels of the methods, in their order."""
        return [contender.label for contender in self.contenders]

    @property
    def frame(self) -> Any:
        """All numbers as a tidy pandas DataFrame: one row for every method and seed."""
        names = self._columns()
        rows = [{name: row.get(name) for name in names} for row in self.rows]
        rows = [{**row, "failed": _short(row["failed"])} for row in rows]
        return _pandas().DataFrame(rows, columns=names)

    def summary(self) -> Any:
        """Return mean and standard deviation over seeds as a pandas DataFrame, a row per method.

        Columns are pairs such as ``("ari", "mean")`` and ``("ari", "std")``; the deviation is that
        of a sample (n - 1), as in pandas. ``("seeds", "count")`` is how many seeds did not fail.
        """
        means = self.means()
        pandas = _pandas()
        table = {
            label: {(n, part): v for n, own in of.items() for part, v in own.items()}
            for label, of in means.items()
        }
        for label in self.methods:
            table[label]["seeds", "count"] = sum("failed" not in row for row in self._rows(label))
        pairs = [(n, part) for n in self._measured() for part in ("mean", "std")]
        columns = pandas.MultiIndex.from_tuples([*pairs, ("seeds", "count")])
        index = pandas.Index(self.methods, name="method")
        return pandas.DataFrame(list(table.values()), index=index, columns=columns)

    def means(self) -> dict[str, dict[str, dict[str, float | None]]]:
        """Return mean and standard deviation of every number of every method, without pandas.

        The deviation is None if there is one seed.
        """
        return {
            label: {
                name: {"mean": mean, "std": std}
                for name in self._measured()
                for mean, std in [_mean_and_std(self._values(label, name))]
            }
            for label in self.methods
        }

    def significance(self) -> Any:
        """Return p-values as a pandas DataFrame: each method beside the best one, of each number.

        They are those of paired t-tests over seeds, with Holm's correction for the number of
        methods. They are missing for the best one, for methods that pool all rows or failed with a
        seed, and if there are fewer than two seeds.
        """
        verdicts = self.verdicts()
        table = {n: dict(verdict.p_values or {}) for n, verdict in verdicts.items()}
        rows = [[table[n].get(label) for n in table] for label in self.methods]
        pandas = _pandas()
        index = pandas.Index(self.methods, name="method")
        return pandas.DataFrame(rows, index=index, columns=list(table), dtype=float)

    def verdicts(self) -> dict[str, Verdict]:
        """Return which method is best, and which are not significantly worse, for each number."""
        labels = [contender.label for contender in self.competitors()]
        names = [name for name in GOALS if name in self._measured()]
        return {
            name: judge({label: self._values(label, name) for label in labels}, least=GOALS[name])
            for name in names
        }

    def plot(self) -> Figure:
        """Draw all methods: means with standard deviations, a dot for every seed.

        Returns a matplotlib figure; ``figure.savefig("methods.pdf")`` writes it.
        """
        from fedjigsaw.report.compared import draw_comparison

        looks = {contender.label: contender.color for contender in self.contenders}
        return draw_comparison(self.rows, looks)

    def to_latex(
        self,
        path: str | Path | None = None,
        *,
        caption: str | None = None,
        label: str | None = None,
    ) -> str:
        r"""Return the means as a table for LaTeX, and write it to a file if one is given.

        It needs the package booktabs. The best numbers are bold; a dagger marks those that are
        not significantly worse, and a note below the table says by which test.

        Parameters
        ----------
        path : the file to write; an existing one is replaced.
        caption, label : LaTeX code for ``\caption`` and ``\label``.
        """
        return _written(self.table().as_latex(caption, label), path)

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return every row of `frame` as CSV, and write it to a file if one is given."""
        return _written(rows_as_csv(self.rows, self._columns()), path)

    def table(self) -> MarkedTable:
        """Return the means as a table, with what is best and what it means."""
        names = [name for name in NUMBERS if name in self._measured()]
        headings = ("method", *(NUMBERS[name][0] for name in names))
        lines = tuple(
            (self._named(label), *(self._cell(label, name) for name in names))
            for label in self.methods
        )
        verdicts = self.verdicts()
        places = {(label, name): (i, j + 1) for i, label in enumerate(self.methods)
                  for j, name in enumerate(names)}  # fmt: skip
        best = {places[label, name] for name, found in verdicts.items() for label in found.best}
        close = {places[label, name] for name, found in verdicts.items() for label in found.close}
        return MarkedTable(
            Table(self._caption(), headings, lines),
            best,
            close,
            [*self._meanings(), *self.failures()],
            self._best_words(verdicts.values(), bool(close)),
            f"not significantly worse than the best ({self._test()}); "
            f"all others {self._others()}are.",
        )

    def failures(self) -> list[str]:
        """Say which methods failed, how often, and why."""
        return list(self._failures())

    def __repr__(self) -> str:
        return self.table().as_text()

    def _repr_html_(self) -> str:
        return self.table().as_html()

    def _caption(self) -> str:
        n = len(self.seeds)
        return f"{self.title}, {n} seeds" if n > 1 else self.title

    def _failures(self) -> Iterator[str]:
        for label in self.methods:
            failed = [row for row in self._rows(label) if "failed" in row]
            if failed:
                times = f"{len(failed)} of {counted(len(self.seeds), 'seed')}"
                first = f"Seed {failed[0]['seed']}: {_short(failed[0]['failed'])}"
                yield f"{label} failed with {times}. {first}"

    def competitors(self) -> list[Contender]:
        """Return the methods of which one is the best: federated, never failed, not too large."""
        whole = [
            contender
            for contender in self.contenders
            if not self._has_failed(contender) and not self._is_too_large(contender)
        ]
        federated = [contender for contender in whole if not contender.pools_data]
        return federated or whole

    def _has_failed(self, contender: Contender) -> bool:
        return any("failed" in row for row in self._rows(contender.label))

    def _is_too_large(self, contender: Contender) -> bool:
        """Tell whether a method found more clusters than asked for: they lower any objective."""
        asked = contender.n_clusters
        return asked is not None and any(
            row.get("n_found", 0) > asked for row in self._rows(contender.label)
        )

    def _best_words(self, verdicts: Iterable[Verdict], some_are_close: bool) -> str:
        words = f"the best mean of the column{self._left_out()}."
        if len(self.seeds) == 1:
            return f"{words} With one seed, a difference may be chance."
        p_values = [p for verdict in verdicts for p in (verdict.p_values or {}).values()]
        if some_are_close or all(p is None for p in p_values):
            return words
        return f"{words} All others {self._others()}are significantly worse ({self._test()})."

    def _left_out(self) -> str:
        """Say which methods cannot be the best, and why."""
        pooling = [contender.label for contender in self._aside() if contender.pools_data]
        pool = "pools" if len(pooling) == 1 else "pool"
        parts = [f"without {listed(pooling)}, which {pool} all rows"] if pooling else []
        aside = [contender for contender in self._aside() if not contender.pools_data]
        failed = [contender.label for contender in aside if self._has_failed(contender)]
        large = [contender.label for contender in aside if contender.label not in failed]
        for labels, why in (
            (failed, "failed with a seed"),
            (large, "found more clusters than asked for"),
        ):
            if labels:
                was = "was" if len(labels) == 1 else "were"
                parts.append(f"without {listed(labels)}, which {why} and {was} not tested")
        return f", {', and '.join(parts)}" if parts else ""

    def _aside(self) -> list[Contender]:
        taking_part = self.competitors()
        return [contender for contender in self.contenders if contender not in taking_part]

    def _not_tested(self) -> list[str]:
        """Return methods of which the words "all others" would say too much."""
        return [contender.label for contender in self._aside() if not contender.pools_data]

    def _others(self) -> str:
        unknown = any(
            p is None
            for verdict in self.verdicts().values()
            for p in (verdict.p_values or {}).values()
        )
        return "that were tested " if unknown or self._not_tested() else ""

    def _test(self) -> str:
        return f"{TEST.replace('seeds', f'{len(self.seeds)} seeds')}, level {LEVEL:.0%}"

    def _meanings(self) -> Iterator[str]:
        if len(self.seeds) > 1:
            some_failed = any("failed" in row for row in self.rows)
            fewer = ", or over as many as its row says" if some_failed else ""
            yield f"Mean±standard deviation over {len(self.seeds)} seeds{fewer}."
        yield (
            "objective / pooled: summed squared distance of all rows to their nearest centers, "
            "over that of k-means on all rows in one place."
        )

    def _named(self, label: str) -> str:
        """Return the label of a method, and its number of seeds if it failed with some."""
        rows = self._rows(label)
        n = sum("failed" not in row for row in rows)
        return label if n in (0, len(rows)) else f"{label} ({counted(n, 'seed')})"

    def _cell(self, label: str, name: str) -> str:
        mean, std = _mean_and_std(self._values(label, name))
        if mean is None:
            failed = all("failed" in row for row in self._rows(label))
            return "failed" if failed else ""
        if std is None or (std == 0 and name in COUNTS):
            return cell_text(name, [mean])
        return cell_text(name, [mean, std])

    def _rows(self, label: str) -> list[Row]:
        return [row for row in self.rows if row["method"] == label]

    def _values(self, label: str, name: str) -> dict[int, float]:
        """Return a number of a method for every seed that has it."""
        return {row["seed"]: row[name] for row in self._rows(label) if row.get(name) is not None}

    def _measured(self) -> list[str]:
        return [name for name in COLUMNS if any(row.get(name) is not None for row in self.rows)]

    def _columns(self) -> list[str]:
        return ["method", "seed", *self._measured(), "failed"]


def _mean_and_std(values: Mapping[int, float]) -> tuple[float | None, float | None]:
    numbers = list(values.values())
    if not numbers:
        return None, None
    mean = float(np.mean(numbers))
    return mean, float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None


def _short(reason: str | None) -> str | None:
    return None if reason is None else shorten(reason, MAX_REASON)


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_whole(Path(path), f"{text}\n".encode())
    return text


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ExtraError("Numbers as a DataFrame require pandas: pip install pandas") from error
    return pandas
