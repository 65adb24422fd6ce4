"""The OpenAPI 3.1 document, made from the endpoints and the types that they take and answer."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import UnionType
from typing import Any, Final, get_args

import msgspec

from offprompt import __version__
from offprompt.rest.endpoint import Endpoint, LinesOf, Pieces
from offprompt.rest.problems import MEDIA_TYPE, Problem

REF: Final = "#/components/{kind}/{name}"
SCOPE_HEADERS: Final[Mapping[str, str]] = {
    "Offprompt-User": "A user's memory.",
    "Offprompt-Agent": "An agent's memory.",
    "Offprompt-Session": "A session's memory.",
    "Offprompt-App": "The tenant; the key's own unless given.",
    "Offprompt-Shared": "`true`: what everyone may read.",
    "Offprompt-Space": "A space, instead of all these: for admins of the whole app.",
}
ENCODED: Final = " Percent-encoded UTF-8; it narrows what the key allows."
IDEMPOTENCY: Final = "Idempotency-Key"
FILE: Final = "Offprompt-File"
OTHER_HEADERS: Final[Mapping[str, str]] = {
    IDEMPOTENCY: "A name for this change, new for each: sent again with it within 24 hours, the change is not made "
    "again, and the same is answered. 1 to 255 visible ASCII characters.",
    FILE: "The name of the file that is sent, percent-encoded and without its folders.",
    "If-Match": "The ETag, or a version in quotes, that must be there for the change; `*`: any. Else 412.",
    "If-None-Match": "`*`: nothing may be there, else 412. Of a GET: the ETag that one has; if it still holds, 304.",
}
ID: Final = r"^(?:[ -$&-~]|%[0-9A-Fa-f]{2}){1,256}$"
"""One to 256 bytes, each as it is or encoded."""

SPACE: Final = r"^[a-z0-9-][a-z0-9_.-]{0,63}$"
"""The plainest of names; letters of any script do as well, encoded."""

NAME: Final = r"^(?=.*[^. ])(?:[ -$&-.0-\[\]-~]|%[2-7][0-9A-Fa-f]){1,85}$"
"""A name without folders, each byte as it is or encoded."""

TAGS: Final = r'^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$'
FORMS: Final[Mapping[str, Mapping[str, Any]]] = {
    **{name: {"pattern": ID} for name in SCOPE_HEADERS},
    "Offprompt-Shared": {"enum": ["true", "false"]},
    "Offprompt-Space": {"pattern": SPACE},
    IDEMPOTENCY: {"pattern": "^[!-~]{1,255}$"},
    FILE: {"pattern": NAME},
    "If-Match": {"pattern": TAGS},
    "If-None-Match": {"pattern": TAGS},
}
PROBLEMS: Final[Mapping[int, str]] = {
    400: "The request breaks a rule of this API, or says not whose memory it is about.",
    401: "No key, or one that is not valid.",
    403: "The key does not allow this.",
    404: "There is nothing of that name that the key may see.",
    406: "What is answered is not what Accept lists.",
    408: "The body did not come in time.",
    409: "Something else is there, or is being done.",
    412: "If-Match or If-None-Match does not hold.",
    413: "More bytes than may be sent or stored.",
    415: "Another Content-Type than this reads.",
    422: "A name, value or member that breaks a rule.",
    429: "Too much at once; Retry-After says when to ask again.",
    500: "The server made a mistake.",
    501: "This store or model cannot do it.",
    503: "The store does not answer, or the server is stopping.",
}


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document of these endpoints."""
    types = _types(endpoints)
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    shown = list(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = _Operation(endpoint, shown, components).document()
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Offprompt",
            "version": __version__,
            "summary": "Memory for LLM agents that stays off the prompt.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(endpoint.tag for endpoint in endpoints)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key of `offprompt key create`, or a JWT of the issuer that the server trusts.",
                }
            },
            "parameters": {
                **{name: _header(name, text + ENCODED) for name, text in SCOPE_HEADERS.items()},
                **{name: _header(name, text) for name, text in OTHER_HEADERS.items()},
            },
            "headers": {
                "ETag": _answered("The tag of the version that is there."),
                "Retry-After": _answered("Seconds after which to ask again."),
                "Request-Id": _answered("The request's name in the server's log."),
            },
            "responses": {str(status): _problem(status, text) for status, text in PROBLEMS.items()},
        },
    }


def _types(endpoints: Sequence[Endpoint]) -> list[Any]:
    """All types that are to be shown, each once."""
    types: list[Any] = [Problem]
    for endpoint in endpoints:
        used = [*_kinds(endpoint.body), *_kinds(endpoint.answer), *_kinds(endpoint.query)]
        types += [kind for kind in used if kind not in types]
    return types


