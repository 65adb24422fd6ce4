"""What scopes promise to whoever opens a memory, here or by its server: whose, what is inherited, events, files."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from offprompt.errors import NotFoundError, ScopeError, UsageError
from offprompt.records import Scope
from offprompt.records.alias import Joined
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing.face_kit import FaceKit, told, unique

IDS = (
    "a b",
    "小明",
    "a%2Fb",
    "a/b",
    "..",
    "a?b#c",
    "auth0|7",
    "'\"\\",
    "e\u0301",
    "🜁",
    "foo",
    "FOO",
    "foobar",
    "x" * 256,
)


class FaceScopes(FaceKit):
    """Scopes: whose memory it is, what they inherit, what was done in them, how all of it goes in and out."""

    def test_no_scope_is_an_error_and_never_a_wildcard(self, opened: Offprompt, here: Offprompt) -> None:
        for wrong in ({}, {"user": ""}, {"user": "x" * 257}, {"agent": "a\n"}, {"session": " a"}, {"user": "\ud800"}):
            given: Any = wrong
            answer = told(lambda given=given: opened.scope(**given))
            assert answer == told(lambda given=given: here.scope(**given))
            assert answer[0] == "ScopeError"
        assert told(lambda: opened.scope(user="a", shared=True)) == told(lambda: here.scope(user="a", shared=True))

    def test_ids_are_opaque(self, opened: Offprompt) -> None:
        end = unique("")[:-12]
        for kind in ("user", "agent", "session"):
            for name in IDS:
                given: Any = {kind: (name + end)[-256:]}
                opened.scope(**given).write("own", name)
            for name in IDS:
                given = {kind: (name + end)[-256:]}
                scope = opened.scope(**given)
                assert scope.read("own") == name
                assert (scope.slots.list()[0].scope, len(scope.slots.list())) == (scope.scope, 1)

    def test_the_nearest_scope_is_found_first(self, opened: Offprompt) -> None:
        user, agent = unique("alice"), unique("helper")
        near = opened.scope(user=user, agent=agent, session="s1")
        chain = [{"agent": agent}, {"user": user}, {"user": user, "agent": agent}]
        for at, ids in enumerate(chain):
            given: Any = ids
            opened.scope(**given).write("a", at)
        assert near.read("a") == len(chain) - 1
        near.write("a", "nearest")
        assert near.read("a") == "nearest"
        assert opened.scope(user=user).read("a") == 1
        assert [one.scope for one in opened.scope(user=user).slots.list(within="subtree")] == [
            Scope(user=user),
            Scope(user=user, agent=agent),
            Scope(user=user, agent=agent, session="s1"),
        ]

    def test_what_is_shared_is_read_by_all_and_changed_in_its_scope(self, opened: Offprompt, alice: BoundScope) -> None:
        shared, name = opened.scope(shared=True), f"rule_{unique('')[1:9]}"
        shared.write(name, "be kind")
        rule = shared.remember(f"the rule {name} holds for all", derive="none")[0].name
        try:
            assert alice.read(name) == "be kind"
            assert alice.memories.get(rule) is not None
            with pytest.raises(UsageError):
                alice.memories.update(rule, text="no rule")
            assert alice.memories.forget(rule) == 0
        finally:
            shared.slots.erase(name)
            shared.memories.erase(rule)
        with pytest.raises(NotFoundError):
            alice.read(name)

    def test_a_scope_is_narrowed_and_never_becomes_anothers(self, opened: Offprompt, alice: BoundScope) -> None:
        narrow = alice.narrow(agent="helper").narrow(session="s1")
        assert str(narrow.scope) == f"{alice.scope} agent=helper session=s1"
        narrow.write("a", 1)
        assert alice.slots.list(within="exact") == []
        with pytest.raises(ScopeError):
            alice.narrow(user="bob")
        from_shared = opened.scope(shared=True).narrow(user=alice.scope.user)
        from_shared.write("b", 2)
        assert (from_shared.scope, alice.read("b")) == (alice.scope, 2)

    def test_events_say_what_was_done_and_never_a_value(self, alice: BoundScope) -> None:
        alice.write("city", "Timbuktu")
        alice.read("city")
        alice.remember("Xanadu is a place", derive="none")
        alice.forget("city")
        with pytest.raises(UsageError):
            alice.write("city", "x" * 5000)
        events = alice.events()
        assert [one.op for one in events] == ["slot.write", "slot.read", "memory.add", "slot.forget", "slot.write"]
        assert (events[0].name, events[0].version, events[0].bytes, events[0].outcome) == ("city", 1, 8, "ok")
        assert events[-1].outcome == "LimitError"
        assert "Timbuktu" not in str(events)
        assert "Xanadu" not in str(events)
        assert alice.events(op="slot.r") == events[1:2]
        assert alice.events(after=events[1].seq, limit=2) == events[2:4]
        assert alice.events(limit=0) == []

    def test_two_ids_of_one_person_become_one(self, opened: Offprompt) -> None:
        old, new = unique("old"), unique("new")
        first, second = opened.scope(user=old), opened.scope(user=new)
        first.write("diet", "vegan")
        first.write("city", "Ulm")
        first.remember("I like tea", derive="none")
        second.write("city", "Porto")
        look = opened.alias(old, new, preview=True)
        assert look == Joined(new, 1, ("diet",), ("city",), preview=True)
        assert second.slots.snapshot() == {"city": "Porto"}
        assert opened.alias(old, new) == Joined(new, 1, ("diet",), ("city",), preview=False)
        assert opened.scope(user=old).slots.snapshot() == {"city": "Porto", "diet": "vegan"}
        assert [one.text for one in opened.scope(user=old).memories.list()] == ["I like tea"]
        with pytest.raises(UsageError):
            opened.alias(new, new)

    def test_users_are_listed_with_what_they_hold(self, opened: Offprompt) -> None:
        user = unique("holder")
        opened.scope(user=user).write("a", 1)
        opened.scope(user=user, session="s1").write("b", 1)
        opened.scope(user=user, agent="helper").remember("I like tea", derive="none")
        held = {str(one.scope): (one.slots, one.memories) for one in opened.users() if one.scope.user == user}
        assert held == {f"user={user}": (2, 0), f"user={user} agent=helper": (0, 1)}

    def test_clear_leaves_nothing(self, alice: BoundScope) -> None:
        alice.write("a", 1)
        alice.narrow(session="s1").write("b", 1)
        alice.remember("I like tea", derive="none")
        assert alice.clear() == {"slots": 2, "memories": 1, "sessions": 0}
        assert alice.slots.list(within="subtree") == []
        assert alice.memories.list(within="subtree").memories == ()
        assert alice.clear() == {"slots": 0, "memories": 0, "sessions": 0}

    def test_memories_go_out_and_come_in_once(self, opened: Offprompt, alice: BoundScope, tmp_path: Path) -> None:
        alice.write("key", "s3cret-0123456789-0123456789", policy="never")
        alice.remember(["I moved to Shanghai", "我喜欢绿茶", "my key is s3cret-0123456789-0123456789"], derive="none")
        alice.memories.update(alice.memories.list().memories[1].memory_id, archived=True)
        file = tmp_path / "out.jsonl"
        assert alice.memories.export(file) == 3
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        lines = file.read_text(encoding="utf-8").splitlines()
        assert (len(lines), json.loads(lines[0])["format"]) == (4, "offprompt-memories")
        assert "s3cret" not in file.read_text(encoding="utf-8")
        with pytest.raises(UsageError):
            alice.memories.export(file)
        assert alice.memories.export(tmp_path / "all.jsonl", secrets=True) == 3
        assert "s3cret" in (tmp_path / "all.jsonl").read_text(encoding="utf-8")

        bob = opened.scope(user=unique("bob"))
        refused = bob.memories.import_file(file)
        assert (refused.added, refused.known, len(refused.refused)) == (0, 0, 3)
        assert (refused.refused[0].file, refused.refused[0].line) == (str(file), 2)
        done = bob.memories.import_file(str(file), rescope=True)
        assert (done.added, done.known, done.refused) == (3, 0, [])
        again = bob.memories.import_file(file, rescope=True)
        assert (again.added, again.known) == (0, 3)
        states = ["live", "archived"]
        assert [one.text for one in bob.memories.list(states=states)] == [  # pyright: ignore[reportArgumentType]
            one.text.replace("s3cret-0123456789-0123456789", "[[mem:key]]")
            for one in alice.memories.list(states=states)  # pyright: ignore[reportArgumentType]
        ]

    def test_exports_of_others_and_chat_logs_come_in(self, alice: BoundScope, tmp_path: Path) -> None:
        peer = tmp_path / "peer.json"
        peer.write_text(
            json.dumps({"results": [{"id": "7", "memory": "I like tea"}, {"memory": ""}]}, indent=1), encoding="utf-8"
        )
        done = alice.memories.import_file(peer)
        assert (done.added, [(one.file, one.line) for one in done.refused]) == (1, [(str(peer), 2)])
        log = tmp_path / "log.jsonl"
        turns = [{"role": "user", "content": "我叫李明"}, {"role": "assistant", "content": "你好，李明"}]
        log.write_text(json.dumps({"messages": turns}, ensure_ascii=False) + "\n", encoding="utf-8")
        done = alice.memories.import_file(log, derive="none")
        assert (done.added, done.refused) == (2, [])
        assert alice.memories.import_file(log, derive="none").known == 2
        broken = tmp_path / "broken.txt"
        broken.write_text("no log at all", encoding="utf-8")
        with pytest.raises(UsageError, match=r"broken\.txt"):
            alice.memories.import_file(broken)

    def test_reindex_without_an_embedder_has_nothing_to_do(self, alice: BoundScope) -> None:
        alice.remember("I like tea", derive="none")
        done = alice.memories.reindex()
        assert (done.done, done.embedder) == (0, "")
