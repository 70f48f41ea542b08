"""Checkpoints of a run: what the server needs to go on after a crash, as a file without pickle."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from fedjigsaw.engine import FederatedMethod
from fedjigsaw.errors import FedJigsawError, MessageError, ParameterError
from fedjigsaw.io._codec import FORMAT, check_format, digest
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.contents import SummaryFile
from fedjigsaw.io.regular import check_regular
from fedjigsaw.messages import Failure, Model, Round, Summary

TENSOR = "tensor."  # how the names of a model's tensors begin in the file


@dataclass(frozen=True)
class Progress:
    """A run after some rounds.

    Attributes
    ----------
    method, params, seed : what is run.
    model : the model so far, with what only the server needs.
    rounds : record of all rounds.
    sites : number of images of every site that took part.
    columns : names of the columns of the model's centers.
    """

    method: str
    params: Mapping[str, Any]
    seed: int
    model: Model
    rounds: tuple[Round, ...]
    sites: Mapping[str, int]
    columns: tuple[str, ...]

    def check_same(self, method: FederatedMethod, seed: int) -> None:
        """Raise a ParameterError if another run would go on from here.

        A model that the run cannot have at that point is a MessageError.
        """
        mine = {"method": self.method, **self.params, "seed": self.seed}
        asked = {"method": method.method, **method.configuration(), "seed": seed}
        for name in sorted({*mine, *asked}):
            if mine.get(name) != asked.get(name):
                raise ParameterError(
                    f"The checkpoint is of a run with {name}={mine.get(name)!r}, not "
                    f"{asked.get(name)!r}."
                )
        if len(self.rounds) > method.total_rounds:
            raise MessageError(
                f"The checkpoint has {len(self.rounds)} rounds, and the run {method.total_rounds}."
            )
        try:
            method.check_model(self.model, len(self.rounds))
        except MessageError as error:
            raise MessageError(f"The checkpoint is damaged. {error}") from error

    def check_sites(self, known: Collection[str]) -> None:
        """Raise a MessageError if a site took part that is not among the known ones."""
        if unknown := sorted(set(self.sites) - set(known)):
            raise MessageError(f"The checkpoint has a site {unknown[0]!r}, which is not known.")

    def files(self) -> dict[str, SummaryFile]:
        """Return what is known of the sites' answers, without their numbers."""
        nothing = np.zeros((0, len(self.columns)))
        mark = {"taken": np.zeros(1)}  # a summary has something in it
        guard = {"min_cluster_size": 1, "counts": "none"}
        return {
            name: SummaryFile(
                Summary(n_images, nothing, tensors=mark, client=name),
                self.method,
                self.params,
                self.columns,
                None,
                guard,
                self.seed,
                n_images,
            )
            for name, n_images in self.sites.items()
        }

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        header = {
            "format": FORMAT,
            "method": self.method,
            "params": dict(self.params),
            "seed": self.seed,
            "rounds": [_round_to_json(one) for one in self.rounds],
            "sites": dict(self.sites),
            "columns": list(self.columns),
        }
        arrays = {f"{TENSOR}{name}": array for name, array in self.model.tensors.items()}
        arrays["centers"] = self.model.centers
        text = json.dumps(header)
        about = {"progress": text, "sha256": digest(text, arrays)}
        write_whole(path, safetensors.numpy.save(arrays, metadata=about))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file. One that is broken is a MessageError."""
        check_regular(path)
        try:
            with safe_open(path, framework="numpy") as file:
                about = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            header = json.loads(about["progress"])
            check_format(header)
            found = digest(about["progress"], arrays)
            if about["sha256"] != found:
                raise MessageError("it was changed, or its disk is damaged.")
            rounds = tuple(map(_round_from_json, header["rounds"]))
            _check_rounds(rounds, header["sites"])
            tensors = {n.removeprefix(TENSOR): a for n, a in arrays.items() if n != "centers"}
            method, params = header["method"], header["params"]
            return cls(
                method,
                params,
                header["seed"],
                Model(arrays["centers"], method, params, None, tensors),
                rounds,
                header["sites"],
                tuple(header["columns"]),
            )
        except (SafetensorError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, FedJigsawError) else "it is broken."
            raise MessageError(f"{path} is not the checkpoint of a run: {reason}") from error


def _check_rounds(rounds: Sequence[Round], sites: Mapping[str, int]) -> None:
    """Raise a MessageError unless these are the first rounds of a run, and of these sites."""
    if not rounds or [one.number for one in rounds] != list(range(len(rounds))):
        raise MessageError("its rounds are not the first ones of a run.")
    if not {name for one in rounds for name in one.bytes_up} <= set(sites):
        raise MessageError("its rounds are of other sites than it says.")


def _round_to_json(one: Round) -> dict[str, Any]:
    failures = [[failure.client, failure.reason] for failure in one.failures]
    return {**vars(one), "bytes_up": dict(one.bytes_up), "failures": failures}


def _round_from_json(row: Mapping[str, Any]) -> Round:
    failures = tuple(Failure(client, reason) for client, reason in row["failures"])
    return Round(row["number"], row["bytes_up"], row["bytes_down"], failures, row["seconds"])
