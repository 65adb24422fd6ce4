"""Values of the wrong type are usage errors that name themselves, never Python's own; nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import offprompt
from offprompt import UsageError
from offprompt.service.bound import BoundScope

Call = Callable[[Any], object]

WRITES: dict[str, Any] = {
    "ttl_s='1h'": {"ttl_s": "1h"},
    "ttl_s=True": {"ttl_s": True},
    "if_version='1'": {"if_version": "1"},
    "if_version=1.0": {"if_version": 1.0},
    "importance='high'": {"importance": "high"},
    "tags=[1]": {"tags": [1]},
    "tags=5": {"tags": 5},
    "tags='吃的'": {"tags": "吃的"},
    "schema for slot 'x' is a str": {"schema": "{}"},
    "policy=['card']": {"policy": ["card"]},
}

CALLS: dict[str, Call] = {
    "since='yesterday'": lambda own: own.slots.list(since="yesterday"),
    "until=True": lambda own: own.slots.list(until=True),
    "names=3": lambda own: own.slots.list(3),
    "within='all'": lambda own: own.slots.list(within="all"),
    "tags='a'": lambda own: own.slots.list(tags="a"),
    "limit='3'": lambda own: own.slots.rank(limit="3"),
    "limit=-1": lambda own: own.slots.rank(limit=-1),
    "limit='x'": lambda own: own.events(limit="x"),
    "after='x'": lambda own: own.events(after="x"),
    "op=1": lambda own: own.events(op=1),
    "names='ab'": lambda own: own.slots.get_many("ab"),
    "tools\\[0\\] is a builtin": lambda own: own.session("s", tools=[print]),
    "tools is a str": lambda own: own.session("s", tools="xy"),
    "tools is a int": lambda own: own.session("s", tools=5),
    "context_tokens='8k'": lambda own: own.session("s", context_tokens="8k"),
    "model=None": lambda own: own.session("s", model=None),
    "model=4": lambda own: own.session("s", model=4),
    "wire='http'": lambda own: own.session("s", wire="http"),
    "the session id 5 is not text": lambda own: own.session(5),
    "call='gpt' cannot be called": lambda own: own.session("s").complete("gpt", [{"role": "user", "content": "嗨"}]),
}


@pytest.mark.parametrize("says", WRITES)
def test_a_write_with_an_option_of_the_wrong_type(says: str, alice: BoundScope) -> None:
    with pytest.raises(UsageError, match=says.replace("[", r"\[")) as caught:
        alice.write("x", "secret", **WRITES[says])
    assert "secret" not in str(caught.value)
    assert alice.slots.list() == []


@pytest.mark.parametrize("says", CALLS)
def test_a_call_with_an_argument_of_the_wrong_type(says: str, alice: BoundScope) -> None:
    with pytest.raises(UsageError, match=says):
        CALLS[says](alice)


@pytest.mark.parametrize(("name", "value"), [("url", 5), ("config", 5)])
def test_a_store_or_config_that_is_no_path(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name}=5: give a path"):
        offprompt.open(**{name: value})


def test_an_async_session_says_the_same(alice: BoundScope) -> None:
    call: Any = "gpt"
    with pytest.raises(UsageError, match="call='gpt' cannot be called"):
        asyncio.run(alice.async_session("s").complete(call, [{"role": "user", "content": "嗨"}]))


def test_right_types_still_do(alice: BoundScope) -> None:
    slot = alice.write("x", 1, ttl_s=60, tags=("a",), importance=1, if_version=0, schema={"type": "integer"})
    assert (slot.ttl_s, slot.tags, slot.importance) == (60, ("a",), 1)
    assert [one.name for one in alice.slots.list("x*", since=0, until=2e10, within="exact")] == ["x"]
    assert len(alice.slots.rank(limit=1)) == 1
    assert alice.session("s", tools=None, context_tokens=4000).record is None


@pytest.mark.parametrize("own", [{"user": ""}, {"agent": ""}, {"session": ""}, {"app": "", "user": "a"}])
def test_an_empty_id_is_never_the_default_users_scope(own: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFPROMPT_USER", "alice")
    with offprompt.open(":memory:") as memory, pytest.raises(offprompt.ScopeError, match="='' is no id"):
        memory.scope(**own)


def test_a_store_that_is_not_there_is_not_made_unasked(tmp_path: Any) -> None:
    path = tmp_path / "folder" / "none.db"
    with pytest.raises(offprompt.NotFoundError, match=r"none\.db.*write something"):
        offprompt.open(path, create=False)
    assert not path.parent.exists()
    offprompt.open(path).close()
    offprompt.open(path, create=False).close()


@pytest.mark.parametrize("value", ["字" * 3000, {"list": ["a" * 100] * 60}])
def test_a_split_write_says_the_size_of_the_whole(value: Any, alice: BoundScope) -> None:
    slot = alice.write("long", value, split=True)
    stored = alice.slots.get("long")
    assert stored is not None
    assert slot.bytes == stored.bytes > 4096


def test_an_unknown_setting_names_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="did you mean max_slots"):
        offprompt.open(":memory:", max_slot=3)
    monkeypatch.setenv("OFFPROMPT_MAX_SLOT", "3")
    with pytest.raises(UsageError, match="did you mean OFFPROMPT_MAX_SLOTS"):
        offprompt.open(":memory:")
    monkeypatch.delenv("OFFPROMPT_MAX_SLOT")
    with pytest.raises(UsageError, match="the settings are: app"):
        offprompt.open(":memory:", zzzz=3)
