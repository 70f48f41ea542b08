"""A schema as a TOML file, which people write and edit."""

import tomllib
from pathlib import Path

from fedjigsaw.columns.schema import Schema
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.io._codec import read_bounded

MAX_TOML = 4 * 2**20


def load_schema(path: Path) -> Schema:
    """Read a schema, within a limit on its size; every error names the file."""
    content = read_bounded(path, MAX_TOML)
    try:
        return Schema.from_dict(tomllib.loads(content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a schema: it is not UTF-8 text.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path} is not a schema: it is not valid TOML ({error}).") from error
    except ParameterError as error:
        raise DataError(f"{path}: {error}") from error
