"""The run of an operator: ``python -m fedjigsaw.flower.operator_run FOLDER RUN [--resume]``.

A process of its own on the server's machine, which does what `federation run` does there. The
operator gets the texts that `federation run` would print, and no other text of an error.
"""

import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fedjigsaw._signals import stopped_by_signals
from fedjigsaw.errors import FedJigsawError, ParameterError, invalid
from fedjigsaw.flower import jobs
from fedjigsaw.flower.folders import SERVER_LOG
from fedjigsaw.flower.logs import log_to
from fedjigsaw.flower.operator_desk import owner_of
from fedjigsaw.messages import MAX_TIMEOUT

FAILED = "The run failed at the server; see flower.log there."
KINDS: dict[Any, str] = {
    str: "a text",
    int: "a number without decimals",
    float: "a number",
    bool: "true or false",
    NoneType: "nothing",
    Mapping: "names with values",
}


def main(home: Path, name: str, resume: bool) -> None:
    """Run a job, and leave its result or its error in its folder."""
    folder = jobs.job_folder(home, name)
    with stopped_by_signals(in_background=True):
        try:
            job = read_job(folder)
            jobs.run_job(home, job, resume=resume, folder=folder, may_resume=_same_owner(folder))
        except KeyboardInterrupt:
            jobs.write_end(folder, jobs.STOPPED, 130)
        except FedJigsawError as error:
            if type(error) is FedJigsawError:  # the text of an unexpected error stays here
                jobs.write_result(folder, replace=True, error=FAILED, exit_code=1)
            jobs.write_end(folder, str(error), error.exit_code)
        except Exception:
            traceback.print_exc()
            jobs.write_end(folder, FAILED, 1)


def read_job(folder: Path) -> jobs.Job:
    """Read the job that an operator sent; a ParameterError names a field that is not allowed."""
    try:
        content: dict[str, Any] = json.loads((folder / jobs.JOB).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ParameterError("The job is not JSON.") from error
    kinds = get_type_hints(jobs.Job)
    known = {field.name for field in fields(jobs.Job)}
    if unknown := sorted(content.keys() - known):
        raise ParameterError(f"The server knows no {unknown[0]!r} of a run.")
    for key, value in content.items():
        if not fits(value, kinds[key]):
            raise ParameterError(invalid(key, "a run", describe(kinds[key]), repr(value)))
    for key in ("method", "n_clusters"):
        if key not in content:
            raise ParameterError(f"The job has no {key!r}.")
    job = jobs.Job(**content)
    for key in ("timeout", "wait"):
        if getattr(job, key) > MAX_TIMEOUT:
            allowed = f"at most {MAX_TIMEOUT:g} seconds from an operator"
            raise ParameterError(invalid(key, "a run", allowed, getattr(job, key)))
    return job


def _same_owner(folder: Path) -> Callable[[Path], bool]:
    owner = owner_of(folder)
    return lambda other: owner is not None and owner_of(other) == owner


# ------------------------------------------------ types of the fields of a job, which came as JSON


def fits(value: object, kind: Any) -> bool:
    """Return whether a value of JSON has a type. Types that JSON cannot hold fit nothing.

    Examples
    --------
    >>> fits([1, 2], Sequence[int]), fits(True, int), fits(None, int | None), fits(1, float)
    (True, False, True, True)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin in (Sequence, list, tuple):
        of = inner[0] if inner else Any
        return isinstance(value, list) and all(fits(one, of) for one in value)
    if origin in (Mapping, dict):
        return isinstance(value, dict) and all(fits(one, inner[1]) for one in value.values())
    if kind is float:
        return type(value) in (int, float)
    return kind in (str, int, bool, NoneType) and type(value) is kind


def describe(kind: Any) -> str:
    """Return a type in words.

    Examples
    --------
    >>> describe(int | None), describe(Sequence[str])
    ('a number without decimals, or nothing', 'a list of texts')
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return ", or ".join(map(describe, inner))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin in (Sequence, list, tuple):
        return "a list of texts" if inner[:1] == (str,) else "a list"
    return KINDS.get(origin or kind, "something else")


if __name__ == "__main__":
    log_to(Path(sys.argv[1]) / SERVER_LOG)
    main(Path(sys.argv[1]), sys.argv[2], "--resume" in sys.argv[3:])
