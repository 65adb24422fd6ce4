"""All that is stored of one person is written out of every engine: what an erasure would remove, and nobody else's."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import NotFoundError, UsageError
from offprompt.records import Scope
from offprompt.records.tables import SLOT_TABLES, TABLES
from offprompt.service.offprompt import Offprompt
from offprompt.service.slot_writer import Writer
from offprompt.service.spooled_writes import spooled_slot
from offprompt.service.subject_readme import PLACES
from tests.rest.running import running
from tests.service.test_erasing import SECRET, USER, live
from tests.service.test_erasing import mem as mem  # noqa: PLC0414 - the same engines

NEVER = "never-value-8812"


def written(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of a zip file by place."""
    with zipfile.ZipFile(path) as zipped:
        names = {name.removesuffix(".jsonl") for name in zipped.namelist() if name.endswith(".jsonl")}
        return {name: [json.loads(line) for line in zipped.read(f"{name}.jsonl").splitlines()] for name in names}


def fill(mem: Offprompt) -> None:
    """Two people, of whom one has something in every place."""
    scope = live(mem, USER)
    live(mem, "bob")
    mem.alias("al", USER)
    scope.write("token", NEVER, policy="never")
    scope.write("note", f"do not tell {NEVER}")
    scope.memories.update(scope.remember("It was Monday.", derive="none")[0].name, text="It was Tuesday.")
    scope.forget(scope.remember("I take it back.", derive="none")[0].name)
    mem.keys.create("hers", users=[USER])
    mem.keys.create("both", users=[USER, "bob"])
    mem.keys.create("his", users=["bob"])
    mem.grants.add("space", "legal", to=f"user:{USER}")
    mem.grants.add("space", "legal", to="user:bob")


def rows(mem: Offprompt, name: str) -> Iterator[tuple[Any, ...]]:
    engine: Any = mem.parts.slots if name in SLOT_TABLES else mem.parts.main
    yield from engine.scan(name)


def test_each_row_that_names_the_person_is_written_and_no_other(mem: Offprompt, tmp_path: Path) -> None:
    fill(mem)
    done = mem.export_subject(tmp_path / "alice.zip", user=USER)
    found = written(tmp_path / "alice.zip")
    assert set(found) == set(PLACES)
    assert set(TABLES) <= set(PLACES)
    for name in TABLES:
        named = [row for row in rows(mem, name) if USER in row or "al" in row]
        if name not in ("memory_versions", "memory_index"):  # these name their memory
            extra = name == "events"  # the export itself
            assert len(found[name]) == len(named) - extra, name
    ids = {one["memory_id"] for one in found["memories"]}
    for name in ("memory_versions", "memory_index"):
        assert len(found[name]) == sum(row[1] in ids for row in rows(mem, name)) > 0
    with zipfile.ZipFile(tmp_path / "alice.zip") as zipped:
        whole = b"".join(map(zipped.read, zipped.namelist())).decode()
        manifest = json.loads(zipped.read("manifest.json"))
    assert "bob" not in whole
    assert f"{SECRET} of {USER}, hidden" in whole
    assert "It was Monday." in whole
    assert "I take it back." in whole
    assert manifest["counts"] == done.counts == {place: len(found[place]) for place in PLACES}
    assert done.scopes == (Scope(user=USER), Scope(user="al"))
    assert (tmp_path / "alice.zip").stat().st_mode & 0o777 == 0o600


def test_what_an_erasure_counts_is_in_it(mem: Offprompt, tmp_path: Path) -> None:
    fill(mem)
    counts = mem.export_subject(tmp_path / "alice.zip", user=USER).counts
    receipt = mem.erase(user=USER)
    assert set(receipt.counts) <= set(counts)
    same = {name: counts[name] for name in receipt.counts if name not in ("events", "keys")}
    assert same == {name: receipt.counts[name] for name in same}
    assert (counts["keys"], receipt.counts["keys"]) == (2, 1)  # one is for others too
    assert 0 < counts["events"] < receipt.counts["events"]
    after = mem.export_subject(tmp_path / "after.zip", user=USER).counts
    assert {name: count for name, count in after.items() if count} == {"keys": 1}  # as the receipt says


def test_values_of_secrets_are_in_it_only_if_asked_for(mem: Offprompt, tmp_path: Path) -> None:
    fill(mem)
    done = mem.export_subject(tmp_path / "a.zip", user=USER)
    assert (done.withheld, done.secrets) == (1, False)
    found = written(tmp_path / "a.zip")
    assert NEVER not in str(found)
    assert [one["value"] for one in found["versions"] if one["folded"] == "note"] == ["do not tell [[mem:token]]"]
    assert [one["withheld"] for one in found["versions"] if one["folded"] == "token"] == [True]
    mem.export_subject(tmp_path / "b.zip", user=USER, secrets=True)
    assert [one["value"] for one in written(tmp_path / "b.zip")["versions"] if one["folded"] == "token"] == [NEVER]


