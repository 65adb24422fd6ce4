"""What a record may be used for and the consent that it rests on: kept, asked for, withdrawn."""

from __future__ import annotations

from pathlib import Path

import pytest

import offprompt
from offprompt.errors import ConflictError, HeldError, UsageError
from offprompt.records.tables import TABLES
from offprompt.service import copying
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.subject_rows import engine_of, scanned
from offprompt.testing import MovedClock
from tests.service.test_erasing import mem as mem  # noqa: PLC0414 - the same engines
from tests.service.test_erasing import reply

CONSENT = "c-2026-01"


@pytest.fixture
def alice(mem: Offprompt) -> BoundScope:
    own = mem.scope(user="alice")
    own.remember("Her size is forty-two.", purpose="support", consent=CONSENT)
    own.remember("她喜欢喝绿茶。", purpose="marketing", consent="c-2026-02")
    own.remember("The parcel goes to Porto.")
    own.write("size", "42", purpose="Support", consent=CONSENT)
    own.write("town", "Porto")
    return own


def texts(scope: BoundScope, query: str, *purposes: str) -> set[str]:
    found = scope.recall(query, purposes=purposes or None, floor=0.0)
    return {hit.text for hit in found if hit.memory.kind == "fact"}


def cells(mem: Offprompt, *tables: str) -> str:
    """All that stands in the rows of tables."""
    return str([row for name in tables or TABLES for row in scanned(engine_of(mem.parts, name), name)])


def test_only_what_may_be_used_for_a_purpose_is_found(alice: BoundScope) -> None:
    everything = {"Her size is forty-two.", "她喜欢喝绿茶。", "The parcel goes to Porto."}
    query = "size 绿茶 parcel"
    assert texts(alice, query) == everything
    assert texts(alice, query, "support") == everything - {"她喜欢喝绿茶。"}
    assert texts(alice, query, "SUPPORT", "marketing") == everything
    assert texts(alice, query, "billing") == {"The parcel goes to Porto."}
    for wrong in ("support", [], [""], [5]):
        with pytest.raises(UsageError, match="purposes="):
            alice.recall(query, purposes=wrong)


def test_they_stay_over_versions_and_stand_in_every_list(alice: BoundScope) -> None:
    memory = next(one for one in alice.memories.list() if "forty" in one.text)
    alice.memories.update(memory.memory_id, text="Her size is forty.", tags=["clothes"])
    changed = alice.memories.get(memory.memory_id)
    assert changed is not None
    assert (changed.purpose, changed.consent, "clothes" in changed.tags) == ("support", CONSENT, True)
    slot = alice.write("size", "40", tags=["clothes"])
    assert (slot.purpose, slot.consent, "clothes" in slot.tags) == ("support", CONSENT, True)
    known = {one.text: (one.purpose, one.consent) for one in alice.known()}
    assert known["40"] == ("support", CONSENT)
    assert known["Porto"] == ("", "")
    assert known["Her size is forty."] == ("support", CONSENT)
    assert "consent:c-2026-01" in str(alice.slots.list())


def test_another_consent_takes_the_versions_before_along(mem: Offprompt, alice: BoundScope) -> None:
    alice.write("size", "44", consent="c-2026-03")
    assert [one.value for one in alice.slots.history("size")] == ["44"]
    assert alice.slots.list(names="size")[0].purpose == ""
    assert '"42"' not in cells(mem, "versions")


def test_the_same_words_under_another_consent_are_no_duplicate(alice: BoundScope) -> None:
    twice = alice.remember("Her size is forty-two.", purpose="support", consent=CONSENT)
    assert twice[0].outcome == "merged"
    assert alice.remember("Her size is forty-two.", consent="c-2026-09")[0].outcome == "added"
    assert alice.remember("Her size is forty-two.")[0].outcome == "added"


