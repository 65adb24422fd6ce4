"""`offprompt erase`, `verify-erased` and `hold`: what somebody types who was asked to delete a person's data."""

from __future__ import annotations

import json
import shlex
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import offprompt
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from tests.cli.conftest import Ran, Run

BODY = "剑鱼 swordfish-7731 lives in the harbour"
RunCli = Callable[..., Ran]


@pytest.fixture
def filled(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCli:
    def cli(*words: str) -> Ran:
        return run(shlex.join(words))

    monkeypatch.chdir(tmp_path)
    for user in ("alice", "bob"):
        cli("write", "secret", f"{BODY} of {user}", "--user", user)
        cli("remember", f"{BODY}, says {user}", "--user", user)
    return cli


def test_a_person_is_erased_and_the_check_says_so(filled: RunCli, tmp_path: Path) -> None:
    asked = filled("erase", "--user", "alice")
    assert asked.code == 2
    assert "--yes" in asked.err
    done = filled("erase", "--user", "alice", "--yes", "--receipt", "r.json")
    assert done.code == 0
    assert "1 slots, 1 memories" in done.out
    assert "backups" in done.out
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o600
    (tmp_path / "body.txt").write_text(f"{BODY} of alice\nx\n", encoding="utf-8")
    checked = filled("verify-erased", "r.json", "--body-file", "body.txt", "--json")
    assert checked.code == 0
    assert json.loads(checked.out)["erased"] is True
    (tmp_path / "bob.txt").write_text(f"{BODY} of bob", encoding="utf-8")
    checked = filled("verify-erased", "r.json", "--body-file", "bob.txt", "--json")
    assert checked.code == 1
    bad = [one["name"] for one in json.loads(checked.out)["findings"] if one["state"] == "fail"]
    assert bad == ["versions", "bytes"]


def test_all_that_is_stored_of_a_person_is_written_to_a_file(filled: RunCli, tmp_path: Path) -> None:
    filled("write", "pin", "never-value-8812", "--policy", "never", "--user", "alice")
    done = filled("subject-export", "--user", "alice", "--out", "alice.zip")
    assert done.code == 0
    assert "--secrets" in done.out
    with zipfile.ZipFile(tmp_path / "alice.zip") as zipped:
        whole = b"".join(map(zipped.read, zipped.namelist())).decode()
    assert "says alice" in whole
    assert not any(each in whole for each in ("never-value", "says bob", f"{BODY} of"))
    told = filled("subject-export", "--user", "alice", "--out", "again.zip", "--secrets", "--json", "--lang", "zh")
    assert json.loads(told.out)["counts"]["slots"] == 2
    with zipfile.ZipFile(tmp_path / "again.zip") as zipped:
        assert f"{BODY} of alice" in zipped.read("versions.jsonl").decode()
    assert "未包含的秘密" in filled("subject-export", "--user", "alice", "--out", "zh.zip", "--lang", "zh").out
    assert filled("subject-export", "--user", "alice", "--out", "alice.zip").code == 2
    assert filled("subject-export", "--agent", "helper", "--out", "b.zip").code == 2


def test_without_a_place_for_the_receipt_nothing_is_erased(filled: RunCli, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("kept")
    for target in ("r.json", "no/such/folder/r.json"):
        refused = filled("erase", "--user", "alice", "--yes", "--receipt", target)
        assert refused.code == 2
        assert "nothing was erased" in refused.err.replace("\n", " ")
    assert (tmp_path / "r.json").read_text() == "kept"
    assert BODY in filled("read", "secret", "--user", "alice").out


def test_a_refused_erasure_leaves_no_receipt(filled: RunCli, tmp_path: Path) -> None:
    assert filled("hold", "add", "case 7", "--user", "alice").code == 0
    refused = filled("erase", "--user", "alice", "--yes", "--receipt", "r.json")
    assert (refused.code, "case 7" in refused.err) == (2, True)
    assert not (tmp_path / "r.json").exists()
    assert "case 7" in filled("hold", "list").out
    assert filled("hold", "lift", "--user", "alice").code == 0
    assert "offprompt hold list" in filled("hold", "lift", "--user", "alice").err
    assert filled("erase", "--user", "alice", "--yes", "--receipt", "r.json").code == 0


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"receipt_id":"x"}', "not json"])
def test_what_is_no_receipt_is_refused(filled: RunCli, tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    refused = filled("verify-erased", "r.json")
    assert refused.code == 2
    assert "no receipt" in refused.err


def test_a_backup_from_before_does_not_bring_anybody_back(filled: RunCli, tmp_path: Path) -> None:
    filled("backup", "before.db")
    filled("erase", "--user", "alice", "--yes", "--receipt", "r.json")
    restored = filled("restore", "before.db", "--force", "--json")
    assert json.loads(restored.out)["erased"] == 1
    (tmp_path / "body.txt").write_text(f"{BODY} of alice", encoding="utf-8")
    assert filled("verify-erased", "r.json", "--body-file", "body.txt").code == 0
    assert BODY in filled("read", "secret", "--user", "bob").out
    filled("hold", "add", "case 8", "--user", "bob")
    again = filled("restore", "before.db", "--force", "--json")
    assert json.loads(again.out)["erased"] == 1
    assert "case 8" in filled("hold", "list").out


def test_a_hold_of_a_backup_that_was_lifted_before_the_erasure_keeps_nobody(filled: RunCli) -> None:
    filled("hold", "add", "case 9", "--user", "alice")
    filled("hold", "add", "case 10", "--user", "bob")
    filled("backup", "held.db")
    filled("hold", "lift", "--user", "alice")
    filled("erase", "--user", "alice", "--yes", "--receipt", "r.json")
    assert json.loads(filled("restore", "held.db", "--force", "--json").out)["erased"] == 1
    assert filled("verify-erased", "r.json").code == 0
    assert "case 9" not in filled("hold", "list").out
    assert "case 10" in filled("hold", "list").out


def test_who_is_not_there_is_not_erased(filled: RunCli, tmp_path: Path) -> None:
    refused = filled("erase", "--user", "alic", "--yes", "--receipt", "r.json")
    assert (refused.code, "offprompt users" in refused.err) == (3, True)
    assert not (tmp_path / "r.json").exists()


def test_free_pages_and_bytes_of_the_file_are_looked_at(tmp_path: Path) -> None:
    """A file whose deleted rows were only unlinked: another program deleted them."""
    path = tmp_path / "agent.db"
    with offprompt.open(str(path)) as memory:
        for number in range(40):
            memory.scope(user="alice").write(f"n{number}", f"{BODY} {number} " + "x" * 900)
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA secure_delete = OFF")
    raw.execute("DELETE FROM versions")
    raw.commit()
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    raw.close()
    with closing(SqliteStore(path, clock=MovedClock(), durability="full", busy_timeout_s=5)) as store:
        states = {one.name: one.state for one in store.traces([BODY.encode()])}
    assert states["free pages"] == "fail"
    assert states["bytes"] == "fail"


def test_a_server_is_told_apart(filled: RunCli) -> None:
    refused = filled("erase", "--user", "alice", "--yes", "--url", "http://127.0.0.1:9")
    assert refused.code == 4
    assert "where the store is" in refused.err
