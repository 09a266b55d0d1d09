"""In: the application with its routes; out: its OpenAPI description, in which constraints have their fields. Reads no request.

vLLM's request models know no `guided_*`, and this server's own routes read their bodies raw. What is said of the fields here is for
`/docs` and for programs that make clients of the description; how they are read is `guided_fields`' matter, how they are kept
`enforcement`'s.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from guided.constraint import ADDITIONAL_PROPERTIES, ESCAPES, PROPERTY_ORDER, WHITESPACE
from server.guided_fields import BACKENDS
from server.request_fields import CHAT, MODELS, RESPONSES

Schema = dict[str, Any]

CONSTRAINT = "GuidedFields"  # names of the schemas
ALONE = "GuidedConstraint"
CONSTRAINT_PATHS = ("/v1/guided/compile", "/v1/guided/plot")  # a constraint without a prompt
OTHER_SPELLINGS = (
    ("structured_outputs", CHAT),
    ("response_format", CHAT),
    ("text", RESPONSES),
)  # field, a route with it


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _one_of(values: tuple[str, ...], description: str) -> Schema:
    return {"type": "string", "enum": list(values), "default": values[0], "description": description}


OPTIONS: dict[str, Schema] = {  # of guided_options
    "whitespace": _one_of(WHITESPACE, "of guided_json: as json.dumps writes it, none, or any (bounded)"),
    "whitespace_pattern": _text("of guided_json: a regex of the whitespace between the tokens of the document"),
    "additional_properties": _one_of(
        ADDITIONAL_PROPERTIES,
        "of guided_json: where the schema is silent, only the properties that it declares, or any, as the standard has it",
    ),
    "property_order": _one_of(PROPERTY_ORDER, "of guided_json: as the schema lists them, or any"),
    "escapes": _one_of(ESCAPES, "of guided_json: the model may escape any character, or only what JSON must escape"),
    "fit_budget": {
        "type": "boolean",
        "default": True,
        "description": "the answer is complete within the request's tokens; false: it may be cut off",
    },
    "after": _text('the constraint holds after the first occurrence of this text in the output, such as "</think>"'),
    "report": {
        "type": "boolean",
        "default": False,
        "description": "the response tells, in `guided`, of the constraint and of what it kept the model from",
    },
}

FIELDS: dict[str, Schema] = {
    "guided_json": {
        "anyOf": [{"type": "object"}, {"type": "boolean"}, {"type": "string"}],
        "description": "a JSON Schema, or its text: the answer is a document that is valid under it",
    },
    "guided_regex": _text("a regular expression, as Python's re has them, that the whole answer matches"),
    "guided_choice": {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "description": "the answer is one of these",
    },
    "guided_grammar": _text("a grammar in Lark or GBNF syntax that derives the answer"),
    "guided_ref": _text("the `digest` of a constraint that was compiled before, in place of the constraint"),
    "guided_whitespace_pattern": _text("guided_options.whitespace_pattern, as vLLM called it"),
    "guided_decoding_backend": _one_of(
        BACKENDS, "guided: this server's own; the others leave the constraint to vLLM's backend of that name"
    ),
    "guided_options": {
        "type": "object",
        "properties": OPTIONS,
        "additionalProperties": False,
        "description": "how the constraint is meant",
    },
}


def describe_constraints(app: FastAPI) -> None:
    """Makes `app.openapi()` tell of the fields. To be called after the routes are added; a description that was made is kept."""
    made = app.openapi

    def openapi() -> Schema:
        if app.openapi_schema is None:
            app.openapi_schema = with_constraints(made())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to change it


def with_constraints(description: Schema) -> Schema:
    """The OpenAPI description of vLLM's routes and this server's, changed in place: those that take constraints say which."""
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    schemas[CONSTRAINT] = {"type": "object", "title": CONSTRAINT, "properties": FIELDS}
    paths = description["paths"]
    spellings = {}
    for name, path in OTHER_SPELLINGS:
        known = schemas.get(MODELS[path].__name__, {}).get("properties", {})
        if name in known:
            spellings[name] = known[name]
    schemas[ALONE] = {
        "title": ALONE,
        "description": "one constraint, in any spelling",
        "allOf": [_reference(CONSTRAINT), {"type": "object", "properties": spellings}],
    }
    for path in MODELS:
        if path in paths:  # a model that only completes text has no chat
            content = paths[path]["post"]["requestBody"]["content"]["application/json"]
            content["schema"] = {"allOf": [content["schema"], _reference(CONSTRAINT)]}
    for path in CONSTRAINT_PATHS:
        paths[path]["post"]["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _reference(ALONE)}},
        }
    return description


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
