"""What DeepFeCA learns: the network and the loss that its clients minimize."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedjigsaw.deep.network import NETWORKS, NORMS
from fedjigsaw.parameters import Rule, boolean, integer, one_of, real


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
        smaller clusters into their nearest neighbors first.
    """

    network: str = "resnet18"
    norm: str = "batch"
    temperature: float = 0.1
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
