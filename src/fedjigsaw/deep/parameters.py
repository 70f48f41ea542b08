"""The parameters of DeepFeCA: a few frozen objects, whose settings can also be set by flat names.

A setting is one field of one object, with one rule and one line of its docstring. Nothing else
needs to know of it: the command line, checkpoints and messages use the flat names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from fedjigsaw.deep.augment import Augmentation
from fedjigsaw.deep.execution import Execution
from fedjigsaw.deep.losses import Recipe
from fedjigsaw.deep.objective import Objective
from fedjigsaw.deep.schedule import Schedule, Step, n_steps, plan
from fedjigsaw.engine import FederatedMethod
from fedjigsaw.errors import ParameterError, did_you_mean, invalid
from fedjigsaw.estimator import FederatedClusterer
from fedjigsaw.methods import CLUSTERERS, make
from fedjigsaw.parameters import Rule, check_parameters, integer, seed_source
from fedjigsaw.privacy.guard import Guard

GROUPS: dict[str, Any] = {
    "objective": Objective,
    "augmentation": Augmentation,
    "schedule": Schedule,
    "execution": Execution,
}
GROUP_OF = {setting: group for group, cls in GROUPS.items() for setting in cls.rules}
MAX_HEADS = 100  # a few are useful
POOLING = [name for name, entry in CLUSTERERS.items() if entry.cls.pools_data]
FEDERATED = [name for name in CLUSTERERS if name not in POOLING]
QUICK = {"n_init": 1, "max_iter": 20, "patience": 0}  # of the clusterer, unless given

_OBJECTIVE, _AUGMENTATION = Objective(), Augmentation()
_SCHEDULE, _EXECUTION = Schedule(), Execution()


def _sizes(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]


def _method_name(value: Any) -> Any:
    return value if isinstance(value, str) else getattr(value, "method", None)


class DeepParameters(FederatedMethod, BaseEstimator):  # type: ignore[misc]
    """Parameters of :class:`~fedjigsaw.deep.DeepFeCA`, their rules, and what follows from them.

    Attributes
    ----------
    rules : dict
        The rule of every setting, by its flat name.
    site_guard : Guard or None
        What a site of a federation lets out, which decides on more than `min_cluster_size`.
    """

    site_guard: Guard | None = None

    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": Rule(
            f"an integer >= 2 or a list of at most {MAX_HEADS} such",
            lambda value: (
                1 <= len(_sizes(value)) <= MAX_HEADS and all(map(integer(2).accepts, _sizes(value)))
            ),
        ),
        "clusterer": Rule(
            f"one of {', '.join(FEDERATED)}, for one client also {', '.join(POOLING)}, "
            "or the class of one",
            lambda value: _method_name(value) in CLUSTERERS,
        ),
        "clusterer_params": Rule(
            "a dictionary or None", lambda value: isinstance(value, Mapping | None)
        ),
        "random_state": seed_source(),
        **{setting: rule for cls in GROUPS.values() for setting, rule in cls.rules.items()},
    }

    def __init__(
        self,
        n_clusters: Any = 10,
        *,
        clusterer: Any = "feca",
        clusterer_params: Mapping[str, Any] | None = None,
        objective: Objective = _OBJECTIVE,
        augmentation: Augmentation = _AUGMENTATION,
        schedule: Schedule = _SCHEDULE,
        execution: Execution = _EXECUTION,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.clusterer = clusterer
        self.clusterer_params = clusterer_params
        self.objective = objective
        self.augmentation = augmentation
        self.schedule = schedule
        self.execution = execution
        self.random_state = random_state

    # ------------------------------------------------------------------------------- flat names

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Make an estimator from settings by their flat names, as in :meth:`configuration`.

        Raises
        ------
        ParameterError
            If a name is unknown or a value is not allowed.

        Examples
        --------
        >>> from fedjigsaw.deep import DeepFeCA
        >>> DeepFeCA.from_settings({"n_clusters": 5, "learning_rate": 0.1}).schedule.learning_rate
        0.1
        """
        cls._check_names(settings)
        made = cls().set_params(**settings)
        made.check()
        return made

    @classmethod
    def _check_names(cls, names: Iterable[str]) -> None:
        for name in names:
            if name not in cls.rules:
                guess, known = did_you_mean(name, cls.rules), ", ".join(cls.rules)
                parts = [f"{cls.__name__} has no setting {name!r}.", guess, f"It has: {known}."]
                raise ParameterError(" ".join(filter(None, parts)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor; with `deep`, also all settings by their flat names."""
        params: dict[str, Any] = super().get_params(deep=False)
        return params | self._flat() if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor, or single settings by their flat names.

        Examples
        --------
        >>> from fedjigsaw.deep import DeepFeCA
        >>> DeepFeCA().set_params(n_clusters=5, device="cpu").execution.device
        'cpu'
        """
        self._check_names(n for n in params if n not in GROUPS)
        super().set_params(**{n: v for n, v in params.items() if n not in GROUP_OF})
        for group in GROUPS:
            changes = {n: v for n, v in params.items() if GROUP_OF.get(n) == group}
            if changes:
                setattr(self, group, replace(getattr(self, group), **changes))
        return self

    def configuration(self) -> dict[str, Any]:
        """Return all settings as flat JSON; a `random_state` that is no integer becomes None."""
        params = {
            "n_clusters": self.sizes if len(self.sizes) > 1 else self.sizes[0],
            "clusterer": self.clusterer_name,
            "clusterer_params": self.clusterer_params,
            "random_state": self.random_state,
            **self._flat(),
        }
        if not isinstance(self.random_state, (int, np.integer)):
            params["random_state"] = None
        plain = {n: v.item() if isinstance(v, np.generic) else v for n, v in params.items()}
        return dict(sorted(plain.items()))

    def _flat(self) -> dict[str, Any]:
        return {n: v for group in GROUPS for n, v in asdict(getattr(self, group)).items()}

    # ------------------------------------------------------------------------------------ checks

    def check(self) -> None:
        """Raise a ParameterError if a parameter, also one of the clusterer, is not allowed."""
        owner = type(self).__name__
        for group, cls in GROUPS.items():
            kind = Rule(f"a {cls.__name__}", lambda value, cls=cls: isinstance(value, cls))  # type: ignore[misc]
            kind.check(group, owner, getattr(self, group))
        check_parameters(owner, self.rules, self.get_params())
        if self.schedule.ema and self.schedule.batch_norm == "recalibrate":
            # the statistics would be those of the weights, not of the teacher
            got = repr(self.schedule.batch_norm)
            raise ParameterError(invalid("batch_norm", owner, "'average' with ema", got))
        targets, views = self.objective.targets, self.augmentation.views
        if targets != "stored" and views < 2:  # there is no other view to predict
            raise ParameterError(invalid("views", owner, f"at least 2 with {targets=}", views))
        for head in range(len(self.sizes)):
            self.make_clusterer(head).check()

    # -------------------------------------------------------------------------- what follows

    @property
    def sizes(self) -> list[int]:
        """Number of clusters of each head."""
        return [int(k) for k in _sizes(self.n_clusters)]

    @property
    def clusterer_name(self) -> str:
        return str(_method_name(self.clusterer))

    @property
    def guard(self) -> Guard:
        """The guard that everything about clusters of images passes at a client."""
        return self.site_guard or Guard(self.objective.min_cluster_size)

    @property
    def recipe(self) -> Recipe:
        """All that a trainer depends on."""
        return Recipe(self.objective, self.augmentation, self.schedule, self.execution)

    def make_clusterer(self, head: int) -> FederatedClusterer:
        """Make the method that clusters for one head, with quick settings unless others are given.

        Its `random_state` does not matter: clients and server draw from the streams of the run.
        """
        name = self.clusterer_name
        params = {p: v for p, v in QUICK.items() if p in CLUSTERERS[name].own_parameters}
        made = make(name, self.sizes[head], 0, **{**params, **(self.clusterer_params or {})})
        made.backend = self.execution.kmeans_backend
        made.for_reports = False  # a report is about the last round of training
        return made

    @property
    def total_rounds(self) -> int:
        """Communication rounds of a whole run, however many: a site has not agreed to them yet."""
        return n_steps(self.schedule, self.make_clusterer(0).total_rounds)

    def plan(self) -> tuple[Step, ...]:
        """Communication steps of a whole run, in order."""
        return plan(self.schedule, self.make_clusterer(0).total_rounds)
