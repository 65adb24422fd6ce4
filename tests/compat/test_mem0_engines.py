"""mem0's words over each kind of engine: the same answers as in process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.compat.mem0.asked import Add, Change, Listing, Search, asked
from offprompt.compat.mem0.entities import Entities
from offprompt.compat.mem0.reach import Reach
from offprompt.compat.mem0.records import Records
from offprompt.errors import NotFoundError
from offprompt.records import Identity
from offprompt.service.offprompt import Offprompt
from offprompt.testing.clock import MovedClock
from tests.servers import redis_url
from tests.stores.schemas import schema_url


@pytest.fixture(params=["sqlite", "postgres redis", "postgres pgvector"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[Offprompt]:
    main, _, other = request.param.partition(" ")
    with ExitStack() as stack:
        url = str(tmp_path / "a.db")
        if main == "postgres":
            url = stack.enter_context(schema_url(request.getfixturevalue("postgres_server")))
        if other == "redis":
            redis = redis_url(request.getfixturevalue("redis_server"))
            url = f"memories={url} slots={redis}?prefix=t{uuid.uuid4().hex[:12]}"
        if other == "pgvector":  # and every scope of more than two memories is very large
            url = f"memories={url} vectors=pgvector"
        yield stack.enter_context(offprompt.open(url, clock=clock, exact_scope=2 if other == "pgvector" else 20_000))


def told(memory: Offprompt, clock: MovedClock) -> list[Any]:
    """A life of some memories, and what was answered on the way, without ids."""
    reach = Reach(memory, Identity(roles=frozenset({"admin"})))
    records, entities = Records(reach), Entities(reach)
    seen: list[Any] = []

    def add(text: str, **given: Any) -> str:
        clock.move(1)
        return records.add(asked({"messages": text, "infer": False, **given}, Add)[0])["results"][0]["id"]

    def texts(filters: dict[str, Any], **given: Any) -> list[str]:
        return [one["memory"] for one in records.listed(Listing(filters=filters, **given))["results"]]

    tea = add("she likes green tea", user_id="alice", run_id="r1", app_id="shop", categories=["Drinks"])
    add("she plays the cello", user_id="alice", agent_id="bot")
    add("他喜欢喝绿茶", user_id="小明", run_id="r1", expiration_date="2026-05-29")
    add("the bot is patient", agent_id="bot")
    add("a run of nobody", run_id="r2")
    for filters in (
        {"user_id": "alice"},
        {"agent_id": "bot"},
        {"run_id": "r1"},
        {"run_id": "r2"},
        {"app_id": "shop"},
        {"OR": [{"user_id": "小明"}, {"AND": [{"agent_id": "bot"}, {"NOT": [{"user_id": "alice"}]}]}]},
        {"user_id": "alice", "categories": {"in": ["DRINKS"]}},
        {"user_id": "*"},
    ):
        seen.append(texts(filters))
        found = records.search(Search(query="green tea 绿茶", filters=filters, top_k=2))["results"]
        seen.append([one["memory"] for one in found])
    clock.move(3 * 86_400)
    seen += [texts({"user_id": "小明"}), texts({"user_id": "小明"}, show_expired=True)]
    records.update(tea, Change(text="she likes black tea", metadata={"a": 1}))
    seen.append([(one["event"], one["new_memory"]) for one in records.history(tea)])
    seen.append([(one["type"], one["name"], one["total_memories"]) for one in entities.listed()["results"]])
    seen.append(records.delete(tea)["deleted"])
    with pytest.raises(NotFoundError):
        records.get(tea)
    seen += [records.delete_all({"agent_id": "bot"})["deleted"], entities.delete("run", "r1")["deleted"]["memories"]]
    for name in ("alice", "小明"):
        entities.delete("user", name)
    entities.delete("run", "r2")
    entities.delete("agent", "bot")
    return [*seen, entities.listed()["results"]]


def test_each_engine_answers_as_the_one_in_process(engine: Offprompt, clock: MovedClock) -> None:
    mine = MovedClock(clock.now())
    with offprompt.open(":memory:", clock=mine) as plain:
        assert told(engine, clock) == told(plain, mine)
