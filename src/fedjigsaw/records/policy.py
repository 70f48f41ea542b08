"""The policy of a site: which questions it answers, how many, and what may leave.

A coordinator asks; the site decides. Its rules are in ``policy.toml`` in the site's folder. A file
that is missing means the defaults. A file with a mistake means that the site does not start.
"""

import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from fedjigsaw.errors import ParameterError, invalid, unreadable
from fedjigsaw.messages import COUNTS
from fedjigsaw.number.cells import CELLS_PER_CLIENT, sends_cells
from fedjigsaw.parameters import Rule, integer, is_integer, one_of, real
from fedjigsaw.privacy.guard import Guard

POLICY = "policy.toml"
MAX_POLICY_BYTES = 2**16
DERIVED, ANY = "derived", "any"
SUMS = ("rounded", "none")
NONE, REQUIRED = "none", "required"
LIMITS = {
    "n_clusters": 100,
    "n_local_clusters": 200,
    "max_clusters": 100,
    "detail": 2,
    "n_init": 100,
    "max_iter": 1000,
    # of methods for images: time and memory grow with them
    "local_epochs": 20,
    "batch_size": 512,
    "views": 4,
    "small_crops": 8,
}
ADVICE = "Correct the file, or delete it to get the defaults."


class PolicyError(ParameterError):
    """A policy with a mistake, or one that a site may not be started with, or go on with."""


class RefusedError(PolicyError):
    """A question that the policy of a site does not allow. Its text never leaves the site."""


class OwnScalerError(RefusedError):
    """A scaler, or statistics for one, where the site has a scaler of its own."""


class PrivateError(RefusedError):
    """A question that differential privacy does not cover, at a site that is started with it."""


class NoLabelsError(RefusedError):
    """A model for labels, at a site that wants none."""


class ChangedDataError(RefusedError):
    """A later round of a run, at a site whose data are not those of its earlier rounds."""


