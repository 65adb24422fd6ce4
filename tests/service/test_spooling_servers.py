"""A server that is killed and comes back: what was written meanwhile waited, and is there once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import offprompt
from offprompt.service.checkup import checkup
from offprompt.service.worker import Worker
from tests import servers
from tests.servers import Server, postgres_url, redis_url, running


@pytest.fixture(params=["postgres", "valkey"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """An own server, since it is killed."""
    with running(getattr(servers, request.param)()) as own:
        yield own


def test_writes_wait_while_the_server_is_away(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    is_postgres = server.name == "PostgreSQL"
    url = postgres_url(server) if is_postgres else f"memories={tmp_path}/a.db slots={redis_url(server)}"
    with ExitStack() as closing:
        memory = closing.enter_context(offprompt.open(url, write_deadline_s=0.5))
        alice = memory.scope(user="alice")
        alice.write("city", "苏州")
        server.kill()
        assert [alice.write("city", value).spooled for value in ("杭州", "上海")] == [True, True]
        told = alice.remember("我养了一只叫豆豆的狗。")
        assert {one.outcome for one in told} <= ({"spooled"} if is_postgres else {"added", "spooled"})
        server.start()
        ran = next(one for one in Worker(memory.parts).run() if one.job == "spool")
        assert (ran.error, ran.done) == ("", 3 if is_postgres or told[0].outcome == "spooled" else 2)
        assert [one.value for one in alice.slots.history("city")] == ["苏州", "杭州", "上海"]
        assert alice.recall("狗叫什么？").hits[0].text == "我养了一只叫豆豆的狗。"
        assert [one for one in checkup(memory.parts).findings if one.name.startswith("spool")] == []
