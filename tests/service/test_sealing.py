"""What is sealed goes to a `never` slot; its handle stays in memories and journal, and goes and comes with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import NotFoundError, UsageError
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from offprompt.wire.profiles import SHAPES
from tests.service.talk import MODELS, Talk, Wire, call, result, tool

PHONE = "138 1234 5678"
CARD = "4111 1111 1111 1111"
HANDLE = re.compile(r"\[\[mem:(phone_[a-p]{10})\]\]")


def opened(file: Path, **settings: Any) -> Offprompt:
    given: dict[str, Any] = {"redact_seal": "phone", "redact_allow": "phone sms to"} | settings
    return offprompt.open(file, clock=MovedClock(), **given)


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Offprompt]:
    with opened(tmp_path / "agent.db") as mem:
        yield mem


@pytest.fixture
def ann(mem: Offprompt) -> BoundScope:
    return mem.scope(user="ann")


def name_in(text: str) -> str:
    found = HANDLE.search(text)
    assert found is not None, text
    return found[1]


def test_a_memory_keeps_the_handle_and_the_slot_the_value(ann: BoundScope) -> None:
    [kept] = ann.remember(f"Call my sister at {PHONE}, my card is {CARD}", derive="none")
    name = name_in(kept.text)
    assert kept.text == f"Call my sister at [[mem:{name}]], my card is [card number given]"
    assert "phone" in kept.why
    assert ann.read(name) == PHONE
    slot = ann.slots.get(name)
    assert slot is not None
    assert (slot.policy, slot.tags, slot.expires_at) == ("never", ("sealed",), None)
    assert [str(place) for place in slot.allow] == ["sms /to"]


def test_one_number_is_one_slot_however_it_is_set_and_another_users_has_another_name(
    mem: Offprompt, ann: BoundScope
) -> None:
    texts = [f"Mine is {form}" for form in (PHONE, "13812345678", "１３８１２３４５６７８", "138-1234-5678")]
    names = {name_in(one.text) for one in ann.remember(texts, derive="none") if one.kind == "fact"}
    assert len(names) == 1
    [other] = mem.scope(user="bob").remember(texts[0], derive="none")
    assert name_in(other.text) not in names
    with pytest.raises(NotFoundError):
        mem.scope(user="bob").read(names.pop())


def test_sealed_values_take_none_of_the_places_of_slots(tmp_path: Path) -> None:
    with opened(tmp_path / "few.db", max_slots=1) as mem:
        ann = mem.scope(user="ann")
        ann.write("city", "Oslo")
        ann.remember([f"number {at}: 1381234{at:04}" for at in range(10)], derive="none")
        assert len(ann.slots.list(tags=["sealed"])) == 10


def test_of_a_list_of_numbers_marks_stand_there_beyond_a_bound(ann: BoundScope) -> None:
    [kept] = ann.remember(" , ".join(f"1381234{at:04}" for at in range(70)), derive="none")
    assert len(ann.slots.list(tags=["sealed"])) == 64
    assert kept.text.count("[phone number given]") == 6


def test_the_value_is_hidden_comes_back_and_is_erased_with_the_last_memory_that_has_its_handle(ann: BoundScope) -> None:
    first, second = (ann.remember(f"{who}: {PHONE}", derive="none")[0] for who in ("Mine", "My own number"))
    name = name_in(first.text)
    ann.memories.forget(first.name)
    assert ann.read(name) == PHONE
    ann.memories.forget(second.name)
    assert ann.slots.get(name) is None
    ann.memories.undo(first.name)
    assert ann.read(name) == PHONE
    ann.memories.erase(first.name)
    assert ann.slots.get(name) is None
    ann.memories.undo(second.name)
    assert ann.read(name) == PHONE
    ann.memories.erase(second.name)
    assert not ann.slots.list() + ann.slots.list(forgotten=True)


def test_an_update_seals_and_lets_go(ann: BoundScope) -> None:
    [kept] = ann.remember("I have no phone", derive="none")
    memory = ann.memories.update(kept.name, text=f"My phone is {PHONE}")
    assert ann.read(name_in(memory.text)) == PHONE
    ann.memories.update(kept.name, text="I have no phone again")
    assert ann.slots.get(name_in(memory.text)) is None


def test_all_memories_of_a_scope_are_erased_with_what_was_sealed_in_it(mem: Offprompt, ann: BoundScope) -> None:
    ann.write("city", "Oslo")
    ann.remember(f"Mine: {PHONE}", derive="none")
    mem.scope(user="ann", agent="a").remember(f"And 139{PHONE[3:]}", derive="none")
    ann.memories.erase(within="subtree")
    assert [slot.name for slot in ann.slots.list(within="subtree")] == ["city"]


def test_what_is_not_stored_is_not_sealed(ann: BoundScope, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise UsageError("no")

    with monkeypatch.context() as patched:
        patched.setattr("offprompt.service.remembering.index_texts", fail)
        with pytest.raises(UsageError):
            ann.remember(f"Mine: {PHONE}", derive="none")
    assert not ann.slots.list() + ann.slots.list(forgotten=True)


def test_a_session_stores_handles_and_sends_the_words(ann: BoundScope, wire: Wire, tmp_path: Path) -> None:
    one = Talk(ann.session("s1", model=MODELS[wire], wire=wire, tools=[tool("sms", wire)]), wire)
    one.turn(f"My number is {PHONE}.", "Noted.")
    one.turn("Thanks", "Gladly.")
    assert PHONE in one.sent
    name = name_in(next(entry.text for entry in one.session.journal() if entry.kind == "user"))
    assert ann.read(name) == PHONE
    assert any(f"[[mem:{name}]]" in memory.text for memory in ann.memories.list())
    # The next session: the model sees the handle, and only the tool that may have it gets the number.
    two = Talk(ann.session("s2", model=MODELS[wire], wire=wire, tools=[tool("sms", wire), tool("post", wire)]), wire)
    two.turn("Send a message to my number: what is my number?", "Let me see.")
    assert PHONE not in two.sent
    assert f"[[mem:{name}]]" in two.sent
    asked = two.turn("Send it to my number.", call("sms", "c1", to=f"[[mem:{name}]]"))
    assert json.loads(asked.tool_calls[0].arguments) == {"to": PHONE}
    two.messages += result(wire, ("c1", f"sent to {PHONE}"))
    two.go("Sent.")
    # A call of another tool is not run.
    two.turn("Post it", call("post", "c2", to=f"[[mem:{name}]]"), "I may not.")
    assert PHONE not in two.sent
    raw = b"".join(path.read_bytes() for path in tmp_path.glob("agent.db*") if "shm" not in path.name)
    assert raw.count(PHONE.encode()) >= 1  # the slot


def test_what_was_forgotten_is_not_sealed_anew_by_the_same_words(ann: BoundScope) -> None:
    one = Talk(ann.session("s1", model="gpt-4o-mini"), "openai")
    one.turn(f"My number is {PHONE}.", "Noted.")
    [slot] = ann.slots.list(tags=["sealed"])
    ann.forget(slot.name)
    one.turn("Thanks", "Gladly.")
    assert not ann.slots.list(tags=["sealed"])


@pytest.mark.parametrize("redact", ["words", "all"])
def test_arguments_and_results_that_are_json_stay_json(tmp_path: Path, wire: Wire, redact: str) -> None:
    with opened(tmp_path / f"{redact}.db", redact=redact, redact_kinds="bank_card, phone") as mem:
        ann = mem.scope(user="ann")
        one = Talk(ann.session("s1", model=MODELS[wire], wire=wire, tools=[tool("pay", wire)]), wire)
        number = int(CARD.replace(" ", ""))
        one.turn("Pay", call("pay", "p1", card=number, to=PHONE))
        one.messages += result(wire, ("p1", json.dumps({"card": number, "phone": [PHONE], "n": 1.5})))
        one.go("Paid.")
        entries = one.session.journal()
        [asked] = [call for entry in entries for call in SHAPES[wire].calls(dict(entry.message))]
        assert json.loads(asked.arguments)["card"] == "[card number given]"
        name = name_in(json.loads(asked.arguments)["to"])
        text = next(entry.text for entry in entries if entry.kind == "tool")
        told = {"card": "[card number given]", "phone": [f"[[mem:{name}]]"], "n": 1.5}
        assert json.loads(text) == (told if redact == "all" else {"card": number, "phone": [PHONE], "n": 1.5})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"redact_kinds": "fax"}, "'fax' is no kind"),
        ({"redact_seal": "phone, fax"}, "'fax' is no kind"),
        ({"redact_seal": "", "redact_allow": "phone sms to"}, "'phone' is not sealed"),
        ({"redact_allow": "phone sms"}, "KIND TOOL ARGUMENT"),
        ({"redact_regions": "Atlantis"}, "ATLANTIS"),
    ],
)
def test_settings_that_say_nothing_are_refused(tmp_path: Path, settings: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        opened(tmp_path / "none.db", **settings)
    assert not (tmp_path / "none.db").exists()
