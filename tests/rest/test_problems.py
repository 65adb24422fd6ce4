"""Problems: what RFC 9457 asks of them, and what their headers say, for each class of the one table."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
import pytest

from offprompt.errors import ConflictError, OffpromptError, RateError
from offprompt.rest.answering import refused
from offprompt.rest.problems import MEDIA_TYPE, STATUS, RequestError, status_of
from tests.rest.running import Running

SAYS = "城市 ist nicht da; frag nach 'city'"


def made(kind: type[OffpromptError]) -> OffpromptError:
    """An error of that class."""
    error = kind.__new__(kind)
    error.args = (SAYS,)
    vars(error).update(used=3, limit=2, unit="slots")
    vars(error).update(retry_after_s=1.5 if STATUS[kind] == HTTPStatus.TOO_MANY_REQUESTS else None, alike=())
    return error


def told(error: OffpromptError, **options: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Its problem and headers as they are sent."""
    reply = refused(error, **options)
    assert isinstance(reply.body, bytes)
    document = msgspec.json.decode(reply.body)
    assert document["status"] == reply.status
    return document, dict(reply.headers)


@pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.__name__)
def test_a_problem_has_the_members_of_rfc_9457(kind: type[OffpromptError]) -> None:
    error = made(kind)
    document, headers = told(error)
    code = kind.__name__
    assert document["type"] == f"/docs/errors#{code}"
    assert document["title"] == HTTPStatus(status_of(error)).phrase
    assert (document["status"], document["code"]) == (STATUS[kind], code)
    assert document["detail"] == str(error) == SAYS
    assert headers["content-type"] == MEDIA_TYPE == "application/problem+json"
    assert ("retry-after" in headers) is (document["status"] in (429, 503))


def test_seconds_to_wait_are_whole_in_the_header_and_exact_in_the_problem() -> None:
    document, headers = told(made(RateError))
    assert (headers["retry-after"], document["retry_after_s"]) == ("2", 1.5)


def test_a_conflict_is_a_failed_condition_where_there_was_one() -> None:
    assert told(ConflictError(SAYS), is_conditional=True)[0]["status"] == 412
    assert told(ConflictError(SAYS))[0]["status"] == 409


def test_a_rule_of_http_has_its_own_status_and_headers() -> None:
    document, headers = told(RequestError(HTTPStatus.METHOD_NOT_ALLOWED, SAYS, {"allow": "GET"}))
    assert (document["title"], document["code"], headers["allow"]) == ("Method Not Allowed", "UsageError", "GET")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/mem/read?slot=城市", 404),
        ("PUT", "/mem/read", 405),
        ("GET", "/mem/read", 400),
    ],
)
def test_what_comes_over_the_wire_is_one(server: Running, method: str, path: str, status: int) -> None:
    answer = server.ask(method, path)
    document = answer.json()
    assert (answer.status_code, document["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert document["title"] == HTTPStatus(status).phrase
    assert document.keys() >= {"type", "title", "status", "detail", "code"}
