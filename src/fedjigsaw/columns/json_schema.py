"""The JSON Schema of a schema file, for completion and checks in editors."""

from typing import Any

from fedjigsaw.columns.schema import (
    DATE,
    FORMAT_CODES,
    KINDS,
    MAX_CATEGORIES,
    MISSING_BY_KIND,
    OUTSIDE,
    SCALES,
    TEXT_KINDS,
)

NAME = "fedjigsaw-schema.json"  # the file that `#:schema` in a schema file names


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a schema, as TOML or as JSON."""
    column = _column()
    named = {**column, "properties": {"name": {"type": "string"}, **column["properties"]}}
    by_name = {"type": "object", "minProperties": 1, "additionalProperties": column}
    listed = {"type": "array", "minItems": 1, "items": {**named, "required": ["name"]}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Schema of the columns that all sites of a fedjigsaw federation share",
        "type": "object",
        "required": ["format", "columns"],
        "additionalProperties": False,
        "properties": {
            "format": {"const": 1, "description": "Version of this format."},
            "missing": _texts("Texts that stand for a missing value, besides NA and the like."),
            "rare": {
                "type": "number",
                "minimum": 0,
                "exclusiveMaximum": 0.5,
                "default": 0.01,
                "description": "Categories with a smaller share of all rows are put together.",
            },
            "columns": {"description": "One entry for each column.", "anyOf": [by_name, listed]},
        },
    }


def _column() -> dict[str, Any]:
    missing = list(dict.fromkeys(w for ways in MISSING_BY_KIND.values() for w in ways if w))
    limit = {"anyOf": [{"type": "number"}, {"type": "string", "format": "date"}]}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "kind": _one_of(KINDS, "What the column holds.", "number"),
            "unit": {"type": "string", "description": "Unit of the numbers, such as mg/dl."},
            "range": {
                "type": "array",
                "items": limit,
                "minItems": 2,
                "maxItems": 2,
                "description": "Least and greatest plausible value, from public knowledge.",
            },
            "outside": _one_of(OUTSIDE, "What happens to values outside of the range.", "refuse"),
            "missing": _one_of(missing, "What takes the place of missing values."),
            "scale": _one_of(SCALES, "How the column is scaled.", "standard"),
            "weight": {
                "type": "number",
                "minimum": 0,
                "maximum": 1e6,
                "default": 1,
                "description": "0 leaves the column out of the clustering; profiles show it.",
            },
            "categories": {
                **_texts("All categories that are told apart, from least to greatest if ordered."),
                "minItems": 1,
                "maxItems": MAX_CATEGORIES,
                "uniqueItems": True,
            },
            "format": {
                "type": "string",
                "description": f"Of dates, such as %d.%m.%Y: {FORMAT_CODES}.",
            },
        },
        "allOf": [
            {
                "if": _kind_in([*TEXT_KINDS]),
                "then": {"required": ["categories"]},
                "else": {"properties": {"categories": False}},
            },
            {"if": {"required": ["format"]}, "then": _kind_in([DATE])},
        ],
    }


def _kind_in(kinds: list[str]) -> dict[str, Any]:
    return {"required": ["kind"], "properties": {"kind": {"enum": kinds}}}


def _texts(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _one_of(values: Any, description: str, default: str | None = None) -> dict[str, Any]:
    found = {"enum": list(values), "description": description}
    return found if default is None else {**found, "default": default}
