"""The routes of the service as a page tells them, out of its OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from offprompt.rest.app import ENDPOINTS
from offprompt.rest.openapi import openapi
from offprompt.rest.problems import STATUS

Json: TypeAlias = dict[str, Any]

SHAPES: Final = "rest-shapes.md"
TITLES: Final = {"mem0": "mem0's routes", "mem": "The three short ones"}
COLUMN: Final = re.compile(r"(\w+(?:, \w+)*) {2,}(\S.*)")
METHODS: Final = ("get", "put", "patch", "post", "delete")
KINDS: Final = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def routes() -> str:
    """Every route by tag: what it takes, what it answers, an example."""
    document = openapi(ENDPOINTS)
    by_tag: dict[str, list[tuple[str, str, Json]]] = {}
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                by_tag.setdefault(methods[method]["tags"][0], []).append((method.upper(), path, methods[method]))
    lines: list[str] = []
    for tag, operations in by_tag.items():
        lines += ["", f"## {TITLES.get(tag, tag.capitalize())}"]
        for method, path, operation in operations:
            lines += ["", *_operation(document, method, path, operation)]
    return "\n".join(lines[1:])


def shapes() -> str:
    """What the routes answer with, member by member."""
    document = openapi(ENDPOINTS)
    components: Mapping[str, Json] = document["components"]["schemas"]
    answered = set[str]()
    for operation in _operations(document):
        for answer in operation["responses"].values():
            _follow(resolved(document, answer).get("content", {}), components, answered)
    lines: list[str] = []
    for name in sorted(answered):
        shape = components[name]
        lines += ["", f"## {name}", "", *_told(shape.get("description", ""))[0]]
        if members := list(_members(document, shape)):
            lines += ["", "| member | type | |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in members)]
    return "\n".join(lines[1:])


def headers() -> str:
    """The headers that routes take and answer, each once."""
    components = openapi(ENDPOINTS)["components"]
    rows = [f"| `{name}` | {one['description']} |" for name, one in components["parameters"].items()]
    rows += [f"| `{name}` (in answers) | {one['description']} |" for name, one in components["headers"].items()]
    return "\n".join(["| header | |", "|---|---|", *rows])


def problems() -> str:
    """Which status each class of error has."""
    by_status: dict[int, list[str]] = {}
    for kind, status in STATUS.items():
        by_status.setdefault(int(status), []).append(f"`{kind.__name__}`")
    rows = [f"| {status} | {', '.join(names)} |" for status, names in sorted(by_status.items())]
    return "\n".join(["| status | `code` |", "|---|---|", *rows])


def _operation(document: Json, method: str, path: str, operation: Json) -> list[str]:
    prose, columns = _told(_about(operation))
    lines = [f"### `{method} {path}`", "", *prose, *(f"\n- `{name}`: {text}" for name, text in columns.items())]
    rows = list(_taken(document, operation))
    if rows:
        lines += ["", "| in | name | type | |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    lines += ["", _answered(document, operation), "", "```http", *_example(method, path, operation), "```"]
    return lines


def _about(operation: Json) -> str:
    summary, description = operation["summary"], operation.get("description", "")
    return summary if description in ("", summary) else f"{summary} {description}"


def _told(description: str) -> tuple[list[str], dict[str, str]]:
    """A docstring as paragraphs, and what its columns say of members: `name, other   text`, with lines that go on."""
    prose: list[str] = []
    columns: dict[str, str] = {}
    for part in description.split("\n\n"):
        entries: list[str] = []
        for line in part.splitlines():
            if line.startswith(" ") and entries:
                entries[-1] += f" {line.strip()}"
            elif COLUMN.match(line) or not entries or COLUMN.match(entries[-1]):
                entries.append(line.strip())
            else:
                entries[-1] += f" {line.strip()}"
        for entry in entries:
            if found := COLUMN.match(entry):
                columns |= dict.fromkeys(found[1].split(", "), found[2])
            else:
                prose += ["", entry]
    return prose[1:], columns


def _taken(document: Json, operation: Json) -> Iterator[tuple[str, str, str, str]]:
    """Parameters of the path and query, and the members of the body. Headers stand once at the head of the page."""
    for parameter in operation["parameters"]:
        if parameter.get("in") in ("path", "query"):
            needed = "required" if parameter.get("required") and parameter["in"] != "path" else ""
            told = "; ".join(part for part in (needed, parameter.get("description", "")) if part)
            yield parameter["in"], f"`{parameter['name']}`", _kind(document, parameter["schema"]), told
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        shape = resolved(document, content.get("schema", {}))
        where = "body" if media_type == "application/json" else "each line"
        found = False
        for name, kind, told in _members(document, shape):
            found = True
            yield where, name, kind, told
        if not found:
            yield where, "", _kind(document, content.get("schema", {})), ""


def _members(document: Json, shape: Json) -> Iterator[tuple[str, str, str]]:
    required = shape.get("required", ())
    told = _by_member(_told(shape.get("description", ""))[1], shape.get("properties", {}))
    for name, own in shape.get("properties", {}).items():
        needed = "required" if name in required and "default" not in own else ""
        about = told.get(name, "").replace("|", "\\|")
        yield f"`{name}`", _kind(document, own), "; ".join(part for part in (needed, about) if part)


def _by_member(columns: Mapping[str, str], members: Mapping[str, Any]) -> dict[str, str]:
    """What columns say of each member, also where one column goes on with another: `first text. second: text.`"""
    found: dict[str, str] = {}
    for name, text in columns.items():
        current = name
        for sentence in re.split(r"(?<=\.) ", text):
            named, _, rest = sentence.partition(": ")
            if rest and set(named.split(", ")) <= members.keys():
                current, sentence = named, rest  # noqa: PLW2901
            for one in current.split(", "):
                found[one] = f"{found[one]} {sentence}" if one in found else sentence
    return found


def _kind(document: Json, schema: Json) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        found = resolved(document, schema)
        return _kind(document, found) if "enum" in found else f"[`{name}`]({SHAPES}#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    for joined in ("anyOf", "oneOf"):
        if joined in schema:
            return " or ".join(dict.fromkeys(_kind(document, one) for one in schema[joined]))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_kind(document, schema.get('items', {}))}"
    if kind == "object":
        return "object"
    kinds: list[str] = [] if kind is None else [kind] if isinstance(kind, str) else kind
    return " or ".join(KINDS.get(one, one) for one in kinds) or "any JSON"


def _answered(document: Json, operation: Json) -> str:
    """The statuses of success and what comes with them, and who may ask."""
    parts: list[str] = []
    for status, answer in operation["responses"].items():
        if not status.startswith("2"):
            continue
        kinds = [_kind(document, content.get("schema", {})) for content in answer.get("content", {}).values()]
        media_types = [name for name in answer.get("content", {}) if name != "application/json"]
        what = f"{status} {' or '.join(kinds)}".strip()
        parts.append(what + (f" (`{', '.join(media_types)}`)" if media_types else ""))
    named = {one.get("$ref", "").rpartition("/")[2] for one in operation["parameters"]}
    kept = [f"`{name}`" for name in ("If-Match", "If-None-Match") if name in named]
    versioned = f" Takes {' and '.join(kept)}." if kept else ""
    role = operation.get("x-role")
    who = f" Role `{role}`." if role else " No key is asked for."
    return f"Answers {'; '.join(parts)}.{versioned}{who}"


def _example(method: str, path: str, operation: Json) -> list[str]:
    """The request that the document shows, as it goes over the wire."""
    query: list[str] = []
    for parameter in operation["parameters"]:
        value = parameter.get("example")
        if parameter.get("in") == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(value if value is not None else parameter["name"]))
        elif parameter.get("in") == "query" and value is not None:
            query.append(f"{parameter['name']}={value}")
    lines = [f"{method} {path}{'?' if query else ''}{'&'.join(query)}"]
    if any("$ref" in one and one["$ref"].endswith("Offprompt-User") for one in operation["parameters"]):
        lines.append("Offprompt-User: alice")
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        shown = content.get("example")
        body = shown if isinstance(shown, str) else json.dumps(shown if shown is not None else {}, ensure_ascii=False)
        lines += [f"Content-Type: {media_type}", "", *body.splitlines()]
    return lines


def _operations(document: Json) -> Iterator[Json]:
    for methods in document["paths"].values():
        yield from (methods[method] for method in METHODS if method in methods)


def resolved(document: Json, schema: Json) -> Json:
    """A part of the document, or what it refers to."""
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def _follow(value: Any, components: Mapping[str, Json], found: set[str]) -> None:
    """Collect the names of all components that a value refers to, and of what those refer to."""
    for name in set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(value))) - found:
        found.add(name)
        _follow(components[name], components, found)
