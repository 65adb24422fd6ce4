"""Anthropic's system messages in mid-conversation: they go where they stand, or are refused with the way out."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt import UsageError
from offprompt.service.bound import BoundScope
from tests.service.talk import Talk, call, result, tool


def test_anthropics_system_messages_stand_where_they_are(alice: BoundScope) -> None:
    alice.write("plan", "walk, then rest", policy="when_asked")
    tools = [tool("look", "anthropic")]
    one = Talk(alice.session("s", model="claude-opus-5", policy="off", tools=tools, system="Be kind."), "anthropic")
    asked: dict[str, Any] = {"role": "user", "content": "What is my plan? Look, too"}
    terse = {"role": "system", "content": [{"type": "text", "text": "Now be terse."}]}
    one.messages += [asked, terse]
    one.go(call("mem_read", slot="plan"), call("look", "c1", text="x"))
    quiet = {"role": "system", "content": "Quiet now.", "clear_at": "next_user_message"}
    one.messages += [*result("anthropic", ("c1", "seen")), quiet]
    one.go(call("mem_write", slot="seen", value="yes"), "Walk.")
    one.turn("And then?", "Rest.")
    roles = [message["role"] for message in one.last]
    assert roles == [
        "user",
        "system",
        *("assistant", "user", "assistant", "user"),
        "system",
        *("assistant", "user", "assistant", "user"),
    ]
    assert (one.last[1], one.last[6]) == (terse, quiet)
    assert "Be kind." in one.requests[-1]["system"][0]["text"]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (["system", "user"], "message 0: system text in front is a parameter"),
        (["user", "assistant", "system"], "behind a user message, not behind 'assistant'"),
        (["user", "system", "user"], "comes the assistant, not 'user'"),
    ],
)
def test_anthropics_system_messages_elsewhere_are_refused(alice: BoundScope, messages: list[str], why: str) -> None:
    session = alice.session("s", model="claude-opus-5")
    with pytest.raises(UsageError, match=f"{why}.*pass system= to the session"):
        session.prepare([{"role": role, "content": "Hello"} for role in messages])
    assert session.record is None


def test_a_reply_that_said_nothing_does_not_leave_a_system_message_without_an_answer(alice: BoundScope) -> None:
    one = Talk(alice.session("s", model="claude-opus-5"), "anthropic")
    terse = {"role": "system", "content": "Be terse."}
    for number in range(2):
        one.messages += [{"role": "user", "content": f"Go on {number}"}, terse]
        one.go("")
    one.turn("And?", "Yes.")
    assert [message["role"] for message in one.last] == ["user", "system", "assistant"] * 2 + ["user"]
    one.turn("And then?", "")
    one.turn("Well?", "Yes.")
    assert [message["role"] for message in one.last[-3:]] == ["assistant", "user", "user"], "else nothing is put in"


def test_a_system_message_that_only_sets_the_effort_may_stand_anywhere(alice: BoundScope) -> None:
    one = Talk(alice.session("s", model="claude-opus-5"), "anthropic")
    effort: dict[str, Any] = {"role": "system", "content": [], "output_config": {"effort": "low"}}
    one.messages.append(effort)
    one.turn("Hello", "Hello.")
    one.messages.append(effort)
    one.turn("And?", "Yes.")
    assert [message["role"] for message in one.last] == ["system", "user", "assistant", "system", "user"]
