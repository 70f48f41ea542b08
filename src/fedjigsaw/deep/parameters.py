"""The parameters of DeepFeCA: their table, their defaults, and what follows from them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator

from fedjigsaw._inputs import (
    Rule,
    boolean,
    check_parameters,
    integer,
    one_of,
    real,
    seed_source,
)
from fedjigsaw.base import FederatedClusterer
from fedjigsaw.deep.deepcluster import BALANCES, TARGETS, Recipe
from fedjigsaw.deep.network import NETWORKS, NORMS
from fedjigsaw.errors import ParameterError, complaint
from fedjigsaw.methods import METHODS, make

MAX_LANES = 32  # as many streams as torch has for a GPU


class Step(NamedTuple):
    """What one round of communication is for: round of training, verb, and its how manieth turn."""

    round: int
    verb: str
    turn: int = 0


def _sizes(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]


def _share(*, zero: bool = True, one: bool = True) -> Rule:
    low, high = "from 0" if zero else "above 0", "to 1" if one else "to below 1"
    number = real(0, inclusive=zero)
    return Rule(
        f"a number {low} {high}",
        lambda v: number.accepts(v) and (float(v) <= 1 if one else float(v) < 1),  # type: ignore[arg-type]
    )


def _is_device(value: object) -> bool:
    if value == "auto":
        return True
    try:
        return isinstance(value, str) and bool(torch.device(value).type)
    except RuntimeError:
        return False


def check_device(name: str) -> None:
    """Say at once what a device that is not here would say in the middle of the work."""
    DeepParameters.rules["device"].check("device", "DeepFeCA", name)
    try:
        torch.zeros(1, device=None if name == "auto" else name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ParameterError(complaint("device", "DeepFeCA", "one that is here", name)) from error


def _method_name(value: Any) -> Any:
    return value if isinstance(value, str) else getattr(value, "method", None)


class DeepParameters(BaseEstimator):  # type: ignore[misc]
    """What can be set; documented at :class:`~fedjigsaw.deep.DeepFeCA`."""

    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": Rule(
            "an integer >= 2 or a list of such",
            lambda value: bool(_sizes(value)) and all(map(integer(2).accepts, _sizes(value))),
        ),
        "clusterer": Rule(
            "one of " + ", ".join(METHODS) + ", or the class of one",
            lambda value: _method_name(value) in METHODS,
        ),
        "clusterer_params": Rule(
            "a dictionary or None", lambda value: isinstance(value, Mapping | None)
        ),
        "network": one_of(*NETWORKS),
        "norm": one_of(*NORMS),
        "n_rounds": integer(1),
        "local_epochs": integer(1),
        "batch_size": integer(2),
        "recluster_every": integer(1),
        "cluster_view": one_of("augmented", "plain"),
        "centered": boolean(),
        "views": integer(1),
        "small_crops": integer(0),
        "crop": _share(zero=False),
        "flip": _share(),
        "color": real(0),
        "grayscale": _share(),
        "temperature": real(0, inclusive=False),
        "targets": one_of(*TARGETS),
        "target_softness": real(0, inclusive=False),
        "target_balance": one_of(*BALANCES),
        "stored_share": _share(),
        "stored_falls": boolean(),
        "teacher_momentum": _share(),
        "learning_rate": real(0),
        "final_learning_rate": real(0),
        "warmup_rounds": integer(0),
        "momentum": _share(one=False),
        "weight_decay": real(0),
        "assignment": one_of("nearest", "balanced"),
        "reseed": boolean(),
        "proximal": real(0),
        "server_momentum": _share(one=False),
        "ema": _share(one=False),
        "batch_norm": one_of("average", "recalibrate"),
        "min_cluster_size": integer(1),
        "precision": one_of("auto", "float32"),
        "capture": boolean(),
        "compile": boolean(),
        "lanes": Rule(
            f"an integer from 1 to {MAX_LANES}",
            lambda value: integer(1).accepts(value) and int(value) <= MAX_LANES,  # type: ignore[call-overload]
        ),
        "device": Rule("the name of a torch device, or 'auto'", _is_device),
        "random_state": seed_source(),
    }

    def __init__(
        self,
        n_clusters: Any = 10,
        *,
        clusterer: Any = "feca",
        clusterer_params: Mapping[str, Any] | None = None,
        network: str = "resnet18",
        norm: str = "batch",
        n_rounds: int = 150,
        local_epochs: int = 5,
        batch_size: int = 128,
        recluster_every: int = 1,
        cluster_view: str = "augmented",
        centered: bool = False,
        views: int = 2,
        small_crops: int = 0,
        crop: float = 0.2,
        flip: float = 0.5,
        color: float = 1.0,
        grayscale: float = 0.2,
        temperature: float = 0.1,
        targets: str = "stored",
        target_softness: float = 0.25,
        target_balance: str = "own",
        stored_share: float = 0.0,
        stored_falls: bool = False,
        teacher_momentum: float = 0.99,
        learning_rate: float = 0.05,
        final_learning_rate: float = 0.0005,
        warmup_rounds: int = 0,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        assignment: str = "nearest",
        reseed: bool = True,
        proximal: float = 0.0,
        server_momentum: float = 0.0,
        ema: float = 0.0,
        batch_norm: str = "average",
        min_cluster_size: int = 1,
        precision: str = "auto",
        capture: bool = True,
        compile: bool = False,  # noqa: A002 - the word that torch has for it
        lanes: int = 1,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.clusterer = clusterer
        self.clusterer_params = clusterer_params
        self.network = network
        self.norm = norm
        self.n_rounds = n_rounds
        self.local_epochs = local_epochs
        self.batch_size = batch_size
        self.recluster_every = recluster_every
        self.cluster_view = cluster_view
        self.centered = centered
        self.views = views
        self.small_crops = small_crops
        self.crop = crop
        self.flip = flip
        self.color = color
        self.grayscale = grayscale
        self.temperature = temperature
        self.targets = targets
        self.target_softness = target_softness
        self.target_balance = target_balance
        self.stored_share = stored_share
        self.stored_falls = stored_falls
        self.teacher_momentum = teacher_momentum
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup_rounds = warmup_rounds
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.assignment = assignment
        self.reseed = reseed
        self.proximal = proximal
        self.server_momentum = server_momentum
        self.ema = ema
        self.batch_norm = batch_norm
        self.min_cluster_size = min_cluster_size
        self.precision = precision
        self.capture = capture
        self.compile = compile
        self.lanes = lanes
        self.device = device
        self.random_state = random_state

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """The estimator with these parameters; an unknown name is a ParameterError."""
        for name in settings:
            if name not in cls.rules:
                allowed = "one of " + ", ".join(cls.rules)
                raise ParameterError(complaint("parameter", cls.__name__, allowed, repr(name)))
        made = cls(**settings)
        made.check()
        return made

    def check(self) -> None:
        """Hold the parameters against `rules`, and those of the clusterer against its own."""
        check_parameters(type(self).__name__, self.rules, self.get_params(deep=False))
        if self.ema and self.batch_norm == "recalibrate":  # it would not be for the slow average
            owner, allowed = type(self).__name__, "'average' with ema"
            raise ParameterError(complaint("batch_norm", owner, allowed, repr(self.batch_norm)))
        if self.targets != "stored" and self.views < 2:
            owner, allowed = type(self).__name__, f"at least 2 with targets={self.targets!r}"
            raise ParameterError(complaint("views", owner, allowed, self.views))
        for head in range(len(self.sizes)):
            self.make_clusterer(head).check()

    def check_federated(self) -> None:
        """Say what does not work with several clients."""
        if self.make_clusterer(0).pools_data:
            advice = "To pool the images, use CentralDeepCluster, or --split central."
            got = self.clusterer_name
            raise ParameterError(
                complaint("clusterer", "several clients", "federated", got, advice)
            )

    def configuration(self) -> dict[str, Any]:
        """The parameters as JSON values; a `random_state` that is not an integer is left out."""
        params = dict(self.get_params(deep=False))
        params["n_clusters"] = self.sizes if len(self.sizes) > 1 else self.sizes[0]
        params["clusterer"] = self.clusterer_name
        if not isinstance(self.random_state, (int, np.integer)):
            params["random_state"] = None
        return {n: v.item() if isinstance(v, np.generic) else v for n, v in params.items()}

    @property
    def sizes(self) -> list[int]:
        """Number of clusters of each head."""
        return [int(k) for k in _sizes(self.n_clusters)]

    @property
    def clusterer_name(self) -> str:
        return str(_method_name(self.clusterer))

    @property
    def recipe(self) -> Recipe:
        return Recipe(**{f.name: getattr(self, f.name) for f in fields(Recipe)})

    @property
    def torch_device(self) -> torch.device:
        if self.device != "auto":
            return torch.device(self.device)
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def make_clusterer(self, head: int) -> FederatedClusterer:
        """The method that clusters for one head, quick unless told otherwise."""
        name = self.clusterer_name
        params = {"n_init": 1, "max_iter": 20, "patience": 0}
        params = {p: v for p, v in params.items() if p in METHODS[name].own_parameters}
        return make(name, self.sizes[head], 0, **{**params, **(self.clusterer_params or {})})

    @property
    def _turns(self) -> int:
        """Rounds of communication of one clustering."""
        return self.make_clusterer(0).total_rounds

    @property
    def total_rounds(self) -> int:
        """Rounds of communication of a whole run."""
        return len(self.plan())

    def plan(self) -> list[Step]:
        """What every round of communication is for, in order."""
        has_statistics, turns = self.norm == "batch", range(self._turns)
        steps = [Step(0, "calibrate")] * has_statistics
        for t in range(self.n_rounds):
            if t % self.recluster_every == 0:
                steps += [Step(t, "cluster", turn) for turn in turns]
            steps.append(Step(t, "train"))
            if has_statistics and self.batch_norm == "recalibrate":
                steps.append(Step(t, "calibrate"))
        return steps
