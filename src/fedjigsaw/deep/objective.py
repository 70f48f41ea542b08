"""What DeepFeCA learns: the network and the loss that its clients minimize."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedjigsaw.deep.network import NETWORKS, NORMS
from fedjigsaw.parameters import Rule, boolean, fraction, integer, one_of, real


@dataclass(frozen=True)
class Objective:
    """The network, its pseudo-labels and its loss.

    Parameters
    ----------
    network : {"resnet18", "resnet18-half", "small"}
        Architecture of the backbone.
    norm : {"batch", "group"}
        Normalization layers. Group norm has no statistics that differ between skewed clients.
    temperature : float, default 0.1
        Temperature of the softmax over centers.
    targets : {"stored", "swapped", "teacher"}
        What each view must predict. "stored": the label of its image, fixed for a round. "swapped":
        the soft assignment of the other views of the image in the same step, as in SwAV; it costs
        no further pass, and cannot be memorized. "teacher": the same, computed by a slow average of
        the client's weights, for one more forward pass. The first `warmup_rounds` rounds use stored
        labels in any case, since their centers lie close together.
    target_softness : float, default 0.25
        Temperature of the soft assignments, in units of the spread of a view's cosines with all
        centers.
    target_balance : {"own", "even", "none"}
        Share of the views that soft assignments give to each center: that of the client's images at
        the start of the round, the same for all centers, or no control.
    stored_share : float, default 0
        Fraction of a target that is the stored label, unless `targets` is "stored". Without any,
        training on CIFAR-10 lost its clusters right after the warmup; 0.25 is a good start.
    teacher_momentum : float, default 0.99
        Fraction of the slow average that is kept per step. It starts anew in each round.
    cluster_view : {"augmented", "plain"}
        Cluster the projections of one random view of each image, or of the image itself. With plain
        images, pseudo-labels tend to confirm themselves.
    centered : bool, default False
        Subtract the mean of the centers from the prototypes and the projections. Early in training
        all projections point in nearly the same direction, and only their differences carry
        information.
    assignment : {"nearest", "balanced"}
        Label each image by its nearest center, or spread the images of a client evenly over the
        centers (Sinkhorn).
    reseed : bool, default True
        Replace duplicate centers, and add the centers that the clusterer did not find, by those
        clients' centers that are farthest from all others.
    proximal : float, default 0
        Weight of FedProx's penalty on the distance to the global weights.
    min_cluster_size : int, default 1
        Smallest number of images that a center sent by a client may stand for. Clients merge
        smaller clusters into their nearest neighbors first. From 2 on, centers and sums are rounded
        to their sampling error, as by :class:`~fedjigsaw.Guard`.

    Examples
    --------
    >>> from fedjigsaw.deep import Objective
    >>> Objective(network="small", targets="swapped").temperature
    0.1
    """

    network: str = "resnet18"
    norm: str = "batch"
    temperature: float = 0.1
    targets: str = "stored"
    target_softness: float = 0.25
    target_balance: str = "own"
    stored_share: float = 0.0
    teacher_momentum: float = 0.99
    cluster_view: str = "augmented"
    centered: bool = False
    assignment: str = "nearest"
    reseed: bool = True
    proximal: float = 0.0
    min_cluster_size: int = 1

    rules: ClassVar[Mapping[str, Rule]] = {
        "network": one_of(*NETWORKS),
        "norm": one_of(*NORMS),
        "temperature": real(0, inclusive=False),
        "targets": one_of("stored", "swapped", "teacher"),
        "target_softness": real(0, inclusive=False),
        "target_balance": one_of("own", "even", "none"),
        "stored_share": fraction(),
        "teacher_momentum": fraction(),
        "cluster_view": one_of("augmented", "plain"),
        "centered": boolean(),
        "assignment": one_of("nearest", "balanced"),
        "reseed": boolean(),
        "proximal": real(0),
        "min_cluster_size": integer(1),
    }

    def view_seed(self, seed: int, t: int) -> int | None:
        """Seed of the views that are clustered in round `t`; None for plain images.

        All steps of a round use the same views, so that labels belong to what was clustered.
        """
        if self.cluster_view == "plain":
            return None
        return int(
            np.random.SeedSequence([seed, t]).generate_state(1, np.uint64)[0] >> np.uint64(1)
        )
