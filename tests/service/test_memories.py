"""Memories of a scope, as `Memories` promises them: remember, list, change, hide, remove. Both engines."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import ConflictError, LimitError, Memory, NotFoundError, UsageError
from offprompt.service.bound import BoundScope
from offprompt.service.memories import Memories
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock

DAY = 86400.0


@pytest.fixture(params=["memory", "sqlite"])
def mem(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[Offprompt]:
    """An opened memory that finds by words: fast, and the same on every machine."""
    url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with offprompt.open(url, clock=clock, embedder="none") as opened:
        yield opened


@pytest.fixture
def alice(mem: Offprompt) -> BoundScope:
    return mem.scope(user="alice")


@pytest.fixture
def memories(alice: BoundScope) -> Memories:
    return alice.memories


def stored(memories: Memories, what: Any, **options: Any) -> str:
    """The id of what was remembered, without anything derived."""
    return memories.remember(what, derive="none", **options)[0].name


def texts(memories: Memories, **options: Any) -> list[str]:
    return [one.text for one in memories.list(**options)]


def endless() -> dict[str, Any]:
    """An object that holds itself."""
    made: dict[str, Any] = {}
    made["again"] = made
    return made


def all_of(memories: Memories, **options: Any) -> list[str]:
    """Texts of all pages."""
    found: list[str] = []
    cursor = ""
    while True:
        page = memories.list(cursor=cursor, **options)
        found += [one.text for one in page]
        cursor = page.cursor
        if not cursor:
            return found


def test_a_text_is_a_fact_and_a_message_an_episode(memories: Memories) -> None:
    memories.remember("the door is red", derive="none")
    memories.remember({"role": "user", "content": "门是红的", "name": "林"}, derive="none")
    fact, episode = memories.list()
    assert (fact.kind, fact.role, fact.order) == ("fact", "", -1)
    assert (episode.kind, episode.role, episode.speaker, episode.order) == ("episode", "user", "林", 0)


def test_parts_of_a_message_are_joined_and_pictures_left_out(memories: Memories) -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "b"},
    ]
    memories.remember({"role": "user", "content": parts}, derive="none")
    assert texts(memories) == ["a\nb"]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"role": "system", "content": "x"}, "role 'system'"),
        ({"role": "tool", "content": "x", "tool_call_id": "c"}, "role 'tool'"),
        ({"role": "assistant", "content": None}, "no text"),
        ({"role": "user", "content": "  "}, "no text"),
    ],
)
def test_what_no_user_or_assistant_said_is_refused_with_a_reason(memories: Memories, what: Any, why: str) -> None:
    first, second = memories.remember([{"role": "user", "content": "hello there"}, what])
    assert (first.outcome, second.outcome, second.name) == ("added", "refused", "")
    assert why in second.why
    assert texts(memories) == ["hello there"]


@pytest.mark.parametrize(
    "call",
    [
        {"what": ""},
        {"what": "  \n"},
        {"what": None},
        {"what": b"x"},
        {"what": ["good", 7]},
        {"what": "x", "importance": 1.5},
        {"what": "x", "importance": True},
        {"what": "x", "metadata": [1]},
        {"what": "x", "metadata": {"a": object()}},
        {"what": "x", "metadata": {"a": float("nan")}},
        {"what": "x", "event_at": "soon"},
        {"what": "x", "expires_at": float("inf")},
        {"what": "x", "pinned": 1},
        {"what": "x", "derive": "llm"},
        {"what": "x", "tags": "one"},
        {"what": "x", "metadata": endless()},
        {"what": "x", "idempotency_key": 5},
        {"what": "x", "idempotency_key": ""},
    ],
)
def test_a_wrong_argument_stores_nothing(memories: Memories, call: Any) -> None:
    with pytest.raises(UsageError):
        memories.remember(**call)
    assert len(memories.list()) == 0


def test_one_text_that_is_too_long_stores_none_of_them(memories: Memories) -> None:
    with pytest.raises(LimitError):
        memories.remember(["good", "x" * 20_001], derive="none")
    assert len(memories.list()) == 0


def test_a_call_with_a_key_happens_once(memories: Memories) -> None:
    turns = [{"role": "user", "content": "My name is Lin"}, {"role": "assistant", "content": "Hello"}]
    first = memories.remember(turns, idempotency_key="turn-1")
    again = memories.remember(turns, idempotency_key="turn-1")
    assert [one.name for one in again] == [one.name for one in first]
    assert {one.outcome for one in again} == {"merged"}
    assert len(memories.list()) == 3


def test_facts_that_only_look_alike_are_all_kept_and_the_same_again_is_counted(clock: MovedClock) -> None:
    said = ["I write C++ every day", "I write C# every day", "Ann lent Bob the money", "Bob lent Ann the money"]
    with offprompt.open(":memory:", clock=clock) as opened:
        memories = opened.scope(user="alice").memories
        told = [memories.remember(text, derive="none")[0] for text in (*said, "I really write C++ every day!")]
        assert [one.outcome for one in told] == ["added", "added", "added", "added", "merged"]
        assert [one.repeats for one in memories.list()] == [1, 0, 0, 0]


def test_times_are_seconds_dates_or_iso_text(memories: Memories) -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    for number, said in enumerate((at, at.timestamp(), "2026-05-01", "2026-05-01T08:00:00+08:00")):
        stored(memories, f"note {number}", event_at=said)
    assert {one.event_at for one in memories.list()} == {at.timestamp()}


def bare(said: object) -> str:
    """Without what may stand between digits."""
    return re.sub(r"[\s-]", "", unicodedata.normalize("NFKC", str(said)))


def test_what_is_not_to_be_stored_is_taken_out_first(mem: Offprompt, memories: Memories) -> None:
    done = memories.remember("my card is 4111 1111 1111 1111", metadata={"n": 1})[0]
    assert "bank_card" in done.why
    assert "11111111" not in bare(done.text)
    assert "11111111" not in bare(memories.list().memories)
    assert "11111111" not in bare(memories.update(done.name, text="now 4111 1111 1111 1111"))
    turn = {"role": "user", "content": "hello there", "name": "4111 1111 1111 1111"}
    hidden = {"card": "４１１１ 1111 1111 1111", "all": [{"4111-1111-1111-1111": 4111111111111111}], "n": 7}
    name = memories.remember(turn, metadata=hidden, tags=["4111111111111111"])[0].name
    assert "11111111" not in bare(memories.get(name))
    assert "11111111" not in bare(memories.update(name, metadata=hidden, tags=["4111111111111111"]))
    assert memories.list()[1].metadata["n"] == 7
    assert "11111111" not in bare(mem.parts.slots.events())


def test_a_session_is_an_attribute_and_the_next_one_finds_it(alice: BoundScope) -> None:
    alice.narrow(session="s1").remember("the door is red", derive="none")
    alice.narrow(session="s2").remember("the door is blue", derive="none")
    assert texts(alice.memories) == ["the door is red", "the door is blue"]
    assert texts(alice.memories, session="s2") == ["the door is blue"]
    assert texts(alice.narrow(session="s3").memories) == ["the door is red", "the door is blue"]
    assert alice.memories.sessions() == {"s1": 1, "s2": 1}


def test_users_are_listed_with_what_they_hold(mem: Offprompt) -> None:
    mem.scope(user="alice", session="s1").remember("My name is Lin")
    mem.scope(user="bob").write("city", "Oslo")
    mem.scope(app="other", user="carol").remember("a note", derive="none")
    assert [(one.scope.user, one.slots, one.memories) for one in mem.users()] == [("alice", 1, 1), ("bob", 1, 0)]
    assert [(one.scope.user, one.memories) for one in mem.users(app="other")] == [("carol", 1)]


def test_a_session_without_an_owner_keeps_its_own(mem: Offprompt) -> None:
    mem.scope(session="s1").remember("the door is red", derive="none")
    assert texts(mem.scope(session="s1").memories) == ["the door is red"]
    assert texts(mem.scope(session="s2").memories) == []


def test_a_scope_finds_what_it_inherits_and_only_that(mem: Offprompt) -> None:
    scopes: list[dict[str, Any]] = [
        {"user": "alice"},
        {"user": "alice", "agent": "a1"},
        {"agent": "a1"},
        {"shared": True},
        {"user": "bob"},
    ]
    for scope in scopes:
        stored(mem.scope(**scope).memories, " ".join(map(str, scope.values())))
    both = mem.scope(user="alice", agent="a1").memories
    assert sorted(texts(both)) == ["True", "a1", "alice", "alice a1"]
    assert sorted(texts(both, within="exact")) == ["alice a1"]
    assert sorted(texts(mem.scope(user="alice").memories, within="subtree")) == ["alice", "alice a1"]
    assert sorted(texts(mem.scope(user="alice").memories)) == ["True", "alice"]
    other = mem.scope(app="other", user="alice").memories
    assert texts(other) == []


def test_another_scopes_memory_is_not_there_by_its_id(mem: Offprompt, memories: Memories) -> None:
    bobs = mem.scope(user="bob").memories
    name = stored(bobs, "bob's door")
    assert memories.get(name) is None
    assert memories.get_many([name]) == []
    assert (memories.forget(name), memories.undo(name), memories.erase(name)) == (0, 0, 0)
    with pytest.raises(NotFoundError, match=name):
        memories.history(name)
    with pytest.raises(NotFoundError, match=name):
        memories.update(name, text="mine")
    assert bobs.get(name) is not None


@pytest.mark.parametrize("work", ["get", "update", "forget", "undo", "erase", "history"])
def test_an_id_is_a_text_and_any_text_may_be_one(memories: Memories, work: str) -> None:
    stored(memories, "note")
    for wrong in (None, 5, b"m_x", ["m_x"]):
        with pytest.raises(UsageError, match="text of its own"):
            getattr(memories, work)(wrong)
    for strange in ("", "\ud800", "m_' OR 1=1 --", "m_\0", "m_" + "z" * 5000):
        if work in ("update", "history"):
            with pytest.raises(NotFoundError):
                getattr(memories, work)(strange)
        else:
            assert not getattr(memories, work)(strange)
    assert texts(memories) == ["note"]


def test_get_many_keeps_the_order_asked_for(memories: Memories) -> None:
    a, b = stored(memories, "a note"), stored(memories, "b note")
    assert [one.text for one in memories.get_many([b, "m_gone", a])] == ["b note", "a note"]
    with pytest.raises(UsageError, match="pass a list"):
        memories.get_many(a)


def test_pages_hold_all_once_whatever_the_filter(memories: Memories) -> None:
    for number in range(23):
        stored(memories, f"note {number}", metadata={"odd": number % 2})
    assert all_of(memories, limit=5) == [f"note {number}" for number in range(23)]
    assert all_of(memories, limit=3, filters={"odd": 1}) == [f"note {number}" for number in range(1, 23, 2)]
    assert all_of(memories, limit=23) == all_of(memories, limit=1000)


def test_a_page_stays_right_while_memories_come_and_go(memories: Memories) -> None:
    ids = [stored(memories, f"note {number}") for number in range(6)]
    page = memories.list(limit=2)
    memories.erase(ids[0], ids[1], ids[2])
    stored(memories, "note 6")
    rest = memories.list(limit=100, cursor=page.cursor)
    assert [one.text for one in rest] == ["note 3", "note 4", "note 5", "note 6"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": -1},
        {"limit": True},
        {"within": "below"},
        {"kinds": "fact"},
        {"kinds": ["slot"]},
        {"kinds": None},
        {"states": ["gone"]},
        {"states": 5},
        {"cursor": 5},
        {"cursor": None},
        {"session": 5},
        {"filters": {1: 2}},
        {"since": "x"},
        {"filters": {"a": {"near": 1}}},
    ],
)
def test_a_wrong_list_is_an_error_that_names_it(memories: Memories, wrong: Any) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong)).rstrip("s")):
        memories.list(**wrong)


def test_states_that_are_no_list_are_refused(memories: Memories) -> None:
    with pytest.raises(UsageError, match="pass a list"):
        memories.list(states="live")  # pyright: ignore[reportArgumentType]


def test_an_update_is_found_at_once_and_keeps_what_it_leaves_out(memories: Memories, clock: MovedClock) -> None:
    name = stored(memories, "the door is red", tags=["x"], importance=0.9, metadata={"a": 1})
    memories.recall("door")
    clock.move(5)
    after = memories.update(name, text="the gate is blue")
    assert (after.text, after.tags, after.importance, after.version) == ("the gate is blue", ("x",), 0.9, 2)
    assert [hit.text for hit in memories.recall("gate")] == ["the gate is blue"]
    assert len(memories.recall("door")) == 0
    assert [(one.version, one.text) for one in memories.history(name)] == [
        (1, "the door is red"),
        (2, "the gate is blue"),
    ]


def test_metadata_members_are_set_and_taken_out_one_by_one(memories: Memories) -> None:
    name = stored(memories, "note", metadata={"a": 1, "b": 2})
    assert memories.update(name, metadata={"b": None, "c": 3}).metadata == {"a": 1, "c": 3}


def test_an_update_that_fails_changes_nothing(memories: Memories) -> None:
    name = stored(memories, "the door is red")
    before = memories.get(name)
    changes: list[dict[str, Any]] = [
        {"text": ""},
        {"text": "x" * 20_001},
        {"importance": 2},
        {"metadata": [1]},
        {"expires_at": "x"},
    ]
    for wrong in changes:
        with pytest.raises(UsageError):
            memories.update(name, **wrong)
    with pytest.raises(ConflictError, match="version 1, not 7"):
        memories.update(name, text="x", if_version=7)
    with pytest.raises(NotFoundError):
        memories.update("m_gone", text="x")
    assert memories.get(name) == before


def test_a_time_can_be_set_and_taken_away(memories: Memories) -> None:
    name = stored(memories, "note", event_at="2026-05-01")
    assert memories.update(name, event_at="2026-06-01").event_at == datetime(2026, 6, 1, tzinfo=UTC).timestamp()
    assert memories.update(name, event_at=None).event_at is None
    assert memories.update(name, importance=0.1).event_at is None


def test_archived_is_kept_but_not_recalled(memories: Memories) -> None:
    name = stored(memories, "the door is red")
    memories.update(name, archived=True)
    assert (len(memories.recall("door")), texts(memories), texts(memories, states=["archived"])) == (
        0,
        [],
        ["the door is red"],
    )
    memories.update(name, archived=False)
    assert len(memories.recall("door")) == 1


def test_forget_hides_everywhere_and_undo_brings_back(memories: Memories, clock: MovedClock) -> None:
    name = stored(memories, "the door is red", metadata={"a": 1})
    assert (memories.forget(name, "m_gone"), memories.forget(name)) == (1, 0)
    assert (memories.get(name), len(memories.recall("door")), texts(memories)) == (None, 0, [])
    hidden = memories.list(states=["forgotten"])[0]
    assert (hidden.text, dict(hidden.metadata)) == ("", {})
    assert {one.text for one in memories.history(name)} == {""}
    clock.move(7 * DAY - 1)
    assert memories.undo(name) == 1
    assert [hit.text for hit in memories.recall("door")] == ["the door is red"]
    memories.forget(name)
    clock.move(7 * DAY)
    assert memories.undo(name) == 0


def test_the_bound_scope_forgets_memories_by_id_and_slots_by_name(alice: BoundScope) -> None:
    name = stored(alice.memories, "the door is red")
    alice.write("city", "上海")
    assert (alice.forget(name), alice.forget("city")) == (name, "city")
    with pytest.raises(NotFoundError, match="recall"):
        alice.forget(name)


def test_erase_removes_by_id_or_all_of_the_scope(mem: Offprompt, memories: Memories) -> None:
    a = stored(memories, "a note")
    stored(memories, "b note")
    below = mem.scope(user="alice", agent="a1").memories
    stored(below, "c note")
    assert (memories.erase(a), memories.erase(a)) == (1, 0)
    with pytest.raises(NotFoundError):
        memories.history(a)
    assert memories.erase() == 1
    assert texts(below) == ["c note"]
    assert memories.erase(within="subtree") == 1
    with pytest.raises(UsageError, match="within"):
        memories.erase(within="inherit")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="text of its own"):
        memories.erase([a])  # pyright: ignore[reportArgumentType]


def test_what_is_derived_from_a_turn_goes_with_it(alice: BoundScope) -> None:
    turn = alice.remember({"role": "user", "content": "My name is Linnea and I live in Uppsala."})[0]
    assert len(alice.memories.list()) == 3
    alice.memories.forget(turn.name)
    assert texts(alice.memories) == []
    assert len(alice.recall("what is my name?")) == 0
    alice.memories.undo(turn.name)
    assert len(alice.memories.list()) == 3
    alice.memories.erase(turn.name)
    everything = alice.memories.list(states=["live", "superseded", "archived", "forgotten"])
    assert [one.text for one in everything] == []


def test_the_profile_follows_what_is_forgotten_and_erased(alice: BoundScope) -> None:
    name = alice.remember("My name is Linnea")[0].name
    turn = alice.remember({"role": "user", "content": "我对花生过敏。"})[0].name
    nuts = alice.remember("I am allergic to shrimp")[0].name
    assert alice.slots.snapshot() == {"allergies": "花生; shrimp", "user_name": "Linnea"}
    alice.forget(name)
    alice.forget(turn)
    assert alice.slots.snapshot() == {"allergies": "shrimp"}
    assert alice.memories.undo(name, turn) == 3
    assert alice.slots.snapshot() == {"allergies": "shrimp; 花生", "user_name": "Linnea"}
    alice.memories.erase(name, nuts)
    assert alice.slots.snapshot() == {"allergies": "花生"}
    assert [str(one.value) for one in alice.slots.history("allergies")] == ["花生"]


@pytest.mark.parametrize(
    ("question", "answer", "name"),
    [("Hello! What is your name?", "Lin.", "Lin"), ("你好，怎么称呼你？", "林小雨", "林小雨")],
)
def test_a_short_answer_fills_the_profile_and_is_taken_back(
    alice: BoundScope, question: str, answer: str, name: str
) -> None:
    turns = [{"role": "assistant", "content": question}, {"role": "user", "content": answer}]
    said = alice.remember(turns)[1].name
    assert alice.slots.snapshot() == {"user_name": name}
    assert alice.memories.forget(said) == 2
    assert alice.slots.snapshot() == {}
    assert alice.memories.undo(said) == 2
    assert alice.slots.snapshot() == {"user_name": name}
    assert alice.memories.erase(said) == 2
    assert alice.slots.snapshot() == {}
    alice.remember([{"role": "user", "content": answer}])
    assert alice.slots.snapshot() == {}


def test_a_slot_that_the_application_wrote_stays(alice: BoundScope) -> None:
    name = alice.remember("My name is Linnea")[0].name
    alice.write("user_name", "Linnea")
    alice.memories.erase(name)
    assert alice.read("user_name") == "Linnea"


def test_a_write_that_comes_again_brings_back_nothing_that_was_forgotten(alice: BoundScope) -> None:
    name = alice.remember("I live in Rome", idempotency_key="k")[0].name
    alice.memories.forget(name)
    again = alice.remember("I live in Rome", idempotency_key="k")
    assert [(one.outcome, one.kind) for one in again] == [("merged", "fact"), ("refused", "slot")]
    assert (texts(alice.memories), alice.slots.snapshot()) == ([], {})


def test_the_profile_follows_a_text_that_is_changed(alice: BoundScope) -> None:
    name = alice.remember("I live in Rome")[0].name
    alice.memories.update(name, text="I live in Berlin")
    assert alice.slots.snapshot() == {"home": "Berlin"}
    alice.memories.update(name, text="Nothing of that is so")
    assert alice.slots.snapshot() == {}


def test_what_came_from_two_turns_stays_with_the_other(alice: BoundScope) -> None:
    first = alice.remember({"role": "user", "content": "I live in Uppsala."})[0]
    alice.remember({"role": "user", "content": "I live in Uppsala."})
    alice.memories.erase(first.name)
    assert [one.text for one in alice.memories.list(kinds=["fact"])] == ["The user lives in Uppsala."]


def test_what_expired_is_not_there_and_pinned_stays(memories: Memories, clock: MovedClock) -> None:
    at = clock.now() + DAY
    short = stored(memories, "a short note", expires_at=at)
    stored(memories, "a pinned note", expires_at=at, pinned=True)
    assert len(memories.recall("note")) == 2
    clock.move(DAY)
    assert [hit.text for hit in memories.recall("note")] == ["a pinned note"]
    assert memories.get(short) is None
    assert texts(memories) == ["a pinned note"]


def test_what_is_returned_is_the_callers_own(memories: Memories) -> None:
    name = stored(memories, "note", metadata={"a": [1]})
    mine = memories.get(name)
    assert isinstance(mine, Memory)
    mine.metadata["a"].append(2)
    page = memories.list()
    page[0].metadata["a"].append(3)
    again = memories.get(name)
    assert again is not None
    assert again.metadata == {"a": [1]}


def test_a_closed_memory_refuses_work(clock: MovedClock) -> None:
    mem = offprompt.open(":memory:", clock=clock, embedder="none")
    memories = mem.scope(user="a").memories
    mem.close()
    with pytest.raises(UsageError, match="closed"):
        memories.remember("x")


def test_what_is_everyones_is_changed_in_the_shared_scope_only(mem: Offprompt) -> None:
    everyone, alice = mem.scope(shared=True), mem.scope(user="alice")
    name = everyone.remember("The office closes at 6 pm", derive="none")[0].name
    assert [hit.memory_id for hit in alice.recall("when does the office close?")] == [name]
    assert (alice.memories.forget(name), alice.memories.erase(name), alice.memories.undo(name)) == (0, 0, 0)
    with pytest.raises(UsageError, match=r"everyone's; change it in the shared scope: scope\(shared=True\)"):
        alice.memories.update(name, text="The office closes at 5 pm")
    with pytest.raises(NotFoundError):
        alice.forget(name)
    assert everyone.memories.update(name, text="The office closes at 5 pm").version == 2
    assert everyone.memories.forget(name) == 1


NEARLY: list[tuple[str, str]] = [
    ("The spare key hangs behind the boiler", "Behind the boiler hangs the spare key"),
    ("备用钥匙挂在锅炉后面", "锅炉后面挂着备用钥匙"),
]


@pytest.mark.parametrize(("first", "again"), NEARLY)
def test_near_duplicates_are_merged_by_setting_only(clock: MovedClock, first: str, again: str) -> None:
    for cosine, kept in ((0.0, [first, again]), (0.8, [first])):
        with offprompt.open(":memory:", clock=clock, merge_cosine=cosine) as memory:
            alice = memory.scope(user="alice")
            alice.remember(first, derive="none")
            told = alice.remember(again, derive="none")[0]
            assert [one.text for one in alice.memories.list()] == kept
            assert told.outcome == ("merged" if cosine else "added")
            assert alice.memories.list()[0].repeats == (1 if cosine else 0)


def test_numbers_negations_and_other_scopes_are_no_near_duplicates(clock: MovedClock) -> None:
    with offprompt.open(":memory:", clock=clock, merge_cosine=0.5) as memory:
        alice = memory.scope(user="alice")
        alice.remember("The meeting with the bank is on 5 May", derive="none")
        for other in ("The meeting with the bank is on 6 May", "The meeting with the bank is not on 5 May"):
            assert alice.remember(other, derive="none")[0].outcome == "added"
        said = "On 5 May is the meeting with the bank"
        assert memory.scope(user="bob").remember(said, derive="none")[0].outcome == "added"
        assert alice.remember([{"role": "user", "content": said}], derive="none")[0].outcome == "added"
        assert alice.remember(said, derive="none")[0].outcome == "merged"
