"""Memories, events and users as anybody who speaks HTTP meets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from offprompt.records import Identity
from tests.rest.running import Running, running


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(embedder="none") as own:
        yield own


def remembered(server: Running, user: str, what: Any, **options: Any) -> list[dict[str, Any]]:
    answer = server.ask("POST", "/v1/memories", user=user, json={"what": what, "derive": "none", **options})
    assert answer.status_code == 200, answer.text
    return answer.json()["remembered"]


def one(server: Running, user: str, text: str = "I like tea") -> str:
    return remembered(server, user, text)[0]["name"]


@pytest.mark.parametrize(("text", "query"), [("I moved to Shanghai", "Shanghai"), ("我搬到了上海", "上海")])
def test_what_is_remembered_is_recalled(server: Running, text: str, query: str) -> None:
    user = f"r-{query}".encode().hex()
    assert remembered(server, user, text)[0]["outcome"] == "added"
    found = server.ask("POST", "/v1/memories/recall", user=user, json={"query": query}).json()
    assert [hit["memory"]["text"] for hit in found["hits"]] == [text]
    assert found["hits"][0]["memory"]["scope"]["user"] == user


def test_a_memory_has_a_tag_and_may_be_changed_by_it(server: Running) -> None:
    path = f"/v1/memories/{one(server, 'm1')}"
    first = server.ask("GET", path, user="m1")
    tag = first.headers["etag"]
    assert tag.startswith('"1-')
    assert server.ask("GET", path, user="m1", headers={"If-None-Match": tag}).status_code == 304
    server.ask("POST", "/v1/memories/recall", user="m1", json={"query": "tea"})
    server.memory.parts.memories.flush()
    assert server.ask("GET", path, user="m1").headers["etag"] == tag
    changed = server.ask("PATCH", path, user="m1", json={"text": "I like coffee"}, headers={"If-Match": tag})
    assert (changed.status_code, changed.json()["version"], changed.headers["etag"] != tag) == (200, 2, True)
    stale = server.ask("PATCH", path, user="m1", json={"text": "no"}, headers={"If-Match": tag})
    assert (stale.status_code, stale.json()["code"]) == (412, "ConflictError")


def test_null_takes_away_and_what_is_left_out_stays(server: Running) -> None:
    told = remembered(server, "m2", "I like tea", event_at="2026-05-01", metadata={"a": 1, "b": 2})
    path = f"/v1/memories/{told[0]['name']}"
    kept = server.ask("PATCH", path, user="m2", json={"metadata": {"a": None}}).json()
    assert (kept["event_at"], kept["metadata"]) == (1777593600.0, {"b": 2})
    assert server.ask("PATCH", path, user="m2", json={"event_at": None}).json()["event_at"] is None


def test_one_memory_is_hidden_brought_back_and_removed(server: Running) -> None:
    name = one(server, "m3")
    path = f"/v1/memories/{name}"
    assert server.ask("DELETE", path, user="m3").json() == {"count": 1}
    assert server.ask("GET", path, user="m3").status_code == 404
    assert server.ask("DELETE", path, user="m3").status_code == 404
    assert server.ask("POST", f"{path}/undo", user="m3").json()["memory_id"] == name
    outcomes = [each["outcome"] for each in server.ask("GET", f"{path}/history", user="m3").json()["versions"]]
    assert outcomes[0] == "added"
    assert server.ask("POST", f"{path}/erase", user="m3").json() == {"count": 1}
    assert server.ask("POST", f"{path}/undo", user="m3").status_code == 404


def test_pages_are_whole_and_without_doubles(server: Running) -> None:
    remembered(server, "m4", [f"note {number}" for number in range(7)])
    found: list[str] = []
    cursor = ""
    while True:
        page = server.ask("GET", f"/v1/memories?limit=3&cursor={cursor}&kinds=fact&kinds=episode", user="m4").json()
        found += [each["text"] for each in page["memories"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert found == [f"note {number}" for number in range(7)]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/memories", {"what": ""}, 400),
        ("POST", "/v1/memories", {"what": 7}, 422),
        ("POST", "/v1/memories", {"what": "a", "importance": 2}, 400),
        ("POST", "/v1/memories", {"what": "a", "event_at": "soon"}, 400),
        ("POST", "/v1/memories", {"what": "a", "key": 1}, 422),
        ("POST", "/v1/memories", {"what": "a" * 20_001}, 422),
        ("POST", "/v1/memories", {"what": "a", "derive": "model"}, 501),
        ("POST", "/v1/memories/recall", {"query": "a", "top_k": 0}, 400),
        ("POST", "/v1/memories/recall", {"query": "a", "top_k": 1001}, 400),
        ("POST", "/v1/memories/recall", {"query": " "}, 400),
        ("POST", "/v1/memories/recall", {"query": "a", "weights": {"pinned": "much"}}, 400),
        ("POST", "/v1/memories/recall", {"query": "a", "filters": {"a": {"near": 1}}}, 400),
        ("POST", "/v1/memories/list", {"limit": 1001}, 422),
        ("POST", "/v1/memories/list", {"states": ["gone"]}, 422),
        ("GET", "/v1/memories?limit=0", None, 400),
        ("GET", "/v1/memories?since=monday", None, 400),
        ("GET", "/v1/memories?filters={}", None, 400),
        ("POST", "/v1/memories/forget", {"ids": []}, 422),
        ("POST", "/v1/memories/forget", {"ids": ["m_1"] * 1001}, 422),
        ("PATCH", "/v1/memories/m_1", {"text": "a"}, 404),
        ("PATCH", "/v1/memories/m_1", {"uses": 5}, 422),
        ("GET", "/v1/memories/m_1/history", None, 404),
        ("GET", "/v1/events?limit=1001", None, 400),
        ("GET", "/v1/events?after=-1", None, 400),
        ("POST", "/v1/erase", {}, 400),
        ("POST", "/v1/erase", {"slots": "some"}, 422),
        ("POST", "/v1/erase", {"slots": []}, 422),
        ("GET", "/v1/users?cursor=x", None, 400),
        ("POST", "/v1/alias", {"old": "a", "new": "a"}, 400),
        ("POST", "/v1/alias", {"old": "", "new": "a"}, 400),
    ],
)
def test_what_cannot_be_done_is_a_problem(server: Running, method: str, path: str, body: Any, status: int) -> None:
    answer = server.ask(method, path, user="p", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text


def test_times_are_numbers_or_iso_in_addresses_too(server: Running) -> None:
    remembered(server, "m5", "then", event_at="2026-05-01T00:00:00Z")
    for since, count in (("1777593600", 1), ("1777593600.5", 0), ("2026-05-01", 1), ("2026-05-02", 0)):
        page = server.ask("GET", f"/v1/memories?since={since}", user="m5").json()
        assert len(page["memories"]) == count, since


def test_another_users_memory_is_answered_like_one_that_never_was(server: Running) -> None:
    hers, never = one(server, "owner"), "m_" + "0" * 26
    for method, tail, body in (
        ("GET", "", None),
        ("PATCH", "", {"text": "x"}),
        ("DELETE", "", None),
        ("GET", "/history", None),
        ("POST", "/undo", None),
        ("POST", "/erase", None),
    ):
        told = [server.ask(method, f"/v1/memories/{name}{tail}", user="nosy", json=body) for name in (hers, never)]
        assert [each.status_code for each in told] == [404, 404]
        assert told[0].text.replace(hers, never) == told[1].text
    assert server.ask("GET", f"/v1/memories/{hers}", user="owner").json()["state"] == "live"


def test_events_are_read_page_by_page_and_hold_no_value(server: Running) -> None:
    for number in range(5):
        server.ask("PUT", f"/v1/slots/a{number}", user="v", json={"value": "Timbuktu"})
    first = server.ask("GET", "/v1/events?limit=3", user="v").json()["events"]
    rest = server.ask("GET", f"/v1/events?after={first[-1]['seq']}&op=slot.write", user="v").json()["events"]
    assert [each["name"] for each in (*first, *rest)] == ["a0", "a1", "a2", "a3", "a4"]
    assert "Timbuktu" not in json.dumps([first, rest])


def test_users_come_in_pages_for_a_key_of_the_whole_app() -> None:
    allowed: list[Identity] = [Identity(roles=frozenset({"admin"}))]

    def identify(*_: Any, **__: Any) -> Identity:
        return allowed[0]

    with running(identify=identify, embedder="none") as server:
        for user in ("b", "a", "上海", "c"):
            server.memory.scope(user=user).write("x", 1)
        found: list[str] = []
        cursor = ""
        while True:
            page = server.ask("GET", f"/v1/users?limit=2&cursor={cursor}", user=None).json()
            found += [each["scope"]["user"] for each in page["users"]]
            cursor = page["cursor"]
            if not cursor:
                break
        assert found == ["a", "b", "c", "上海"]
        for identity in (Identity(), Identity(users=("a",), roles=frozenset({"admin"}))):
            allowed[0] = identity
            for method, path, body in (("GET", "/v1/users", None), ("POST", "/v1/alias", {"old": "a", "new": "b"})):
                refused = server.ask(method, path, user=None, json=body)
                assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenError")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/erase", {"slots": "all", "memories": "all"}),
        ("POST", "/v1/clear", None),
        ("POST", "/v1/reindex", None),
        ("POST", "/v1/memories/m_1/erase", None),
    ],
)
def test_what_cannot_be_undone_needs_the_role_admin(method: str, path: str, body: Any) -> None:
    def writer(*_: Any, **__: Any) -> Identity:
        return Identity()

    with running(identify=writer, embedder="none") as server:
        server.ask("PUT", "/v1/slots/a", user="w", json={"value": 1})
        refused = server.ask(method, path, user="w", json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenError")
        assert server.ask("GET", "/v1/snapshot", user="w").json() == {"values": {"a": 1}}


def test_the_scope_is_said_as_the_server_sees_it(server: Running) -> None:
    server.memory.scope(user="old").write("a", 1)
    server.memory.alias("old", "new")
    said = server.ask("GET", "/v1/scope", user="old", headers={"Offprompt-Session": "s1"}).json()
    assert (said["user"], said["session"], said["app"]) == ("new", "s1", "default")
    assert server.ask("GET", "/v1/scope", user=None).json()["code"] == "ScopeError"
