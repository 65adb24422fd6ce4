"""Grants over HTTP and by the client, and what a key finds by them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from offprompt.client.clients import AsyncClient, Client
from offprompt.errors import ForbiddenError, NotFoundError
from offprompt.records import Grant
from offprompt.rest.app import make_app
from offprompt.rest.dispatch import Dispatch
from offprompt.rest.guarding import guard_for
from offprompt.service.offprompt import Offprompt
from tests.rest.running import Running, running

LOCAL = "local_0"


def guarded(memory: Offprompt, _: Any) -> Dispatch:
    return make_app(memory, guard_for(memory, ["127.0.0.1"], token=LOCAL, user="alice"))


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(app_of=guarded) as own:
        yield own


@pytest.fixture
def admin(server: Running) -> Iterator[Client]:
    with Client(server.url, key=LOCAL) as client:
        yield client


def key(server: Running, **given: Any) -> tuple[str, str]:
    """A key's id and its token."""
    headers = {"authorization": f"Bearer {LOCAL}"}
    made = server.http.post("/v1/keys", headers=headers, json={"name": "svc", **given}).json()
    return made["key"]["key_id"], made["token"]


def test_the_client_grants_lists_and_takes_back(admin: Client, server: Running) -> None:
    grant = admin.grants.add("space", "Legal", to="user:ann")
    assert (type(grant), grant.name, grant.whom, grant.app) == (Grant, "legal", "user:ann", "default")
    assert admin.grants.add("space", "legal", to="user:ann") == grant
    assert grant in admin.grants.list()

    async def awaited() -> list[Grant]:
        async with AsyncClient(server.url, key=LOCAL) as client:
            return await client.grants.list()

    assert grant in asyncio.run(awaited())
    assert admin.grants.remove("space", "LEGAL", to="user:ann") == grant
    with pytest.raises(NotFoundError, match="offprompt grant list"):
        admin.grants.remove("space", "legal", to="user:ann")


def test_only_admins_of_the_whole_app_grant(server: Running) -> None:
    for given in ({"roles": ["read", "write"]}, {"roles": ["admin"], "users": ["bob"]}):
        _, token = key(server, **given)
        with Client(server.url, key=token) as client:
            with pytest.raises(ForbiddenError):
                client.grants.add("space", "legal", to="user:bob")
            with pytest.raises(ForbiddenError):
                client.grants.list()


def test_a_key_finds_what_an_agent_keeps_where_it_is_granted_to_the_key(admin: Client, server: Running) -> None:
    key_id, token = key(server, users=["carl"])
    _, other = key(server, users=["carl"])
    admin.scope(user="carl", agent="helper").write("seat", "Window.")
    admin.scope(user="dora", agent="helper").write("seat", "Aisle.")
    with Client(server.url, key=token) as own, Client(server.url, key=other) as others:
        assert own.scope().read("seat", None) is None
        admin.grants.add("agent", "helper", to=f"key:{key_id}")
        assert own.scope().read("seat") == "Window."
        assert others.scope().read("seat", None) is None
        with pytest.raises(ForbiddenError, match="belongs to user=carl agent=helper"):
            own.scope().forget("seat")
        own.scope().write("seat", "None.")
        assert own.scope().read("seat") == "None."
        assert admin.scope(user="carl", agent="helper").read("seat") == "Window."


def test_a_space_that_is_not_granted_is_answered_as_one_that_is_not_there(server: Running) -> None:
    fact = "The blue folder holds the quarterly figures."
    _, admin = key(server, roles=["admin"])
    key_id, token = key(server, users=["eve"])
    server.memory.space("legal").remember(fact, derive="none")

    def asked(name: str) -> tuple[int, bytes]:
        body = {"query": "Which folder holds the quarterly figures?", "spaces": [name]}
        headers = {"authorization": f"Bearer {token}"}
        answer = server.http.post("/v1/memories/recall", json=body, headers=headers)
        return answer.status_code, answer.content

    assert asked("legal") == (asked("lexal")[0], asked("lexal")[1].replace(b"lexal", b"legal"))
    assert fact.encode() not in asked("legal")[1]
    grants = [(kind, to) for kind in ("space", "agent") for to in ("user:carl", "agent:b", "user:eve", f"key:{key_id}")]
    with Client(server.url, key=admin) as client:
        for kind, to in grants:
            finds = kind == "space" and to in ("user:eve", f"key:{key_id}")
            client.grants.add(kind, "legal", to=to)  # pyright: ignore[reportArgumentType]
            assert (fact.encode() in asked("legal")[1]) is finds, (kind, to)
            client.grants.remove(kind, "legal", to=to)  # pyright: ignore[reportArgumentType]
    assert asked("legal") == (asked("lexal")[0], asked("lexal")[1].replace(b"lexal", b"legal"))
