"""The contract between a federated method and everything that runs one.

The engines of one machine, the file workflow, Flower and the benchmarks use these members of a
method and no others. :class:`~fedjigsaw.FederatedClusterer` implements them for methods that
cluster rows; :class:`fedjigsaw.deep.DeepFeCA` implements them for images.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.privacy.dp import Privacy


class FederatedMethod(Protocol):
    """A federated method: what a client computes, and what the server makes of it.

    A method for images has one more member, which raises a MessageError unless a model from a
    checkpoint can be that of the server after so many rounds::

        def check_model(self, model, n_rounds): ...

    A method may have another one, which engines use for many clients on one machine, and DeepFeCA
    for the heads of a client::

        def summarize_many(self, data, broadcasts, rngs): ...

    It gets what `summarize` gets, as a list of each, and returns a list of summaries with the same
    bits as those of `summarize`. All broadcasts have the same model. On a GPU, data that are given
    several times may be summarized together: the summaries are then the same up to rounding.
    """

    random_state: Any
    """Seed of a run: an integer, a NumPy generator or None."""

    @property
    def method(self) -> str:
        """Name of the method, as on the command line."""

    @property
    def data_kind(self) -> str:
        """What the method learns from: ``"rows"`` of a table or ``"images"``."""

    @property
    def pools_data(self) -> bool:
        """Whether raw data leave the clients. True only for centralized benchmarks."""

    @property
    def sends(self) -> tuple[str, ...]:
        """Fields of a summary, besides its centers, that the server needs. No others are sent."""

    @property
    def client_parameters(self) -> tuple[str, ...]:
        """Parameters that each client may choose for itself.

        They change how hard a client searches, not what its summary means. What is neither a
        client's nor the server's must agree, or summaries cannot be aggregated.
        """

    @property
    def server_parameters(self) -> tuple[str, ...]:
        """Parameters that act at the server, besides the number of clusters and the seed.

        The coordinator sets them. Those in a summary are ignored.
        """

    @property
    def total_rounds(self) -> int:
        """Number of rounds: how often the server asks every client."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Make a method from named parameters, such as those of `configuration`, and check it."""

    def configuration(self) -> dict[str, Any]:
        """Return all parameters as JSON values."""

    def check(self) -> None:
        """Check the parameters. Raise a ParameterError if one has a value that is not allowed."""

    def check_federated(self) -> None:
        """Check the parameters for a federation of sites over a network.

        Raise a ParameterError if the method would pool data or exceed the size of a message.
        """

    def summarize(self, X: Any, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Compute the summary of a client's data; only this summary leaves the client."""

    def summarize_privately(
        self, X: Any, broadcast: Broadcast, rng: np.random.Generator, privacy: Privacy
    ) -> Summary:
        """Compute a summary that is differentially private as a whole.

        Raise a ParameterError if the method cannot. The random numbers of `rng` are for choices
        that do not depend on the data; noise comes from :mod:`fedjigsaw.privacy`.
        """

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Run at the server, which knows nothing but the summaries."""

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted, before it is aggregated.

        Raise a MessageError if the summary is not an answer to the broadcast. A summary that
        contradicts itself is never made (see :class:`~fedjigsaw.Summary`); a method may ask for
        more. Whoever receives summaries from outside (files, Flower) calls this once for each.
        """


def default_name(cls: type) -> str:
    """Return the name of a method that has none: that of its class, in lower case with hyphens.

    Examples
    --------
    >>> class KMeansOfCenters: ...
    >>> default_name(KMeansOfCenters)
    'k-means-of-centers'
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__)
    return words.replace("_", "-").strip("-").lower()


def own_name(cls: type) -> str | None:
    """Return the name that a class itself sets in `method`; None if it has its default name."""
    name = vars(cls).get("method")
    return None if isinstance(name, DefaultName) else name


class DefaultName:
    """Attribute `method` of a class that does not set it: :func:`default_name`."""

    def __get__(self, instance: object, owner: type) -> str:
        return default_name(owner)
