r"""DeepFeCA: federated DeepCluster-v2, as in the paper "Jigsaw Game" (Xu et al., 2024).

A round of training takes a few rounds of communication, its *steps*:

========= ======================================== ===========================================
step      a client sends                           the server computes
========= ======================================== ===========================================
calibrate batch-norm statistics                    those of all images (before round 1)
cluster   its summary of the images' projections   centers, by the clusterer's own `aggregate`
train     weights, trained on nearest centers      their mean, weighted by the number of images
========= ======================================== ===========================================

Clients and server keep no state between steps: everything is in the model. So a run can stop after
any round and be resumed from a file with the same result.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fedjigsaw._typing import Ints
from fedjigsaw.deep import client, server
from fedjigsaw.deep.lanes import ThreadEngine, own_stream
from fedjigsaw.deep.model_check import check_after
from fedjigsaw.deep.network import initial_model
from fedjigsaw.deep.parameters import DeepParameters
from fedjigsaw.deep.pixels import check_images
from fedjigsaw.deep.state import State, describe
from fedjigsaw.deep.trainer import OnDevice, Trainer, Trainers
from fedjigsaw.engine import Client, Engine, SerialEngine, run_rounds
from fedjigsaw.errors import DataError, DivergedError, ParameterError, QuorumError, invalid
from fedjigsaw.estimator import EngineFactory, warn_of_slip
from fedjigsaw.io.formats import MAX_BYTES
from fedjigsaw.messages import Broadcast, Model, Round, Summary, Transcript
from fedjigsaw.privacy import Privacy
from fedjigsaw.random import resolve_seed
from fedjigsaw.validation import rows_by_client


class DeepFeCA(TransformerMixin, DeepParameters):  # type: ignore[misc]
    r"""Learn a network from unlabeled images that are held by several clients.

    In each round the clients' projections under the global network are clustered by a federated
    method; each client trains the network on its images with the nearest centers as labels
    (:mod:`fedjigsaw.deep.losses`); the server averages the weights (FedAvg).

    Parameters
    ----------
    n_clusters : int or list of int, default 10
        Number of clusters. A list trains several heads at once, each on its own clustering.
    clusterer : str or class, default "feca"
        The method that clusters, by its name on the command line (``fedjigsaw methods``).
    clusterer_params : dict or None
        Parameters of that method. Those of `n_init`, `max_iter` and `patience` that it has default
        to 1, 20 and 0, which is quick.
    objective : Objective
        The network, its pseudo-labels and its loss.
    augmentation : Augmentation
        The random views of each image.
    schedule : Schedule
        Rounds, learning rate, momentum and averaging.
    execution : Execution
        Device, precision and parallelism.
    random_state : int, RandomState, Generator or None

    All settings of these objects can also be set by their names alone, with
    :meth:`from_settings`, :meth:`set_params`, or ``-s name=value`` on the command line.

    Attributes
    ----------
    model_ : Model
        The centers, and the weights as named tensors.
    states_ : list of dict
        Loss, cluster sizes, traffic and times of every round of the last `fit`.
    transcript_ : Transcript

    References
    ----------
    J. Xu, H.-Y. Chen, W.-L. Chao, Y. Zhang: Jigsaw Game: Federated Clustering. Transactions on
    Machine Learning Research, 2024.
    M. Caron et al.: Unsupervised Learning of Visual Features by Contrasting Cluster Assignments.
    NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.deep import DeepFeCA, Objective, Schedule
    >>> images = np.random.default_rng(0).integers(256, size=(60, 3, 8, 8), dtype=np.uint8)
    >>> deep = DeepFeCA(
    ...     3,
    ...     objective=Objective(network="small"),
    ...     schedule=Schedule(n_rounds=1, local_epochs=1, batch_size=16),
    ...     random_state=0,
    ... )
    >>> deep.fit(images, clients=[0, 1] * 30).transform(images).shape
    (60, 64)
    """

    method: ClassVar[str] = "deepfeca"
    data_kind: ClassVar[str] = "images"

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
        clients : array of shape (n_images,), client of each image; None is a single client.
        engine : where the clients run, as in :meth:`fedjigsaw.FederatedClusterer.fit`; None is this
            process, with `execution.lanes` clients at a time.
        """
        rounds: list[Round] = []
        numbers = []
        images = check_images(X, owner=type(self).__name__)
        warn_of_slip(y, clients, len(images), f"{type(self).__name__}.fit")
        for state in self.train(images, clients=clients, engine=engine):
            rounds += state.exchanges
            numbers.append(dict(state.numbers))
        self.model_, self.states_ = state.model.for_clients(), numbers
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
        """Train round by round, and yield the state after each.

        Parameters
        ----------
        start : a state of an earlier run with the same parameters and data, to resume.
        """
        self.check()
        images = check_images(X, owner=type(self).__name__)
        members = rows_by_client(len(images), clients, owner=f"{type(self).__name__}.train")
        shards = {name: images[rows] for name, rows in members.items()}
        shards = {"pooled": images} if self.pools_data else shards
        self._check_sizes(shards)
        seed = resolve_seed(self.random_state) if start is None else start.seed
        model, done = (None, 0) if start is None else (start.model, start.round)
        steps, device = self.plan(), self.execution.torch_device
        self._trainers = self._trainers or Trainers(OnDevice())  # one for all lanes
        tensors = {n: torch.from_numpy(s).to(device) for n, s in shards.items()}
        all_clients = [Client(name, data, self) for name, data in tensors.items()]
        n_batches = self.schedule.n_batches(
            [len(s) for s in shards.values()], self.objective.min_cluster_size
        )
        n_views = n_batches * self.schedule.batch_size * self.augmentation.n_views
        with (engine or self._in_lanes)(all_clients) as running:
            for t in range(done, self.schedule.n_rounds):
                numbers = [i for i, step in enumerate(steps) if step.round == t]
                n, first = len(numbers), numbers[0]
                with _divergence_told(t):
                    model, transcript, _ = run_rounds(
                        self, running, seed=seed, n_rounds=n, first=first, model=model
                    )
                found = describe(model, transcript, steps, n_views)
                found["learning_rate"] = self.schedule.learning_rate_at(t)
                yield State(t + 1, seed, model, found, transcript.rounds)

    # ---------------------------------------------------------------------------------- applying

    def load_model(self, model: Model) -> Self:
        """Use the weights and centers of a model, such as that of a checkpoint, as if fitted."""
        self.model_ = model
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Compute the backbone's features of images, shape (n_images, n_features)."""
        check_is_fitted(self, "model_")
        images = torch.from_numpy(check_images(X, owner=f"{type(self).__name__}.transform"))
        trainer = self._prepare(images.shape[1:])
        trainer.use(self.model_, "weights")
        return trainer.features(images).cpu().numpy()

    def predict(self, X: Any) -> Ints:
        """Return the nearest center of each image, of the first head."""
        check_is_fitted(self, "model_")
        images = torch.from_numpy(check_images(X, owner=f"{type(self).__name__}.predict"))
        trainer = self._prepare(images.shape[1:])
        trainer.use(self.model_, client.projecting_weights(self.model_))
        z = trainer.project(images, None)
        labels: Ints = client.label(z, client.unit_centers(self, self.model_)[:1])[0].cpu().numpy()
        return labels

    # ------------------------------------------------------------------------------ the contract

    @property
    def sends(self) -> tuple[str, ...]:
        """Optional parts of a summary that the server needs: the clusterer's, and tensors."""
        return (*self.make_clusterer(0).sends, "tensors")

    def summarize(self, X: Any, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Do one communication step at a client; `X` are its images, an array or a tensor."""
        images = torch.as_tensor(X, device=self.execution.torch_device)
        return client.answer(self, self._prepare(images.shape[1:]), images, broadcast, rng)

    def summarize_privately(
        self, X: Any, broadcast: Broadcast, rng: np.random.Generator, privacy: Privacy
    ) -> Summary:
        """Refuse: weights leave without noise, whatever is done to the centers."""
        raise ParameterError(
            "DeepFeCA has no differential privacy: its weights leave without noise. Leave out "
            "privacy, or cluster features of a public network with jigsaw (docs/privacy.md)."
        )

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Do one communication step at the server."""
        centers, tensors = server.aggregate(self, summaries, broadcast, rng)
        return Model(centers, method=self.method, params=self.configuration(), tensors=tensors)

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Raise a MessageError if a client's summary is not what the step asked for."""
        server.check_answer(self, summary, broadcast)

    def check_model(self, model: Model, n_rounds: int) -> None:
        """Raise a MessageError unless a model can be that of the server after so many rounds."""
        check_after(self, model, self.plan()[:n_rounds])

    def check_federated(self) -> None:
        """Raise a ParameterError if the method cannot run over a network."""
        super().check_federated()
        self._check_several_clients()
        if self.model_bytes > MAX_BYTES:
            raise ParameterError(
                f"A message with this model has {self.model_bytes} bytes, more than the limit of "
                f"{MAX_BYTES}. Use a smaller network, or no ema."
            )

    @property
    def model_bytes(self) -> int:
        """Approximate size of the largest message: weights, teacher weights and centers."""
        copies = 1 + bool(self.schedule.ema)
        start = initial_model(self.objective.network, 0)
        return copies * start.nbytes + 8 * sum(self.sizes) * int(start.centers.shape[1])

    # ------------------------------------------------------------------------------------ parts

    def _check_sizes(self, shards: Mapping[str, np.ndarray]) -> None:
        n_images = sum(map(len, shards.values()))
        if max(self.sizes) > n_images:
            allowed = f"at most the number of images, {n_images}"
            advice = "Ask for fewer (-k): many images should share a cluster."
            raise ParameterError(
                invalid("n_clusters", type(self).__name__, allowed, max(self.sizes), advice)
            )
        if len(shards) > 1:
            self._check_several_clients()
        min_size = self.objective.min_cluster_size
        for name, shard in shards.items():
            if len(shard) < min_size:
                raise DataError(
                    f"Client {name!r} has {len(shard)} images, fewer than min_cluster_size = "
                    f"{min_size}."
                )

    def _check_several_clients(self) -> None:
        if self.make_clusterer(0).pools_data:
            raise ParameterError(
                f"The clusterer {self.clusterer_name!r} pools all images, so it cannot run over "
                f"several clients. Use CentralDeepCluster, or --split central."
            )

    def _prepare(self, shape: Sequence[int]) -> Trainer:
        """Return this thread's network on the device; made at the first call."""
        wanted = (self.recipe, tuple(self.sizes), tuple(shape), self.execution.torch_device)
        self._trainers = mine = self._trainers or Trainers(OnDevice())
        if mine.own is None or mine.own.made_for != wanted:
            mine.own = Trainer(*wanted, mine.shared)
        return mine.own

    def _in_lanes(self, clients: Sequence[Client]) -> Engine:
        """Make the default engine: clients of this process, one or several at a time."""
        lanes = self.execution.lanes
        if lanes == 1:
            return SerialEngine(clients)
        start = partial(own_stream, self.execution.torch_device)
        return ThreadEngine(clients, n_threads=lanes, start=start)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_trainers"}


@contextmanager
def _divergence_told(t: int) -> Iterator[None]:
    """Say what to change where clients failed since training diverged, in this round or before."""
    try:
        yield
    except QuorumError as error:
        # finite weights, too, can be so large that what the network makes of images is not
        if isinstance(error.__cause__, DivergedError) or "gives NaN" in str(error.__cause__):
            raise DivergedError(
                f"Training diverged in round {t + 1}: the loss, the weights or the projections are "
                "NaN or infinite. Use a smaller learning rate, or more rounds with a rate that "
                "rises (warmup_rounds).",
                parameter="learning_rate",
            ) from error
        raise


class CentralDeepCluster(DeepFeCA):
    """DeepCluster-v2 with all images in one place, to compare a federation with.

    *Raw images leave the clients*. The parameters are those of :class:`DeepFeCA`, but `clusterer`
    is always "central". A :class:`DeepFeCA` with that and one client does exactly the same.

    Examples
    --------
    >>> from fedjigsaw.deep import CentralDeepCluster
    >>> CentralDeepCluster(3, random_state=0).clusterer_name
    'central'
    """

    method: ClassVar[str] = "central-deepcluster"
    pools_data: ClassVar[bool] = True

    @property
    def clusterer_name(self) -> str:
        return "central"
