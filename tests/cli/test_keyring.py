"""`offprompt encrypt` and `offprompt keyring`: sealing what is there, new keys for the app and for a user."""

from __future__ import annotations

import base64
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import offprompt
from offprompt.errors import BackendError
from offprompt.privacy.app_key import parse_key
from offprompt.privacy.keyring import Keyring
from offprompt.privacy.rewrapping import rewrap
from offprompt.service import encryption
from offprompt.service.offprompt import Offprompt
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from tests.cli.conftest import Run

CANARY = "kanarien-5501"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OFFPROMPT_EMBEDDER", "none")
    return tmp_path


def turn_on(monkeypatch: pytest.MonkeyPatch, key: str = "app.key") -> None:
    monkeypatch.setenv("OFFPROMPT_ENCRYPTION_KEYRING", "ring/keys.db")
    monkeypatch.setenv("OFFPROMPT_ENCRYPTION_KEY_FILE", key)


def bytes_of(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in store.parent.glob(store.name + "*"))


def test_a_store_that_was_plain_is_sealed_and_nothing_of_it_stays(
    run: Run, folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("alice", "bob"):
        run(f"write city '{CANARY} of {user}' --user {user} --tag {CANARY}")
        run(f"write city '{CANARY} of {user} again' --user {user}")
        run(f"remember '{user} likes {CANARY}' --user {user}")
    assert CANARY.encode() in bytes_of(store)
    made = run("keyring new-key app.key")
    assert made.code == 0
    assert stat.S_IMODE((folder / "app.key").stat().st_mode) == 0o600
    assert len(base64.b64decode((folder / "app.key").read_text())) == 32
    assert run("keyring new-key app.key").code == 2
    turn_on(monkeypatch)
    refused = run("read city --user alice")
    assert refused.code == 2
    assert "offprompt encrypt" in refused.err
    sealed = run("encrypt --json")
    assert sealed.code == 0, sealed.err
    assert sealed.document["sealed"] >= 8
    assert CANARY.encode() not in bytes_of(store)
    assert run("read city --user alice").out.strip() == f"{CANARY} of alice again"
    assert f"bob likes {CANARY}" in run(f"recall 'likes {CANARY}' --user bob").out
    assert run("encrypt --json").document["sealed"] == 0
    assert "kanarien" not in run("keyring list").out
    assert run("doctor").code == 0
    assert "已加密" in run("encrypt --lang zh").out


@pytest.mark.parametrize("value", ["sealed:", "sealed:AAAA", "sealed:!!"])
def test_a_plain_value_that_begins_as_a_sealed_one_is_named_before_anything_is_changed(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    with offprompt.open(store, embedder="none") as memory:
        memory.scope(user="alice").write("odd", f"\x1f{value}")
        memory.scope(user="alice").remember(f"\x1f{value}")
    run("keyring new-key app.key")
    with monkeypatch.context() as on:
        turn_on(on)
        refused = run("encrypt")
    assert (refused.code, "odd" in refused.err or "memories" in refused.err) == (2, True)
    assert "nothing was changed" in refused.err
    assert run("read odd --user alice").code == 0
    run("write odd plain --user alice")
    with offprompt.open(store, embedder="none") as memory:
        memory.scope(user="alice").slots.erase("odd")
        memory.scope(user="alice").memories.erase()
    run("write odd plain --user alice")
    turn_on(monkeypatch)
    assert run("encrypt").code == 0
    with offprompt.open(store) as memory:
        memory.scope(user="alice").write("odd", f"\x1f{value}", tags=[f"\x1f{value}"])
        memory.scope(user="alice").remember(f"\x1f{value} likes tea")
    with offprompt.open(store) as memory:
        assert memory.scope(user="alice").read("odd") == f"\x1f{value}"
        assert f"\x1f{value} likes tea" in [one.text for one in memory.scope(user="alice").memories.list()]
    assert run("doctor").code == 0


def test_broken_off_it_goes_on_and_doctor_tells(run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        run(f"write n{number} '{CANARY} {number}' --user u{number}")
    run("keyring new-key app.key")
    turn_on(monkeypatch)
    program = (
        "import os, signal\n"
        "from offprompt.service import encryption\n"
        "from offprompt.stores.sqlite import SqliteStore\n"
        "encryption.PAGE = 3\n"
        "real, count = SqliteStore.reseal, 0\n"
        "def reseal(self, table, work, **more):\n"
        "    global count\n"
        "    done = real(self, table, work, **more)\n"
        "    count += table == 'versions'\n"
        "    if count == 3:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return done\n"
        "SqliteStore.reseal = reseal\n"
        "from offprompt.cli import main\n"
        "main(['encrypt'])\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    seen = run("doctor --json").document["findings"]
    (one,) = (one for one in seen if one["name"] == "encryption")
    assert one["state"] == "warn"
    assert re.match(r"(?!0 )\d+ of ", one["what"])
    assert run("read n11 --user u11").out.strip() == f"{CANARY} 11"
    run(f"write n11 '{CANARY} new' --user u11")
    assert run("encrypt").code == 0
    assert CANARY.encode() not in bytes_of(store)
    assert all(run(f"read n{number} --user u{number}").code == 0 for number in (0, 5, 10))
    assert run("read n11 --user u11").out.strip() == f"{CANARY} new"


def test_the_apps_key_is_rotated_and_the_old_one_opens_nothing(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("keyring new-key app.key")
    run("keyring new-key new.key")
    turn_on(monkeypatch)
    for user in ("alice", "bob"):
        run(f"write city Porto --user {user}")
    assert run("keyring rotate").code == 2
    done = run("keyring rotate --new-key-file new.key --json")
    assert done.document == {"rewrapped": 2}
    refused = run("read city --user alice")
    assert refused.code == 2
    assert "give the right one" in refused.err
    turn_on(monkeypatch, "new.key")
    assert run("read city --user alice").out.strip() == "Porto"
    keys = [run(f"keyring {words}").out for words in ("list", "list --json", "renew --user alice", "backup k.db")]
    assert all((folder / name).read_text().strip() not in text for name in ("app.key", "new.key") for text in keys)
    assert "alice" in keys[0]


def test_a_rotation_that_is_killed_goes_on_and_until_then_no_key_opens() -> None:
    clock = MovedClock()
    old, new = os.urandom(32), os.urandom(32)

    class Dies(InProcessStore):
        left = 10**9

        def set_note(self, *args: object, **more: object) -> bool:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().set_note(*args, **more)  # type: ignore[arg-type]

    for at in range(1, 8):
        store = Dies(clock)
        ring = Keyring(store, old, clock, create=True)
        rows = [
            (("default", "user", f"u{n}"), ring.seal(("default", "user", f"u{n}"), ["t", "1"], b"x")) for n in range(4)
        ]
        store.left = at
        with pytest.raises(KeyboardInterrupt):
            rewrap(store, old, new)
        store.left = 10**9
        for key in (old, new) if at < 7 else ():
            with pytest.raises(offprompt.UsageError, match="finish it"):
                Keyring(store, key, clock)
        with pytest.raises(BackendError, match="changed meanwhile"):
            ring.seal(("default", "user", "other"), ["t", "1"], b"y")
        assert not [one for one in ring.list() if one.owner[2] == "other"]
        rewrap(store, old, new)
        fresh = Keyring(store, new, clock)
        assert [fresh.open(owner, ["t", "1"], sealed) for owner, sealed in rows] == [b"x"] * 4
        with pytest.raises(offprompt.UsageError, match="give the right one"):
            Keyring(store, old, clock)


def test_a_users_new_key_seals_what_comes_and_on_request_what_was(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("keyring new-key app.key")
    turn_on(monkeypatch)
    run("write city Porto --user alice")
    run("remember 'likes tea' --user alice")
    run("write town Faro --user bob")
    assert run("keyring renew --user carol").code == 3
    first = run("keyring renew --user alice --json").document["key"]
    run("write city Lagos --user alice")

    def keys_of(column: str, table: str) -> set[str]:
        with sqlite3.connect(store) as base:
            found = [row[0] for row in base.execute(f"SELECT {column} FROM {table}")]  # noqa: S608
        base.close()
        texts = [text[text.index("sealed:") + 7 :] for text in found]
        return {base64.b64decode(text[:12])[1:].hex() for text in texts}

    before = keys_of("value", "versions")
    assert first in before
    assert len(before) == 3
    assert run("keyring renew --user alice --rewrite").code == 0
    after = keys_of("value", "versions")
    assert len(after) == 2
    assert not after & {first}
    assert keys_of("record", "memories") == after - (before - {first}) or len(keys_of("record", "memories")) == 1
    assert run("read city --user alice").out.strip() == "Lagos"
    with offprompt.open(store) as memory:
        assert isinstance(memory, Offprompt)
        assert [one.value for one in memory.scope(user="alice").slots.history("city")] == ["Porto", "Lagos"]
        assert encryption.findings(memory.parts)[0].state == "ok"
    assert parse_key(Path("app.key").read_text(), "it")
