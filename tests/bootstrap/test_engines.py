"""Engines by URL, alone and combined: the same memory whatever keeps it, and copied from any to any."""

from __future__ import annotations

import builtins
import sys
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import UnsupportedError
from offprompt.records.tables import TABLES, Row
from offprompt.service.copying import Whole, copy
from offprompt.testing import MovedClock
from offprompt.testing.portable_suite import fill, rows_of
from tests.servers import Server, redis_url
from tests.stores.schemas import schema_url


@pytest.fixture
def postgres(postgres_server: Server) -> Iterator[str]:
    with schema_url(postgres_server) as url:
        yield url


@pytest.fixture
def redis(redis_server: Server) -> str:
    return f"{redis_url(redis_server)}?prefix=t{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["sqlite", "postgres", "sqlite redis", "postgres redis", "sqlite qdrant", "postgres chroma"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A memory of each kind of combination."""
    main, _, other = request.param.partition(" ")
    memories = str(tmp_path / "a.db") if main == "sqlite" else request.getfixturevalue("postgres")
    if other == "redis":
        return f"memories={memories} slots={request.getfixturevalue('redis')}"
    if other == "qdrant":
        return f"memories={memories} vectors=qdrant:///{tmp_path}/vectors"
    if other == "chroma":
        chroma: Server = request.getfixturevalue("chroma_server")
        return f"memories={memories} vectors=chroma://127.0.0.1:{chroma.port}?collection=t{uuid.uuid4().hex[:12]}"
    return memories


def talked(memory: offprompt.Offprompt) -> dict[str, Any]:
    """Something of everything, and what is found of it."""
    alice = memory.scope(user="alice@example.com")
    alice.write("city", "上海")
    alice.write("city", "杭州")
    alice.remember(["I moved to Lisbon in May 2026.", "My dog is called 豆豆."])
    session = alice.session("s 九", model="gpt-4o-mini")
    session.prepare([{"role": "user", "content": "Where is my dog?"}])
    answer = {"role": "assistant", "content": "At home."}
    reply = session.absorb({"choices": [{"finish_reason": "stop", "message": answer}], "model": "gpt-4o-mini"})
    assert (reply.done, reply.warnings) == (True, ())
    return found(memory)


def found(memory: offprompt.Offprompt) -> dict[str, Any]:
    alice = memory.scope(user="alice@example.com")
    recalled = alice.recall("what is the dog called?")
    return {
        "city": alice.read("city"),
        "versions": [one.value for one in alice.slots.history("city")],
        "first": recalled.hits[0].text,
        "degraded": recalled.degraded,
        "events": sorted({event.op for event in alice.events()}),
        "sessions": [record.scope.session for record in memory.parts.sessions.sessions()],
        "journal": [entry.text for entry in alice.session("s 九", model="gpt-4o-mini").journal()],
    }


WANTED = {
    "city": "杭州",
    "versions": ["上海", "杭州"],
    "first": "My dog is called 豆豆.",
    "degraded": "",
    "events": ["memory.add", "slot.read", "slot.show", "slot.write"],
    "sessions": ["s 九"],
    "journal": ["Where is my dog?", "At home."],
}


def test_a_memory_is_the_same_in_every_engine(url: str) -> None:
    with offprompt.open(url) as memory:
        assert talked(memory) == WANTED
    with offprompt.open(url) as again:
        assert found(again) == WANTED


def content(whole: Whole) -> dict[str, list[Row]]:
    return {table: rows_of(whole.engine(table), table) for table in TABLES}


def test_a_store_goes_through_all_engines_and_comes_back_the_same(
    tmp_path: Path, postgres: str, redis: str, postgres_server: Server
) -> None:
    with schema_url(postgres_server) as second:
        way = [
            str(tmp_path / "a.db"),
            postgres,
            f"memories={second} slots={redis}",
            f"memories={tmp_path / 'b.db'} slots={redis}2",
            str(tmp_path / "c.db"),
        ]
        with offprompt.open(way[0]) as memory:
            talked(memory)
            fill(memory.parts.main, MovedClock())
        for source, target in pairwise(way):
            with offprompt.open(source) as old, offprompt.open(target) as new:
                done = copy(Whole.of(old.parts), Whole.of(new.parts))
                assert content(Whole.of(new.parts)) == content(Whole.of(old.parts))
                assert done.rows > 60
        with offprompt.open(way[0]) as first, offprompt.open(way[-1]) as last:
            assert content(Whole.of(last.parts)) == content(Whole.of(first.parts))
            assert found(last) == found(first) | {"degraded": ""}


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("postgresql://x/y", "psycopg", "postgres"),
        ("memories=:memory: slots=redis://x", "redis", "redis"),
        ("memories=:memory: vectors=qdrant://x", "qdrant_client", "qdrant"),
        ("memories=:memory: vectors=chroma://x", "chromadb", "chroma"),
    ],
)
def test_a_client_that_is_not_installed_is_named(
    url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return real(name, *rest)

    for name in list(sys.modules):
        if name.partition(".")[0] == module or (
            name.startswith("offprompt.stores.") and ("pg" in name or "postg" in name)
        ):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnsupportedError, match=rf"pip install 'offprompt\[{extra}\]'"):
        offprompt.open(url).scope(user="u").recall("where?")
