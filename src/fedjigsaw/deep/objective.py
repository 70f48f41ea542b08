"""What DeepFeCA learns: the network and the loss that its clients minimize."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from fedjigsaw.deep.network import NETWORKS
from fedjigsaw.parameters import Rule, boolean, fraction, integer, one_of, real


@dataclass(frozen=True)
class Objective:
    """The network, its pseudo-labels and its loss.

    Parameters
    ----------
    network : {"resnet18", "resnet18-half", "small"}
        Architecture of the backbone.
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
        centers. Each center gets the share of the views that it has of the client's images at the
        start of the round.
    stored_share : float, default 0
        Fraction of a target that is the stored label, unless `targets` is "stored". Without any,
        training on CIFAR-10 lost its clusters right after the warmup; 0.25 is a good start.
    teacher_momentum : float, default 0.99
        Fraction of the slow average that is kept per step. It starts anew in each round.
    reseed : bool, default True
        Replace duplicate centers, and add the centers that the clusterer did not find, by those
        clients' centers that are farthest from all others.
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
    temperature: float = 0.1
    targets: str = "stored"
    target_softness: float = 0.25
    stored_share: float = 0.0
    teacher_momentum: float = 0.99
    reseed: bool = True
    min_cluster_size: int = 1

    rules: ClassVar[Mapping[str, Rule]] = {
        "network": one_of(*NETWORKS),
        "temperature": real(0, inclusive=False),
        "targets": one_of("stored", "swapped", "teacher"),
        "target_softness": real(0, inclusive=False),
        "stored_share": fraction(),
        "teacher_momentum": fraction(),
        "reseed": boolean(),
        "min_cluster_size": integer(1),
    }
