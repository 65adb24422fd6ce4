"""A store that takes no long text, is locked or too slow: what the gateway sends stays bounded, and says so."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from offprompt.stores.sqlite import SqliteStore
from offprompt.testing.upstream import Upstream
from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import NewGateway, Running, before
from tests.service.provider import tokens
from tests.service.talk import Wire, call, flat, tool

LOG = "".join(f"line {at} of a long log, in which little happens\n" for at in range(2000))
NOTICE = "the middle could not be kept and is not shown"


def more_pages(running: Running, count: int) -> None:
    """Let the store's file grow by so many pages: SQLite's own limit, which fails as a full disk does."""

    def limit(connection: sqlite3.Connection) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + count}")

    store = running.memory.parts.main
    assert isinstance(store, SqliteStore)
    store._db.bare(limit)  # pyright: ignore[reportPrivateUsage]


def test_a_full_store_cuts_what_it_cannot_keep_and_nothing_is_lost(tmp_path: Path, wire: Wire, streams: bool) -> None:
    said = [call("look", "c1", text="a"), "Little happens.", "Still little.", "Bye."]
    with before(Upstream(script(wire, *said)), store=tmp_path / "memory.db") as running:
        with Client(running, wire, streams=streams, tools=[tool("look", wire)]) as client:
            client.say("Look at the log")
            more_pages(running, 12)
            answer = client.answer(("c1", LOG))
            assert text_of(answer, wire) == "Little happens."
            client.say("Sure?")
            more_pages(running, 10_000)
            client.say("Thanks")
        first, cut, again, then = running.upstream.requests
        assert running.upstream.faults == []
        for request in (cut, again):
            assert NOTICE in flat(request)
            assert "line 0 of" in flat(request)
            assert "line 1999 of" in flat(request)
            assert tokens(flat(request)) < 3000
        assert "[[mem:@" in flat(then), "it is kept now, and stands behind a name"
        assert tokens(flat(then)) < 3000
        (session,) = running.memory.parts.main.sessions()
        assert LOG in [body.text for body in running.memory.parts.main.bodies(session.scope)]
        assert first["model"] == then["model"]


def test_a_locked_store_cuts_too_and_the_answers_header_says_that_memory_is_off(tmp_path: Path) -> None:
    path, wire = tmp_path / "memory.db", "openai"
    replies = script(wire, call("look", "c1", text="a"), "很少。")
    settings = {"busy_timeout_s": 0.05}
    with (
        before(Upstream(replies), store=path, settings=settings) as running,
        contextlib.closing(sqlite3.connect(path)) as other,
        Client(running, wire, tools=[tool("look", wire)]) as client,
    ):
        client.say("请看一下日志")
        other.execute("BEGIN IMMEDIATE")
        client.messages += [{"role": "tool", "tool_call_id": "c1", "content": LOG}]
        answer = client.openai.chat.completions.with_raw_response.create(
            model="gpt-4o-mini", messages=client.messages, **client.options
        )
        other.rollback()
        assert "中间部分未能保存，未显示" in flat(running.upstream.requests[1])
        assert tokens(flat(running.upstream.requests[1])) < 3000
        assert answer.headers["offprompt-memory"].startswith("off; memory is not available")


@pytest.mark.parametrize("where", ["load", "digest_key"])
def test_a_store_that_is_too_slow_leaves_no_request_unbounded(
    gateway: NewGateway, monkeypatch: pytest.MonkeyPatch, wire: Wire, where: str
) -> None:
    running = gateway(*script(wire, call("look", "c1", text="a"), "Little."), deadline_s=0.3)
    slow, go_on = getattr(running.memory.parts.main, where), threading.Event()

    def waits(*given: Any) -> Any:  # a double: the store itself is never slow for long
        go_on.wait(20)
        return slow(*given)

    with Client(running, wire, tools=[tool("look", wire)], extra_body={"service_tier": "auto"}) as client:
        client.say("Look at the log")
        monkeypatch.setattr(running.memory.parts.main, where, waits)
        try:
            client.answer(("c1", LOG))
        finally:
            go_on.set()
    request = running.upstream.requests[1]
    assert NOTICE in flat(request)
    assert tokens(flat(request)) < 3000
    assert request["service_tier"] == "auto"
    assert [each.get("name") or each["function"]["name"] for each in request["tools"]] == ["look"]
    assert running.upstream.faults == []
