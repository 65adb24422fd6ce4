"""Replies, streams and messages that a broken server or application spoiled: an error that says so, or it goes on."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from offprompt.errors import OffpromptError, UsageError
from offprompt.records import as_dict, as_list
from offprompt.service.bound import BoundScope
from offprompt.service.session import Session
from offprompt.testing.strict_chunks import Delivery, split_reply
from tests.service.talk import MODELS, Say, Wire, as_reply, messages_of, parts, result, tool

SECRET = "Zx9-hunter2-qwerty"  # noqa: S105 - made up
ODD: list[Any] = [None, 0, -1, 1.5, True, "", [], {}, "x", ["x"], {"a": 1}, [None], [[]], "\ud800", float("nan")]
MORE: list[Any] = [10**400, {"type": "text"}, [{"type": "text", "text": None}], "[[mem:city]]", b"x", ("a",), {1: 2}]
ROUNDS = 60


@pytest.fixture
def session(alice: BoundScope, wire: Wire) -> Session:
    alice.write("city", "Reykjavík, am Meer")
    alice.write("api_key", SECRET, policy="never")
    return alice.session("s", model=MODELS[wire], wire=wire, tools=[tool("get", wire)])


def asked(wire: Wire) -> list[Any]:
    return [{"role": "user", "content": parts([{"type": "text", "text": each} for each in ("doc", "hi")], wire)}]


def whole(wire: Wire) -> dict[str, Any]:
    """A reply that has all there is: a thought, text, a call of the client's and one of ours."""
    calls = (("get", {"text": "[[mem:city]]"}, "c1"), ("mem_read", {"slot": "city"}, "c2"))
    reply = as_reply(Say("It is [[mem:city]]", calls), wire)
    if wire == "responses":
        reply["output"].insert(0, {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "t"}]})
    elif wire == "anthropic":
        reply["content"].insert(0, {"type": "thinking", "thinking": "t", "signature": "s"})
    return reply


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members, items = as_dict(value), as_list(value)
    for key, item in members.items() if members is not None else enumerate(items or ()):
        yield (*at, key)
        yield from places(item, (*at, key))


def spoiled(value: Any, dice: random.Random) -> Any:
    """A copy in which something is missing, of another type, or too much."""
    value = copy.deepcopy(value)
    for _ in range(dice.choice([1, 1, 2, 3])):
        *path, last = dice.choice([*places(value)] or [(None,)])
        if last is None:
            break
        inner = value
        for key in path:
            inner = inner[key]
        kind = dice.random()
        if kind < 0.25:
            del inner[last]
        elif kind < 0.8 or not isinstance(inner, dict):
            inner[last] = copy.deepcopy(dice.choice([*ODD, *MORE]))
        else:
            inner[dice.choice(["type", "role", "content", "id", "output"])] = copy.deepcopy(dice.choice([*ODD, *MORE]))
    return value


def spoil_a_reply(session: Session, wire: Wire, dice: random.Random) -> None:
    session.prepare(asked(wire))
    reply = session.absorb(spoiled(whole(wire), dice))
    answers = result(wire, *((call.call_id, "ok") for call in reply.tool_calls))
    session.prepare([*asked(wire), *reply.messages, *answers, {"role": "user", "content": "next"}])


def spoil_a_stream(session: Session, wire: Wire, dice: random.Random) -> None:
    session.prepare(asked(wire))
    chunks: list[Any] = list(split_reply(whole(wire), wire, Delivery(seed=dice.randrange(99), longest=4)))
    for _ in range(dice.choice([1, 2])):
        at = dice.randrange(len(chunks))
        kind = dice.random()
        chunks[at : at + 1] = [] if kind < 0.2 else [chunks[at]] * 2 if kind < 0.3 else [spoiled(chunks[at], dice)]
    for _ in session.absorb_stream(chunks):
        pass


def spoil_the_messages(session: Session, wire: Wire, dice: random.Random) -> None:
    session.prepare(asked(wire))
    reply = session.absorb(whole(wire))
    messages = [*asked(wire), *reply.messages, *result(wire, ("c1", "fine")), {"role": "user", "content": "go"}]
    session.prepare(spoiled(messages, dice))
    session.absorb(as_reply("x", wire))


@pytest.mark.illegal
@pytest.mark.parametrize("spoil", [spoil_a_reply, spoil_a_stream, spoil_the_messages])
def test_only_our_own_errors_come_out(alice: BoundScope, session: Session, wire: Wire, spoil: Any) -> None:
    errors: list[str] = []
    dice = random.Random(spoil.__name__)  # noqa: S311 - the same in each run
    for number in range(ROUNDS):
        try:
            spoil(alice.session(f"s{number}", model=MODELS[wire], wire=wire, tools=[tool("get", wire)]), wire, dice)
        except OffpromptError as exc:
            errors.append(str(exc))
    assert SECRET not in "\n".join(errors)
    session.prepare(asked(wire))
    assert session.absorb(whole(wire)).text == "It is Reykjavík, am Meer"


@pytest.mark.illegal
def test_a_part_whose_type_is_no_text_goes_as_it_came(session: Session) -> None:
    message = {"role": "user", "content": [{"type": {"a": 1}, "text": "x"}]}
    assert messages_of(session.prepare([message]))[-1] == message


def test_a_calls_input_that_is_no_json(session: Session, wire: Wire) -> None:
    if wire != "anthropic":
        return  # the others carry text
    session.prepare(asked(wire))
    reply = whole(wire)
    reply["content"][-2]["input"] = {"text": b"x"}
    with pytest.raises(UsageError, match="input of the call 'c1'"):
        session.absorb(reply)
    reply["content"][-2]["input"] = {"text": float("nan")}
    with pytest.raises(UsageError, match="input of the call 'c1'"):
        session.prepare([*asked(wire), {"role": "assistant", "content": reply["content"]}])


def test_events_without_a_type_or_with_a_number_that_is_none(session: Session, wire: Wire) -> None:
    session.prepare(asked(wire))
    chunks: list[Any] = list(split_reply(whole(wire), wire, Delivery(longest=4)))
    for chunk in chunks:
        chunk["sequence_number"] = "one"
    bare = json.loads(json.dumps(chunks[3]))
    bare.pop("type", None)
    stream = session.absorb_stream([*chunks[:3], bare, *chunks[3:]])
    for _ in stream:
        pass
    assert stream.reply.text == "It is Reykjavík, am Meer"
