"""Slots on a Redis server, opened by URL."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import ConflictError
from offprompt.records import SessionChange
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.servers import Server, redis_url


def opened(server: Server, folder: Path, prefix: str, clock: MovedClock) -> Offprompt:
    url = f"memories={folder / 'agent.db'} slots={redis_url(server)}?prefix={prefix}"
    return offprompt.open(url, clock=clock)


def test_processes_share_slots_and_have_one_log(valkey_server: Server, tmp_path: Path) -> None:
    prefix, clock = f"b{uuid.uuid4().hex[:12]}", MovedClock()
    with opened(valkey_server, tmp_path, prefix, clock) as one, opened(valkey_server, tmp_path, prefix, clock) as other:
        one.scope(user="u").write("城市", "里斯本")
        one.scope(user="u").remember("I moved to Lisbon in May.")
        assert other.scope(user="u").read("城市") == "里斯本"
        events = [(event.op, event.name) for event in other.scope(user="u").events()]
        assert events.count(("slot.write", "城市")) == 1
        assert "memory.add" in [op for op, _ in events]
        assert one.scope(user="u").events() == other.scope(user="u").events()


def test_a_second_prepare_of_another_process_is_refused_before_it_does_anything(
    valkey_server: Server, tmp_path: Path
) -> None:
    prefix, clock, messages = f"b{uuid.uuid4().hex[:12]}", MovedClock(), [{"role": "user", "content": "My city?"}]
    with opened(valkey_server, tmp_path, prefix, clock) as one, opened(valkey_server, tmp_path, prefix, clock) as other:
        store: Any = one.parts.main
        commit, refused = store.commit, list[str]()

        def in_between(change: SessionChange) -> None:
            with pytest.raises(ConflictError, match="another call works on session 's'") as raised:
                other.scope(user="u").session("s", model="gpt-4o-mini").prepare(messages)
            refused.append(str(raised.value))
            commit(change)

        store.commit = in_between
        one.scope(user="u").session("s", model="gpt-4o-mini").prepare(messages)
        del store.commit
        assert len(refused) == 1
        other.scope(user="u").session("s", model="gpt-4o-mini").prepare(messages)
