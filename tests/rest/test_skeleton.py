"""The way of a request: routing, decoding, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from typing import Any

import httpx
import pytest

import offprompt
from offprompt.records.access import Identity
from offprompt.rest.app import ENDPOINTS, make_app
from offprompt.rest.openapi import openapi


def anybody(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity:
    del method, headers, has_body
    return Identity(roles=frozenset({"read", "write", "admin"}))


@pytest.fixture
def client() -> Generator[Any]:
    with offprompt.open(":memory:") as memory:
        app = make_app(memory, anybody)

        def ask(method: str, path: str, **given: Any) -> httpx.Response:
            async def once() -> httpx.Response:
                async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://t") as http:
                    return await http.request(method, path, **given)

            return asyncio.run(once())

        yield ask


USER = {"Offprompt-User": "%E5%B0%8F%E6%98%8E"}


def test_a_slot_is_written_read_and_forgotten(client: Any) -> None:
    made = client("PUT", "/v1/slots/%E5%9F%8E%E5%B8%82", json={"value": "上海"}, headers=USER)
    assert (made.status_code, made.json()["name"], made.headers["etag"][:3]) == (201, "城市", '"1-')
    assert client("GET", "/v1/slots/%E5%9F%8E%E5%B8%82", headers=USER).json()["value"] == "上海"
    assert client("GET", "/mem/read", params={"slot": "城市"}, headers=USER).json() == {"slot": "城市", "value": "上海"}
    assert client("DELETE", "/v1/slots/%E5%9F%8E%E5%B8%82", headers=USER).json() == {"name": "城市"}
    gone = client("GET", "/v1/slots/%E5%9F%8E%E5%B8%82", headers=USER)
    assert (gone.status_code, gone.json()["code"], gone.headers["content-type"]) == (
        404,
        "NotFoundError",
        "application/problem+json",
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/nothing", None, 404),
        ("PATCH", "/v1/slots/a", None, 405),
        ("PUT", "/v1/slots/a", {"valu": 1}, 422),
        ("PUT", "/v1/slots/m_x", {"value": 1}, 422),
        ("PUT", "/v1/slots/a", {"value": "x" * 5000}, 413),
        ("GET", "/v1/slots?within=all", None, 400),
        ("GET", "/health?x=1", None, 400),
    ],
)
def test_what_cannot_be_done_is_a_problem(client: Any, method: str, path: str, body: Any, status: int) -> None:
    answer = client(method, path, json=body, headers=USER)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) >= {"type", "title", "status", "detail", "code"}


def test_the_document_names_every_endpoint() -> None:
    paths = openapi(ENDPOINTS)["paths"]
    assert {own["operationId"] for methods in paths.values() for own in methods.values()} == {
        one.name for one in ENDPOINTS
    }
