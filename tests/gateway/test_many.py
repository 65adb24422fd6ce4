"""Many streams at once through one gateway, and many requests one after the other."""

from __future__ import annotations

import asyncio
import re
import resource
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import offprompt
from offprompt.gateway.app import Gateway, GatewayOptions
from offprompt.gateway.kept import MAX_BYTES, MAX_SESSIONS, KeptSessions
from offprompt.gateway.upstream import Target, Upstreams
from offprompt.gateway.who import Who
from offprompt.records import Identity, Scope
from tests.gateway import constant
from tests.gateway.conftest import nobody, served

STREAMS = 40
PIECES = 25
ANYBODY = Identity()
LEFT_AT = re.compile(rb', "left_at": \d+')


@pytest.fixture
def url(tmp_path: Path) -> Generator[str]:
    with ExitStack() as stack:
        memory = stack.enter_context(offprompt.open(tmp_path / "agent.db"))
        upstream = stack.enter_context(served(constant.app))
        gateway = Gateway(Who(memory, nobody, ANYBODY), Upstreams([Target(upstream)]), GatewayOptions())
        yield stack.enter_context(served(gateway))


def expected(number: int) -> bytes:
    """The upstream's events, byte for byte, but for the times at which they left."""
    pieces = [constant.event({"content": constant.piece(at, str(number))}) for at in range(PIECES)]
    return b"".join([constant.FIRST, *pieces, constant.LAST])


def test_many_streams_at_once_have_their_own_events_in_order(url: str) -> None:
    async def one(client: httpx.AsyncClient, number: int) -> bytes:
        said = [{"role": "user", "content": f"Tell me about {number}"}]
        headers = {"offprompt-user": "alice", "x-number": str(number), "x-events": str(PIECES), "x-gap-ms": "2"}
        body = {"model": constant.MODEL, "messages": said, "stream": True}
        path = "/v1/chat/completions"
        async with client.stream("POST", path, json=body, headers=headers) as answer:
            assert answer.headers["offprompt-memory"] == "on"
            return b"".join([piece async for piece in answer.aiter_raw()])

    async def every() -> list[bytes]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits, trust_env=False) as client:
            return await asyncio.gather(*(one(client, number) for number in range(STREAMS)))

    for number, found in enumerate(asyncio.run(every())):
        assert LEFT_AT.sub(b"", found) == expected(number)


def test_what_is_kept_of_conversations_has_a_bound() -> None:
    with offprompt.open(":memory:") as memory:
        session = memory.scope(user="alice").session("s", model="m")
    keys = [(Scope("app", "alice"), str(number)) for number in range(MAX_SESSIONS + 2)]
    kept = KeptSessions()
    for key in keys:
        kept.put(key, session, 1)
    assert [kept.take(key) for key in keys[:3]] == [None, None, session]
    assert kept.take(keys[2]) is None, "what is taken is nobody else's"
    kept.put(keys[0], session, MAX_BYTES)
    assert kept.take(keys[-1]) is None, "the largest ones push out the others"
    assert kept.take(keys[0]) is session
    kept.put(keys[1], session, MAX_BYTES + 1)
    assert kept.take(keys[1]) is None
    kept.put(keys[2], session, MAX_BYTES)
    assert kept.take(keys[2]) is session, "what is gone does not count"


def resident_mb() -> float:
    """What of this process is in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_memory_stays_level_over_many_requests_of_many_conversations(url: str) -> None:
    """Ten requests each of a thousand users' conversations, which end and do not come back."""
    seen: dict[int, float] = {}
    said: list[dict[str, str]] = []
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        for number in range(10_000):
            if number % 10 == 0:
                said = [{"role": "user", "content": f"{number}: see this. " + "It is long enough to tell. " * 200}]
            body = {"model": constant.MODEL, "messages": said}
            whose = {"offprompt-user": f"user{number // 10}"}
            assert client.post("/v1/chat/completions", json=body, headers=whose).status_code == 200
            said += [
                {"role": "assistant", "content": constant.TEXT * 3},
                {"role": "user", "content": f"Go on {number}"},
            ]
            seen[number + 1] = resident_mb() if number % 1000 == 999 else 0.0
    grown = seen[10_000] - seen[2_000]
    assert grown < 40, f"{grown:.0f} MB more after 10,000 requests than after 2,000"
