"""Whoever knows the library knows the client: the same names, arguments, defaults and results."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from offprompt.client.clients import AsyncClient, Client
from offprompt.client.grants import AsyncGrants, Grants
from offprompt.client.memories import AsyncMemories, Memories
from offprompt.client.scopes import AsyncBoundScope, BoundScope
from offprompt.client.sessions import AsyncSession, Session
from offprompt.client.slots import AsyncSlots, Slots
from offprompt.service import async_session, granting, memories, offprompt, session, slots

WHO_WRITES = {"actor", "writer", "trust"}
"""Parameters by which the service's own parts say who acts; over a network the key says it."""

OWN = {
    "Slots": {"missing", "write_as"},
    "Session": {"prepared_again", "preview", "bounded", "follow"},
    "BoundScope": {"async_session"},
    "Offprompt": {"bound", "restore", "verify_erased"},
    "Grants": {"granted", "view", "drop", "move"},
}
"""Of the service alone: how its parts work together, what looks at the store's own files, and `async_session`, which is
AsyncClient's `session`.
"""

TRIPLES = [
    (offprompt.Offprompt, Client, AsyncClient),
    (offprompt.BoundScope, BoundScope, AsyncBoundScope),
    (slots.Slots, Slots, AsyncSlots),
    (memories.Memories, Memories, AsyncMemories),
    (session.Session, Session, AsyncSession),
    (granting.Grants, Grants, AsyncGrants),
]
NAMES = [own.__name__ for own, _, _ in TRIPLES]
ASKS_NOTHING = {
    "scope",
    "space",
    "narrow",
    "session",
    "absorb_stream",
    "stream_reader",
    "parts",
    "record",
    "last_entry",
}


def methods(kind: type[Any]) -> dict[str, Callable[..., Any]]:
    """The public methods of a class by name."""
    found = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: one for name, one in found.items() if callable(one)}


def shape(method: Callable[..., Any]) -> list[tuple[str, object, str, str]]:
    """A method's parameters: name, kind, type, default."""
    return [
        (
            each.name,
            each.kind,
            str(each.annotation),
            "MISSING" if "object at" in repr(each.default) else repr(each.default),
        )
        for each in inspect.signature(method).parameters.values()
        if each.name not in WHO_WRITES
    ]


@pytest.mark.parametrize(("own", "client"), [(own, client) for own, client, _ in TRIPLES], ids=NAMES)
def test_a_clients_calls_take_and_give_what_the_librarys_do(own: type[Any], client: type[Any]) -> None:
    known = {name: one for name, one in methods(own).items() if name not in OWN.get(own.__name__, ())}
    there = methods(client)
    assert set(known) - set(there) == set()
    for name, method in known.items():
        assert shape(there[name]) == shape(method), name
        given, wanted = (str(inspect.signature(one).return_annotation) for one in (there[name], method))
        assert given.replace("BoundScope", "") == wanted.replace("BoundScope", ""), name


@pytest.mark.parametrize(("client", "other"), [(client, other) for _, client, other in TRIPLES], ids=NAMES)
def test_the_async_client_has_the_same_names(client: type[Any], other: type[Any]) -> None:
    sync, awaited = methods(client), methods(other)
    assert sync.keys() - {"async_session"} == awaited.keys()
    for name in awaited:
        method = sync[name]
        if name not in {"absorb_stream", "complete", "session"}:
            assert shape(awaited[name]) == shape(method), name
        if name not in ASKS_NOTHING | {"end"}:
            assert inspect.iscoroutinefunction(awaited[name]), name


def test_every_call_says_what_it_does() -> None:
    for _, *both in TRIPLES:
        for client in both:
            assert [name for name, one in methods(client).items() if not (one.__doc__ or "").strip()] == []


def test_the_async_session_of_the_library_has_its_twin() -> None:
    assert methods(async_session.AsyncSession).keys() <= methods(AsyncSession).keys()
