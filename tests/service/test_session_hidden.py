"""A client that never sees memory calls sends its conversation back without them: they are put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from offprompt.records import canonical
from offprompt.service.bound import BoundScope
from offprompt.wire.profiles import SHAPES
from tests.service.conftest import NewTalk
from tests.service.talk import Say, Talk, Wire, call, calls, flat, result, tool


def hidden_turn(one: Talk, user: str, *said: str | Say) -> list[Any]:
    """A turn whose messages the client gets as one, without memory calls; what it appends."""
    one.messages.append({"role": "user", "content": user})
    return told(one, *said)


def told(one: Talk, *said: str | Say) -> list[Any]:
    one.prepare()
    reply = one.absorb(said[0])
    for each in said[1:]:
        one.prepare([*one.messages, *reply.messages])
        reply = one.absorb(each)
    shape = SHAPES[one.wire]
    replies = [each for each in shape.gather(list(reply.messages)) if shape.kind(each) == "assistant"]
    own = shape.spread(shape.told(replies, {each.call_id for each in reply.tool_calls}))
    one.messages += own
    return own


def names(messages: Sequence[Any]) -> str:
    return " ".join(flat(each) for each in messages)


def test_the_next_request_begins_with_this_one(talk: NewTalk, alice: BoundScope) -> None:
    one = talk()
    saved = calls(call("mem_write", slot="city", value="Ulm"), text="One moment.")
    shown = hidden_turn(one, "I live in Ulm", saved, call("mem_read", slot="city"), "Noted.")
    assert "mem_" not in names(shown)
    assert "One moment." in names(shown)
    assert alice.read("city") == "Ulm"
    hidden_turn(one, "Thanks", "Welcome.")  # Talk checks that the request goes on from the one before
    assert "mem_read" in canonical(one.last)
    assert one.session.record is not None
    assert [each.kind for each in one.session.journal()].count("assistant") == 4
    reply = one.replies[-1]
    assert reply.warnings == ()


def test_after_two_turns_in_chinese_nothing_is_new(talk: NewTalk) -> None:
    one = talk()
    hidden_turn(one, "我住在上海", call("mem_write", slot="城市", value="上海"), "记下了。")
    hidden_turn(one, "我还喜欢喝茶", call("mem_write", slot="饮料", value="茶"), "好的。")
    hidden_turn(one, "谢谢", "不客气。")
    kinds = [each.kind for each in one.session.journal()]
    assert kinds.count("user") == 3
    assert kinds.count("assistant") == 5


@pytest.mark.parametrize("again", [False, True])
def test_a_clients_call_beside_ours_keeps_its_pair(talk: NewTalk, wire: Wire, again: bool) -> None:
    one = talk(tools=[tool("search", wire)])
    both = calls(call("mem_write", "m1", slot="city", value="Ulm"), call("search", "c1", text="weather"))
    shown = hidden_turn(one, "The weather in Ulm; I live there", both)
    assert "mem_write" not in names(shown)
    one.messages += result(wire, ("c1", "sunny"))
    told(one, *([call("mem_read", slot="city")] if again else []), "Sunny in Ulm.")
    assert "saved city" in one.sent
    hidden_turn(one, "Thanks", "Welcome.")
    assert one.sent.count("saved city") == 1


def test_the_same_words_without_a_memory_call_are_another_branch(talk: NewTalk) -> None:
    one = talk()
    hidden_turn(one, "Hello", call("mem_search", query="name"), "Hello.")
    first = list(one.messages)
    one.messages = [first[0]]
    hidden_turn(one, "Hello again", "Hello.")
    one.messages = [*first, {"role": "user", "content": "And now?"}]
    one.prepare()
    assert "mem_search" in canonical(one.last)
