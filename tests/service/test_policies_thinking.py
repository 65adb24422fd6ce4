"""Models that bind thinking to what stands before it: nothing there changes while the thinking is sent back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.records import Reply
from offprompt.service.bound import BoundScope
from offprompt.service.requests import BROKEN_THINKING
from offprompt.testing import MovedClock
from offprompt.testing.strict_binding import sign_thinking, thinking_faults
from offprompt.wire.profiles import SHAPES
from tests.service.talk import Say, Talk, as_reply, call, result, tool
from tests.service.test_session_history import STEPS, play

CLAUDE = "claude-sonnet-5-5"
LONG = "row of a table with numbers 12345\n" * 200
VALUE = "walk, then rest at the blue lantern"


@dataclass
class Thinking(Talk):
    """A talk with a model that thinks before each answer, and a provider that verifies all thinking it gets back."""

    thinks: bool = True
    faults: list[list[Any]] = field(default_factory=list[list[Any]])

    def prepare(self, messages: Any = None, *, show: Any = ()) -> dict[str, Any]:
        request = super().prepare(messages, show=show)
        self.faults.append(thinking_faults(request))
        return request

    def absorb(self, said: str | Say) -> Reply:
        reply = as_reply(said, self.wire)
        if self.thinks:
            thought = f"Let me think about request {len(self.requests)}."
            signature = sign_thinking(self.requests[-1], thought)
            reply["content"].insert(0, {"type": "thinking", "thinking": thought, "signature": signature})
        absorbed = self.session.absorb(reply)
        self.replies.append(absorbed)
        return absorbed


def bound(scope: BoundScope, *, thinks: bool = True, **options: Any) -> Thinking:
    scope.write("plan", VALUE, policy="when_asked")
    options.setdefault("tools", [tool("look", "anthropic")])
    return Thinking(scope.session("s", model=CLAUDE, **options), "anthropic", thinks=thinks)


def a_scope(**more: Any) -> BoundScope:
    return offprompt.open(":memory:", clock=MovedClock(), **more).scope(user="u")


def look(one: Talk, text: str = LONG) -> None:
    one.turn("Look", call("look", text="x"))
    one.messages += result(one.wire, (one.replies[-1].tool_calls[0].call_id, text))
    one.go("Seen.")


def test_what_was_shown_is_kept_before_thinking_and_counted() -> None:
    one = bound(a_scope())
    one.turn("What is my plan?", "Walk.")
    one.turn("Read it again", call("mem_read", slot="plan"), "Walk, really.")
    one.turn("Thanks", "Welcome.")
    assert one.faults == [[]] * 4
    assert VALUE in one.sent
    assert [(shown.name, shown.why) for shown in one.session.ledger()[-1].shown] == [("plan", "kept")]
    assert one.session.ledger()[-1].leaked == ()


def test_without_thinking_it_is_taken_out() -> None:
    one = bound(a_scope(), thinks=False)
    one.turn("What is my plan?", "Walk.")
    one.turn("Thanks", "Welcome.")
    assert VALUE not in one.sent


def test_the_strict_provider_would_see_a_change() -> None:
    one = bound(a_scope())
    one.turn("What is my plan?", "Walk.")
    one.turn("Thanks", "Welcome.")
    changed = json.dumps(one.requests[-1]).replace("walk, then", "run, then")
    assert thinking_faults(json.loads(changed)) != []


@pytest.mark.parametrize("policy", ["stub_after_use", "after_use+window", "auto"])
def test_long_results_are_stubs_at_once_once_there_is_thinking(policy: Any) -> None:
    one = bound(a_scope(), policy=policy, system="Be kind. " * 600)
    one.turn("Hello", "Hello.")
    for _ in range(6):
        look(one)
        assert LONG not in one.sent
    assert sum(entry.stubbed for entry in one.session.ledger()) == 0
    assert [faults for faults in one.faults if faults] == []


def test_a_result_that_came_before_any_thinking_stays_whole() -> None:
    one = bound(a_scope(), policy="stub_after_use", system="Be kind. " * 600, thinks=False)
    one.turn("Look", call("look", "c1", text="x"))
    one.messages += result("anthropic", ("c1", LONG))
    one.thinks = True
    one.go("Seen.")
    for _ in range(30):
        one.turn("Go on", "Going.")
    assert LONG in one.sent
    assert [faults for faults in one.faults if faults] == []


@pytest.mark.parametrize("policy", ["window", "stubs+window", "after_use+window"])
def test_a_window_cuts_only_where_no_thinking_stays(policy: Any) -> None:
    one = bound(a_scope(window_high_tokens=600, window_low_tokens=300), policy=policy)
    for number in range(30):
        one.turn(f"Tell me of {number}", f"words {number} " * 20)
        if number % 4 == 0:
            look(one, "short")
    entries = one.session.ledger()
    assert sum(entry.cut for entry in entries) > 3
    assert [faults for faults in one.faults if faults] == []
    for at, entry in enumerate(entries):
        if entry.cut:
            assert not any(SHAPES["anthropic"].has_thinking(message) for message in one.requests[at]["messages"])
    assert BROKEN_THINKING not in {warning for reply in one.replies for warning in reply.warnings}


def test_a_tool_loop_with_thinking_is_not_cut_inside() -> None:
    one = bound(a_scope(window_high_tokens=600, window_low_tokens=300), policy="window")
    one.turn("Count", call("look", "c0", text="0"))
    for number in range(12):
        one.messages += result("anthropic", (f"c{number}", f"lantern {number} " * 25))
        one.go(call("look", f"c{number + 1}", text="x"))
    assert sum(entry.cut for entry in one.session.ledger()) == 0
    assert [faults for faults in one.faults if faults] == []


def test_a_cut_that_the_context_forces_says_so() -> None:
    one = bound(a_scope(), policy="auto", context_tokens=3000)
    one.turn("Count", call("look", "c0", text="0"))
    for number in range(20):
        one.messages += result("anthropic", (f"c{number}", f"lantern {number} " * 50))
        one.go(call("look", f"c{number + 1}", text="x"))
    entries = one.session.ledger()
    assert max(entry.sent.tokens for entry in entries) <= 3000
    forced = [at for at, faults in enumerate(one.faults) if faults]
    assert forced
    assert BROKEN_THINKING in entries[forced[0]].warnings
    assert BROKEN_THINKING in one.replies[forced[0]].warnings
    assert all(entry.cut == 0 for entry in entries[: forced[0]])


def test_a_client_that_leaves_old_thinking_out_gets_cuts() -> None:
    one = bound(a_scope(window_high_tokens=600, window_low_tokens=300), policy="window")
    for number in range(20):
        one.turn(f"Tell me of {number}", f"words {number} " * 20)
        one.messages[-1] = {
            **one.messages[-1],
            "content": [block for block in one.messages[-1]["content"] if block["type"] != "thinking"],
        }
    entries = one.session.ledger()
    assert sum(entry.cut for entry in entries) > 3
    assert [faults for faults in one.faults if faults] == []
    assert any(len(request["messages"]) > 4 for at, request in enumerate(one.requests) if entries[at].cut)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_thinking_is_known_in_both_wires(wire: Any) -> None:
    shape = SHAPES[wire]
    kinds = {
        "anthropic": [{"content": [{"type": kind, "data": "x"}]} for kind in ("thinking", "redacted_thinking")],
        "openai": [{"reasoning_details": [{"type": "reasoning.text"}]}, {"thinking_blocks": [{"type": "thinking"}]}],
    }
    for fields in kinds[wire]:
        assert shape.has_thinking({"role": "assistant", **fields})
    assert not shape.has_thinking({"role": "assistant", "content": "thinking"})
    assert not shape.has_thinking({"role": "assistant", "content": [{"type": "text", "text": "thinking"}]})
    assert not shape.has_thinking({"role": "user", "content": [{"type": "thinking", "thinking": "x"}]})


@settings(max_examples=40)
@given(
    steps=STEPS.map(lambda steps: [step for step in steps if step not in ("edit", "drop", "again", "both")]),
    policy=st.sampled_from(
        ["auto", "off", "stub_at_once", "stub_after_use", "window", "stubs+window", "after_use+window"]
    ),
    shown=st.sampled_from(["replace", "cheaper", "keep"]),
)
def test_no_thinking_is_ever_broken(steps: list[str], policy: Any, shown: str) -> None:
    """On any conversation that only grows, whatever is shown, read, stubbed and cut."""
    scope = a_scope(shown_after_turn=shown, window_high_tokens=500, window_low_tokens=200)
    scope.write("known", "a value that is long enough to be scrubbed", policy="when_asked")
    one = bound(scope, policy=policy)
    for number, step in enumerate(steps):
        play(one, step, number)
    assert [faults for faults in one.faults if faults] == []
    assert all(entry.leaked == () for entry in one.session.ledger())