@dataclass(frozen=True)
class Policy:
    """Rules of a site; the defaults are strict.

    Parameters
    ----------
    methods : tuple, list or set of str
        Methods that the site runs.
    at_most : mapping of str to int
        Largest values of parameters; those that are not named keep their defaults.
    rounds : int, default 1
        Rounds of one run that the site answers.
    later_models : {"derived", "any"}
        Models of later rounds that it answers for: only those that the server can show to come
        from the summaries of the round before, or any.
    questions_per_day, questions_in_all : int
        Different questions that it answers within 24 hours, and in all about one data set.
    least_cluster_size : int, default 5
        Smallest number of rows that a center may stand for.
    counts : {"exact", "rounded", "none"}
        How sizes of clusters may leave.
    sums : {"rounded", "none"}
        Whether sums of squares may leave, if the method needs them.
    statistics : {"rounded", "none"}
        Whether means and spreads of columns may leave, for a common scaler.
    scores : {"derived", "any", "none"}
        Models whose fit the site measures for the server.
    privacy : {"none", "required"}
        Whether the site answers only under differential privacy. "none" demands nothing: the site
        may be started with it all the same.
    largest_epsilon : float, default 1
        Largest epsilon of one run, where privacy is required.

    Raises
    ------
    PolicyError
        If a value is not allowed. That methods exist is checked by :meth:`load` alone.

    Examples
    --------
    >>> from fedjigsaw.records.policy import Policy
    >>> strict = Policy(methods=("jigsaw",), least_cluster_size=20)
    >>> strict.rounds, strict.questions_per_day
    (1, 10)
    """

    methods: tuple[str, ...] = ("jigsaw", "feca", "kfed", "match")
    at_most: Mapping[str, int] = field(default_factory=LIMITS.copy)
    rounds: int = 1
    later_models: str = DERIVED
    questions_per_day: int = 10
    questions_in_all: int = 20
    least_cluster_size: int = 5
    counts: str = "exact"
    sums: str = "rounded"
    statistics: str = "rounded"
    scores: str = DERIVED
    privacy: str = NONE
    largest_epsilon: float = 1.0

    def __post_init__(self) -> None:
        _check({f.name: getattr(self, f.name) for f in fields(self)}, "Policy")
        unordered = isinstance(self.methods, (set, frozenset))
        names = sorted(self.methods) if unordered else self.methods
        object.__setattr__(self, "methods", tuple(names))
        # a limit that is not named keeps its default
        object.__setattr__(self, "at_most", LIMITS | dict(self.at_most))

    @classmethod
    def load(cls, folder: Path, *, known: Collection[str]) -> Self:
        """Read the policy of a site's folder; every mistake in it is a PolicyError.

        Parameters
        ----------
        folder : the site's folder.
        known : names of all methods.
        """
        path = folder / POLICY
        try:
            if not path.exists() and not path.is_symlink():
                return cls()
            if not path.is_file():  # a pipe would be waited for; a link to nothing is no default
                raise PolicyError(f"Cannot read {path}: it is not a regular file. {ADVICE}")
            with path.open("rb") as file:
                content = file.read(MAX_POLICY_BYTES + 1)
        except OSError as error:
            raise PolicyError(unreadable(path, error), file=path) from error
        try:
            if len(content) > MAX_POLICY_BYTES:
                raise ValueError(f"it is larger than {MAX_POLICY_BYTES} bytes")
            values = tomllib.loads(content.decode())
        except (ValueError, RecursionError) as error:
            raise PolicyError(f"{path} is not a TOML file: {error}. {ADVICE}") from error
        return cls.from_values(values, str(path), known=known)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], owner: str, *, known: Collection[str]) -> Self:
        """Make a policy from the values of a file, and check every one of them."""
        names = [f.name for f in fields(cls)]
        unknown = sorted(set(values) - set(names))
        if unknown:
            given = ", ".join(map(repr, unknown))
            raise PolicyError(f"{owner} has unknown keys: {given}. Known: {', '.join(names)}.")
        _check(values, owner, known, ADVICE)
        return cls(**values)

    def check_question(
        self, method: str, params: Mapping[str, Any], *, total_rounds: int, number: int, model: bool
    ) -> None:
        """Raise a RefusedError for a question that is never answered, whatever went before.

        Parameters
        ----------
        method, params : the method and all its parameters.
        total_rounds : rounds that the method needs with these parameters.
        number : number of this round, from 0.
        model : whether the question has a model.
        """
        if method not in self.methods:
            raise RefusedError(f"method {method} is not among: {', '.join(self.methods)}")
        if sends_cells(params) and params.get("n_local_clusters") is None:
            params = {**params, "n_local_clusters": CELLS_PER_CLIENT}
        # a method for images has the parameters of the one that clusters among its own
        nested = [value for value in params.values() if isinstance(value, Mapping)]
        for name, limit in self.at_most.items():
            for values in (params, *nested):
                if _largest(values.get(name)) > limit:
                    raise RefusedError(f"{name} = {values[name]!r} is more than {limit}")
        if max(total_rounds, number + 1) > self.rounds:
            needed = max(total_rounds, number + 1)
            raise RefusedError(f"{needed} rounds are more than {self.rounds}")
        if number >= total_rounds:  # rounds share a budget; one more would have a share of its own
            raise RefusedError(f"round {number} of a run of {total_rounds}, counted from 0")
        if model != (number > 0):
            what = "a model in the first round" if model else "no model in a later round"
            raise RefusedError(f"the question has {what}")

    def check_budget(self, per_day: int, in_all: int) -> None:
        """Raise a RefusedError if a new question would be one too many.

        Parameters
        ----------
        per_day : different questions answered within the last 24 hours.
        in_all : different questions answered about this data set.
        """
        if per_day >= self.questions_per_day:
            raise RefusedError(f"{per_day} questions were answered within 24 hours")
        if in_all >= self.questions_in_all:
            raise RefusedError(f"{in_all} questions were answered about this data set")

    def check_privacy(self, name: str, epsilon: float | None) -> None:
        """Raise a PolicyError if a site may not be started with this epsilon.

        Parameters
        ----------
        epsilon : that of every run; None is a site without differential privacy.
        """
        if self.privacy != REQUIRED:
            return
        demand = f"Site {name} was not started: its {POLICY} demands differential privacy"
        if epsilon is None:
            raise PolicyError(
                f"{demand}. Give an epsilon (at most {self.largest_epsilon:g}) and bounds."
            )
        if epsilon > self.largest_epsilon:
            raise PolicyError(
                f"{demand} with epsilon at most {self.largest_epsilon:g}; got {epsilon:g}."
            )

    def guard(self, min_cluster_size: int | None, counts: str | None) -> Guard:
        """Return the guard that a command asked for, if it is as strict as the policy.

        None asks for what the policy says.
        """
        size = self.least_cluster_size if min_cluster_size is None else min_cluster_size
        if size < self.least_cluster_size:
            raise PolicyError(
                f"min_cluster_size={size} is less than least_cluster_size = "
                f"{self.least_cluster_size} in {POLICY}. Give a larger one, or change the policy."
            )
        if counts in COUNTS and COUNTS.index(counts) < COUNTS.index(self.counts):
            raise PolicyError(
                f"counts={counts!r} tells more than counts = {self.counts!r} in {POLICY} allows. "
                "Give a stricter one, or change the policy."
            )
        return Guard(size, counts)

    def tighten(self, guard: Guard, needed: Collection[str]) -> Guard:
        """Return a guard that lets no more counts and sums pass than the policy allows.

        Parameters
        ----------
        guard : the site's guard.
        needed : fields that the method's server needs.
        """
        counts = guard.counts
        if counts is None and "counts" in needed and self.counts != "exact":
            counts = self.counts
        elif counts is not None:
            counts = max(counts, self.counts, key=COUNTS.index)
        return replace(guard, counts=counts, sums=guard.sums and self.sums != "none")

    def looser(self) -> dict[str, str]:
        """Return the rules that allow more than the default ones, in words.

        Examples
        --------
        >>> Policy(rounds=3, questions_in_all=5).looser()
        {'rounds': 'rounds = 3 (default: at most 1)'}
        """
        default, found = Policy(), {}
        more = [name for name in self.methods if name not in default.methods]
        if more:
            found["methods"] = f"methods: {', '.join(more)} (not among the default methods)"
        for name in ("rounds", "questions_per_day", "questions_in_all"):
            if getattr(self, name) > (usual := getattr(default, name)):
                found[name] = f"{name} = {getattr(self, name)} (default: at most {usual})"
        for name in ("later_models", "scores"):
            if getattr(self, name) == ANY:
                found[name] = f'{name} = "{ANY}" (default: "{DERIVED}")'
        if self.least_cluster_size < (least := default.least_cluster_size):
            text = f"least_cluster_size = {self.least_cluster_size} (default: at least {least})"
            found["least_cluster_size"] = text
        large = [f"{k} = {v} ({LIMITS[k]})" for k, v in self.at_most.items() if v > LIMITS[k]]
        if large:
            found["at_most"] = f"at_most: {', '.join(large)} (in brackets: the default limit)"
        return found

    def check_accepted(self, name: str, *, accepted: bool) -> None:
        """Raise a PolicyError if rules are looser than the default and nobody agreed to them.

        The coordinator makes a site's folder, and the policy in it: only who starts the site can
        agree, and nothing in the folder.
        """
        rules = self.looser()
        if rules and not accepted:
            lines = "".join(f"\n  {text}" for text in rules.values())
            raise PolicyError(
                f"Site {name} was not started: its {POLICY} allows more than the default rules."
                f"{lines}\nThe file came with the folder, from the coordinator. Tighten these "
                "rules, or agree to them: `fedjigsaw federation site --accept-policy`."
            )


