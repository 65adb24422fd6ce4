"""mem0's library face: signatures and shapes as theirs, configurations, what is refused."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from offprompt.compat.mem0 import AsyncMemory, Memory
from offprompt.compat.mem0.config import meaning_of
from offprompt.errors import UnsupportedError, UsageError
from offprompt.service.offprompt import Offprompt


@pytest.fixture
def mem0(memory: Offprompt) -> Iterator[Memory]:
    with Memory(memory=memory) as face:
        yield face


def test_pasted_code_of_their_quick_start_runs(tmp_path: Path) -> None:
    # As their pages have it, but for the import and the folder.
    config: dict[str, Any] = {"vector_store": {"provider": "qdrant", "config": {"path": str(tmp_path)}}}
    with Memory.from_config(config) as m:
        messages = [
            {"role": "user", "content": "Hi, I'm Alex. I live in Porto and I love basketball."},
            {"role": "assistant", "content": "Hey Alex! Noted."},
        ]
        m.add(messages, user_id="alex", metadata={"category": "hobbies"})
        related = m.search("What does Alex love to do?", filters={"user_id": "alex"})
        assert "basketball" in related["results"][0]["memory"]
        everything = m.get_all(filters={"user_id": "alex"})["results"]
        assert {one["user_id"] for one in everything} == {"alex"}
        assert everything[0]["metadata"] == {"category": "hobbies"}
    with Memory.from_config(config) as again:
        assert len(again.get_all(filters={"user_id": "alex"})["results"]) == len(everything)


@pytest.mark.parametrize(("said", "new"), [("I play the cello", "I play the viola"), ("我拉大提琴", "我拉中提琴")])
def test_answers_have_their_shapes(mem0: Memory, said: str, new: str) -> None:
    done = mem0.add(said, user_id="alice", run_id=7, infer=False)
    assert [set(one) for one in done["results"]] == [{"id", "memory", "event"}]
    name = done["results"][0]["id"]
    shown = mem0.get(name)
    assert shown is not None
    assert (shown["memory"], shown["user_id"], shown["run_id"], shown["metadata"]) == (said, "alice", "7", None)
    assert "agent_id" not in shown
    assert mem0.update(name, data=new) == {"message": "Memory updated successfully!"}
    hit = mem0.search(new, filters={"user_id": "alice"}, explain=True)["results"][0]
    assert set(hit["score_details"]) == {"semantic", "bm25", "entity"}
    assert 0.1 <= hit["score"] <= 1
    assert mem0.delete(name) == {"message": "Memory deleted successfully!"}
    assert mem0.get(name) is None
    assert [one["event"] for one in mem0.history(name)] == ["ADD", "UPDATE", "DELETE"]
    assert mem0.history("m_none") == []


def test_what_is_not_there_is_a_value_error_as_theirs(mem0: Memory) -> None:
    for call in (lambda: mem0.update("m_none", "x"), lambda: mem0.delete("m_none")):
        with pytest.raises(ValueError, match="m_none"):
            call()


@pytest.mark.parametrize("name", [5, None, "", "*", "茶", "\ud800", "m_" + "x" * 5000])
def test_an_odd_id_is_that_of_no_memory(mem0: Memory, name: Any) -> None:
    mem0.add("喜欢茶", user_id="alice", infer=False)
    assert (mem0.get(name), mem0.history(name)) == (None, [])
    for call in (lambda: mem0.update(name, "x"), lambda: mem0.delete(name)):
        with pytest.raises(UsageError, match="no memory"):
            call()


def test_from_config_takes_an_object_and_no_nothing() -> None:
    nothing: Any = None
    for face in (Memory, AsyncMemory):
        with pytest.raises(UsageError, match="NoneType"):
            face.from_config(nothing)


def test_ids_stand_in_filters_and_nowhere_else(mem0: Memory) -> None:
    for call in (
        lambda: mem0.search("x", user_id="alice"),
        lambda: mem0.get_all(user_id="alice"),
        mem0.get_all,
        lambda: mem0.search("x", filters={"topic": "tea"}),
        lambda: mem0.search(" ", filters={"user_id": "alice"}),
        lambda: mem0.get_all(filters={"user_id": "alice"}, top_k=-1),
        lambda: mem0.search("x", filters={"user_id": "alice"}, fuzzy=True),
        mem0.delete_all,
    ):
        with pytest.raises(ValueError, match=r"."):
            call()


def test_ids_are_trimmed_and_numbers_are_ids(mem0: Memory) -> None:
    mem0.add("tea", user_id=12, infer=False)
    mem0.add("茶", user_id=" 12 ", infer=False)
    assert len(mem0.get_all(filters={"user_id": 12})["results"]) == 2
    assert mem0.delete_all(user_id=12)["deleted"] == 2


def test_top_k_counts_and_zero_is_none(mem0: Memory) -> None:
    for at in range(4):
        mem0.add(f"tea {at}", user_id="alice", infer=False)
    assert [len(mem0.get_all(filters={"user_id": "alice"}, top_k=most)["results"]) for most in (0, 3)] == [0, 3]
    assert [len(mem0.search("tea", filters={"user_id": "alice"}, top_k=most)["results"]) for most in (0, 3)] == [0, 3]


def test_a_reset_leaves_nothing(mem0: Memory, memory: Offprompt) -> None:
    mem0.add("I live in Porto.", user_id="alice")
    mem0.add("tea", agent_id="bot", infer=False)
    mem0.reset()
    assert memory.users() == []


def test_what_only_a_model_could_write_is_refused(mem0: Memory) -> None:
    with pytest.raises(UnsupportedError, match="infer=False"):
        mem0.add("x", agent_id="bot", memory_type="procedural_memory")


def test_the_async_face_does_the_same(memory: Offprompt) -> None:
    async def work() -> list[str]:
        async with AsyncMemory(memory=memory) as m:
            name = (await m.add("喜欢茶", user_id="alice", infer=False))["results"][0]["id"]
            await m.update(name, text="likes tea")
            found = await m.search("tea", filters={"user_id": "alice"})
            assert (await m.get(name)) == (await m.get_all(filters={"user_id": "alice"}))["results"][0]
            told = await m.history(name)
            await m.delete(name)
            assert (await m.delete_all(user_id="alice"))["deleted"] == 0
            await m.reset()
            return [found["results"][0]["memory"], *(one["event"] for one in told)]

    assert asyncio.run(work()) == ["likes tea", "ADD", "UPDATE"]


def test_the_async_face_has_every_call_of_the_other() -> None:
    def calls(face: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(face, callable) if not name.startswith("_")}

    assert calls(AsyncMemory) == calls(Memory)


def test_every_option_of_theirs_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEM0_TELEMETRY", "false")
    monkeypatch.setenv("MEM0_DIR", str(tmp_path))
    main = import_module("mem0.memory.main")
    for name in ("add", "get", "get_all", "search", "update", "delete", "delete_all", "history", "reset"):
        theirs = inspect.signature(getattr(main.Memory, name)).parameters
        ours = inspect.signature(getattr(Memory, name)).parameters
        assert set(theirs) - {"kwargs"} <= set(ours) - {"other"}, name


def test_a_configuration_of_theirs_means_ours(tmp_path: Path) -> None:
    found = meaning_of(
        {
            "vector_store": {"provider": "qdrant", "config": {"path": str(tmp_path), "collection_name": "mine"}},
            "llm": {"provider": "openai", "config": {"model": "gpt-4o-mini", "api_key": "k", "temperature": 0.1}},
            "embedder": {"provider": "ollama", "config": {"model": "bge-m3", "ollama_base_url": "http://h:1/v1"}},
            "custom_instructions": "only food",
            "history_db_path": "history.db",
            "version": "v1.1",
        }
    )
    assert found.url == str(tmp_path / "offprompt.db")
    model = found.models["extract"]
    assert not isinstance(model, str)
    assert model.name == "gpt-4o-mini"
    assert found.settings == {
        "embedder": "ollama:bge-m3",
        "embedder_url": "http://h:1/v1",
        "extract_instructions": "only food",
    }
    assert [one.split(":")[0] for one in found.unused] == [
        "vector_store.collection_name",
        "llm.temperature",
        "history_db_path",
    ]


@pytest.mark.parametrize(
    ("store", "url"),
    [
        ({"provider": "pgvector", "config": {"connection_string": "postgresql://u:p@h/db"}}, "postgresql://u:p@h/db"),
        (
            {"provider": "pgvector", "config": {"user": "ü", "password": "p/w", "host": "h", "port": 5, "dbname": "d"}},
            "postgresql://%C3%BC:p%2Fw@h:5/d",
        ),
        ({"provider": "qdrant", "config": {"host": "h", "port": 6333}}, "vectors=qdrant://h:6333"),
        ({"provider": "qdrant", "config": {"url": "http://h:6333/"}}, "vectors=qdrant://h:6333"),
        ({"provider": "chroma", "config": {"host": "h", "port": 8000}}, "vectors=chroma://h:8000"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_where_they_keep_vectors_says_where_memory_is(store: dict[str, Any], url: str) -> None:
    found = meaning_of({"vector_store": store})
    assert found.unused == []
    assert found.url is not None
    assert found.url.endswith(url)


def test_what_of_a_configuration_is_not_used_is_a_warning() -> None:
    config: dict[str, Any] = {
        "vector_store": {"provider": "pinecone", "config": {}},
        "graph_store": {"provider": "neo4j"},
    }
    with (
        pytest.warns(UserWarning, match="not used of the configuration: .*(pinecone|graph_store)") as told,
        Memory.from_config(config),
    ):
        pass
    assert len(told) == 2


@pytest.mark.parametrize("config", [{"vectorstore": {}}, {"llm": "gpt"}, {"llm": {}}, []], ids=str)
def test_what_is_no_configuration_of_theirs_is_refused(config: Any) -> None:
    with pytest.raises(UsageError):
        Memory.from_config(config)
    with pytest.raises(UsageError):
        Memory(config)


MAY = datetime(2024, 5, 1, tzinfo=UTC)


def test_dates_may_be_dates_and_what_is_no_json_is_refused(mem0: Memory) -> None:
    mem0.add("tea", user_id="alice", infer=False, expiration_date=date(2099, 1, 1), timestamp=MAY)
    shown = mem0.get_all(filters={"user_id": "alice"})["results"][0]
    assert (shown["expiration_date"], shown["created_at"][:10]) == ("2099-01-01", "2024-05-01")
    wrong: list[Any] = [{"a": object()}, {"a": "\ud800"}, 3]
    for metadata in wrong:
        with pytest.raises(UsageError):
            mem0.add("tea", user_id="alice", metadata=metadata)
        with pytest.raises(UsageError):
            mem0.search("tea", filters=metadata)
