"""The three short routes, exactly so: what they take and answer, and whose memory they mean where nobody is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from offprompt.records import Identity
from tests.rest.process import serving
from tests.rest.running import Running, running

TOKENS = {
    "Bearer of-alice": Identity(users=("alice",), default_user="alice"),
    "Bearer of-小明": Identity(users=("小明",), default_user="小明"),
}


def whoever(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity:
    """Whom the key belongs to; its user is meant where no header says one."""
    del method, has_body
    return TOKENS[headers["authorization"].encode("latin-1").decode()]


@pytest.fixture(scope="module")
def keyed() -> Iterator[Running]:
    with running(identify=whoever) as server:
        yield server


def ask(server: Running, whose: str, method: str, path: str, **given: Any) -> httpx.Response:
    return server.http.request(method, path, headers=[(b"Authorization", f"Bearer of-{whose}".encode())], **given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user_pref", "concise, Chinese"),
        ("回复风格", "简洁，用中文"),
        ("trip", {"城市": ["里斯本", None, 1.5]}),
        ("n", None),
    ],
)
def test_what_is_written_is_read_until_it_is_forgotten(keyed: Running, name: str, value: Any) -> None:
    for version in (1, 2):
        written = ask(keyed, "alice", "POST", "/mem/write", json={"slot": name, "value": value})
        assert (written.status_code, written.json()) == (200, {"slot": name, "version": version})
    read = ask(keyed, "alice", "GET", "/mem/read", params={"slot": name})
    assert (read.status_code, read.json()) == (200, {"slot": name, "value": value})
    forgot = ask(keyed, "alice", "POST", "/mem/forget", json={"slot": name})
    assert (forgot.status_code, forgot.json()) == (200, {"slot": name})
    for method, path, given in (
        ("GET", "/mem/read", {"params": {"slot": name}}),
        ("POST", "/mem/forget", {"json": {"slot": name}}),
    ):
        gone = ask(keyed, "alice", method, path, **given)
        assert (gone.status_code, gone.json()["code"], gone.json()["name"]) == (404, "NotFoundError", name)


def test_a_key_of_one_user_says_whose_memory_is_meant(keyed: Running) -> None:
    for whose in ("alice", "小明"):
        assert ask(keyed, whose, "POST", "/mem/write", json={"slot": "city", "value": f"of {whose}"}).status_code == 200
    for whose in ("alice", "小明"):
        assert ask(keyed, whose, "GET", "/mem/read?slot=city").json()["value"] == f"of {whose}"
        assert keyed.memory.scope(user=whose).read("city") == f"of {whose}"


def test_a_server_for_one_user_means_that_user_where_nobody_is_named(tmp_path: Path) -> None:
    with serving(tmp_path, "--user", "小明") as own, httpx.Client(base_url=own.url, headers=own.headers) as http:
        assert http.post("/mem/write", json={"slot": "city", "value": "上海"}).json() == {"slot": "city", "version": 1}
        assert http.get("/mem/read?slot=city").json() == {"slot": "city", "value": "上海"}
        assert http.get("/v1/scope").json()["user"] == "小明"
        assert http.get("/mem/read?slot=city", headers={"Offprompt-User": "alice"}).status_code == 404


@pytest.mark.parametrize("path", ["/mem/write", "/mem/forget"])
def test_they_take_these_members_and_no_others(keyed: Running, path: str) -> None:
    whole = {"slot": "a", "value": 1} if path == "/mem/write" else {"slot": "a"}
    for wrong in ({}, {**whole, "user": "bob"}, {**whole, "slot": 1}):
        assert ask(keyed, "alice", "POST", path, json=wrong).status_code == 422, wrong
    assert ask(keyed, "alice", "GET", "/mem/read?slot=a&user=bob").status_code == 400
