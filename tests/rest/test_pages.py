"""Lists in pages."""

from __future__ import annotations

import base64

import pytest

import offprompt
from tests.rest.running import Running


def names(server: Running, user: str, **query: str | int) -> list[list[str]]:
    """The names of each page."""
    found: list[list[str]] = []
    while True:
        page = server.ask("GET", "/v1/slots", user=user, params=query).json()
        found.append([slot["name"] for slot in page["slots"]])
        if not page.get("cursor"):
            return found
        query["cursor"] = page["cursor"]


def test_pages_hold_each_slot_once(server: Running) -> None:
    scope = server.memory.scope(user="p1")
    for number in range(5):
        scope.write(f"名{number}", number)
        scope.narrow(session="s").write(f"名{number}", number)
    assert names(server, "p1", limit=2) == [["名0", "名1"], ["名2", "名3"], ["名4"]]
    assert names(server, "p1", limit=5) == [[f"名{number}" for number in range(5)]]
    assert names(server, "p1", limit=3, within="subtree") == [
        ["名0", "名1", "名2"],
        ["名3", "名4", "名0"],
        ["名1", "名2", "名3"],
        ["名4"],
    ]
    assert names(server, "p1-nobody") == [[]]


def test_a_page_goes_on_where_the_one_before_ended_though_slots_go(server: Running) -> None:
    scope = server.memory.scope(user="p2")
    for name in "abcd":
        scope.write(name, 1)
    first = server.ask("GET", "/v1/slots", user="p2", params={"limit": 2}).json()
    scope.slots.erase("a", "b", "c")
    second = server.ask("GET", "/v1/slots", user="p2", params={"limit": 2, "cursor": first["cursor"]}).json()
    assert [slot["name"] for slot in second["slots"]] == ["d"]
    assert "cursor" not in second or not second["cursor"]


def cut(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("cursor", ["x", "名", "====", cut("{}"), cut("[]"), cut("[1]"), cut("[" * 5000), "a" * 5000])
@pytest.mark.parametrize("path", ["/v1/slots", "/v1/users", "/v1/memories"])
def test_what_is_no_cursor_is_refused(server: Running, path: str, cursor: str) -> None:
    answer = server.ask("GET", path, user="p3", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (400, "UsageError"), answer.text


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", ""])
def test_pages_have_a_size(server: Running, limit: str) -> None:
    assert server.ask("GET", "/v1/slots", user="p4", params={"limit": limit}).status_code == 400


def test_the_client_lists_all_pages(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        server.memory.scope(user="p5").write(f"n{number}", number)
    monkeypatch.setattr("offprompt.rest.slots.page_of", _small)
    with offprompt.open(server.url, key="any") as client:
        assert [slot.value for slot in client.scope(user="p5").slots.list()] == list(range(5))


def _small(rows: object, place: object, *, cursor: str, limit: int) -> object:
    from offprompt.rest.cursors import page_of  # noqa: PLC0415 - the one that is replaced

    return page_of(rows, place, cursor=cursor, limit=min(limit, 2))  # type: ignore[arg-type]
