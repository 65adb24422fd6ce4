"""Memories out to a file and in again: our lines, exports of mem0, chat logs."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import BackendError, UsageError
from offprompt.records import ListMemories, MemoryOp
from offprompt.service.memories import Memories
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock


@pytest.fixture(params=["memory", "sqlite"])
def mem(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[Offprompt]:
    url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with offprompt.open(url, clock=clock, embedder="none") as opened:
        yield opened


@pytest.fixture
def other(clock: MovedClock) -> Iterator[Offprompt]:
    """Another store, empty."""
    with offprompt.open(":memory:", clock=clock, embedder="none") as opened:
        yield opened


def texts(memories: Memories, **options: Any) -> list[str]:
    return [one.text for one in memories.list(**options)]


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def test_all_that_is_known_comes_back_in_another_store(
    mem: Offprompt, other: Offprompt, tmp_path: Path, clock: MovedClock
) -> None:
    alice = mem.scope(user="alice")
    chat = alice.narrow(session="s1")
    chat.remember([{"role": "user", "content": "I live in Lisbon.", "name": "林"}], metadata={"a": [1, "二"]})
    clock.move(60)
    chat.remember("I moved to Porto", tags=["x"], importance=0.9, event_at=clock.now())
    alice.memories.update(alice.remember("an old note", derive="none")[0].name, archived=True)
    alice.narrow(agent="helper").remember("for the helper", derive="none", pinned=True)
    alice.memories.forget(alice.remember("a hidden note", derive="none")[0].name)
    alice.recall("Porto")
    mem.parts.memories.flush()
    path = tmp_path / "m.jsonl"
    count = alice.memories.export(path)
    assert "hidden" not in path.read_text("utf-8")
    target = other.scope(user="alice")
    done = target.memories.import_file(path)
    assert (done.added, done.known, done.refused) == (count, 0, [])

    def rows(memories: Memories) -> list[dict[str, Any]]:
        listed = memories.list(states=["live", "superseded", "archived"], within="subtree", limit=1000)
        left_out = ("revision", "state_at", "version", "updated_at")
        return [{n: getattr(one, n) for n in one.__slots__ if n not in left_out} for one in listed]

    assert rows(target.memories) == rows(alice.memories)
    again = target.memories.import_file(path)
    assert (again.added, again.known) == (0, count)
    assert len(rows(target.memories)) == count


def test_an_empty_scope_is_exported_and_imported(mem: Offprompt, tmp_path: Path) -> None:
    memories = mem.scope(user="alice").memories
    assert memories.export(tmp_path / "m.jsonl") == 0
    assert memories.import_file(tmp_path / "m.jsonl").added == 0


def test_an_export_is_private_and_never_over_a_file(mem: Offprompt, tmp_path: Path) -> None:
    memories = mem.scope(user="alice").memories
    memories.remember("the red door", derive="none")
    path = tmp_path / "m.jsonl"
    memories.export(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(UsageError, match="a path that is free"):
        memories.export(path)
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match="cannot be written"):
        memories.export(tmp_path / "none" / "m.jsonl")


def test_an_export_that_fails_leaves_no_half_file(
    mem: Offprompt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = mem.scope(user="alice").memories
    memories.remember("the red door", derive="none")
    store = mem.parts.memories.store

    def failing(ops: list[MemoryOp[Any]]) -> list[Any]:
        if isinstance(ops[0], ListMemories):
            raise BackendError("the disk is gone")
        return []

    monkeypatch.setattr(store, "apply", failing)
    with pytest.raises(BackendError):
        memories.export(tmp_path / "m.jsonl")
    assert not (tmp_path / "m.jsonl").exists()


def test_memories_of_others_are_refused_unless_all_are_to_be_ours(mem: Offprompt, tmp_path: Path) -> None:
    mem.scope(user="bob").remember("bob's door is red", derive="none")
    path = tmp_path / "m.jsonl"
    mem.scope(user="bob").memories.export(path)
    alice = mem.scope(user="alice").memories
    done = alice.import_file(path)
    assert (done.added, len(done.refused), texts(alice)) == (0, 1, [])
    assert "user=bob" in done.refused[0].why
    assert "rescope=True" in done.refused[0].why
    assert alice.import_file(path, rescope=True).added == 1
    assert (texts(alice), texts(mem.scope(user="bob").memories)) == (["bob's door is red"], ["bob's door is red"])
    assert alice.import_file(path, rescope=True).known == 1


def test_a_bad_line_is_named_and_the_rest_goes_on(mem: Offprompt, tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    lines = [
        '{"format":"offprompt-memories","version":1,"scope":{"user":"alice"}}',
        '{"text":"one"}',
        "{",
        '{"text":"   "}',
        '{"text":7}',
        '{"text":"x","kind":"slot"}',
        '{"text":"x","created_at":"soon"}',
        "",
        '{"text":"two","scope":{"user":""}}',
        '{"text":"three","unknown":1}',
    ]
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    memories = mem.scope(user="alice").memories
    done = memories.import_file(path)
    assert [problem.line for problem in done.refused] == [3, 4, 5, 6, 7, 9, 11]
    assert sorted(texts(memories)) == ["one", "three"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"importance": 99}, "importance=99"),
        ({"event_at": float("nan")}, "event_at=nan"),
        ({"expires_at": float("inf")}, "expires_at=inf"),
        ({"uses": -1}, "uses=-1"),
        ({"repeats": 10**20}, "repeats=1"),
        ({"state": "forgotten"}, "it was forgotten"),
        ({"subject": "user"}, "belong together"),
    ],
)
def test_a_line_with_impossible_values_is_refused_by_name(
    mem: Offprompt, tmp_path: Path, wrong: dict[str, Any], why: str
) -> None:
    path = tmp_path / "m.jsonl"
    head: dict[str, Any] = {"format": "offprompt-memories", "version": 1}
    lines = [head, {"text": "bad", **wrong}, {"text": "good"}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    memories = mem.scope(user="alice").memories
    done = memories.import_file(path)
    assert [why in problem.why for problem in done.refused] == [True]
    assert texts(memories) == ["good"]


def test_what_is_not_to_be_stored_is_taken_out_on_the_way_in(mem: Offprompt, tmp_path: Path) -> None:
    card = "4111 1111 1111 1111"
    record = {"id": "1", "memory": f"her card is {card}", "metadata": {"card": card}, "categories": [card]}
    memories = mem.scope(user="alice").memories
    memories.import_file(written(tmp_path / "m.json", [record]))
    assert "4111" not in str(memories.list()[0])


def test_an_export_of_mem0_keeps_text_time_and_metadata(mem: Offprompt, tmp_path: Path) -> None:
    records = [
        {
            "id": "8f7c",
            "memory": "Loves hiking",
            "user_id": "alice",
            "created_at": "2025-03-01T10:00:00Z",
            "metadata": {"topic": "sport"},
            "categories": ["hobby"],
            "run_id": "r1",
        },
        {"id": "9a", "memory": "喜欢爬山", "user_id": "alice", "metadata": None},
        {"id": "9b", "memory": "bob's", "user_id": "bob"},
        {"id": "9c", "memory": "bad time", "user_id": "alice", "created_at": "soon"},
        {"id": "9d", "memory": 5, "user_id": "alice"},
    ]
    memories = mem.scope(user="alice").memories
    done = memories.import_file(written(tmp_path / "m.json", {"results": records}))
    assert (done.added, [problem.line for problem in done.refused]) == (2, [3, 4, 5])
    first, second = memories.list()
    assert (first.text, first.event_at, first.tags, first.session) == ("Loves hiking", 1740823200.0, ("hobby",), "r1")
    assert (first.metadata, second.text) == ({"topic": "sport"}, "喜欢爬山")
    assert first.memory_id.startswith("m_")
    assert memories.import_file(written(tmp_path / "again.json", records)).known == 2


def test_a_chat_log_becomes_turns_and_what_they_tell(mem: Offprompt, tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "My name is Lin"},
        {"role": "assistant", "content": "Hello Lin"},
        {"role": "user", "content": "我住在上海"},
    ]
    path = written(tmp_path / "log.json", {"messages": messages})
    alice = mem.scope(user="alice")
    done = alice.memories.import_file(path)
    assert (done.refused, texts(alice.memories, kinds=["episode"])) == (
        [],
        ["My name is Lin", "Hello Lin", "我住在上海"],
    )
    assert alice.read("user_name") == "Lin"
    assert len(alice.memories.sessions()) == 1
    count = len(alice.memories.list())
    assert alice.memories.import_file(path).added == 0
    assert len(alice.memories.list()) == count
    bare = mem.scope(user="bob")
    bare.memories.import_file(path, derive="none")
    assert len(bare.memories.list(kinds=["fact"])) == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be imported"),
        (b"hello", "cannot be imported"),
        (b"[]", "cannot be imported"),
        (b"\xff\xfe\x00", "cannot be imported"),
        (b'{"format":"offprompt-memories","version":9}\n', "version 9"),
    ],
)
def test_a_file_of_no_known_form_is_an_error(mem: Offprompt, tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        mem.scope(user="alice").memories.import_file(path)


def test_a_file_that_is_not_there_is_an_error(mem: Offprompt, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        mem.scope(user="alice").memories.import_file(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot be read"):
        mem.scope(user="alice").memories.import_file(tmp_path)


def test_what_was_erased_comes_back_under_its_id(mem: Offprompt, tmp_path: Path) -> None:
    alice = mem.scope(user="alice")
    name = alice.remember("the red door", derive="none")[0].name
    alice.memories.export(tmp_path / "m.jsonl")
    alice.memories.erase(name)
    assert alice.memories.import_file(tmp_path / "m.jsonl").added == 1
    memory = alice.memories.get(name)
    assert memory is not None
    assert [hit.memory for hit in alice.recall("the red door")] == [memory]


@pytest.mark.parametrize("quoted", ["zq81-hush-7734-canary", "ZQ81 hush 7734 CANARY", "enE4MS1odXNoLTc3MzQtY2FuYXJ5"])
def test_an_export_holds_no_secret_unless_it_is_asked_for(mem: Offprompt, tmp_path: Path, quoted: str) -> None:
    alice = mem.scope(user="alice")
    alice.write("door", "zq81-hush-7734-canary", policy="never")
    alice.remember(f"the code is {quoted}", derive="none")
    alice.memories.export(tmp_path / "m.jsonl")
    alice.memories.export(tmp_path / "all.jsonl", secrets=True)
    assert quoted not in (tmp_path / "m.jsonl").read_text(encoding="utf-8")
    assert "[[mem:door]]" in (tmp_path / "m.jsonl").read_text(encoding="utf-8")
    assert quoted in (tmp_path / "all.jsonl").read_text(encoding="utf-8")
