"""An audit of differential privacy: can an attacker who sees everything tell neighbors apart?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedjigsaw._random import stream
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.messages import Summary
from fedjigsaw.privacy.noise import Noise
from fedjigsaw.privacy.summaries import Question


@dataclass(frozen=True)
class Release:
    """One table of whole numbers: without noise, with it, and the scale that was asked for."""

    table: Ints
    scale: float
    noisy: Ints


@dataclass(frozen=True)
class Witness(Noise):
    """Noise that writes down what it is given and what it returns.

    Parameters
    ----------
    strength : float
        Factor on the noise's scale: 1 is the real mechanism, less is a broken one.
    given : sequence of arrays
        If there are any, these noisy tables are returned, whatever the tables are.
    """

    strength: float = 1.0
    given: Sequence[Ints] = ()
    releases: list[Release] = field(default_factory=list)

    def add(self, values: Ints, scale: float) -> Ints:
        if self.given:
            noisy = self.given[len(self.releases)]
        else:
            noisy = super().add(values, self.strength * scale)
        self.releases.append(Release(values, scale, noisy))
        return noisy


@dataclass(frozen=True)
class Watched(Question):
    """A question whose releases can be seen."""

    witness: Witness = field(default_factory=Witness)

    def noise(self) -> Noise:
        return self.witness


def watch(question: Question, rows: Floats, witness: Witness) -> Summary:
    """Answer a question as a site does, with the noise of a witness."""
    watched = Watched(**vars(question) | {"witness": witness})
    broadcast = question.broadcast
    return watched.answer(rows, stream(broadcast.seed, broadcast.round, broadcast.client))


def replay(question: Question, rows: Floats, releases: Sequence[Release]) -> Witness:
    """Answer a question about other rows with noisy tables that were released before.

    The witness has the exact tables of these rows, each as it would be after the same releases.
    """
    witness = Witness(given=[release.noisy for release in releases])
    watch(question, rows, witness)
    return witness