def _check(
    values: Mapping[str, Any], owner: str, known: Collection[str] | None = None, advice: str = ""
) -> None:
    """Raise a PolicyError if a value is not allowed, or a method is not known."""
    rules = _rules(known)
    for name, value in values.items():
        if not rules[name].accepts(value):
            got = repr(value)[:80]
            raise PolicyError(invalid(name, owner, rules[name].allowed, got, advice))
    if values.get("counts") == "rounded" and values.get("least_cluster_size") == 1:
        allowed = "greater than 1 for rounded counts"
        raise PolicyError(invalid("least_cluster_size", owner, allowed, 1, advice))


def _rules(known: Collection[str] | None) -> dict[str, Rule]:
    """Return a rule for each key of the file."""
    whole = integer(1)
    names = Rule(
        "a list of methods" + (f", each one of {', '.join(known)}" if known else ""),
        _list_of(lambda value: isinstance(value, str) and (known is None or value in known)),
    )
    limits = Rule(
        "a table of integers >= 1 for some of " + ", ".join(LIMITS),
        lambda value: (
            isinstance(value, Mapping)
            and set(value) <= set(LIMITS)
            and all(map(whole.accepts, value.values()))
        ),
    )
    rules = {
        "methods": names,
        "at_most": limits,
        "later_models": one_of(DERIVED, ANY),
        "counts": one_of(*COUNTS),
        "sums": one_of(*SUMS),
        "statistics": one_of(*SUMS),
        "scores": one_of(DERIVED, ANY, NONE),
        "privacy": one_of(NONE, REQUIRED),
        "largest_epsilon": real(0, inclusive=False),
    }
    return {f.name: rules.get(f.name, whole) for f in fields(Policy)}


def _list_of(accepts: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, (list, tuple, set, frozenset))
        and bool(value)
        and all(map(accepts, value))
    )


def _largest(value: object) -> float:
    """Return the largest number in a parameter, which may be a list or a table by site."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return max(map(_largest, value), default=0)
    return float(value) if is_integer(value) or isinstance(value, float) else 0  # type: ignore[arg-type]
