"""A site of a federation that holds images: it checks its data and answers the server's questions.

Knows nothing of the transport: ``fedjigsaw.flower`` loads this class by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from fedjigsaw.deep import images
from fedjigsaw.deep.deepfeca import DeepFeCA
from fedjigsaw.deep.execution import check_device
from fedjigsaw.deep.pictures import Bytes
from fedjigsaw.engine import Client
from fedjigsaw.errors import DataError, MessageError, ParameterError, counted, invalid
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.messages import Broadcast
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.records.fingerprints import fingerprint
from fedjigsaw.validation import check_name


class Question(Protocol):
    """What the server asks: one step of a method, with its parameters and the model so far."""

    @property
    def method(self) -> str: ...

    @property
    def params(self) -> Mapping[str, Any]: ...

    @property
    def broadcast(self) -> Broadcast: ...


@dataclass(frozen=True)
class ImageSite:
    """A site that holds images, for DeepFeCA. Only centers of projections and weights leave it.

    Parameters
    ----------
    name : str
        Name of the site in the transcript; the site's random stream depends on it.
    data : str
        Images, as for ``fedjigsaw deep train --data``.
    size : int or None
        Height and width to scale images to; see :func:`fedjigsaw.deep.images.load`.
    device : str, default "auto"
        The torch device of this site, whatever the server asks for.
    guard : Guard
        What may leave: clusters of how many images, and how their numbers and sums of squares do.
        The server may ask for larger clusters, never for smaller ones. A site with fewer images in
        all sends nothing.

    Raises
    ------
    ParameterError
        If the guard keeps back numbers of images: they leave with the weights in every round.
    """

    name: str
    data: str
    size: int | None = None
    device: str = "auto"
    guard: Guard = field(default_factory=Guard)

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.guard.counts == "none":
            allowed = "'exact' or 'rounded' with images"
            advice = "Weights leave with the number of images at each center."
            raise ParameterError(
                invalid("counts", f"site {self.name!r}", allowed, "'none'", advice)
            )

    def check(self) -> str | None:
        """Raise if the images or the device cannot be used; say which files were left out."""
        check_device(self.device)
        self._enough(self.guard.min_cluster_size)
        return images.left_out(self.data, self._loaded)

    def data_set(self) -> str:
        """Return a name of exactly the images that this site learns from, whatever their files."""
        return fingerprint(self._loaded.train)

    def answer(self, question: Question) -> SummaryFile:
        """Run one step of DeepFeCA on the images: statistics, centers or weights leave."""
        if question.method != DeepFeCA.method:
            raise ParameterError(
                f"Site {self.name!r} holds images: it can run {DeepFeCA.method}, not "
                f"{question.method}."
            )
        method = self._method(question.params)
        size = method.objective.min_cluster_size
        held = self._enough(size)
        _check_finite(question.broadcast)
        summary = Client(self.name, held, method).answer(question.broadcast)
        return SummaryFile(
            summary,
            method.method,
            question.params,
            tuple(f"projection {i}" for i in range(summary.centers.shape[1])),
            None,
            {
                "min_cluster_size": size,
                "counts": "none" if summary.counts is None else self.guard.counts or "exact",
            },
            question.broadcast.seed,
            summary.n_samples,  # without the images to validate on
        )

    def _method(self, params: Mapping[str, Any]) -> DeepFeCA:
        """Return the method of a run, as this site computes it.

        It is the one of the last question if the parameters are the same: its network is on the
        device, with projections that two steps of a round need.
        """
        if not self._methods or self._methods[0][0] != params:
            method = DeepFeCA.from_settings(params)
            method.check_federated()
            size = max(self.guard.min_cluster_size, method.objective.min_cluster_size)
            # The site decides where and how it computes. Each question may be a new process, in
            # which compiling would take longer than training.
            method.set_params(device=self.device, compile=False, min_cluster_size=size)
            method.site_guard = replace(self.guard, min_cluster_size=size)
            self._methods[:] = [(dict(params), method)]
        return self._methods[0][1]

    @cached_property
    def _methods(self) -> list[tuple[dict[str, Any], DeepFeCA]]:
        return []

    @cached_property
    def _loaded(self) -> images.ImageSet:
        return images.load(self.data, size=self.size)

    def _enough(self, at_least: int) -> Bytes:
        """Return the images; raise a DataError if there are too few for anything to leave."""
        found = self._loaded.train
        if len(found) < at_least:
            raise DataError(
                f"{self.data} has {counted(len(found), 'image')}, fewer than min_cluster_size = "
                f"{at_least}: nothing may leave this site."
            )
        return found


def _check_finite(broadcast: Broadcast) -> None:
    """Refuse NaN and infinity here; later they would be an obscure error of torch."""
    for name, tensor in () if broadcast.model is None else broadcast.model.tensors.items():
        if not np.isfinite(tensor).all():
            raise MessageError(f"The server sent NaN or infinity in tensor {name!r}.")
