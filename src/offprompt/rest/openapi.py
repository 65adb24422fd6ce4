"""The OpenAPI 3.1 document, made from the endpoints and the types that they take and answer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from offprompt import __version__
from offprompt.rest.endpoint import Endpoint
from offprompt.rest.problems import MEDIA_TYPE, Problem

REF: Final = "#/components/schemas/{name}"
JSON: Final = "application/json"
SCOPE_HEADERS: Final = {
    "Offprompt-User": "A user's memory.",
    "Offprompt-Agent": "An agent's memory.",
    "Offprompt-Session": "A session's memory.",
    "Offprompt-App": "The tenant; the key's own unless given.",
    "Offprompt-Shared": "`true`: what everyone may read.",
}
ENCODED: Final = " Percent-encoded UTF-8; it narrows what the key allows."


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document of these endpoints."""
    types = _types(endpoints)
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    shown = list(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, shown, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Offprompt",
            "version": __version__,
            "summary": "Memory for LLM agents that stays off the prompt.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "parameters": {name: _scope_header(name, text) for name, text in SCOPE_HEADERS.items()},
            "responses": {
                "Problem": {"description": "What went wrong.", "content": _content(REF.format(name="Problem"))}
            },
        },
    }


def _types(endpoints: Sequence[Endpoint]) -> list[Any]:
    """All types that are to be shown, each once."""
    types: list[Any] = [Problem]
    for endpoint in endpoints:
        types += [kind for kind in (endpoint.body, endpoint.answer, endpoint.query) if kind not in (None, *types)]
    return types


def _operation(endpoint: Endpoint, shown: Sequence[tuple[Any, Any]], components: dict[str, Any]) -> dict[str, Any]:
    def schema(kind: Any) -> dict[str, Any]:
        return next(found for known, found in shown if known == kind)

    parameters: list[dict[str, Any]] = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for part in endpoint.path.split("/")
        if part.startswith("{")
    ]
    if endpoint.query is not None:
        query = components[endpoint.query.__name__]
        required = query.get("required", ())
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": own}
            for name, own in query["properties"].items()
        ]
    if endpoint.is_scoped:
        parameters += [{"$ref": f"#/components/parameters/{name}"} for name in SCOPE_HEADERS]
    for parameter in parameters:
        if (value := {**endpoint.example.path, **endpoint.example.query}.get(parameter.get("name", ""))) is not None:
            parameter["example"] = value
    answer: dict[str, Any] = {"description": inspect.getdoc(endpoint.run) or endpoint.summary}
    if endpoint.answer is not None:
        answer["content"] = {JSON: {"schema": schema(endpoint.answer)}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "description": inspect.getdoc(endpoint.run) or "",
        "parameters": parameters,
        "responses": {
            **{str(status): answer for status in sorted({endpoint.status, endpoint.example.status or endpoint.status})},
            "default": {"$ref": "#/components/responses/Problem"},
        },
        "security": [] if endpoint.role is None else [{"key": []}],
    }
    if endpoint.body is not None:
        content: dict[str, Any] = {"schema": schema(endpoint.body)}
        if endpoint.example.body is not None:
            content["example"] = endpoint.example.body
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    return operation


def _scope_header(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": text + ENCODED, "schema": {"type": "string"}}


def _content(ref: str) -> dict[str, Any]:
    return {MEDIA_TYPE: {"schema": {"$ref": ref}}}