def test_what_rests_on_a_withdrawn_consent_goes_for_good(mem: Offprompt, alice: BoundScope) -> None:
    alice.remember([{"role": "user", "content": "I live in Lissabon."}], consent=CONSENT)
    assert alice.read("home") == "Lissabon"
    hidden = alice.write("old", "hidden-4711", consent=CONSENT)
    alice.forget(hidden.name)
    mem.scope(user="bob").write("size", "39", consent=CONSENT)
    session = mem.scope(user="alice", agent="helper").session("s1", model="gpt-4o-mini", consent=CONSENT)
    session.prepare([{"role": "user", "content": "Keep walnut-8812 in mind."}])
    session.absorb(reply("Sure."))
    done = alice.withdraw(CONSENT)
    assert {"size", "old"} <= set(done.slots)
    assert len(done.memories) >= 4
    assert done.sessions == ("s1",)
    left = cells(mem)
    assert not any(each in left for each in ("forty-two", "Lissabon", "hidden-4711", "walnut-8812"))
    assert alice.slots.snapshot() == {"town": "Porto"}
    assert mem.scope(user="bob").read("size") == "39"
    assert next(event.why for event in alice.events(op="consent.withdraw")).endswith("1 sessions")
    again = alice.withdraw(CONSENT)
    assert (again.slots, again.memories, again.sessions) == ((), (), ())
    for write in (
        lambda: alice.write("size", "1", consent=CONSENT),
        lambda: alice.remember("It is back.", consent=CONSENT),
        lambda: mem.scope(user="alice", agent="helper").write("size", "1", consent=CONSENT),
    ):
        with pytest.raises(ConflictError, match="withdrawn"):
            write()
    assert alice.write("size", "1", consent="c-new").consent == "c-new"


def test_what_rests_on_another_consent_too_stays(alice: BoundScope) -> None:
    both = ["consent:c-1", "consent:c-2"]
    memory = alice.remember("He has two reasons.", tags=both)[0].name
    alice.write("both", "two reasons", tags=both)
    done = alice.withdraw("c-1")
    assert set(done.kept) == {memory, "both"}
    assert {one.consent for one in alice.memories.list() if one.memory_id == memory} == {"c-2"}
    assert [(slot.value, slot.consent) for slot in alice.slots.list(names="both")] == [("two reasons", "c-2")]
    assert {memory, "both"} <= {*alice.withdraw("c-2").memories, *alice.withdraw("c-2").slots, "both"}
    assert alice.read("both", None) is None


def test_what_is_held_is_not_withdrawn(mem: Offprompt, alice: BoundScope) -> None:
    mem.holds.add(alice.scope, "case 7")
    with pytest.raises(HeldError):
        alice.withdraw(CONSENT)
    assert alice.read("size") == "42"
    alice.write("town", "Faro", consent=CONSENT)


def test_a_session_finds_and_stores_for_its_purpose(tmp_path: Path, clock: MovedClock) -> None:
    with offprompt.open(tmp_path / "m.db", clock=clock, embedder="none") as memory:
        alice = memory.scope(user="alice")
        alice.write("shoe_size", "42", purpose="marketing")
        alice.write("town", "Porto", purpose="support")
        session = alice.session("s1", model="gpt-4o-mini", purpose="support", consent=CONSENT)
        request = str(session.prepare([{"role": "user", "content": "What is my shoe size, and my town?"}]))
        assert "Porto" in request
        assert "shoe_size" not in request
        session.absorb(reply("Porto it is."))
        messages = [{"role": "user", "content": "My name is Ada."}]
        session.prepare(messages)
        session.absorb(reply("Hello Ada."))
        stored = alice.memories.list()
        assert len(stored.memories) > 2
        assert {(one.purpose, one.consent) for one in stored} == {("support", CONSENT)}
        assert {slot.consent for slot in alice.slots.list() if slot.value == "Ada"} == {CONSENT}


def test_they_go_where_the_store_goes(tmp_path: Path) -> None:
    with offprompt.open(tmp_path / "a.db", embedder="none") as old, offprompt.open(tmp_path / "b.db") as new:
        alice = old.scope(user="alice")
        alice.remember("Her size is forty-two.", consent=CONSENT)
        alice.remember("He is tall.", consent="gone")
        alice.memories.export(tmp_path / "out.jsonl")
        alice.withdraw("gone")
        copying.copy(copying.Whole.of(old.parts), copying.Whole.of(new.parts))
        copied = new.scope(user="alice")
        assert [one.consent for one in copied.memories.list()] == [CONSENT]
        done = copied.memories.import_file(tmp_path / "out.jsonl")
        assert [("withdrawn" in one.why) for one in done.refused] == [True]
        assert [one.text for one in copied.memories.list()] == ["Her size is forty-two."]


def test_a_purpose_is_no_name_to_ask_by(tmp_path: Path) -> None:
    with offprompt.open(tmp_path / "m.db", embedder="none") as memory:
        memory.scope(user="alice").write("x1", "hidden-4711", policy="when_asked", purpose="support")
        session = memory.scope(user="alice").session("s1", model="gpt-4o-mini")
        request = session.prepare([{"role": "user", "content": "What is the purpose of your support?"}])
        assert "hidden-4711" not in str(request)
