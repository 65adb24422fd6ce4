"""Encryption at rest: no byte of what is stored can be read without the keyring."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from hashlib import md5, sha1, sha256
from pathlib import Path

import pytest

import offprompt
from offprompt.errors import BackendError, NotFoundError, UnsupportedError, UsageError
from offprompt.privacy.app_key import key_text
from offprompt.service.checkup import checkup
from offprompt.service.encryption import seal_all, sealer_in
from offprompt.service.maintenance import backup
from offprompt.service.offprompt import Offprompt
from offprompt.service.remembering import digest_of
from tests.service.encryption_kit import CANARIES, Place, fill, read, seen_in


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_no_canary_is_in_any_byte_of_a_file_its_log_and_its_backup(place: Place, tmp_path: Path) -> None:
    with place.open() as memory:
        fill(memory)
        assert seen_in(place.bytes()) == []
        assert read(memory) == set(CANARIES)
        backup(memory.parts.main, tmp_path / "backup.db")
    with place.open() as memory:
        assert read(memory) == set(CANARIES)
    assert seen_in(place.bytes() + (tmp_path / "backup.db").read_bytes()) == []
    with offprompt.open(tmp_path / "plain" / "p.db", embedder="none") as memory:
        assert isinstance(memory, Offprompt)
        fill(memory)
    data = b"".join(path.read_bytes() for path in (tmp_path / "plain").iterdir())
    assert set(seen_in(data)) == set(CANARIES)


def test_no_digest_by_which_a_text_could_be_guessed_is_in_any_byte(place: Place) -> None:
    with place.open() as memory:
        alice = memory.scope(user="alice")
        alice.remember("My PIN is 4711")
        alice.remember("My PIN is 4711")
        assert [one.repeats for one in alice.memories.list()] == [1]
    with place.open() as memory:
        (one,) = memory.scope(user="alice").memories.list()
        assert one.digest == digest_of(one.text)
        data = place.bytes()
    for digest in (digest_of("My PIN is 4711"), *(new(b"My PIN is 4711").hexdigest() for new in (md5, sha1, sha256))):
        assert digest[:16].encode() not in data
        assert bytes.fromhex(digest[:16]) not in data


def test_writes_that_wait_are_sealed(place: Place) -> None:
    with place.open(write_deadline_s=0.1) as memory:
        memory.scope(user="alice").write("city", "x")
        spool = memory.parts.spool
        assert spool is not None
        with sqlite3.connect(place.store, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            memory.scope(user="alice").write("city", CANARIES["value"])
            assert seen_in(spool.path.read_bytes()) == []
            other.execute("ROLLBACK")
        other.close()
        assert spool.replay().done == 1
        assert memory.scope(user="alice").read("city") == CANARIES["value"]


def test_a_row_that_was_moved_is_an_error_and_never_anothers_value(place: Place) -> None:
    with place.open() as memory:
        for user in ("alice", "bob"):
            memory.scope(user=user).write("city", f"of {user}")
            memory.scope(user=user).write("town", f"town of {user}")
            memory.scope(user=user).remember(f"{user} likes tea")
    base = sqlite3.connect(place.store)
    texts = dict(base.execute("SELECT user || '/' || folded, value FROM versions"))
    base.execute("UPDATE versions SET value = ? WHERE user = 'bob' AND folded = 'city'", (texts["alice/city"],))
    base.execute("UPDATE versions SET value = ? WHERE user = 'alice' AND folded = 'town'", (texts["alice/city"],))
    base.execute("UPDATE versions SET value = '\"plain\"' WHERE user = 'alice' AND folded = 'city'")
    base.execute("UPDATE memories SET user = 'bob', record = replace(record, 'alice', 'bob') WHERE user = 'alice'")
    base.commit()
    base.close()
    with place.open() as memory:
        alice, bob = memory.scope(user="alice"), memory.scope(user="bob")
        with pytest.raises(BackendError, match="somebody else"):
            bob.read("city")
        with pytest.raises(BackendError, match="altered, or moved"):
            alice.read("town")
        with pytest.raises(BackendError, match="not sealed"):
            alice.read("city")
        with pytest.raises(BackendError, match="somebody else"):
            bob.memories.list()
        assert bob.read("town") == "town of bob"


def test_a_whole_record_in_anothers_place_is_an_error_and_never_anothers_words(place: Place) -> None:
    with place.open() as memory:
        for user in ("alice", "bob"):
            fill(memory, user)
    with closing(sqlite3.connect(place.store)) as base:
        for table in ("memories", "sessions"):
            (record,) = base.execute(f"SELECT record FROM {table} WHERE user = 'bob'").fetchone()  # noqa: S608 - ours
            base.execute(f"UPDATE {table} SET record = ? WHERE user = 'alice'", (record,))  # noqa: S608 - ours
        base.commit()
    with place.open() as memory:
        alice = memory.scope(user="alice")
        reads: list[Callable[[], object]] = [
            alice.memories.list,
            lambda: alice.recall("wohnt Marta?"),
            lambda: memory.parts.sessions.load(alice.scope.narrow(session="s1")),
            lambda: memory.parts.sessions.sessions(alice.scope),
            lambda: checkup(memory.parts),
        ]
        for read_it in reads:
            with pytest.raises(BackendError, match="moved"):
                read_it()
        assert memory.scope(user="bob").memories.list()


def test_tags_and_a_schema_that_were_written_past_the_keyring_are_an_error(place: Place) -> None:
    with place.open() as memory:
        for name in ("city", "town"):
            memory.scope(user="alice").write(name, "Porto", tags=["x"], schema={"type": "string"})
    base = sqlite3.connect(place.store)
    base.execute("UPDATE slots SET tags = '[\"purpose:marketing\"]' WHERE folded = 'city'")
    base.execute('UPDATE slots SET "schema" = \'{"type": "number"}\' WHERE folded = \'town\'')
    base.commit()
    base.close()
    with place.open() as memory:
        for name in ("city", "town"):
            with pytest.raises(BackendError, match="not sealed"):
                memory.scope(user="alice").slots.get(name)
        assert seal_all(memory.parts).sealed == 2
        assert memory.scope(user="alice").read("city") == "Porto"
        assert memory.scope(user="alice").read("town") == "Porto"


def test_a_store_opens_with_its_own_keyring_and_key_alone(place: Place, tmp_path: Path) -> None:
    with place.open() as memory:
        memory.scope(user="alice").write("city", "Porto")
    before = place.bytes(), place.keyring.read_bytes()
    right = place.key.read_text()
    with pytest.raises(UsageError, match="is sealed by the keyring"):
        offprompt.open(place.store)
    with pytest.raises(UsageError, match="give one"):
        place.open(encryption_key_file="")
    with pytest.raises(UsageError, match="no keyring: set"):
        place.open(encryption_keyring="")
    place.key.write_text(key_text(b"\x01" * 32))
    with pytest.raises(UsageError, match="give the right one"):
        place.open()
    place.key.write_text("short")
    with pytest.raises(UsageError, match="32 bytes in base64") as failed:
        place.open()
    assert "short" not in str(failed.value)
    place.key.write_text(right)
    with pytest.raises(NotFoundError, match="there is none at"):
        place.open(encryption_keyring=str(tmp_path / "other.db"))
    other = Place(tmp_path)
    other.keyring = tmp_path / "other" / "keys.db"
    with other.open(str(tmp_path / "b.db")) as memory:
        memory.scope(user="alice").write("city", "x")
    with pytest.raises(UsageError, match="names"):
        other.open()
    with pytest.raises(UsageError, match="the store itself"):
        place.open(encryption_keyring=str(place.store))
    with pytest.raises(UnsupportedError, match="vectors"):
        place.open(f"memories={place.store} vectors=qdrant://localhost:1")
    assert not (tmp_path / "other.db").exists()
    place.key.write_text(right)
    assert (place.bytes(), place.keyring.read_bytes()) == before
    with place.open(encryption_key_file="", encryption_key_command=f"cat {place.key}") as memory:
        assert memory.scope(user="alice").read("city") == "Porto"


def test_an_erased_users_key_is_destroyed_and_a_backup_cannot_be_read(place: Place, tmp_path: Path) -> None:
    copy = tmp_path / "backup.db"
    with place.open() as memory:
        fill(memory)
        fill(memory, "bob")
        memory.alias("ally", "alice")
        backup(memory.parts.main, copy)
        receipt = memory.erase(user="alice")
        assert receipt.data_keys
        (ring,) = (one for one in receipt.stores if one.role == "keyring")
        assert "opens nowhere" in ring.done[0]
        assert receipt.not_reached[0].startswith("exports")
        found = {one.name: one for one in memory.verify_erased(receipt, texts=list(CANARIES.values()))}
        assert found["keyring"].state == "ok"
        assert read(memory, "bob") == set(CANARIES)
        memory.restore(copy, force=True)
        assert not memory.parts.main.events(scope=memory.scope(user="alice").scope)
        assert read(memory, "alice") == set()
        assert read(memory, "bob") == set(CANARIES)
        assert {one.scope.user for one in memory.users()} == {"bob"}
        fill(memory, "alice")
        assert read(memory, "alice") == set(CANARIES)
        assert checkup(memory.parts).is_sound
    # The backup by itself, with the keyring of now: what is left of alice opens nowhere.
    place.store = copy
    with place.open() as memory:
        assert read(memory, "bob") == set(CANARIES)
        (dead,) = (one for one in checkup(memory.parts).findings if one.name == "erased")
        assert "whom was erased" in dead.what
        assert read(memory, "alice") == set()
        fill(memory, "alice")
        assert read(memory, "alice") == set(CANARIES)
        assert checkup(memory.parts, fix=True).is_sound
        assert read(memory, "alice") == set(CANARIES)
        assert not [one for one in checkup(memory.parts).findings if one.name == "erased"]


def test_what_two_ids_of_one_person_have_is_erased_with_both(place: Place, tmp_path: Path) -> None:
    with place.open() as memory:
        fill(memory, "ally")
        memory.scope(user="alice").write("town", "Faro")
        memory.alias("ally", "alice")
        backup(memory.parts.main, tmp_path / "backup.db")
        assert {"value", "older", "memory", "chinese", "tag"} <= read(memory, "alice")
        memory.scope(user="ally").write("city", "Lagos")
        assert memory.scope(user="alice").read("city") == "Lagos"
        assert [one.value for one in memory.scope(user="alice").slots.history("city")][-1] == "Lagos"
        receipt = memory.erase(user="alice")
        assert len(receipt.data_keys) == 2
    place.store = tmp_path / "backup.db"
    with place.open() as memory:
        assert read(memory, "alice") == read(memory, "ally") == set()


def test_without_the_library_nothing_is_opened(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(UnsupportedError, match=r"offprompt\[encryption\]"):
        place.open()
    assert not place.store.parent.exists()
    assert not place.keyring.parent.exists()


def test_doctor_says_that_a_keyring_lies_beside_its_store(place: Place) -> None:
    place.keyring = place.store.with_name("keys.db")
    with place.open() as memory:
        (one,) = (one for one in checkup(memory.parts).findings if one.name == "keyring")
    assert one.state == "warn"


def test_a_log_that_is_imported_again_is_known_and_no_digest_tells_its_texts(place: Place, tmp_path: Path) -> None:
    log = tmp_path / "talk.jsonl"
    log.write_text(json.dumps({"messages": [{"role": "user", "content": "My PIN is 4711"}]}) + "\n")
    with place.open() as memory:
        for added in (1, 0):
            done = memory.scope(user="alice").memories.import_file(log, derive="none")
            assert done.added == added
        data = place.bytes()
    assert digest_of("My PIN is 4711")[:16].encode() not in data


def test_what_a_writer_left_while_its_user_was_erased_is_mended_at_once(place: Place) -> None:
    with place.open() as memory:
        alice, sealer = memory.scope(user="alice"), sealer_in(memory.parts.main)
        assert sealer is not None
        for number in range(3):
            alice.remember(f"alice likes tea {number}")
        # As if these were stored between the removal of her rows and the end of her key.
        sealer.destroy(("default", "user", "alice"))
        memory.erase(user="alice")
        assert [one for one in checkup(memory.parts).findings if one.name == "erased"]
        assert checkup(memory.parts, fix=True).is_sound
        assert not [one for one in checkup(memory.parts).findings if one.name == "erased"]


def test_doctor_warns_of_a_keyring_and_a_key_that_others_can_read(place: Place) -> None:
    place.key.chmod(0o600)
    with place.open() as memory:
        memory.scope(user="alice").write("city", "Porto")
        assert not [one for one in checkup(memory.parts).findings if one.name == "keyring rights"]
        place.key.chmod(0o640)
        place.keyring.chmod(0o604)
        told = [one for one in checkup(memory.parts).findings if one.name == "keyring rights"]
    assert [one.what.rpartition(" is ")[2] for one in told] == ["open to others (604)", "open to others (640)"]
