"""Mixed columns as columns of numbers, prepared in common by all clients: scikit-learn's API."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fedjigsaw import sites
from fedjigsaw._arrow import pc
from fedjigsaw._typing import Floats
from fedjigsaw.columns.decoding import decode
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.columns.schema import (
    BOOLEAN,
    CATEGORY,
    DATE,
    IGNORE,
    NUMBER,
    ORDERED,
    Column,
    Schema,
    is_name,
)
from fedjigsaw.columns.text import TextFormat, is_text
from fedjigsaw.columns.values import read_levels
from fedjigsaw.errors import (
    DataError,
    DataTypeError,
    DataWarning,
    FedJigsawError,
    ParameterError,
    invalid,
    quote_names,
    warn,
)
from fedjigsaw.io.frames import from_frame, has_names, to_arrow
from fedjigsaw.io.schemas import load_schema
from fedjigsaw.parameters import check_parameters, integer
from fedjigsaw.validation import rows_by_client, take_clients


class FederatedPreparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn numbers, categories, dates, booleans and missing values into scaled columns of numbers.

    Each client sends statistics of its own columns, and all use the scaler that these give
    together: that of the pooled rows. It is the same, bit for bit, as that of the commands `stats`
    and `scaler`. Put it before any clusterer in a pipeline.

    Parameters
    ----------
    schema : Schema, mapping, path of a TOML file, or None
        What each column means. None takes it from the types of the columns in `fit`: numbers,
        booleans, dates, and texts as categories. It then looks at the rows of all clients, which a
        real federation cannot do. `sites.propose_schema` looks at the values instead, and proposes
        ranges, too.
    min_cluster_size : int
        Guard: what fewer rows of a client have in common does not leave it. 1 turns it off; the
        commands use 5.

    Attributes
    ----------
    scaler_ : Scaler
        The preparation; `fedjigsaw.io.formats.save_scaler` writes it for the commands.
    encoding_ : Encoding
        How columns become features: the schema, and what was fitted to it.
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the columns, if the data had names.

    Examples
    --------
    >>> from fedjigsaw import FederatedPreparation
    >>> table = {"age": [61, 35, None, 48], "sex": ["f", "m", "m", "f"]}
    >>> preparation = FederatedPreparation().fit(table, clients=["a", "a", "b", "b"])
    >>> preparation.get_feature_names_out().tolist()
    ['age', 'age: (missing)', 'sex: f', 'sex: m']
    >>> preparation.transform(table)[0].round(2).tolist()
    [1.41, -0.25, 0.35, -0.35]
    >>> preparation.inverse_transform(preparation.transform(table))["age"].to_pylist()
    [61.0, 35.0, None, 48.0]
    """

    scaler_: Scaler
    encoding_: Encoding
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]

    def __init__(
        self,
        schema: Schema | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        min_cluster_size: int = 1,
    ) -> None:
        self.schema = schema
        self.min_cluster_size = min_cluster_size

    def fit(self, X: Any, y: Any = None, *, clients: Any = None) -> Self:
        """Fit the preparation to the rows that several clients hold.

        Parameters
        ----------
        X : pandas or polars DataFrame, Arrow table, mapping of names to columns, or 2-D array
            The columns of an array are those of the schema in its order; x0, x1, ... without one.
        y : ignored
            Present for scikit-learn's API.
        clients : array of shape (n_samples,), name of a column, or None
            The client of each row, as for clusterers. None is a single client.

        Raises
        ------
        DataError
            If a column of the schema is missing, or has values that the schema refuses.
        ParameterError
            If `min_cluster_size` or the schema is wrong.
        """
        owner = type(self).__name__
        parameters = self.get_params(deep=False)
        check_parameters(owner, {"min_cluster_size": integer(1)}, parameters)
        schema = _given(self.schema)
        X, clients = take_clients(X, clients, owner=f"{owner}.fit")
        table = self._table(X, schema, reset=True)
        schema = schema or infer_schema(table, self.min_cluster_size)
        _check_sources(table, [column.name for column in schema.clustered])
        stats = {}
        for name, rows in rows_by_client(table.num_rows, clients, owner=f"{owner}.fit").items():
            shown = "X" if clients is None else f"X of client {name!r}"
            part = from_frame(table, rows=rows, name=shown)
            stats[name] = sites.measure(
                part, client=name, schema=schema, min_rows=self.min_cluster_size
            )
        scaler = sites.common_scaler(stats, schema=schema)
        assert scaler.encoding is not None  # it was made by a schema
        self.scaler_, self.encoding_ = scaler, scaler.encoding
        return self

    def transform(self, X: Any) -> Floats:
        """Return the scaled features of each row."""
        check_is_fitted(self)
        table = self._table(X, self.encoding_.schema, reset=False)
        _check_sources(table, self.encoding_.sources)
        encoded = sites.prepare(from_frame(table), scaler=self.scaler_)
        return np.concatenate([self.scaler_.scale(batch.rows) for batch in encoded.batches()])

    def inverse_transform(self, X: Any) -> pa.Table:
        """Return scaled features as a table of the columns that they were made from.

        Rows need not come from `transform`: centers of clusters are read back, too. A row has the
        category whose feature is largest. Columns without weight are not in the table.
        """
        check_is_fitted(self)
        rows = check_array(X, dtype=np.float64)
        if rows.shape[1] != len(self.scaler_.columns):
            raise DataError(
                f"X has {rows.shape[1]} columns; the preparation gives {len(self.scaler_.columns)}."
            )
        return decode(self.encoding_, self.scaler_.unscale(rows))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the features, such as ``"age"`` and ``"sex: female"``."""
        check_is_fitted(self)
        return np.array(self.scaler_.columns, dtype=object)

    def _table(self, X: Any, schema: Schema | None, *, reset: bool) -> pa.Table:
        """Return the data as an Arrow table, with names; remember its columns, or check them."""
        if not has_names(X):
            return self._named(X, schema, reset=reset)
        table = to_arrow(X)
        if not table.num_rows or not table.num_columns:
            shape = f"{table.num_rows} rows and {table.num_columns} columns"
            raise DataError(f"X of {type(self).__name__} has {shape}: there is nothing to prepare.")
        if reset:
            self.n_features_in_ = table.num_columns
            self.feature_names_in_ = np.array(table.column_names, dtype=object)
        return table

    def _named(self, X: Any, schema: Schema | None, *, reset: bool) -> pa.Table:
        try:
            rows = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
        except (TypeError, ValueError) as error:
            if isinstance(error, FedJigsawError):
                raise
            kind = DataTypeError if isinstance(error, TypeError) else DataError
            raise kind(f"Cannot use X of {type(self).__name__}: {error}") from error
        names: Sequence[str] | None = None
        if not reset and hasattr(self, "feature_names_in_"):
            names = self.feature_names_in_.tolist()
        elif schema is not None:
            names = [column.name for column in schema.columns]
        return to_arrow(rows, names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _given(schema: Any) -> Schema | None:
    """Return the schema that a parameter gives, or None if it is to be inferred."""
    if schema is None or isinstance(schema, Schema):
        return schema
    if isinstance(schema, Mapping):
        return Schema.from_dict({"format": 1, **schema})
    if isinstance(schema, (str, os.PathLike)):
        return load_schema(Path(schema))
    allowed = "a Schema, a mapping, the path of a TOML file, or None"
    raise ParameterError(invalid("schema", "FederatedPreparation", allowed, repr(schema)))


def _check_sources(table: pa.Table, names: Sequence[str]) -> None:
    there = set(table.column_names)
    lacking = [name for name in names if name not in there]
    if lacking:
        raise DataError(
            f"X has no column {quote_names(lacking)}, which the schema names. It has "
            f"{quote_names(table.column_names)}."
        )


# ------------------------------------------------------------------------------ without a schema


def infer_schema(table: pa.Table, min_rows: int = 1) -> Schema:
    """Make a schema from the types of columns; texts are categories.

    Categories are values of at least `min_rows` rows, and of 1 % of all rows: others are pooled.
    A column of texts without any is ignored, with a warning.
    """
    columns = [_infer(name, table[name], min_rows) for name in table.column_names]
    return Schema(tuple(columns))


def _infer(name: str, values: pa.ChunkedArray, min_rows: int) -> Column:
    kind = values.type
    if pa.types.is_dictionary(kind) and kind.ordered:
        levels = [str(level) for level in values.combine_chunks().dictionary.to_pylist()]
        if len(levels) > 1 and all(map(is_name, levels)):
            return Column(name, ORDERED, categories=tuple(levels))
    if pa.types.is_boolean(kind):
        return Column(name, BOOLEAN)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Column(name, NUMBER)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Column(name, DATE)
    if is_text(kind) or pa.types.is_dictionary(kind):
        return _category(name, values, min_rows)
    if pa.types.is_null(kind):
        return Column(name, IGNORE)
    raise DataTypeError(
        f"Column {name!r} of X has values of type {kind}, which cannot be prepared. Leave it out, "
        'or give a schema in which its kind is "ignore".'
    )


def _category(name: str, values: pa.ChunkedArray, min_rows: int) -> Column:
    levels = read_levels(values.combine_chunks(), TextFormat())
    counts = pc.value_counts(levels.drop_null())
    least = max(min_rows, 1, len(values) * Schema.rare)
    often = [str(entry["values"]) for entry in counts if entry["counts"].as_py() >= least]
    found = tuple(sorted(filter(is_name, often)))
    if found:
        return Column(name, CATEGORY, categories=found)
    warn(
        f"Column {name!r} is ignored: no text in it occurs in 1 % of the rows. To use it, give a "
        "schema with its categories.",
        DataWarning,
    )
    return Column(name, IGNORE)
