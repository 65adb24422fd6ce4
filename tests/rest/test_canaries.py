"""Nothing that a client sends comes to where an operator looks: log, numbers, spans; and no value comes into an error.
Every route of the table is asked with canaries in all that it takes."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from offprompt.rest.app import ENDPOINTS
from offprompt.rest.endpoint import JSON, Endpoint
from offprompt.rest.logs import RequestLog, log_to
from offprompt.rest.metrics import Metrics
from offprompt.rest.openapi import openapi
from offprompt.rest.tracing import Tracing
from offprompt.rest.watched import Watched
from tests.rest.running import Running, running
from tools.rest_page import resolved

NAME = "canary-暗号甲"
VALUE = "canary-暗号乙 which is stored"
DOCUMENT = openapi(ENDPOINTS)
HELD = frozenset({"value", "what", "text", "content", "messages", "metadata", "reply", "query", "system", "data"})
"""Members that hold what is stored or said; all others are names, which an error may repeat."""

NAMES = frozenset({"role", "type", "name", "id"})
"""Of a message: what it is, not what it says."""


@dataclass
class Looked:
    """A server, and all that an operator sees of it."""

    server: Running
    log: io.StringIO
    numbers: Metrics
    spans: InMemorySpanExporter

    def all_of_it(self) -> str:
        """As one text."""
        spans = "\n".join(span.to_json() for span in self.spans.get_finished_spans())
        return f"{self.log.getvalue()}\n{self.numbers.text().decode()}\n{spans}"


@pytest.fixture(scope="module")
def looked() -> Iterator[Looked]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    log, numbers, spans, provider = io.StringIO(), Metrics(), InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    log_to("json", log)
    root.setLevel(logging.DEBUG)

    def around(app: Any) -> Watched:
        return Watched(app, ENDPOINTS, watchers=[RequestLog("json", log), numbers], spans=Tracing(provider))

    try:
        with running(around=around) as server:
            yield Looked(server, log, numbers, spans)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        logging.captureWarnings(capture=False)


def filled(schema: Mapping[str, Any], *, canary: str, depth: int = 0) -> Any:
    """Something that fits a schema, with the canary wherever a text may stand; every member is given."""
    schema = resolved(DOCUMENT, dict(schema))
    for joined in ("anyOf", "oneOf"):
        if joined in schema:
            kinds = [resolved(DOCUMENT, one) for one in schema[joined]]
            best = next((one for one in kinds if one.get("type") in ("string", "object", "array")), kinds[0])
            return filled(best, canary=canary, depth=depth)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type", "string")
    if kind == "object":
        own = schema.get("properties")
        if own is None or depth > 6:
            return {canary: canary}
        return {
            name: filled(one, canary=VALUE if name in HELD else canary, depth=depth + 1) for name, one in own.items()
        }
    if kind == "array":
        return [filled(schema.get("items", {}), canary=canary, depth=depth + 1)]
    return {"string": canary, "integer": 1, "number": 1.0, "boolean": True, "null": None}.get(kind, canary)


def with_canaries(example: Any, canary: str = NAME) -> Any:
    """An example with the canary in place of each text in it: it goes further than what only fits."""
    if isinstance(example, dict):
        members = cast("dict[str, Any]", example)
        return {name: with_canaries(one, of(name, canary)) for name, one in members.items()}
    if isinstance(example, list):
        return [with_canaries(one, canary) for one in cast("list[Any]", example)]
    return canary if isinstance(example, str) else example


def of(member: str, canary: str) -> str:
    """The canary for a member."""
    return VALUE if member in HELD else NAME if member in NAMES else canary


def requests(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    """A request that gives all that there is to give, one like the example, and one whose body is no JSON."""
    operation = DOCUMENT["paths"][endpoint.path][endpoint.method.lower()]
    path = re.sub(r"\{\w+\}", quote(NAME), endpoint.path)
    query = {one["name"]: NAME for one in operation["parameters"] if one.get("in") == "query"}
    headers = {"Offprompt-User": quote(NAME), "X-Request-Id": quote(NAME), "User-Agent": quote(NAME)}
    one_more = {"Idempotency-Key": quote(NAME), "If-Match": f'"{quote(NAME)}"', "traceparent": f"00-{quote(NAME)}-01"}
    bodies: list[bytes] = []
    if endpoint.body is not None:
        (content,) = operation["requestBody"]["content"].values()
        bodies.append(json.dumps(filled(content["schema"], canary=NAME)).encode())
        if isinstance(endpoint.example.body, dict):
            bodies.append(json.dumps(with_canaries(endpoint.example.body), ensure_ascii=False).encode())
        bodies.append(VALUE.encode())
        headers["Content-Type"] = endpoint.reads
    for body in bodies or [b""]:
        for params in ({}, query) if query else ({},):
            yield {"url": path, "params": params, "headers": headers, "content": body}
            yield {"url": path, "params": params, "headers": {**headers, **one_more}, "content": body}


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_route_tells_an_operator_what_was_sent(looked: Looked, endpoint: Endpoint) -> None:
    for request in requests(endpoint):
        answer = looked.server.http.request(endpoint.method, **request)
        assert answer.status_code != 500, answer.text
        if answer.is_error:
            assert not found(answer, "乙"), (request, answer.text)
    assert looked.log.getvalue().count(f'"route":"{endpoint.path}"') > 0
    seen = looked.all_of_it()
    assert [form for form in ("canary", "暗号", "%E6%9A%97", r"\u6697") if form in seen] == []


def test_what_is_no_route_and_no_request_tells_nothing_either(looked: Looked) -> None:
    for path in (f"/{quote(NAME)}", f"/v1/slots/{quote(NAME)}/{quote(NAME)}", f"/v1/slots?{quote(NAME)}={quote(NAME)}"):
        assert looked.server.http.get(path).is_error
    assert looked.server.http.request("CANARY", "/v1/slots").is_error
    assert "canary" not in looked.all_of_it().lower()


def found(answer: httpx.Response, mark: str) -> bool:
    """Whether an error says what was to be stored."""
    return mark in answer.text or json.dumps(mark).strip('"') in answer.text


def test_a_canary_would_be_seen(looked: Looked) -> None:
    assert JSON in str(looked.server.ask("GET", "/health", headers={"Accept": JSON}).headers)
    logging.getLogger("offprompt.rest").info("a canary")
    assert "a canary" in looked.all_of_it()
    looked.log.truncate(looked.log.getvalue().index("a canary"))
