"""A store that takes no long text: the request stays bounded, says what is missing, and nothing is lost."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.service.offprompt import Offprompt
from offprompt.service.session import Session
from offprompt.stores.sqlite import SqliteStore
from offprompt.wire.options import HistoryPolicy
from tests.service.provider import tokens
from tests.service.talk import MODELS, WIRES, Say, Wire, as_reply, call, flat, messages_of, parts, result, tool

LOG = "".join(f"line {at} of a long log, in which little happens\n" for at in range(2000))
FIRST, LAST = "line 0 of", "line 1999 of"


@pytest.fixture(autouse=True)
def quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "offprompt")


@contextlib.contextmanager
def full(path: Path) -> Generator[Offprompt]:
    """Memory in a file that may have only a few pages more than it has: small things fit, a long text does not."""
    with offprompt.open(path) as memory:
        memory.scope(user="ann").session("warm", model="gpt-4o-mini").prepare([{"role": "user", "content": "Hello"}])
        more_pages(memory, 12)
        yield memory


def more_pages(memory: Offprompt, count: int) -> None:
    def limit(connection: sqlite3.Connection) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + count}")

    store = memory.parts.main
    assert isinstance(store, SqliteStore)
    store._db.bare(limit)  # pyright: ignore[reportPrivateUsage]


def opened(memory: Offprompt, wire: Wire, policy: HistoryPolicy = "auto", **options: Any) -> Session:
    tools = [tool("look", wire)]
    return memory.scope(user="ann").session("s", model=MODELS[wire], wire=wire, policy=policy, tools=tools, **options)


def looked(session: Session, wire: Wire, text: str = "Look at the log") -> list[Any]:
    """The messages of a turn up to the result of its tool."""
    messages: list[Any] = [{"role": "user", "content": text}]
    session.prepare(messages)
    reply = session.absorb(as_reply(call("look", "c1", text="a"), wire))
    return [*messages, *reply.messages, *result(wire, ("c1", LOG))]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", ["auto", "stub_at_once", "window", "after_use+window"])
def test_what_a_full_store_does_not_take_is_cut_with_a_notice_and_comes_whole_once_it_does(
    tmp_path: Path, wire: Wire, policy: HistoryPolicy
) -> None:
    with full(tmp_path / "memory.db") as memory:
        session = opened(memory, wire, policy, context_tokens=20_000)
        messages = looked(session, wire)
        cut = session.prepare(messages)
        assert tokens(flat(cut)) < 4000
        assert "Tool result, " in flat(cut)
        assert "the middle could not be kept and is not shown" in flat(cut)
        assert FIRST in flat(cut)
        assert LAST in flat(cut)
        assert "mem_read shows it" not in flat(cut)
        reply = session.absorb(as_reply("Little happens.", wire))
        assert any("memory is not available" in warning for warning in reply.warnings)
        assert reply.text == "Little happens."

        more_pages(memory, 10_000)
        again = session.prepare(messages)
        session.absorb(as_reply("Little happens.", wire))
        journal = [entry.text for entry in session.journal()]
        assert LOG in journal, "the client's own history brought it whole"
        if policy != "window":  # which makes no stubs: the newest result is sent whole where it is to be read
            assert "[[mem:@" in flat(again)
            assert tokens(flat(again)) < 4000
    assert messages[-1] == result(wire, ("c1", LOG))[-1], "what the client gave is as it was"


def test_the_notice_is_in_the_language_of_the_session(tmp_path: Path) -> None:
    with full(tmp_path / "memory.db") as memory:
        session = opened(memory, "openai")
        cut = session.prepare(looked(session, "openai", "请看一下日志"))
    assert "工具结果，" in flat(cut)
    assert "中间部分未能保存，未显示。" in flat(cut)
    assert "……省略 " in flat(cut)


@pytest.mark.parametrize("wire", WIRES)
def test_a_pasted_document_is_cut_and_the_users_own_words_are_not(tmp_path: Path, wire: Wire) -> None:
    pasted = [{"type": "text", "text": LOG}, {"type": "text", "text": "What is the first line of this log about?"}]
    with full(tmp_path / "memory.db") as memory:
        session = opened(memory, wire, "stub_at_once")
        request = session.prepare([{"role": "user", "content": parts(pasted, wire)}])
    assert "Document, " in flat(request)
    assert "What is the first line of this log about?" in flat(request)
    assert tokens(flat(messages_of(request))) < 2000


@pytest.mark.parametrize("wire", WIRES)
def test_a_store_that_was_never_reached_leaves_no_request_unbounded(wire: Wire) -> None:
    with offprompt.open(":memory:") as memory:
        session = opened(memory, wire, context_tokens=20_000)
        messages: list[Any] = []
        for at in range(12):
            messages.append({"role": "user", "content": f"Question {at}"})
            said = as_reply(call("look", f"c{at}", text="a"), wire)
            messages += spoken(said, wire)
            messages += result(wire, (f"c{at}", LOG[:16_000]))
            messages += spoken(as_reply(f"Answer {at}: " + "so it went on, from town to town; " * 120, wire), wire)
        messages.append({"role": "user", "content": "And now?"})
        bounded = session.bounded(messages)
        assert session.record is None
    assert bounded is not None
    sent = messages_of(bounded)
    assert tokens(flat(bounded)) < 20_000 - 4096
    assert "(Earlier turns of this conversation are not shown.)" in flat(sent[0])
    assert "And now?" in flat(sent[-1])


def spoken(reply: dict[str, Any], wire: Wire) -> list[Any]:
    """A reply as the client holds it."""
    if wire == "openai":
        return [reply["choices"][0]["message"]]
    return reply["output"] if wire == "responses" else [{"role": "assistant", "content": reply["content"]}]


@pytest.mark.parametrize("policy", ["auto", "off"])
def test_what_may_go_as_it_is_is_not_touched(policy: HistoryPolicy) -> None:
    messages = [{"role": "user", "content": "Hello"}] if policy == "auto" else [{"role": "user", "content": LOG}]
    with offprompt.open(":memory:") as memory:
        assert opened(memory, "openai", policy, context_tokens=8000).bounded(messages) is None


def test_what_left_the_prompt_stays_outside_while_the_store_is_away(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with offprompt.open(path, busy_timeout_s=0.05) as memory, contextlib.closing(sqlite3.connect(path)) as other:
        session = opened(memory, "openai", "window")
        messages: list[Any] = []
        for at in range(9):
            messages.append({"role": "user", "content": f"Chapter {at}: " + "and then they went on to town; " * 200})
            session.prepare(messages)
            messages += session.absorb(as_reply(Say("Go on."), "openai")).messages
        assert session.record is not None
        assert session.record.start, "there was a cut"
        other.execute("BEGIN IMMEDIATE")
        messages.append({"role": "user", "content": "And then?"})
        request = session.prepare(messages)
        assert tokens(flat(messages_of(request))) < 8000
        assert "(Earlier turns of this conversation are not shown.)" in flat(request)
        other.rollback()
        again = session.prepare(messages)
        assert "mem_search finds them" in flat(again)
        session.absorb(as_reply("They slept.", "openai"))
