"""Keys: shown once, stored as hashes, valid in every process until they expire, are rotated or revoked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import ConflictError, NotFoundError, ScopeError, UnauthenticatedError, UsageError
from offprompt.protocols import Notes
from offprompt.records import Event, Identity, Key, Scope
from offprompt.service.keys import CACHE_S, OVERLAP_S, Keys
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock


class Counted:
    """Notes that count what is read."""

    def __init__(self, notes: Notes) -> None:
        self._notes, self.reads = notes, 0

    def note(self, name: str) -> str | None:
        self.reads += 1
        return self._notes.note(name)

    def notes(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        return self._notes.notes(prefix, after=after, limit=limit)

    def drop_notes(self, known: Sequence[tuple[str, str]]) -> int:
        return self._notes.drop_notes(known)

    def set_note(self, name: str, text: str | None, *, was: str | None, events: Sequence[Event] = ()) -> bool:
        return self._notes.set_note(name, text, was=was, events=events)


@pytest.fixture
def keys(mem: Offprompt, clock: MovedClock) -> Keys:
    return Keys(mem.parts.main, clock)


def events(mem: Offprompt) -> list[tuple[str, str, str]]:
    return [(one.op, one.actor, one.name) for one in mem.scope(shared=True).events(op="key.")]


def test_a_key_is_whose_it_was_made_for(keys: Keys, clock: MovedClock) -> None:
    made = keys.create("客服", app="shop", users=["alice", "alice", "李雷"], agents=["bot"], roles=["write", "read"])
    assert made.key == Key(made.key.key_id, "客服", "shop", ("alice", "李雷"), ("bot",), ("read", "write"), clock.now())
    assert keys.find(made.token) == Identity(
        "shop", ("alice", "李雷"), ("bot",), frozenset({"read", "write"}), made.key.key_id, "客服"
    )
    assert keys.get("shop", made.key.key_id) == made.key


def test_a_key_of_one_user_has_that_one_as_default(keys: Keys) -> None:
    assert keys.find(keys.create("a", users=["alice"]).token).default_user == "alice"
    assert keys.find(keys.create("a").token).default_user is None


def test_no_token_is_stored_or_printed(tmp_path: Path) -> None:
    with offprompt.open(str(tmp_path / "a.db")) as memory:
        made = Keys(memory.parts.main, memory.parts.clock).create("a")
    secret = made.token.rpartition(made.key.key_id)[2].strip("_")
    assert len(secret) >= 43
    assert secret not in repr(made)
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "change", ["", "x", "op_", "op__", "Bearer", "op_zz_{secret}", "{token}x", "{upper}", "\ud800"]
)
def test_what_is_no_token_is_refused_in_the_same_words(keys: Keys, change: str) -> None:
    made = keys.create("a")
    secret = made.token.split("_", 2)[2]
    wrong = change.format(secret=secret, token=made.token, upper=made.token.upper())
    with pytest.raises(UnauthenticatedError) as refused:
        keys.find(wrong)
    with pytest.raises(UnauthenticatedError, match="not valid") as other:
        keys.find(f"op_{made.key.key_id}_" + "x" * 43)
    assert str(refused.value) == str(other.value)


def test_a_key_expires_by_the_clock_though_it_was_read_just_now(keys: Keys, clock: MovedClock) -> None:
    made = keys.create("a", expires_at=clock.now() + 2)
    keys.find(made.token)
    clock.move(1.9)
    keys.find(made.token)
    clock.move(0.1)
    with pytest.raises(UnauthenticatedError):
        keys.find(made.token)
    assert not keys.exist()
    assert keys.list("default") == [made.key]


def test_after_a_rotation_both_tokens_work_until_the_overlap_is_over(keys: Keys, clock: MovedClock) -> None:
    first = keys.create("a")
    second = keys.rotate("default", first.key.key_id)
    assert second.key.key_id == first.key.key_id
    assert keys.find(first.token) == keys.find(second.token)
    clock.move(OVERLAP_S)
    with pytest.raises(UnauthenticatedError):
        keys.find(first.token)
    third = keys.rotate("default", first.key.key_id, overlap_s=0)
    with pytest.raises(UnauthenticatedError):
        keys.find(second.token)
    assert keys.find(third.token).key == first.key.key_id


def test_two_rotations_leave_the_newest_two(keys: Keys) -> None:
    first = keys.create("a")
    second = keys.rotate("default", first.key.key_id)
    third = keys.rotate("default", first.key.key_id, expires_at=None)
    with pytest.raises(UnauthenticatedError):
        keys.find(first.token)
    assert keys.find(second.token) == keys.find(third.token)


def test_a_revoked_key_is_refused_at_once_here_and_elsewhere_within_seconds(mem: Offprompt, clock: MovedClock) -> None:
    here, elsewhere = Keys(mem.parts.main, clock), Keys(mem.parts.main, clock)
    made = here.create("a")
    here.find(made.token)
    elsewhere.find(made.token)
    assert here.revoke("default", made.key.key_id) == made.key
    with pytest.raises(UnauthenticatedError):
        here.find(made.token)
    assert elsewhere.find(made.token)
    clock.move(CACHE_S)
    with pytest.raises(UnauthenticatedError):
        elsewhere.find(made.token)
    assert here.list("default") == []


def test_a_rotated_token_is_known_elsewhere_at_once_though_the_key_was_read_just_now(
    mem: Offprompt, clock: MovedClock
) -> None:
    notes = Counted(mem.parts.main)
    here, elsewhere = Keys(mem.parts.main, clock), Keys(notes, clock)
    first = here.create("a")
    elsewhere.find(first.token)
    second = here.rotate("default", first.key.key_id)
    assert elsewhere.known(second.token) is None
    assert elsewhere.find(second.token).subject == "a"
    assert elsewhere.known(second.token) == elsewhere.known(first.token) == second.key.identity
    before = notes.reads
    with pytest.raises(UnauthenticatedError):
        elsewhere.find(f"{second.token}x")
    assert notes.reads == before + 1


def test_a_known_key_is_read_once_in_that_time(mem: Offprompt, clock: MovedClock) -> None:
    notes = Counted(mem.parts.main)
    keys = Keys(notes, clock)
    made = keys.create("a")
    before = notes.reads
    for _ in range(100):
        keys.find(made.token)
    assert notes.reads == before + 1
    clock.move(CACHE_S)
    keys.find(made.token)
    assert notes.reads == before + 2
    clock.move(-100)
    keys.find(made.token)
    assert notes.reads == before + 3


def test_another_apps_key_is_as_one_that_never_was(keys: Keys) -> None:
    made = keys.create("a", app="shop")
    for ask in (keys.get, keys.revoke, keys.rotate):
        with pytest.raises(NotFoundError) as theirs:
            ask("default", made.key.key_id)
        with pytest.raises(NotFoundError) as nobodys:
            ask("default", "0" * 16)
        assert str(theirs.value).replace(made.key.key_id, "ID") == str(nobodys.value).replace("0" * 16, "ID")
    assert keys.list("default") == []
    assert keys.list("shop") == [made.key]
    assert keys.find(made.token).app == "shop"


def test_changes_leave_events_with_ids_and_no_token(mem: Offprompt, keys: Keys) -> None:
    made = keys.create("a", actor="key:root")
    keys.rotate("default", made.key.key_id, actor="key:root")
    keys.revoke("default", made.key.key_id, actor="app")
    own = made.key.key_id
    assert events(mem) == [("key.create", "key:root", own), ("key.rotate", "key:root", own), ("key.revoke", "app", own)]
    assert all(one.scope == Scope(shared=True) for one in mem.scope(shared=True).events(op="key."))


def test_keys_are_listed_in_the_order_of_their_creation(keys: Keys, clock: MovedClock) -> None:
    made = list[Key]()
    for name in ("c", "a", "b"):
        made.append(keys.create(name).key)
        clock.move(1)
    assert keys.list("default") == made


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"name": ""}, ScopeError, "1 to 256 bytes"),
        ({"users": []}, UsageError, "for nobody"),
        ({"users": "alice"}, UsageError, r"\['alice'\]"),
        ({"users": ["a\n"]}, ScopeError, "control characters"),
        ({"roles": []}, UsageError, "read, write, admin"),
        ({"roles": ["root"]}, UsageError, "'root'"),
        ({"expires_at": 5.0}, UsageError, "is over"),
        ({"requests_per_minute": 0}, UsageError, "above 0"),
    ],
)
def test_what_is_no_key_is_not_made(keys: Keys, given: dict[str, Any], error: type[Exception], says: str) -> None:
    options: dict[str, Any] = {"name": "a", **given}
    with pytest.raises(error, match=says):
        keys.create(**options)
    assert keys.list("default") == []
    assert not keys.exist()


def test_many_keys_made_at_once_are_all_there(keys: Keys) -> None:
    threads = [threading.Thread(target=keys.create, args=(f"k{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key.name for key in keys.list("default")} == {f"k{number}" for number in range(12)}


def test_a_rotation_that_another_one_overtook_says_so(mem: Offprompt, clock: MovedClock) -> None:
    keys = Keys(mem.parts.main, clock)
    made = keys.create("a")

    class Overtaken(Counted):
        def set_note(self, name: str, text: str | None, *, was: str | None, events: Sequence[Event] = ()) -> bool:
            keys.rotate("default", made.key.key_id)
            return super().set_note(name, text, was=was, events=events)

    with pytest.raises(ConflictError, match="just now"):
        Keys(Overtaken(mem.parts.main), clock).rotate("default", made.key.key_id)


@pytest.fixture
def reopened(tmp_path: Path) -> Iterator[tuple[Keys, Keys]]:
    path = str(tmp_path / "two.db")
    with offprompt.open(path) as one, offprompt.open(path) as other:
        yield Keys(one.parts.main, one.parts.clock), Keys(other.parts.main, other.parts.clock)


def test_a_key_made_in_one_process_is_known_in_another_at_once(reopened: tuple[Keys, Keys]) -> None:
    one, other = reopened
    with pytest.raises(UnauthenticatedError):
        other.find("op_0_x")
    assert other.find(one.create("a", requests_per_minute=5).token).subject == "a"
