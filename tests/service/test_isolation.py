"""With isolation="agent" two agents of one user know nothing of each other, until it is granted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import offprompt
from offprompt.records import Scope
from offprompt.service.bound import BoundScope
from offprompt.service.model_doors import StoreDoor
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock

LOCKER = "My locker at the station is number 4711."
HOME = "I live in Porto."
CODE = "harbour-9182-lantern-green-0042"


@pytest.fixture
def apart(clock: MovedClock) -> Iterator[Offprompt]:
    with offprompt.open(":memory:", clock=clock, isolation="agent") as memory:
        yield memory


def said(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop", "index": 0}]}


def acted(name: str, **given: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"choices": [{"message": message, "finish_reason": "tool_calls", "index": 0}]}


def turn(scope: BoundScope, text: str, *replies: dict[str, Any], session: str = "s") -> tuple[str, Any]:
    """What the model was sent in a turn, and the turn's reply."""
    left, sent = [*replies, said("All right.")], list[Any]()

    def call(**request: Any) -> Any:
        sent.append(request)
        return left.pop(0)

    reply = scope.session(session, model="gpt-4o-mini").complete(call, [{"role": "user", "content": text}])
    return json.dumps(sent, ensure_ascii=False, default=str), reply


def kept(mem: Offprompt, agent: str) -> BoundScope:
    """An agent that has kept in a session: a slot by its model, episodes, facts and profile."""
    scope = mem.scope(user="alice", agent=agent)
    turn(scope, f"{LOCKER} {HOME}", acted("mem_write", slot="door_code", value=CODE))
    turn(scope, "Keep it for me.", acted("mem_write", slot="gate", value="North.", scope="user"), session="s2")
    return scope


def seen(scope: BoundScope) -> str:
    """All that an agent can see of the other's by each way there is."""
    ways: list[Any] = [
        [hit.text for hit in scope.recall("Which number is my locker?")],
        scope.slots.snapshot(),
        [one.text for one in scope.known()],
        turn(scope, "What do you know about me?", session="ask"),
        turn(scope, "你记得我什么？", session="zh"),
        turn(scope, "What is my door code and where do I live?", session="card"),
        turn(scope, "Search.", acted("mem_search", query="locker number, door code"), session="search"),
        turn(scope, "Read.", acted("mem_read", slot="door_code"), session="read"),
        turn(scope, "Send it.", said("The code is {{mem:door_code}}, and {{mem:gate}}."), session="handle")[1],
    ]
    return json.dumps(ways, ensure_ascii=False, default=str)


def test_two_agents_of_a_user_see_nothing_of_each_other_until_it_is_granted(apart: Offprompt) -> None:
    helper, other = kept(apart, "helper"), apart.scope(user="alice", agent="b")
    assert {slot.scope for slot in helper.slots.list()} == {Scope(user="alice", agent="helper")}
    assert {one.scope for one in helper.memories.list()} == {Scope(user="alice", agent="helper")}
    assert apart.scope(user="alice").slots.list() == []
    blind = seen(other)
    for text in ("4711", "Porto", "harbour", "North"):
        assert text not in blind
    apart.grants.add("agent", "helper", to="agent:b")
    sees = seen(other)
    for text in ("4711", "Porto", "harbour", "North"):
        assert text in sees
    assert {slot.scope.agent for slot in helper.slots.list()} == {"helper"}


def test_the_users_own_list_is_complete_and_says_whose(apart: Offprompt, clock: MovedClock) -> None:
    kept(apart, "helper")
    apart.scope(user="alice", agent="b").write("door_code", "other")
    apart.scope(user="alice").write("city", "Berlin")
    apart.scope(user="bob", agent="helper").write("city", "Oslo")
    alice = apart.scope(user="alice")
    told = {(one.name, one.text, one.agent) for one in alice.known() if one.kind == "slot"}
    assert told == {
        ("door_code", CODE, "helper"),
        ("gate", "North.", "helper"),
        ("home", "Porto", "helper"),
        ("door_code", "other", "b"),
        ("city", "Berlin", ""),
    }
    apart.grants.add("agent", "helper", to="user:alice")
    assert {(one.name, one.text, one.agent) for one in alice.known() if one.kind == "slot"} == told
    assert "door_code" not in {one.name for one in apart.scope(user="alice", agent="c").known() if one.agent == "b"}
    # Each is corrected and forgotten where it is.
    own = apart.scope(user="alice", agent="helper")
    clock.move(1)
    assert own.correct("home", "Lisbon").text == "Lisbon"
    own.forget("door_code")
    assert {(one.name, one.text) for one in alice.known() if one.agent == "helper" and one.kind == "slot"} == {
        ("gate", "North."),
        ("home", "Lisbon"),
    }


def test_what_was_the_users_before_is_written_anew_by_an_agent_of_its_own(apart: Offprompt) -> None:
    alice = apart.scope(user="alice")
    alice.write("seat", "Window.")
    helper = apart.scope(user="alice", agent="helper")
    turn(helper, "Aisle now.", acted("mem_write", slot="seat", value="Aisle."))
    assert (alice.read("seat"), helper.read("seat")) == ("Window.", "Aisle.")


def test_a_session_without_an_agent_writes_the_users(apart: Offprompt) -> None:
    alice = apart.scope(user="alice")
    turn(alice, "Note it.", acted("mem_write", slot="seat", value="Aisle."))
    assert [slot.scope for slot in alice.slots.list()] == [Scope(user="alice")]


def test_unless_told_what_a_model_writes_is_the_users(mem: Offprompt) -> None:
    turn(mem.scope(user="alice", agent="helper"), "Note it.", acted("mem_write", slot="seat", value="Aisle."))
    assert mem.scope(user="alice", agent="b").read("seat") == "Aisle."


def test_a_door_tells_an_agent_nothing_of_another(apart: Offprompt) -> None:
    kept(apart, "helper")
    own = StoreDoor(apart.parts, apart.scope(user="alice", agent="b"))
    user = StoreDoor(apart.parts, apart.scope(user="alice"))
    assert [one.text for door in (own, user) for one in door.known()] == []
