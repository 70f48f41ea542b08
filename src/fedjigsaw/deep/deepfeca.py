r"""DeepFeCA: federated DeepCluster-v2, as in the paper "Jigsaw Game" (Xu et al., 2024).

A round of training takes a few rounds of communication (its *steps*), all over the same messages:

========= ======================================== ===========================================
step      a client sends                           the server makes of it
========= ======================================== ===========================================
calibrate batch-norm statistics                    those of all images (before the first round)
cluster   its summary of the images' projections   centers, by the clusterer's own `aggregate`
train     weights, trained on nearest centers      their mean, weighted by the number of images
========= ======================================== ===========================================

Clients and server keep nothing between steps: all there is travels in the model. So a run can stop
after any round and go on from a file with the same result.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedjigsaw._inputs import Ints, resolve_seed, rows_by_client
from fedjigsaw.base import EngineFactory
from fedjigsaw.deep import heads, server
from fedjigsaw.deep.deepcluster import Prototypes
from fedjigsaw.deep.images import check_images
from fedjigsaw.deep.lloyd import DeviceSearch
from fedjigsaw.deep.parameters import DeepParameters, Step
from fedjigsaw.deep.state import State, describe
from fedjigsaw.deep.trainer import OnDevice, Trainer, Trainers, own_stream
from fedjigsaw.engine import Client, Engine, SerialEngine, ThreadEngine, run_rounds
from fedjigsaw.errors import DataError, DivergedError, ParameterError, complaint
from fedjigsaw.guards import merge_small
from fedjigsaw.messages import Broadcast, Model, Round, Summary, Transcript


class DeepFeCA(TransformerMixin, DeepParameters):  # type: ignore[misc]
    r"""Learn a network from unlabeled images that are held by several clients.

    In each round the clients' projections under the global network are clustered by a federated
    method; each client trains the network on its images with the nearest centers as labels
    (:mod:`fedjigsaw.deep.deepcluster`); the server averages the weights (FedAvg).

    Parameters
    ----------
    n_clusters : int or list of int, default 10
        Number of clusters; a list trains several heads at once, each on a clustering of its own.
    clusterer : str or class, default "feca"
        The method that clusters, by its name on the command line (``fedjigsaw methods``).
    clusterer_params : dict or None
        Parameters of that method. Unless given, it is quick: where it has them, `n_init` is 1,
        `max_iter` 20 and `patience` 0.
    network : {"resnet18", "resnet18-half", "small"}
    norm : {"batch", "group"}
        Group norm has no statistics that skewed clients could disagree on.
    n_rounds, local_epochs, batch_size : int
        Rounds of training, epochs of each client in each of them, images in a batch.
    recluster_every : int, default 1
        Rounds between two clusterings; images find their nearest center anew in every round.
    cluster_view : {"augmented", "plain"}
        Cluster projections of a random view of each image, or of the image itself. With plain
        images the pseudo-labels tend to confirm themselves.
    centered : bool, default False
        Use the centers less their mean as prototypes. Early in training all projections, and so all
        centers, may point the same way; their differences are what there is to learn from.
    views, small_crops : int, default 2 and 0
        Random views of an image in each step, and further views of small parts of it.
    crop, flip, color, grayscale : float
        Smallest share of the area that a view keeps; how often it is mirrored; strength of the
        color jitter; how often it loses its colors.
    temperature : float, default 0.1
    targets : {"stored", "swapped", "teacher"}
        What a view of an image must predict. "stored": the label that its client gave the image at
        the start of the round. "swapped": the soft assignment of the other views of the image in
        the same step, as in SwAV; costs no further pass, and cannot be memorized. "teacher": the
        same, as seen by a slow average of the client's weights; costs a forward pass. The first
        `warmup_rounds` rounds have stored labels in any case: their centers lie close together.
    target_softness : float, default 0.25
        Temperature of those soft assignments, in units of the spread of a view's cosines with all
        centers. That is about 0.2 after some rounds, so targets are sharper than predictions.
    target_balance : {"own", "even", "none"}
        Share of the views that soft assignments give to each center at a client: that of its images
        at the start of the round, the same for all centers, or whatever comes of it.
    stored_share : float, default 0
        How much of a target is the stored label, where `targets` is not "stored". With none of it
        right after the warm-up, training collapsed on CIFAR-10; 0.25 is a good start.
    stored_falls : bool, default False
        Let that share fall after the warm-up, from 1 to `stored_share` in the last round.
    teacher_momentum : float, default 0.99
        How much of itself the slow average keeps in each step; it starts anew in each round.
    learning_rate, final_learning_rate, warmup_rounds : float, float, int
        The rate rises linearly for some rounds, then falls along a cosine to its final value.
    momentum, weight_decay : float
        Of the clients' SGD; the momentum starts at zero in each round.
    assignment : {"nearest", "balanced"}
        Labels by nearest center, or spread evenly over the centers at each client (Sinkhorn).
    reseed : bool, default True
        Replace centers that coincide, and fill up those that the method did not find, by clients'
        centers that lie farthest from all others.
    proximal : float, default 0
        Weight of FedProx's pull back to the global weights.
    server_momentum : float, default 0
        Momentum of the server's steps (FedAvgM of Hsu et al. 2019).
    ema : float, default 0
        Cluster with a slow average of the global networks that keeps so much of itself per round.
    batch_norm : {"average", "recalibrate"}
        Average the clients' batch-norm statistics with their weights; or measure them anew under
        the averaged weights, for one more exchange per round (not with `ema`).
    min_cluster_size : int, default 1
        A client merges smaller clusters into their neighbors before it sends their centers.
    precision : {"auto", "float32"}
        "auto" trains in bfloat16 where there is a GPU; features are float32 in any case.
    capture : bool, default True
        On a GPU, record a step of training once and replay it: four times as fast. Off, for a look
        inside.
    compile : bool, default False
        Let torch.compile fuse the operations of a step of training; the first one waits for that.
        Results differ by rounding.
    lanes : int, default 1
        Clients of this process that train at the same time, each with a network of its own. They
        keep a GPU busier, and each takes memory; a CPU gains nothing. Results are the same on a
        CPU; on a GPU they differ by rounding, as any two runs do.
    device : str, default "auto"
        A torch device; "auto" is a GPU if there is one.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    model_ : Model, with the centers, and the weights as named tensors.
    states_ : list of dict, the numbers of every round of the last `fit`.
    transcript_ : Transcript
    n_features_ : int, number of columns of `transform`.

    References
    ----------
    J. Xu, H.-Y. Chen, W.-L. Chao, Y. Zhang: Jigsaw Game: Federated Clustering. Transactions on
    Machine Learning Research, 2024.
    M. Caron et al.: Unsupervised Learning of Visual Features by Contrasting Cluster Assignments.
    NeurIPS 2020.

    Examples
    --------
    >>> images = np.random.default_rng(0).integers(256, size=(60, 3, 8, 8), dtype=np.uint8)
    >>> deep = DeepFeCA(3, network="small", n_rounds=1, local_epochs=1, batch_size=16,
    ...                 device="cpu", random_state=0)
    >>> deep.fit(images, clients=[0, 1] * 30).transform(images).shape
    (60, 64)
    """

    method: ClassVar[str] = "deepfeca"
    pools_data: ClassVar[bool] = False

    model_: Model
    transcript_: Transcript
    states_: list[dict[str, Any]]
    _trainers: Trainers | None = None

    # ---------------------------------------------------------------------------------- running

    def fit(
        self, X: Any, y: Any = None, *, clients: Any = None, engine: EngineFactory | None = None
    ) -> Self:
        """Train on images that are held by several clients.

        Parameters
        ----------
        X : array of bytes of shape (n_images, 3, height, width)
        y : ignored
        clients : array of shape (n_images,), who holds each image; None is a single client.
        engine : where the clients run, as in :meth:`fedjigsaw.FederatedClusterer.fit`; None is this
            process, in as many lanes as the parameter says.
        """
        rounds: list[Round] = []
        numbers = []
        for state in self.train(X, clients=clients, engine=engine):
            rounds += state.exchanges
            numbers.append(dict(state.numbers))
        self.model_, self.states_ = state.model, numbers
        self.transcript_ = Transcript(state.seed, tuple(rounds))
        return self

    def train(
        self,
        X: Any,
        *,
        clients: Any = None,
        engine: EngineFactory | None = None,
        start: State | None = None,
    ) -> Iterator[State]:
        """Train round by round: yields the state after each, to be looked at, kept, or stopped at.

        Parameters
        ----------
        start : a state of an earlier run with the same parameters and data, to go on from.
        """
        self.check()
        images = check_images(X, owner=type(self).__name__)
        members = rows_by_client(len(images), clients, owner=f"{type(self).__name__}.train")
        shards = {name: images[rows] for name, rows in members.items()}
        shards = {"pooled": images} if self.pools_data else shards
        self._check_sizes(shards)
        seed = resolve_seed(self.random_state) if start is None else start.seed
        model, done = (None, 0) if start is None else (start.model, start.round)
        steps = self.plan()
        self._trainers = self._trainers or Trainers(OnDevice())  # now: lanes would each make one
        tensors = {n: torch.from_numpy(s).to(self.torch_device) for n, s in shards.items()}
        holders = [Client(name, data, self) for name, data in tensors.items()]  # type: ignore[arg-type]
        n_views = self._count_views([len(s) for s in shards.values()])
        with (engine or self._in_lanes)(holders) as running:
            for t in range(done, self.n_rounds):
                numbers = [i for i, step in enumerate(steps) if step.round == t]
                model, transcript, _ = run_rounds(
                    self, running, seed=seed, n_rounds=len(numbers), first=numbers[0], model=model
                )
                found = describe(model, transcript, steps, n_views)
                found["learning_rate"] = self._rate(t)
                yield State(t + 1, seed, model, found, transcript.rounds)

    def _check_sizes(self, shards: Mapping[str, np.ndarray]) -> None:
        n_images = sum(map(len, shards.values()))
        if max(self.sizes) > n_images:
            allowed = f"at most the number of images, {n_images}"
            raise ParameterError(
                complaint("n_clusters", type(self).__name__, allowed, max(self.sizes))
            )
        if len(shards) > 1:
            self.check_federated()
        for name, shard in shards.items():
            if len(shard) < self.min_cluster_size:
                allowed = f"at least min_cluster_size, {self.min_cluster_size}"
                raise DataError(complaint("images", f"client {name!r}", allowed, len(shard)))

    def _count_views(self, sizes: Sequence[int]) -> int:
        n_steps = sum(max(1, n // self.batch_size) for n in sizes) * self.local_epochs
        return n_steps * self.batch_size * (self.views + self.small_crops)

    # ---------------------------------------------------------------------------------- applying

    def transform(self, X: Any) -> np.ndarray:
        """Features of images: what the backbone sees, shape (n_images, n_features)."""
        check_is_fitted(self, "model_")
        images = torch.from_numpy(check_images(X, owner=f"{type(self).__name__}.transform"))
        trainer = self._prepare(images.shape[1:])
        trainer.use(self.model_, "weights")
        return trainer.features(images).cpu().numpy()

    def predict(self, X: Any) -> Ints:
        """Nearest center of each image, of the first head."""
        check_is_fitted(self, "model_")
        images = torch.from_numpy(check_images(X, owner=f"{type(self).__name__}.predict"))
        trainer = self._prepare(images.shape[1:])
        trainer.use(self.model_, self._seer(self.model_))
        z = trainer.project(images, None)
        labels: Ints = self._prototypes(self.model_)[0].label(z).cpu().numpy()
        return labels

    # ---------------------------------------------------------------------------- at the clients

    @property
    def sends(self) -> tuple[str, ...]:
        """What the server needs: that of the clusterer, and weights."""
        return (*self.make_clusterer(0).sends, "tensors")

    def summarize(self, X: Any, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """One step at a client: `X` are its images of bytes, an array or a tensor."""
        step = self.plan()[broadcast.round]
        images = torch.as_tensor(X, device=self.torch_device)
        trainer = self._prepare(images.shape[1:])
        model = broadcast.model or self._initial(broadcast.seed)
        if step.verb == "calibrate":
            return self._calibrate(trainer, images, model, rng)
        trainer.use(model, self._seer(model))
        z = trainer.seen(images, self._view_seed(broadcast.seed, step.round))
        if step.verb == "cluster":
            return self._cluster(z, broadcast, step, rng)
        return self._train(trainer, images, z, model, step, rng)

    def _calibrate(
        self, trainer: Trainer, images: Tensor, model: Model, rng: np.random.Generator
    ) -> Summary:
        trainer.use(model, "weights")
        trainer.calibrate(images, int(rng.integers(2**31)))
        arrays = trainer.weights.save()
        tensors = {f"weights.{name}": arrays[name] for name in trainer.weights.statistics}
        return _message(np.zeros((1, trainer.network.n_projections)), 0.0, len(images), tensors)

    def _cluster(
        self, z: Tensor, broadcast: Broadcast, step: Step, rng: np.random.Generator
    ) -> Summary:
        """The clusterer's own summary of the projections, for every head."""
        rows = z.double().cpu().numpy()

        def summarize(head: int, own: np.random.Generator) -> Summary:
            inner = heads.inner_broadcast(broadcast, step.turn, head)
            part = self.make_clusterer(head).summarize(rows, inner, own)
            return merge_small(part, self.min_cluster_size) if self.min_cluster_size > 1 else part

        return heads.pack(heads.for_each(summarize, len(self.sizes), rng, self._search()))

    def _train(
        self,
        trainer: Trainer,
        images: Tensor,
        z: Tensor,
        model: Model,
        step: Step,
        rng: np.random.Generator,
    ) -> Summary:
        prototypes = self._prototypes(model)
        balanced = self.assignment == "balanced"
        labels = torch.stack([p.label(z, balanced=balanced) for p in prototypes])
        trainer.use(model, "weights")
        loss = trainer.train(
            images,
            labels,
            prototypes,
            epochs=self.local_epochs,
            rate=self._rate(step.round),
            rng=rng,
            stored_share=self._share(step.round),
        )
        if not math.isfinite(loss) or not bool(trainer.weights.vector.isfinite().all()):
            advice = "Its training diverged: lower the learning rate."
            raise DivergedError(complaint("weights", "a client", "finite", "others", advice))
        sizes = torch.cat(
            [
                torch.bincount(own, minlength=len(p.directions))
                for own, p in zip(labels, prototypes, strict=True)
            ]
        )
        sizes[sizes < self.min_cluster_size] = 0  # what is too small to be sent is not told, either
        tensors = {f"weights.{name}": array for name, array in trainer.weights.save().items()}
        tensors["report.loss"] = np.array(loss)
        tensors["report.sizes"] = sizes.cpu().numpy()
        mean = z.double().mean(dim=0, keepdim=True)  # tells the server of a collapse
        sse = float((z.double() - mean).square().sum())
        return _message(mean.cpu().numpy(), sse, len(images), tensors)

    # ----------------------------------------------------------------------------- at the server

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """One step at the server."""
        for summary in summaries:
            self.check_answer(summary, broadcast)
        step = self.plan()[broadcast.round]
        model = broadcast.model or self._initial(broadcast.seed)
        if step.verb == "cluster":
            return self._new_centers(summaries, broadcast, model, step, rng)
        if step.verb == "calibrate":
            found = server.pooled_statistics(summaries)
        else:
            found = server.average(summaries, self.torch_device)
            found = server.with_momentum(model, found, self.server_momentum)
            found |= server.slow_average(model, found, self.ema)
            found |= server.report(summaries)
        return self._model(model.centers, {**model.tensors, **found})

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Hold what a client sent against what it was asked for; a MessageError if it is wrong."""
        step = self.plan()[broadcast.round]
        model = broadcast.model or self._initial(broadcast.seed)
        if step.verb == "cluster":
            heads.unpack(summary, len(self.sizes))
            return
        server.check_weights(summary, model, statistics_only=step.verb == "calibrate")
        if step.verb == "train":
            server.check_report(summary, len(model.centers))

    def _new_centers(
        self,
        summaries: Sequence[Summary],
        broadcast: Broadcast,
        model: Model,
        step: Step,
        rng: np.random.Generator,
    ) -> Model:
        """The clusterer's own aggregation, for every head."""
        by_client = [heads.unpack(summary, len(self.sizes)) for summary in summaries]

        def aggregate(head: int, own: np.random.Generator) -> Model:
            parts = [one[head] for one in by_client]
            inner = heads.inner_broadcast(broadcast, step.turn, head)
            found = self.make_clusterer(head).aggregate(parts, inner, own)
            if not self.reseed or step.turn < self._turns - 1:
                return found
            received = np.concatenate([part.centers for part in parts])
            return server.fill_up(found, received, self.sizes[head])

        models = heads.for_each(aggregate, len(self.sizes), rng, self._search())
        centers, tensors = heads.pack_models(models)
        kept = {n: a for n, a in model.tensors.items() if not n.startswith(("inner.", "report."))}
        return self._model(centers, {**kept, **tensors})

    # ------------------------------------------------------------------------------------- parts

    def _model(self, centers: np.ndarray, tensors: Mapping[str, np.ndarray]) -> Model:
        return Model(centers, method=self.method, params=self.configuration(), tensors=tensors)

    @staticmethod
    def _seer(model: Model) -> str:
        """Whose eyes cluster and assign: those of the slow average, where there is one."""
        has_teacher = any(name.startswith("teacher.") for name in model.tensors)
        return "teacher" if has_teacher else "weights"

    def _rate(self, t: int) -> float:
        """The learning rate of round t."""
        if t < self.warmup_rounds:
            return self.learning_rate * (t + 1) / (self.warmup_rounds + 1)
        way = (t - self.warmup_rounds) / max(1, self.n_rounds - self.warmup_rounds)
        low = self.final_learning_rate
        return low + (self.learning_rate - low) * (1 + math.cos(math.pi * way)) / 2

    def _share(self, t: int) -> float:
        """How much of a target is the stored label in round t."""
        if t < self.warmup_rounds:
            return 1.0
        way = (t - self.warmup_rounds + 1) / max(1, self.n_rounds - self.warmup_rounds)
        falling = 1 + (self.stored_share - 1) * way
        return falling if self.stored_falls else self.stored_share

    def _view_seed(self, seed: int, t: int) -> int | None:
        """Which view of each image is clustered in round t: the same in all steps of the round."""
        if self.cluster_view == "plain":
            return None
        return int(
            np.random.SeedSequence([seed, t]).generate_state(1, np.uint64)[0] >> np.uint64(1)
        )

    def _prototypes(self, model: Model) -> list[Prototypes]:
        """Those of each head, on the device."""
        centers = torch.from_numpy(model.centers).to(self.torch_device, torch.float32)
        owners = torch.from_numpy(model.tensors["head"]).to(self.torch_device)
        return [
            Prototypes.of(centers[owners == h], centered=self.centered)
            for h in range(len(self.sizes))
        ]

    @property
    def model_bytes(self) -> int:
        """About what the largest message holds: weights, and their moving averages if there are."""
        copies = 1 + bool(self.ema) + bool(self.server_momentum)
        start = self._initial(0)
        return copies * start.nbytes + 8 * sum(self.sizes) * int(start.centers.shape[1])

    def _initial(self, seed: int) -> Model:
        """The model before any training."""
        return server.initial(self.network, self.norm, seed)

    def _prepare(self, shape: Sequence[int]) -> Trainer:
        """The network on its device, made once for each thread."""
        wanted = (self.recipe, tuple(self.sizes), tuple(shape), self.torch_device)
        self._trainers = mine = self._trainers or Trainers(OnDevice())
        if mine.own is None or mine.own.made_for != wanted:
            mine.own = Trainer(*wanted, mine.shared)
        return mine.own

    def _in_lanes(self, clients: Sequence[Client]) -> Engine:
        """The engine of this process: one client after the other, or several at a time."""
        if self.lanes == 1:
            return SerialEngine(clients)
        start = partial(own_stream, self.torch_device)
        return ThreadEngine(clients, n_threads=self.lanes, start=start)

    def _search(self) -> DeviceSearch | None:
        """k-means on the GPU; a CPU has the package's own."""
        device = self.torch_device
        return DeviceSearch(device) if device.type == "cuda" else None

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_trainers"}


class CentralDeepCluster(DeepFeCA):
    """DeepCluster-v2 with all images in one place: what a federation gives up.

    *Raw images leave the clients*. The parameters are those of :class:`DeepFeCA`, but `clusterer`
    is always "central". A :class:`DeepFeCA` with that and one client does exactly the same.
    """

    method: ClassVar[str] = "central-deepcluster"
    pools_data: ClassVar[bool] = True

    @property
    def clusterer_name(self) -> str:
        return "central"


def _message(
    center: np.ndarray, sse: float, n_samples: int, tensors: Mapping[str, np.ndarray]
) -> Summary:
    """A message that is about tensors; its one center stands for all images."""
    return Summary(
        n_samples=n_samples,
        centers=center,
        radii=np.zeros(1),
        counts=np.array([n_samples]),
        sse=np.array([sse]),
        tensors=tensors,
    )
