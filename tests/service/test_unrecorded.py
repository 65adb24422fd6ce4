"""A turn that the store did not take is remembered when it answers again, once, and nothing that was only shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import BackendError
from offprompt.service.unrecorded import SPOOLED
from offprompt.testing import MovedClock


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[offprompt.Offprompt]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with offprompt.open(tmp_path / "agent.db", clock=MovedClock(), write_deadline_s=0.05) as opened:
        yield opened


@contextmanager
def busy(tmp_path: Path) -> Generator[None]:
    other = sqlite3.connect(tmp_path / "agent.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text, **more}, "finish_reason": "stop"}]}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def episodes(memory: offprompt.Offprompt) -> list[str]:
    return [one.text for one in memory.scope(user="ann").memories.list(kinds=("episode",)).memories]


def session_of(memory: offprompt.Offprompt, **options: Any) -> offprompt.Session:
    return memory.scope(user="ann").session("s1", model="gpt-4o-mini", **options)


@pytest.mark.parametrize("away", ["at absorb", "at prepare"])
def test_a_turn_that_was_not_recorded_is_remembered_once(
    away: str, memory: offprompt.Offprompt, tmp_path: Path
) -> None:
    session = session_of(memory)
    messages = [user("我叫李明。"), {"role": "assistant", "content": "Hi."}, user("My dog is called Rex.")]
    session.prepare(messages[:1])
    assert session.absorb(said("Hi.")).warnings == ()
    if away == "at absorb":
        session.prepare(messages)
    with busy(tmp_path):
        if away == "at prepare":
            session.prepare(messages)
        reply = session.absorb(said("Rex, a fine name."))
    assert (reply.done, reply.text) == (True, "Rex, a fine name.")
    assert reply.warnings[-1] == SPOOLED
    assert {one.outcome for one in reply.remembered} == {"spooled"}
    assert "Rex" not in "".join(episodes(memory))
    messages += [{"role": "assistant", "content": "Rex, a fine name."}, user("Thanks.")]
    session.prepare(messages)
    assert session.absorb(said("Welcome.")).warnings == ()
    session.prepare([*messages, {"role": "assistant", "content": "Welcome."}, user("Bye.")])
    found = episodes(memory)
    assert sorted(found) == sorted(set(found))
    assert {"My dog is called Rex.", "Rex, a fine name.", "我叫李明。"} <= set(found)
    hits = memory.scope(user="ann").recall("what is the dog called?").hits
    assert "Rex" in hits[0].text


def test_what_the_model_wanted_to_write_is_not_spooled_it_was_told(memory: offprompt.Offprompt, tmp_path: Path) -> None:
    session = session_of(memory)
    session.prepare([user("Remember: I like tea.")])
    function = {"name": "mem_write", "arguments": '{"slot": "drink", "value": "tea"}'}
    call = {"id": "c1", "type": "function", "function": function}
    with busy(tmp_path):
        reply = session.absorb(said("", tool_calls=[call]))
    assert (reply.done, reply.remembered) == (False, ())
    assert [receipt.ok for receipt in reply.receipts] == [False]
    assert memory.parts.spool is not None
    assert not memory.parts.spool.path.exists()


def test_an_answer_to_what_was_shown_is_not_spooled(memory: offprompt.Offprompt, tmp_path: Path) -> None:
    memory.scope(user="ann").write("city", "杭州")
    session = session_of(memory)
    session.prepare([user("Tell me about it.")], show=["city"])
    with busy(tmp_path):
        reply = session.absorb(said("You live in Hangzhou."))
    assert [one.text for one in reply.remembered] == ["Tell me about it."]


@pytest.mark.parametrize("options", [{"capture": "off"}, {"capture": "user"}])
def test_as_much_is_spooled_as_is_captured(
    options: dict[str, Any], memory: offprompt.Offprompt, tmp_path: Path
) -> None:
    session = session_of(memory, **options)
    session.prepare([user("I like tea.")])
    with busy(tmp_path):
        reply = session.absorb(said("Noted."))
    assert [one.text for one in reply.remembered] == ([] if options["capture"] == "off" else ["I like tea."])


def test_a_broken_spool_stops_no_session(memory: offprompt.Offprompt) -> None:
    assert memory.parts.spool is not None
    memory.parts.spool.path.parent.mkdir(parents=True)
    memory.parts.spool.path.write_text("{}\n")
    session = session_of(memory, capture="off")
    session.prepare([user("Hello.")])
    assert session.absorb(said("Hi.")).warnings == ()
    with pytest.raises(BackendError, match="cannot be read"):
        memory.scope(user="ann").write("a", 1)
