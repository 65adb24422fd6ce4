"""What memories promise to whoever opens a memory, here or by its server: remember, recall, list, change, remove."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from offprompt.errors import ConflictError, NotFoundError, UnsupportedError, UsageError
from offprompt.records import Memory
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing.clock import MovedClock
from offprompt.testing.face_kit import DAY, FaceKit

MOVED = "I moved to Shanghai in May"
MOVED_ZH = "我五月份搬到了上海"

MISUSED: list[Callable[[Any], Any]] = [
    lambda own: own.remember(""),
    lambda own: own.remember(7),
    lambda own: own.remember(b"x"),
    lambda own: own.remember(["a", None]),
    lambda own: own.remember("a", tags="food"),
    lambda own: own.remember("a", metadata=[1]),
    lambda own: own.remember("a", importance=2),
    lambda own: own.remember("a", event_at="yesterday"),
    lambda own: own.remember("a", idempotency_key=""),
    lambda own: own.remember("a", derive="magic"),
    lambda own: own.remember("a" * 20_001),
    lambda own: own.recall(" "),
    lambda own: own.recall(7),
    lambda own: own.recall([{"role": "assistant", "content": "x"}]),
    lambda own: own.recall("a", top_k=0),
    lambda own: own.recall("a", within="below"),
    lambda own: own.recall("a", kinds="fact"),
    lambda own: own.recall("a", kinds=["slot"]),
    lambda own: own.recall("a", floor=2),
    lambda own: own.recall("a", filters={"x": {"near": 1}}),
    lambda own: own.recall("a", weights={"nonsense": 1}),
    lambda own: own.memories.update("m_nothing", text="茶", if_version=-1),
    lambda own: own.forget("m_nothing", if_version=-1),
    lambda own: own.forget("m_nothing", if_version=1),
    lambda own: own.memories.list(limit=0),
    lambda own: own.memories.list(states=["gone"]),
    lambda own: own.memories.list(cursor="2"),
    lambda own: own.memories.list(cursor="第二页"),
    lambda own: own.memories.get(7),
    lambda own: own.memories.get_many("m_1"),
    lambda own: own.memories.forget(["m_1"]),
    lambda own: own.memories.erase(within="inherit"),
    lambda own: own.memories.import_file("/nowhere/at/all.jsonl"),
]


def stored(scope: BoundScope, what: Any, **options: Any) -> str:
    """The id of what was remembered, without anything derived."""
    return scope.remember(what, derive="none", **options)[0].name


def found(scope: BoundScope, query: Any, **options: Any) -> list[str]:
    """The texts that answer a question."""
    return [hit.text for hit in scope.recall(query, **options)]


def there(scope: BoundScope, memory_id: str) -> Memory:
    """The memory of an id that is there."""
    memory = scope.memories.get(memory_id)
    assert memory is not None
    return memory


class FaceMemories(FaceKit):
    """Memories: every verb, its conditions, and what becomes of texts."""

    @pytest.mark.parametrize(("text", "question"), [(MOVED, "Shanghai?"), (MOVED_ZH, "上海在哪里")])
    def test_what_is_remembered_is_recalled(self, alice: BoundScope, text: str, question: str) -> None:
        (one, *derived) = alice.remember(text)
        assert (one.outcome, one.kind, one.text) == ("added", "fact", text)
        assert {each.kind for each in derived} <= {"fact", "slot"}
        answer = alice.recall(question)
        assert answer[0].memory_id == one.name
        assert answer[0].memory == there(alice, one.name)
        assert (answer.searched >= 1, answer.why, dict(answer[0].parts)) == (True, "", {})
        assert "words alone" in answer.degraded
        assert set(alice.recall(question, explain=True)[0].parts) >= {"evidence"}

    def test_nothing_found_says_why(self, alice: BoundScope) -> None:
        assert (len(alice.recall("anything?")), alice.recall("anything?").why) == (0, "there is nothing to be found")
        stored(alice, "The tea is green")
        answer = alice.recall("quantum chromodynamics")
        assert (len(answer), answer.why, answer.searched) == (0, "nothing lies above the floor", 1)

    def test_turns_are_episodes_and_what_rules_read_in_them_follows(self, alice: BoundScope) -> None:
        told = alice.remember(
            [
                {"role": "assistant", "content": "Where do you live?"},
                {"role": "user", "content": "My name is Ada and I live in Porto.", "name": "ada"},
                {"role": "system", "content": "Be short."},
            ]
        )
        assert [one.outcome for one in told if one.kind in ("episode", "")] == ["added", "added", "refused"]
        assert {one.name for one in told if one.kind == "slot"} == set(alice.slots.snapshot())
        assert "system" in told[-1].why
        episode = there(alice, told[1].name)
        assert (episode.kind, episode.role, episode.speaker) == ("episode", "user", "ada")

    def test_a_key_of_ones_own_makes_a_write_once(self, alice: BoundScope) -> None:
        for _ in range(2):
            alice.remember("I like tea", idempotency_key="turn-7", derive="none")
        assert len(alice.memories.list()) == 1

    def test_marks_are_kept(self, alice: BoundScope, clock: MovedClock) -> None:
        at = datetime(2026, 5, 1, 12, tzinfo=UTC)
        for event_at in (at, at.timestamp(), "2026-05-01T12:00:00Z", "2026-05-01T12:00:00"):
            name = stored(
                alice,
                f"note {event_at}",
                metadata={"topic": "家", "n": [1, {"a": None}]},
                tags=["Home", "家"],
                importance=0.9,
                event_at=event_at,
                expires_at=clock.now() + DAY,
            )
            memory = there(alice, name)
            assert memory.event_at == at.timestamp()
            assert memory.metadata == {"topic": "家", "n": [1, {"a": None}]}
            assert (memory.tags, memory.importance) == (("home", "家"), 0.9)
        pinned = stored(alice, "for ever", pinned=True, expires_at=clock.now() + DAY)
        clock.move(DAY)
        assert [one.memory_id for one in alice.memories.list()] == [pinned]

    def test_recall_narrows_before_it_ranks(self, alice: BoundScope) -> None:
        stored(alice, "the tea in Rome was green", metadata={"topic": "travel"}, event_at="2026-01-01")
        stored(alice, "the tea in Oslo was black", metadata={"topic": "food"}, event_at="2026-03-01")
        stored(alice, {"role": "user", "content": "the tea at home is white"}, event_at="2026-05-01")
        assert len(found(alice, "the tea", top_k=10)) == 3
        assert found(alice, "the tea", filters={"topic": "travel"}) == ["the tea in Rome was green"]
        assert found(alice, "the tea", filters={"OR": [{"topic": "food"}, {"topic": "x"}]}) == [
            "the tea in Oslo was black"
        ]
        assert found(alice, "the tea", kinds=["episode"]) == ["the tea at home is white"]
        assert found(alice, "the tea", until="2026-02-01") == ["the tea in Rome was green"]
        assert found(alice, "the tea", since="2026-04-01") == ["the tea at home is white"]
        assert len(found(alice, "the tea", top_k=1)) == 1
        assert found(alice, "the tea", floor=1.0, within="exact") in ([], found(alice, "the tea", floor=1.0))
        conversation = [{"role": "user", "content": "tell me of the tea in Oslo"}]
        assert found(alice, conversation)[0] == "the tea in Oslo was black"

    def test_recall_knows_what_was_known_then(self, alice: BoundScope, clock: MovedClock) -> None:
        stored(alice, "the code is on the red door")
        before = clock.now()
        clock.move(DAY)
        stored(alice, "the code is on the blue door")
        assert len(found(alice, "the code door")) == 2
        assert found(alice, "the code door", as_of=before) == ["the code is on the red door"]

    def test_lists_come_in_pages(self, alice: BoundScope) -> None:
        texts = [f"note {number}" for number in range(7)]
        alice.remember(texts, derive="none")
        page = alice.memories.list(limit=3)
        assert [one.text for one in page] == texts[:3]
        rest = alice.memories.list(limit=3, cursor=page.cursor)
        stored(alice, "note 7")
        last = alice.memories.list(limit=3, cursor=rest.cursor)
        assert [one.text for one in (*rest, *last)] == [*texts[3:], "note 7"]
        assert last.cursor == ""
        assert [one.text for one in alice.memories.list(limit=5000)] == [*texts, "note 7"]

    def test_lists_of_memories_fit_all_their_conditions(self, alice: BoundScope) -> None:
        first = stored(alice, "a", metadata={"n": 1}, event_at="2026-01-01")
        second = stored(alice.narrow(session="s1"), {"role": "user", "content": "b"}, event_at="2026-03-01")
        hidden = stored(alice, "c")
        alice.forget(hidden)

        def ids(**conditions: Any) -> list[str]:
            return [one.memory_id for one in alice.memories.list(**conditions)]

        assert ids() == [first, second]
        assert ids(kinds=["episode"]) == ids(session="s1") == ids(since="2026-02-01") == [second]
        assert ids(filters={"n": {"gte": 1}}) == ids(until="2026-02-01") == [first]
        assert ids(states=["forgotten"]) == [hidden]
        assert [one.text for one in alice.memories.list(states=["forgotten"])] == [""]
        assert alice.memories.sessions() == {"s1": 1}

    def test_a_change_keeps_what_is_left_out(self, alice: BoundScope, clock: MovedClock) -> None:
        end = clock.now() + DAY
        name = stored(alice, "I like tea", metadata={"a": 1, "b": 2}, tags=["x"], event_at=5, expires_at=end)
        clock.move(1)
        changed = alice.memories.update(name, text="我喜欢咖啡", metadata={"a": None, "c": 3})
        assert (changed.text, changed.metadata, changed.tags, changed.version) == (
            "我喜欢咖啡",
            {"b": 2, "c": 3},
            ("x",),
            2,
        )
        assert (changed.version, changed.event_at, changed.expires_at, changed.updated_at) == (2, 5, end, clock.now())
        gone = alice.memories.update(name, event_at=None, expires_at=None, tags=[], importance=0.1, pinned=True)
        assert (gone.event_at, gone.expires_at, gone.tags, gone.importance, gone.pinned) == (None, None, (), 0.1, True)
        assert found(alice, "咖啡") == ["我喜欢咖啡"]
        assert found(alice, "tea") == []
        with pytest.raises(ConflictError):
            alice.memories.update(name, text="no", if_version=1)
        assert alice.memories.update(name, archived=True, if_version=gone.version).state == "archived"
        assert found(alice, "咖啡") == []
        assert alice.memories.update(name, archived=False).state == "live"
        assert [one.text for one in alice.memories.history(name)][:2] == ["I like tea", "我喜欢咖啡"]
        assert there(alice, name) == alice.memories.get_many([name, "m_nothing"])[0]

    def test_forget_hides_undo_brings_back_erase_removes(self, alice: BoundScope, clock: MovedClock) -> None:
        names = [stored(alice, text) for text in ("a", "b", "c")]
        assert alice.memories.forget(*names[:2], "m_nothing") == 2
        assert alice.memories.get(names[0]) is None
        assert [one.text for one in alice.memories.list()] == ["c"]
        assert [one.text for one in alice.memories.history(names[0])] == ["", ""]
        assert alice.memories.undo(names[0]) == 1
        clock.move(7 * DAY)
        assert alice.memories.undo(names[1]) == 0
        assert alice.forget(names[2]) == names[2]
        with pytest.raises(NotFoundError):
            alice.forget(names[2])
        assert alice.memories.erase(names[2]) == 1
        with pytest.raises(NotFoundError):
            alice.memories.history(names[2])
        assert alice.memories.erase() >= 1
        assert alice.memories.forget() == alice.memories.undo() == 0
        assert alice.memories.get_many([]) == []

    def test_another_users_memory_is_as_one_that_never_was(self, opened: Offprompt, alice: BoundScope) -> None:
        name = stored(alice, "a secret of hers")
        other = opened.scope(user="nobody@example.com")
        assert other.memories.get(name) is None
        assert other.memories.get_many([name]) == []
        assert other.memories.forget(name) == other.memories.undo(name) == other.memories.erase(name) == 0
        for call in (other.memories.history, other.memories.update):
            with pytest.raises(NotFoundError):
                call(name)
        assert there(alice, name).state == "live"

    @pytest.mark.parametrize("at", range(len(MISUSED)))
    def test_misuse_is_a_usage_error_and_changes_nothing(self, alice: BoundScope, at: int) -> None:
        with pytest.raises(UsageError):
            MISUSED[at](alice)
        assert alice.memories.list(states=["live", "archived", "superseded"]).memories == ()

    def test_what_needs_a_model_says_that_there_is_none(self, alice: BoundScope) -> None:
        stored(alice, "I like tea")
        with pytest.raises(UnsupportedError):
            alice.recall("tea", rerank=True)
        with pytest.raises(UnsupportedError):
            alice.remember("a", derive="model")

    def test_purpose_and_consent_are_kept_asked_for_and_withdrawn(self, here: Offprompt) -> None:
        own = here.scope(user="purposeful")
        own.remember("Her size is forty-two.", purpose="support", consent="c-1", derive="none")
        own.remember("The parcel goes to Porto.", derive="none")
        assert own.write("size", "42", purpose="Support", consent="c-1").consent == "c-1"
        found = own.recall("size parcel", purposes=["billing"], floor=0.0)
        assert [hit.text for hit in found] == ["The parcel goes to Porto."]
        assert len(own.recall("size parcel", purposes=["support"], floor=0.0)) == 2
        assert {one.consent for one in own.known()} == {"c-1", ""}
        no_names: list[Any] = ["support", []]
        for wrong in no_names:
            with pytest.raises(UsageError):
                own.recall("size", purposes=wrong)
        done = own.withdraw("c-1")
        assert (done.slots, len(done.memories), done.sessions) == (("size",), 1, ())
        assert [one.text for one in own.memories.list()] == ["The parcel goes to Porto."]
        with pytest.raises(ConflictError, match="withdrawn"):
            own.write("size", "42", consent="c-1")
