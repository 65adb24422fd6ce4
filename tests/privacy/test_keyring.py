"""The keyring: who makes, rotates and destroys keys in one process is followed by the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from offprompt.errors import BackendError, NotFoundError, UsageError
from offprompt.privacy.app_key import key_text, read_key
from offprompt.privacy.keyring import Keyring
from offprompt.privacy.rewrapping import rewrap
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock

ALICE, BOB = ("default", "user", "alice"), ("default", "user", "bob")
PLACE = ("table", "row")
KEY = b"\x05" * 32


@pytest.fixture
def pair() -> tuple[Keyring, Keyring]:
    """Two processes with one keyring."""
    store, clock = InProcessStore(MovedClock()), MovedClock()
    return Keyring(store, KEY, clock, create=True), Keyring(store, KEY, clock)


def test_keys_of_all_owners_are_unlike_and_each_opens_its_own(pair: tuple[Keyring, Keyring]) -> None:
    here, there = pair
    sealed = here.seal(ALICE, PLACE, b"text")
    assert there.open(ALICE, PLACE, sealed) == b"text"
    assert there.open(None, PLACE, sealed) == b"text"
    assert here.seal(ALICE, PLACE, b"text") != sealed
    changed: list[Callable[[], bytes | None]] = [
        lambda: there.open(ALICE, ("tabler", "ow"), sealed),
        lambda: there.open(ALICE, PLACE, sealed[:-1]),
        lambda: there.open(ALICE, PLACE, sealed[:40] + bytes([sealed[40] ^ 1]) + sealed[41:]),
        lambda: there.open(ALICE, PLACE, b"\x02" + sealed[1:]),
        lambda: there.open(ALICE, PLACE, sealed[:1] + b"12345678" + sealed[9:]),
        lambda: there.open(BOB, PLACE, sealed),
        lambda: there.open(ALICE, PLACE, b""),
    ]
    for read in changed:
        with pytest.raises(BackendError) as failed:
            read()
        assert "text" not in str(failed.value)
    names = {(owner, text): here.looked_up(owner, text) for owner in (ALICE, BOB) for text in ("city", "城市")}
    assert len(set(names.values())) == 4
    assert names == {pair: there.looked_up(*pair) for pair in names}


def test_many_that_begin_at_once_make_one_key() -> None:
    store, clock = InProcessStore(MovedClock()), MovedClock()
    Keyring(store, KEY, clock, create=True)
    rings = [Keyring(store, KEY, clock) for _ in range(8)]

    def seal(ring: Keyring) -> bytes:
        return ring.seal(ALICE, PLACE, b"x")

    with ThreadPoolExecutor(8) as pool:
        sealed = list(pool.map(seal, rings))
    (one,) = rings[0].list()
    assert {text[1:9].hex() for text in sealed} == set(one.ids)
    assert len([name for name, _ in store.notes("key/")]) == 1


def test_what_another_process_destroyed_seals_nothing_more(pair: tuple[Keyring, Keyring]) -> None:
    here, there = pair
    before, bobs = there.seal(ALICE, PLACE, b"x"), there.seal(BOB, PLACE, b"y")
    (key_id,) = here.destroy(ALICE)
    assert there.is_destroyed(key_id)
    there.refresh()
    after = there.seal(ALICE, PLACE, b"z")
    assert (there.open(ALICE, PLACE, before), here.open(ALICE, PLACE, after)) == (None, b"z")
    assert here.open(None, PLACE, before) is None
    assert here.open(BOB, PLACE, bobs) == b"y"
    assert here.destroy(("default", "user", "nobody")) == ()


def test_a_new_key_seals_and_older_ones_open(pair: tuple[Keyring, Keyring]) -> None:
    here, there = pair
    before = there.seal(ALICE, PLACE, b"x")
    name = there.looked_up(ALICE, "city")
    made = here.renew(ALICE)
    there.refresh()
    after = there.seal(ALICE, PLACE, b"y")
    assert after[1:9].hex() == made
    assert (there.is_current(ALICE, before), there.is_current(ALICE, after)) == (False, True)
    assert (there.open(ALICE, PLACE, before), there.open(ALICE, PLACE, after)) == (b"x", b"y")
    assert there.looked_up(ALICE, "city") == name
    assert len(here.destroy(ALICE)) == 2
    with pytest.raises(NotFoundError):
        here.renew(ALICE)


def test_keys_that_became_anothers_are_destroyed_with_that_one_alone(pair: tuple[Keyring, Keyring]) -> None:
    here, there = pair
    carol = ("default", "user", "carol")
    sealed = here.seal(ALICE, PLACE, b"x")
    here.join("default", "alice", "bob")
    here.join("default", "bob", "carol")
    assert there.open(carol, PLACE, sealed) == b"x"
    assert there.destroy(ALICE) == ()
    assert there.open(carol, PLACE, sealed) == b"x"
    assert len(there.destroy(carol)) == 3
    here.refresh()
    assert here.open(carol, PLACE, sealed) is None


class Killed(InProcessStore):
    """A store whose process ends before a change. left: changes until then."""

    left = 10**9

    def set_note(self, *args: Any, **more: Any) -> bool:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().set_note(*args, **more)


def test_destroying_that_is_killed_anywhere_is_done_by_the_same_call_once_more() -> None:
    for at in range(5):
        store, clock = Killed(MovedClock()), MovedClock()
        ring = Keyring(store, KEY, clock, create=True)
        sealed = [(owner, ring.seal(owner, PLACE, b"x")) for owner in (ALICE, BOB)]
        ring.join("default", "alice", "bob")
        store.left = at
        with pytest.raises(KeyboardInterrupt):
            ring.destroy(BOB)
        store.left = 10**9
        ring = Keyring(store, KEY, clock)
        ring.destroy(BOB)
        assert [ring.open(owner, PLACE, text) for owner, text in sealed] == [None, None]
        assert list(ring.list()) == []


def test_a_key_made_while_a_rotation_ends_is_wrapped_by_the_same_call_once_more() -> None:
    store, clock = Killed(MovedClock()), MovedClock()
    new = b"\x06" * 32
    ring = Keyring(store, KEY, clock, create=True)
    ring.seal(BOB, PLACE, b"x")
    name = "holder/default/user/alice"
    ring.seal(ALICE, PLACE, b"x")
    text = store.note(name)
    store.set_note(name, None, was=text)
    rewrap(store, KEY, new)
    # As a process leaves it that is killed before it looks whether a rotation began.
    store.set_note(name, text, was=None)
    assert rewrap(store, KEY, new) == 1
    assert Keyring(store, new, clock).seal(ALICE, PLACE, b"y")


def test_what_a_thread_read_before_a_key_was_destroyed_is_kept_nowhere() -> None:
    class Pauses(InProcessStore):
        then: Callable[[], object] | None = None

        def note(self, name: str) -> str | None:
            found = super().note(name)
            if name.startswith("holder/") and (then := self.then) is not None:
                self.then = None
                then()
            return found

    store, clock = Pauses(MovedClock()), MovedClock()
    here, there = Keyring(store, KEY, clock, create=True), Keyring(store, KEY, clock)
    before = here.seal(ALICE, PLACE, b"x")

    def destroyed() -> None:
        here.destroy(ALICE)
        there.refresh()

    there.refresh()
    store.then = destroyed
    there.looked_up(ALICE, "read while it was destroyed")
    there.refresh()
    after = there.seal(ALICE, PLACE, b"y")
    assert (here.open(ALICE, PLACE, before), here.open(ALICE, PLACE, after)) == (None, b"y")


def test_a_key_command_gets_no_input_and_its_words_are_told_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    assert read_key(command=f"sh -c 'read line || echo {key_text(KEY)}; echo said-4471 >&2'") == KEY
    assert capfd.readouterr() == ("", "")
    for command in ("sh -c 'exit 3' token-4471", "echo token-4471", "echo 'token-4471", " ", "no-such token-4471"):
        with pytest.raises(UsageError) as failed:
            read_key(command=command)
        told: BaseException | None = failed.value
        assert "4471" not in str(told)
        assert told is not None
        assert told.__cause__ is None


def test_no_byte_of_a_keyring_is_a_key(tmp_path: Path) -> None:
    clock = MovedClock()
    ring = Keyring(SqliteStore(tmp_path / "k.db", clock=clock), KEY, clock, create=True)
    sealed = ring.seal(ALICE, PLACE, b"x")
    key_id = sealed[1:9].hex().encode()
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key_id in files
    assert KEY not in files
    ring.destroy(ALICE)
    ring.scour()
    note = b"holder/default/user/alice"
    assert note in files
    assert note not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    ring.close()
    store = SqliteStore(tmp_path / "k.db", clock=clock)
    with pytest.raises(UsageError, match="right one"):
        Keyring(store, os.urandom(32), clock)
    store.close()


def test_the_apps_key_is_read_from_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "k"
    file.write_text(key_text(KEY) + "\n")
    monkeypatch.setenv("MY_KEY", key_text(KEY))
    assert read_key(file=str(file)) == read_key(env="MY_KEY") == read_key(command=f"cat {file}") == KEY
    wrong: list[dict[str, str]] = [
        {},
        {"file": str(file), "env": "MY_KEY"},
        {"file": str(tmp_path / "none")},
        {"env": "NO_KEY"},
        {"command": "false"},
        {"command": "no-such-program"},
        {"command": "echo secret-9918"},
        {"command": "'"},
    ]
    for given in wrong:
        with pytest.raises(UsageError) as failed:
            read_key(**given)
        assert "is no key: a key" not in str(failed.value) or "echo" in str(given)
        assert key_text(KEY) not in str(failed.value)
