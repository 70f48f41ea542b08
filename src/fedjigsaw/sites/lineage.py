"""Where a model is from: a JSON file beside it, so that equal data still give equal models.

The file ``MODEL.json`` states the model's fingerprint, when and by which versions it was made, the
run, the model before it with what became of its clusters, and how much chance moves each cluster.
A model can be used without it.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from fedjigsaw.errors import DataError, FedJigsawError, MessageError
from fedjigsaw.io import formats
from fedjigsaw.io._codec import FORMAT, check_format, read_bounded
from fedjigsaw.io.atomic import write_json
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.sites.drift import Difference, Noise
from fedjigsaw.sites.succession import Succession

KIND = "lineage"
MAX_SIZE = 16 * 2**20
PACKAGES = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Lineage:
    """Where a model is from.

    Attributes
    ----------
    model : fingerprint of the model's file.
    made : when it was made, in UTC.
    parent : fingerprint of the model that it follows (``--like``), or None.
    run : name of the federation's run, or None.
    versions : of fedjigsaw, Python and the libraries that compute.
    succession : what became of the parent's clusters, or None.
    drift : how much they changed relative to noise, or None.
    noise : how much chance moves each cluster, in the order of the centers, or None.

    Examples
    --------
    >>> from fedjigsaw.io.formats import ModelFile
    >>> from fedjigsaw.messages import Model
    >>> from fedjigsaw.sites import Lineage
    >>> first, second = (ModelFile(Model([[x]]), None, ("bern",), 10) for x in (0.0, 1.0))
    >>> Lineage.of(second, parent=first).parent == Lineage.of(first).model
    True
    """

    model: str
    made: str
    parent: str | None = None
    run: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    succession: Mapping[str, Any] | None = None
    drift: float | None = None
    noise: Noise | None = None

    @classmethod
    def of(
        cls,
        model: ModelFile,
        *,
        parent: ModelFile | None = None,
        run: str | None = None,
        succession: Succession | None = None,
        difference: Difference | None = None,
        noise: Noise | None = None,
    ) -> Self:
        """Return the lineage of a model that was made just now."""
        return cls(
            model=fingerprint(model),
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            parent=None if parent is None else fingerprint(parent),
            run=run,
            versions=_versions(),
            succession=None if succession is None else succession.to_dict(),
            drift=None if difference is None else difference.drift,
            noise=noise,
        )

    def save(self, model: Path) -> None:
        """Write the file beside a model, whole or not at all."""
        content = {"format": FORMAT, "kind": KIND, **asdict(self)}
        write_json(sidecar(model), content)

    @classmethod
    def load(cls, model: Path) -> Self | None:
        """Read the file beside a model; None if there is none, or if it is of another model."""
        path = sidecar(model)
        if not path.exists():
            return None
        try:
            found = cls._from(json.loads(read_bounded(path, MAX_SIZE)))
        except (ValueError, KeyError, TypeError, RecursionError, FedJigsawError) as error:
            text = f"{path} cannot be used: it is not a lineage file."
            raise MessageError(text, file=path) from error
        known = fingerprint(formats.load(model, ModelFile))
        return found if found.model == known else None

    @classmethod
    def _from(cls, content: Mapping[str, Any]) -> Self:
        if content["kind"] != KIND:
            raise ValueError
        check_format(content)
        noise = content["noise"]
        if noise is not None:
            noise = tuple(float(value) for value in noise)
            if not all(0 <= value < float("inf") for value in noise):
                raise ValueError
        values = {name: content.get(name) for name in cls.__dataclass_fields__}
        return cls(**{**values, "noise": noise, "model": str(content["model"])})


def sidecar(model: Path) -> Path:
    """Return the path of the lineage of a model.

    Examples
    --------
    >>> sidecar(Path("week2.model")).name
    'week2.model.json'
    """
    return model.with_name(f"{model.name}.json")


def check_sidecar(model: Path) -> None:
    """Raise a DataError if another file has the name of the lineage of a model."""
    path = sidecar(model)
    if not path.exists():
        return
    try:
        content = json.loads(read_bounded(path, MAX_SIZE))
        ours = content.get("kind") == KIND
    except (ValueError, AttributeError, RecursionError, FedJigsawError):
        ours = False
    if not ours:
        raise DataError(
            f"{path} already exists, and it is no lineage of a model. Give the model another name: "
            "a file with its date and versions is written beside it."
        )


def fingerprint(model: ModelFile) -> str:
    """Return the short name of exactly this model, as scores state it."""
    return formats.fingerprint(formats.encode(model))


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    own = import_module("fedjigsaw").__version__
    found = {"fedjigsaw": own, "python": platform.python_version()}
    return found | {name: version(name) for name in PACKAGES}