def _kinds(declared: Any) -> list[Any]:
    """The types of a document, or of the lines of a stream; none for bytes."""
    kind = declared.kind if isinstance(declared, LinesOf) else declared
    if isinstance(kind, UnionType):
        return list(get_args(kind))
    return [] if kind is None or isinstance(kind, Pieces) else [kind]


class _Operation:
    """One endpoint in the document. shown: each type with its schema."""

    def __init__(self, endpoint: Endpoint, shown: Sequence[tuple[Any, Any]], components: Mapping[str, Any]) -> None:
        self._endpoint, self._shown, self._components = endpoint, shown, components

    def document(self) -> dict[str, Any]:
        """What is said of it."""
        endpoint = self._endpoint
        operation: dict[str, Any] = {
            "operationId": endpoint.name,
            "tags": [endpoint.tag],
            "summary": endpoint.summary,
            "description": inspect.getdoc(endpoint.run) or "",
            "parameters": self._parameters(),
            "responses": self._responses(),
            "security": [] if endpoint.role is None else [{"key": []}],
        }
        if endpoint.role is not None:
            operation["x-role"] = endpoint.role
        if endpoint.body is not None:
            content: dict[str, Any] = {"schema": self._schema(endpoint.body)}
            example = endpoint.example.content if endpoint.is_stream else endpoint.example.body
            if example:
                content["example"] = example
            operation["requestBody"] = {"required": True, "content": {endpoint.reads: content}}
        return operation

    def _schema(self, declared: Any) -> dict[str, Any]:
        schemas = [next(schema for known, schema in self._shown if known == kind) for kind in _kinds(declared)]
        if not schemas:
            return {"type": "string"}
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def _parameters(self) -> list[dict[str, Any]]:
        endpoint = self._endpoint
        found: list[dict[str, Any]] = [
            {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for part in endpoint.path.split("/")
            if part.startswith("{")
        ]
        if endpoint.query is not None:
            query = self._components[self._schema(endpoint.query)["$ref"].rpartition("/")[2]]
            required = query.get("required", ())
            found += [
                {"name": name, "in": "query", "required": name in required, "schema": own}
                for name, own in query["properties"].items()
            ]
        given = {**endpoint.example.path, **endpoint.example.query}
        for parameter in found:
            if (value := given.get(parameter["name"])) is not None:
                parameter["example"] = value
        headers = list(SCOPE_HEADERS) if endpoint.is_scoped else []
        headers += [IDEMPOTENCY] if endpoint.is_once else []
        headers += [FILE] if isinstance(endpoint.body, Pieces) and endpoint.body.is_file else []
        if endpoint.is_versioned:
            headers += ["If-None-Match"] if endpoint.method == "GET" else ["If-Match", "If-None-Match"]
        return found + [{"$ref": REF.format(kind="parameters", name=name)} for name in headers]

    def _responses(self) -> dict[str, Any]:
        endpoint = self._endpoint
        answer: dict[str, Any] = {
            "description": endpoint.summary,
            "headers": {"Request-Id": {"$ref": REF.format(kind="headers", name="Request-Id")}},
        }
        if endpoint.status != HTTPStatus.NO_CONTENT:
            answer["content"] = {endpoint.answers: {"schema": self._schema(endpoint.answer)}}
        if endpoint.is_versioned:
            answer["headers"]["ETag"] = {"$ref": REF.format(kind="headers", name="ETag")}
        good = sorted({endpoint.status, endpoint.example.status or endpoint.status})
        found = {str(status): answer for status in good}
        if endpoint.is_versioned and endpoint.method == "GET":
            found["304"] = {"description": "The client has it already.", "headers": answer["headers"]}
        return {
            **found,
            **{str(status): self._problem(status) for status in self._problems()},
        }

    def _problem(self, status: int) -> dict[str, Any]:
        if self._endpoint.problem_type == MEDIA_TYPE:
            return {"$ref": REF.format(kind="responses", name=status)}
        return _problem(status, PROBLEMS[status], self._endpoint.problem_type)

    def _problems(self) -> list[int]:
        """The statuses of the errors that can come."""
        endpoint = self._endpoint
        found = {400, 406, 500, 503}
        if endpoint.role is not None:
            found |= {401, 403, 404, 422, 429, 501}
        if endpoint.body is not None:
            found |= {408, 413, 415, 422}
        if endpoint.method != "GET":
            found |= {409, 413}
        if endpoint.is_versioned:
            found |= {412}
        return sorted(found)


def _header(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": text, "schema": {"type": "string", **FORMS[name]}}


def _answered(text: str) -> dict[str, Any]:
    return {"description": text, "schema": {"type": "string"}}


def _problem(status: int, text: str, media_type: str = MEDIA_TYPE) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": text,
        "content": {media_type: {"schema": {"$ref": REF.format(kind="schemas", name="Problem")}}},
    }
    if status in (429, 503):
        found["headers"] = {"Retry-After": {"$ref": REF.format(kind="headers", name="Retry-After")}}
    return found
