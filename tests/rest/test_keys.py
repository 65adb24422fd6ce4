"""Keys over HTTP: made, used, rotated and revoked on a server that knows who asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from offprompt.rest.app import make_app
from offprompt.rest.dispatch import Dispatch
from offprompt.rest.guarding import guard_for
from offprompt.service.offprompt import Offprompt
from tests.rest.running import Running, running

LOCAL = "local_0"


def guarded(memory: Offprompt, _: Any) -> Dispatch:
    return make_app(memory, guard_for(memory, ["127.0.0.1"], token=LOCAL, user="alice"))


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(app_of=guarded) as own:
        yield own


def ask(server: Running, token: str, method: str, path: str, **given: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}", **given.pop("headers", {})}
    return server.http.request(method, path, headers=headers, **given)


def made(server: Running, **given: Any) -> dict[str, Any]:
    answer = ask(server, LOCAL, "POST", "/v1/keys", json={"name": "svc", **given})
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


def test_a_key_opens_what_it_is_for(server: Running) -> None:
    issued = made(server, users=["bob"])
    token = issued["token"]
    assert ask(server, token, "POST", "/mem/write", json={"slot": "city", "value": "Oslo"}).status_code == 200
    assert ask(server, token, "GET", "/mem/read?slot=city").json()["value"] == "Oslo"
    assert ask(server, LOCAL, "GET", "/mem/read?slot=city").status_code == 404
    assert ask(server, LOCAL, "GET", "/mem/read?slot=city", headers={"Offprompt-User": "bob"}).status_code == 200
    refused = ask(server, token, "GET", "/mem/read?slot=city", headers={"Offprompt-User": "alice"})
    assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenError")
    assert ask(server, token, "GET", "/v1/keys").status_code == 403


def test_events_name_key_and_subject_and_for_whom(server: Running) -> None:
    issued = made(server, users=["carol"])
    ask(server, issued["token"], "POST", "/mem/write", json={"slot": "city", "value": "Oslo"})
    events = ask(server, LOCAL, "GET", "/v1/events", headers={"Offprompt-User": "carol"}).json()["events"]
    assert {one["actor"] for one in events} == {f"key:{issued['key']['key_id']} subject:svc for:carol"}
    keys = ask(server, LOCAL, "GET", "/v1/events?op=key.", headers={"Offprompt-Shared": "true"}).json()["events"]
    assert issued["key"]["key_id"] in {one["name"] for one in keys}


def test_a_rotated_key_has_two_tokens_and_a_revoked_one_none(server: Running) -> None:
    issued = made(server, users=["dan"])
    place = f"/v1/keys/{issued['key']['key_id']}"
    again = ask(server, LOCAL, "POST", f"{place}/rotate", json={}).json()
    for token in (issued["token"], again["token"]):
        assert ask(server, token, "GET", "/v1/slots").status_code == 200
    assert ask(server, LOCAL, "DELETE", place).json()["name"] == "svc"
    for token in (issued["token"], again["token"]):
        refused = ask(server, token, "GET", "/v1/slots")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    for method, path in (("GET", place), ("DELETE", place), ("POST", f"{place}/rotate")):
        assert ask(server, LOCAL, method, path, json={} if method == "POST" else None).status_code == 404


def test_a_token_is_in_no_list_and_is_shown_anew_for_no_repetition(server: Running) -> None:
    headers = {"Idempotency-Key": "one"}
    first, second = (
        ask(server, LOCAL, "POST", "/v1/keys", json={"name": "twice"}, headers=headers).json() for _ in range(2)
    )
    assert first["token"] != second["token"]
    listed = ask(server, LOCAL, "GET", "/v1/keys")
    assert first["token"] not in listed.text
    assert {first["key"]["key_id"], second["key"]["key_id"]} <= {key["key_id"] for key in listed.json()["keys"]}
    assert ask(server, LOCAL, "GET", f"/v1/keys/{first['key']['key_id']}").json() == first["key"]


def test_an_admin_of_one_user_makes_no_keys(server: Running) -> None:
    token = made(server, users=["eve"], roles=["admin"])["token"]
    for method, path, body in (
        ("GET", "/v1/keys", None),
        ("POST", "/v1/keys", {"name": "x"}),
        ("GET", "/v1/users", None),
    ):
        refused = ask(server, token, method, path, json=body)
        assert (refused.status_code, "whole app" in refused.json()["detail"]) == (403, True)


@pytest.mark.parametrize(
    "body",
    [{}, {"name": "x", "users": []}, {"name": "x", "roles": ["root"]}, {"name": "x", "expires_at": 5}, {"name": 5}],
)
def test_what_is_no_key_is_not_made(server: Running, body: dict[str, Any]) -> None:
    answer = ask(server, LOCAL, "POST", "/v1/keys", json=body)
    assert answer.status_code in (400, 422), answer.text


def test_no_page_of_another_site_reads_or_writes(server: Running) -> None:
    for headers in ({"origin": "https://evil.example"}, {"host": "evil.example"}, {"sec-fetch-site": "cross-site"}):
        refused = ask(server, LOCAL, "POST", "/mem/write", json={"slot": "a", "value": 1}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenError")
    form = ask(server, LOCAL, "POST", "/mem/write", content=b'{"slot": "a"}', headers={"content-type": "text/plain"})
    assert form.status_code == 415
    assert server.http.post("/mem/write", json={"slot": "a", "value": 1}).status_code == 401
