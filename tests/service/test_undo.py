"""What was rewritten in a session, before and after: nothing is rewritten whose original is not stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.service.audit import audit
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.stored_session import read_session
from offprompt.service.undo import Rewrite, rewrites
from tests.service.talk import MODELS, Say, Talk, Wire, as_reply, call, result, tool

REPORT = "The herring fleet lands at Saltby pier on Tuesday, crates twelve to forty go to Dorn, the rest is smoked."
KEY = "Zx9-hunter2-qwerty-77"


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Offprompt]:
    url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with offprompt.open(url, leaks="scrub") as memory:
        yield memory


@pytest.fixture
def alice(opened: Offprompt) -> BoundScope:
    scope = opened.scope(user="alice")
    scope.write("report", REPORT, policy="by_handle")
    scope.write("api_key", KEY)
    return scope


def talk(scope: BoundScope, wire: Wire) -> Talk:
    return Talk(scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)]), wire)


def undone(opened: Offprompt, one: Talk) -> list[Rewrite]:
    record = one.session.record
    assert record is not None
    return list(rewrites(read_session(opened.parts.sessions, record)))


def only(opened: Offprompt, one: Talk, kind: str) -> Rewrite:
    found = [each for each in undone(opened, one) if each.kind == kind]
    assert len(found) == 1, found
    return found[0]


def test_a_tools_result_before_and_after(opened: Offprompt, alice: BoundScope, wire: Wire) -> None:
    one = talk(alice, wire)
    one.turn("Go", call("get", "c1", text="x"))
    said = f"key {KEY}, all {REPORT}, part {REPORT[:50]}"
    one.messages += result(wire, ("c1", said))
    one.go("Fine.")
    found = only(opened, one, "tool")
    assert (found.turn, found.form, found.before) == (1, "as sent", said)
    assert found.after == "key [[mem:api_key]], all [[mem:report]], part [[mem:report]]"
    assert KEY not in repr(found)


def test_an_edited_replys_text_and_arguments_before_and_after(opened: Offprompt, alice: BoundScope, wire: Wire) -> None:
    one = talk(alice, wire)
    sent = as_reply(Say(f"so {KEY}", (("get", {"text": f"see {REPORT[:50]}"}, "e1"),)), wire)
    if wire == "openai":
        said = [sent["choices"][0]["message"]]
    else:
        said = sent["output"] if wire == "responses" else [{"role": "assistant", "content": sent["content"]}]
    one.messages = [{"role": "user", "content": "Go"}, *said, *result(wire, ("e1", "ok"))]
    one.go("Fine.")
    found = only(opened, one, "assistant")
    assert KEY in found.before
    assert REPORT[:50] in found.before
    assert found.after.splitlines()[0] == "so [[mem:api_key]]"
    assert "see [[mem:report]]" in found.after


def test_a_write_of_the_models_own_and_what_was_shown(opened: Offprompt, alice: BoundScope, wire: Wire) -> None:
    one = talk(alice, wire)
    one.turn("Keep it", call("mem_write", slot="pet", value="a cat named Minka"), call("mem_read", slot="report"), "ok")
    one.turn("And?", "Yes.")
    wrote, read = undone(opened, one)
    assert (wrote.kind, wrote.form) == ("assistant", "as sent")
    assert "a cat named Minka" in wrote.before
    assert "[[mem:pet]]" in wrote.after
    assert (read.kind, read.form, REPORT in read.before, REPORT in read.after) == (
        "answer",
        "in later turns",
        True,
        False,
    )


def test_what_looks_like_a_handle_and_a_stub_with_their_originals(opened: Offprompt, wire: Wire) -> None:
    scope = opened.scope(user="bob")
    one = Talk(
        scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)], context_tokens=128_000), wire
    )
    one.turn("What is [[mem:report]]?", call("get", "c1", text="x"))
    long = " ".join(f"line {number}" for number in range(9000))
    one.messages += result(wire, ("c1", long))
    one.go("Fine.")
    found = {(each.kind, each.form): each for each in undone(opened, one)}
    assert found["user", "as sent"].before == "What is [[mem:report]]?"
    stubs = [each for (kind, _), each in found.items() if kind == "tool"]
    assert stubs
    assert all(each.before == long and "[[mem:@" in each.after for each in stubs)


def test_a_frame_of_shown_values_changes_no_words(opened: Offprompt, wire: Wire) -> None:
    scope = opened.scope(user="bob")
    scope.write("user_name", "Ada Okafor")
    one = Talk(scope.session("s1", model=MODELS[wire], wire=wire), wire)
    one.turn("What is my name?", "Ada.")
    assert "<memory " in one.sent
    assert undone(opened, one) == []


def test_one_turn_alone(opened: Offprompt, alice: BoundScope, wire: Wire) -> None:
    one = talk(alice, wire)
    for number in (1, 2):
        one.turn(f"Go {number}", call("get", f"c{number}", text="x"))
        one.messages += result(wire, (f"c{number}", f"{number}: {KEY}"))
        one.go("Fine.")
    record = one.session.record
    assert record is not None
    found = rewrites(read_session(opened.parts.sessions, record), 2)
    assert [each.before for each in found] == [f"2: {KEY}"]


def test_audit_sums_what_was_scrubbed_and_what_became_stubs(opened: Offprompt, alice: BoundScope, wire: Wire) -> None:
    one = talk(alice, wire)
    for number in (1, 2):
        one.turn(f"Go {number}", call("get", f"c{number}", text="x"))
        one.messages += result(wire, (f"c{number}", f"{KEY} {KEY} {REPORT[:50] if number == 1 else ''}"))
        one.go("Fine.")
    found = audit(opened.parts, verify=True)
    assert dict(found.totals.scrubbed) == {"api_key": 2, "report": 1}
    assert (found.leaks, found.broken) == ([], [])
    assert found.totals.stubbed == sum(entry.stubbed for entry in one.session.ledger())


def test_audit_sums_stubs_after_use(tmp_path: Path, wire: Wire) -> None:
    with offprompt.open(tmp_path / "agent.db") as opened:
        scope = opened.scope(user="bob")
        options: dict[str, Any] = {"model": MODELS[wire], "wire": wire, "tools": [tool("get", wire)]}
        one = Talk(scope.session("s1", policy="stub_after_use", **options), wire)
        for number in range(12):
            one.turn(f"Go {number}", call("get", f"c{number}", text="x"))
            one.messages += result(wire, (f"c{number}", " ".join(f"line {number} {at}" for at in range(600))))
            one.go("Fine.")
        stubbed = sum(entry.stubbed for entry in one.session.ledger())
        assert stubbed > 0
        assert audit(opened.parts).totals.stubbed == stubbed
