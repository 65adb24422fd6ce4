"""Recall of very large scopes in PostgreSQL: words by its index, closeness by pgvector or Chroma, none loaded whole."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import offprompt
from offprompt.records import Recalled, Scope
from offprompt.service.checkup import checkup
from offprompt.service.memories import Memories
from offprompt.service.offprompt import Offprompt
from tests.servers import Server
from tests.service.test_vectors import ASKED, SAID
from tests.stores.schemas import schema_url


@pytest.fixture(scope="module", params=["pgvector", "chroma"])
def large(request: pytest.FixtureRequest, postgres_server: Server) -> Iterator[Offprompt]:
    """Every scope of more than five memories is very large here."""
    vectors = "pgvector"
    if request.param == "chroma":
        server: Server = request.getfixturevalue("chroma_server")
        vectors = f"chroma://127.0.0.1:{server.port}?collection=t{uuid.uuid4().hex}"
    with (
        schema_url(postgres_server) as url,
        offprompt.open(f"memories={url} vectors={vectors}", exact_scope=5) as memory,
    ):
        yield memory


@pytest.fixture(scope="module")
def told(large: Offprompt) -> Iterator[tuple[Memories, Memories]]:
    """The same told to it, and to a store that is searched whole."""
    with offprompt.open(":memory:") as whole:
        for memory in (large, whole):
            scope = memory.scope(user="a@example.com")
            for number in range(3):
                scope.narrow(session=f"s{number}").remember(
                    [{"role": "user", "content": text} for text in SAID[number * 2 : number * 2 + 3]]
                )
            memory.scope(user="bob").remember("My sister lives in Oslo, and the boat is hers.")
        yield large.scope(user="a@example.com").memories, whole.scope(user="a@example.com").memories


def scores(found: Recalled) -> dict[str, float]:
    return {hit.text: hit.score for hit in found}


@pytest.mark.parametrize("question", ASKED)
def test_it_answers_as_a_scope_that_is_searched_whole(told: tuple[Memories, Memories], question: str) -> None:
    found, right = (each.recall(question, floor=0.0, top_k=50) for each in told)
    assert scores(found) == pytest.approx(scores(right), abs=2e-3)
    assert (found.searched, found.degraded) == (right.searched, "")


def test_nothing_is_loaded_whole(large: Offprompt, told: tuple[Memories, Memories]) -> None:
    told[0].recall("boat")
    assert not large.parts.memories.kit.index.holds(Scope(user="a@example.com"), "inherit")


def test_the_index_is_in_step(large: Offprompt, told: tuple[Memories, Memories]) -> None:
    assert [one.state for one in checkup(large.parts).findings if one.name == "vectors"] == ["ok"]
    memory = told[0].list(limit=1).memories[0]
    told[0].forget(memory.memory_id)
    assert memory.text not in scores(told[0].recall(memory.text, floor=0.0, top_k=50))
    told[0].undo(memory.memory_id)
    assert memory.text in scores(told[0].recall(memory.text, floor=0.0, top_k=50))


def test_filters_and_kinds_hold(told: tuple[Memories, Memories]) -> None:
    every: tuple[dict[str, Any], ...] = ({"kinds": ("episode",)}, {"filters": {"text": {"contains": "boat"}}})
    for options in every:
        found, right = (each.recall("the boat", floor=0.0, **options) for each in told)
        assert scores(found) == pytest.approx(scores(right), abs=2e-3)
