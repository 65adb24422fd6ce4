"""The OpenAPI document: valid, whole, and true: each example in it is sent, and what comes back is as it says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema
import openapi_spec_validator
import pytest

from offprompt.rest.app import ENDPOINTS
from offprompt.rest.endpoint import LINES, Endpoint
from offprompt.rest.openapi import openapi
from tests.rest.running import Running

BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}


@pytest.fixture(scope="module")
def document(server: Running) -> dict[str, Any]:
    return server.http.get("/openapi.json").json()


def test_it_is_valid(document: dict[str, Any]) -> None:
    openapi_spec_validator.validate(document)
    assert document == json.loads(json.dumps(openapi(ENDPOINTS)))


def test_it_is_sent_once_to_who_asks_with_its_tag(server: Running) -> None:
    tag = server.http.get("/openapi.json").headers["etag"]
    again = server.http.get("/openapi.json", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_it_names_every_endpoint_once(document: dict[str, Any]) -> None:
    operations = [own for methods in document["paths"].values() for own in methods.values()]
    assert sorted(own["operationId"] for own in operations) == sorted(BY_NAME)
    assert all(own["description"] and own["summary"].endswith(".") for own in operations)


def test_what_it_refers_to_is_there(document: dict[str, Any]) -> None:
    used = set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)))
    for ref in used:
        node: Any = document
        for part in ref.removeprefix("#/").split("/"):
            node = node[part]
    kinds = ("parameters", "headers", "responses")
    lying = {f"#/components/{kind}/{name}" for kind in kinds for name in document["components"][kind]} - used
    assert lying == set()


def test_problems_are_told_of_each(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for own in methods.values():
            needs_key = own["security"] != []
            assert {"400", "500"} <= own["responses"].keys()
            assert ({"401", "403", "429"} <= own["responses"].keys()) is needs_key


@pytest.mark.parametrize("name", list(BY_NAME))
def test_each_route_shows_an_example_of_all_that_it_must_be_given(document: dict[str, Any], name: str) -> None:
    endpoint = BY_NAME[name]
    said = document["paths"][endpoint.path][endpoint.method.lower()]
    needed = [one for one in said["parameters"] if one.get("required")]
    assert [one["name"] for one in needed if "example" not in one] == []
    if endpoint.body is not None:
        (content,) = said["requestBody"]["content"].values()
        assert content["example"] == (endpoint.example.content if endpoint.is_stream else endpoint.example.body)


def sent(server: Running, endpoint: Endpoint, user: str) -> httpx.Response:
    """The endpoint's example, as it stands in the document, in the scope of a user of its own."""
    example = endpoint.example
    path = "/".join(
        quote(example.path[part[1:-1]], safe="") if part.startswith("{") else part for part in endpoint.path.split("/")
    )
    headers = {"Offprompt-User": user, **example.headers}
    content: bytes | None = None
    if endpoint.body is not None:
        headers["Content-Type"] = endpoint.reads
        content = (example.content if endpoint.is_stream else json.dumps(example.body)).encode()
    return server.http.request(endpoint.method, path, params=dict(example.query), headers=headers, content=content)


@pytest.mark.parametrize("name", list(BY_NAME))
def test_the_example_does_what_the_document_says(server: Running, document: dict[str, Any], name: str) -> None:
    endpoint = BY_NAME[name]
    for before in endpoint.example.before:
        assert sent(server, BY_NAME[before], f"of {name}").status_code < 300
    answer = sent(server, endpoint, f"of {name}")
    assert answer.status_code == (endpoint.example.status or endpoint.status), answer.text
    said = document["paths"][endpoint.path][endpoint.method.lower()]["responses"][str(answer.status_code)]
    if "$ref" in said:
        said = document["components"]["responses"][said["$ref"].rpartition("/")[2]]
    fits(answer, said["content"][answer.headers["content-type"]]["schema"], document)


def fits(answer: httpx.Response, schema: Mapping[str, Any], document: dict[str, Any]) -> None:
    """What was answered is as the schema says; the errors name places, not the whole document."""
    check: Any = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
    kind, documents = answer.headers["content-type"], list[Any]()
    if kind.endswith("json"):
        documents = [json.loads(line) for line in answer.text.splitlines()] if kind == LINES else [answer.json()]
    assert [f"{one.json_path}: {one.validator}" for each in documents for one in check.iter_errors(each)] == []