def test_a_slot_that_became_a_secret_is_one_in_all_its_versions(tmp_path: Path) -> None:
    with offprompt.open(":memory:", embedder="none") as memory:
        alice = memory.scope(user="alice")
        alice.write("pin", "first-pin-4711")
        alice.write("pin", "second-pin-4712", policy="never")
        memory.scope(shared=True).write("shared_key", "shared-key-4713", policy="never")
        alice.remember("the key is shared-key-4713", derive="none")
        memory.export_subject(tmp_path / "a.zip", user="alice")
    text = str(written(tmp_path / "a.zip"))
    assert not any(each in text for each in ("4711", "4712", "4713"))


def test_what_waits_on_this_machine_and_holds_are_in_it(tmp_path: Path) -> None:
    with offprompt.open(tmp_path / "m.db", embedder="none", write_deadline_s=5.0) as memory:
        scope = memory.scope(user="alice").scope
        memory.scope(user="alice").write("city", "Porto")
        memory.holds.add(scope, "case 7")
        memory.holds.add(Scope(user="bob"), "case 8")
        spool = memory.parts.spool
        assert spool is not None

        def kept(key: str) -> Any:
            return spooled_slot(key, 1.0, scope, "late", "x", {"policy": "by_handle"}, Writer())

        def away(_key: str) -> None:
            raise offprompt.BackendError("away")

        spool.attempt(away, kept)
        done = memory.export_subject(tmp_path / "a.zip", user="alice")
    found = written(tmp_path / "a.zip")
    assert [one["what"]["value"] for one in found["spooled"]] == ["x"]
    assert [one["reason"] for one in found["holds"]] == ["case 7"]
    assert (done.counts["spooled"], done.counts["holds"]) == (1, 1)


def test_only_a_person_and_a_free_file_are_taken(tmp_path: Path) -> None:
    with offprompt.open(":memory:", embedder="none") as memory:
        memory.scope(user="alice").write("city", "Porto")
        (tmp_path / "there.zip").write_text("x")
        with pytest.raises(UsageError, match="free"):
            memory.export_subject(tmp_path / "there.zip", user="alice")
        with pytest.raises(NotFoundError):
            memory.export_subject(tmp_path / "a.zip", user="nobody")
        assert not (tmp_path / "a.zip").exists()
    assert (tmp_path / "there.zip").read_text() == "x"


def test_each_place_is_told_in_both_languages(tmp_path: Path) -> None:
    with offprompt.open(":memory:", embedder="none") as memory:
        memory.scope(user="alice").write("city", "Porto")
        memory.export_subject(tmp_path / "a.zip", user="alice")
    with zipfile.ZipFile(tmp_path / "a.zip") as zipped:
        for name in ("README.md", "README.zh-CN.md"):
            text = zipped.read(name).decode()
            assert all(f"`{place}.jsonl`" in text for place in PLACES)
            assert "never" in text


def test_a_server_tells_it_to_an_admin_as_lines(tmp_path: Path) -> None:
    with running(":memory:", embedder="none") as server, offprompt.open(server.url) as memory:
        server.memory.scope(user="alice").write("token", NEVER, policy="never")
        server.memory.scope(user="bob").write("city", "Rome")
        done = memory.export_subject(tmp_path / "a.jsonl", user="alice")
        whole = memory.export_subject(tmp_path / "b.jsonl", user="alice", secrets=True)
    first, *records, last = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert first["scopes"][0]["user"] == "alice"
    assert Counter(one["place"] for one in records) == Counter({name: n for name, n in done.counts.items() if n})
    assert (done.withheld, whole.withheld, "manifest" in last) == (1, 0, True)
    assert NEVER not in (tmp_path / "a.jsonl").read_text()
    assert NEVER in (tmp_path / "b.jsonl").read_text()
    assert "Rome" not in (tmp_path / "b.jsonl").read_text()


def test_who_is_called_alike_and_the_same_id_in_another_app_are_others(tmp_path: Path) -> None:
    with offprompt.open(":memory:", embedder="none") as memory:
        for scope in (
            memory.scope(user="alice"),
            memory.scope(user="alice2"),
            memory.scope(app="other", user="alice"),
        ):
            scope.write("town", f"of {scope.scope}", policy="when_asked")
            scope.remember(f"Said by {scope.scope}.", derive="none")
        memory.export_subject(tmp_path / "a.zip", user="alice")
    text = str(written(tmp_path / "a.zip"))
    assert "of user=alice'" in text
    assert "alice2" not in text
    assert "app=other" not in text


def test_a_version_that_was_a_secret_is_one_still(tmp_path: Path) -> None:
    with offprompt.open(":memory:", embedder="none") as memory:
        alice = memory.scope(user="alice")
        alice.write("pin", "first-pin-4711", policy="never")
        alice.write("pin", "given-away", policy="when_asked")
        memory.export_subject(tmp_path / "a.zip", user="alice")
    text = str(written(tmp_path / "a.zip"))
    assert "given-away" in text
    assert "4711" not in text
