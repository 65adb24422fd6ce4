"""mem0's own client, unchanged, against a running server: every method of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.rest.mem0_clients import client_of, mem0_module
from tests.rest.running import Running, running

PORTO = "I live in Porto. I like green tea."
SHANGHAI = "我住在上海，喜欢喝绿茶。"
_count = itertools.count()


@pytest.fixture(scope="module")
def mem0(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Their package."""
    return mem0_module(tmp_path_factory.mktemp("mem0"))


@pytest.fixture(scope="module")
def client(server: Running, mem0: Any) -> Iterator[Any]:
    """Their client of the module's server, where everybody may all."""
    with httpx.Client() as http:
        yield client_of(mem0, server.url, http)


@pytest.fixture
def user() -> str:
    """A user of the test's own."""
    return f"用户/{next(_count)} é"


def test_the_client_finds_its_organisation_and_project(client: Any) -> None:
    assert (client.org_id, client.project_id) == ("offprompt", "default")


@pytest.mark.parametrize(
    ("said", "asks", "fact"), [(PORTO, "where does she live?", "Porto"), (SHANGHAI, "他住在哪里？", "上海")]
)
def test_add_and_search(client: Any, user: str, said: str, asks: str, fact: str) -> None:
    done = client.add(said, user_id=user, metadata={"topic": "home"})
    assert done["status"] == "SUCCEEDED"
    assert done["results"][0]["data"] == {"memory": said}
    assert done["results"][0]["event"] == "ADD"
    found = client.search(asks, filters={"user_id": user}, top_k=1, threshold=0.1)["results"]
    assert fact in found[0]["memory"]
    assert set(found[0]["score_breakdown"]) == {"semantic", "bm25", "entity"}
    assert (found[0]["user_id"], found[0]["metadata"]) == (user, {"topic": "home"})


def test_get_and_get_all_in_pages(client: Any, user: str) -> None:
    for at in range(3):
        client.add(f"note {at}", user_id=user, infer=False, timestamp=1_700_000_000 + at, run_id="r1")
    first = client.get_all(filters={"user_id": user}, page=1, page_size=2)
    assert (first["count"], len(first["results"]), first["next"]) == (3, 2, "/v3/memories/?page=2&page_size=2")
    second = client.get_all(filters={"AND": [{"user_id": user}, {"run_id": "r1"}]}, page=2, page_size=2)
    assert [one["memory"] for one in second["results"]] == ["note 2"]
    whole = client.get(second["results"][0]["id"])
    assert (whole["session_id"], whole["created_at"][:10]) == ("r1", "2023-11-14")
    assert whole["lifecycle_state"] == "live"


def test_update_and_history(client: Any, user: str) -> None:
    name = client.add("likes tea", user_id=user, infer=False, expiration_date="2099-01-01")["results"][0]["id"]
    changed = client.update(name, text="喜欢咖啡", metadata={"a": 1}, expiration_date=None)
    assert (changed["memory"], changed["metadata"], changed["expiration_date"]) == ("喜欢咖啡", {"a": 1}, None)
    told = client.history(name)
    assert [(one["event"], one["old_memory"], one["new_memory"]) for one in told] == [
        ("ADD", None, "likes tea"),
        ("UPDATE", "likes tea", "喜欢咖啡"),
    ]
    assert told[0]["input"] == [{"role": "user", "content": "likes tea"}]


def test_delete_batches_and_delete_all_say_how_many(client: Any, user: str) -> None:
    ids = [client.add(f"note {at}", user_id=user, infer=False)["results"][0]["id"] for at in range(5)]
    assert client.delete(ids[0])["deleted"] == 1
    assert client.delete(ids[1], delete_linked=True)["cascade_count"] == 0
    assert client.batch_update([{"memory_id": ids[2], "text": "新"}])["updated"] == 1
    assert client.batch_delete([{"memory_id": ids[2]}, {"memory_id": ids[3]}])["deleted"] == 2
    assert client.delete_all(user_id=user)["deleted"] == 1
    assert client.get_all(filters={"user_id": user})["count"] == 0


def test_delete_all_understands_the_filters_that_their_client_sends(client: Any, user: str) -> None:
    client.add("tea", user_id=user, infer=False, metadata={"k": "v"})
    client.add("coffee", user_id=user, infer=False)
    assert client.delete_all(filters={"AND": [{"user_id": user}, {"k": "v"}]})["deleted"] == 1
    assert [one["memory"] for one in client.get_all(filters={"user_id": user})["results"]] == ["coffee"]


def test_users_and_delete_users(client: Any, user: str) -> None:
    client.add("tea", user_id=user, agent_id=f"bot of {user}", run_id=f"run of {user}", app_id=f"app of {user}")
    listed = client.users()
    own = {one["type"] for one in listed["results"] if user in one["name"]}
    assert own == {"user", "agent", "app", "run"}
    assert listed["total_users"] == sum(one["type"] == "user" for one in listed["results"])
    assert client.delete_users(user_id=user) == {"message": "Entity deleted successfully."}
    assert not [one for one in client.users()["results"] if user in one["name"]]


def test_reset_leaves_nobody(mem0: Any) -> None:
    with running() as own, httpx.Client() as http:
        client = client_of(mem0, own.url, http)
        client.add(PORTO, user_id="alice", run_id="r1", app_id="shop")
        client.add(SHANGHAI, agent_id="bot")
        own.memory.scope(user="bob").write("city", "Porto")
        client.reset()
        assert client.users()["results"] == []
        assert own.memory.users() == []
        with pytest.raises(ValueError, match="No entities"):
            client.delete_users()


def test_feedback_is_kept(client: Any, user: str) -> None:
    name = client.add("tea", user_id=user, infer=False)["results"][0]["id"]
    assert client.feedback(name, "positive", "就是这样") == {
        "id": name,
        "feedback": "POSITIVE",
        "feedback_reason": "就是这样",
    }
    assert client.get(name)["feedback"] == "POSITIVE"


def test_profiles_and_their_jobs(client: Any, user: str) -> None:
    client.add("My name is Lin. I live in Porto.", user_id=user)
    profile = client.get_profile(user)
    assert (profile["status"], sorted(profile["profile"].values())) == ("succeeded", ["Lin", "Porto"])
    begun = client.generate_profile(user, idempotency_key="k1")
    assert client.get_profile_job(begun["job_id"])["job"]["succeeded"] == 1
    sample = client.sample_profiles(limit=2)
    assert client.get_profile_job(sample["status_url"])["job"]["total"] == sample["sampled"]
    settings = client.get_profile_settings()
    assert client.update_profile_settings(enabled=True) == settings


def test_profiles_are_of_users_only(server: Running, user: str) -> None:
    job = {"operation": "trigger", "entity_type": "agent", "entity_id": user}
    answer = server.http.post("/v2/profiles/jobs/", json=job)
    assert (answer.status_code, "say 'user'" in answer.json()["detail"]) == (400, True)


def test_exports_and_summaries(client: Any, user: str) -> None:
    client.add("喝茶", user_id=user, infer=False)
    made = client.create_memory_export(schema={"type": "object"}, filters={"user_id": user})
    exported = client.get_memory_export(memory_export_id=made["id"])
    assert [one["memory"] for one in exported["memories"]] == ["喝茶"]
    assert client.get_summary({"user_id": user})["summary"] == "喝茶"


def test_the_project_is_the_key_s_and_what_one_server_lacks_is_said(client: Any, mem0: Any) -> None:
    assert client.project.get(fields=["multilingual"]) == {"id": "default", "multilingual": True}
    assert client.get_project(fields=["name"])["name"] == "default"
    assert client.project.update(multilingual=True)["message"]
    assert client.update_project(multilingual=True)["message"]
    assert client.project.get_members() == {"members": []}
    assert client.get_webhooks("default") == []
    lacking: list[tuple[Callable[[], object], str]] = [
        (lambda: client.project.update(custom_instructions="only food"), "extract_instructions"),
        (lambda: client.project.create("n", "d"), "key"),
        (client.project.delete, "key"),
        (lambda: client.project.add_member("a@example.com"), "key"),
        (lambda: client.project.update_member("a@example.com", "OWNER"), "key"),
        (lambda: client.project.remove_member("a@example.com"), "key"),
        (lambda: client.create_webhook("http://u", "n", "default", ["memory_add"]), "/v1/events"),
        (lambda: client.update_webhook(3, name="n"), "/v1/events"),
        (lambda: client.delete_webhook(3), "/v1/events"),
    ]
    for call, way_out in lacking:
        with pytest.raises(mem0.exceptions.MemoryError) as refused:
            call()
        assert way_out in str(refused.value)


def test_an_event_can_be_followed(client: Any, server: Running, user: str) -> None:
    done = client.add("tea", user_id=user, infer=False)
    event = server.http.get(f"/v1/event/{done['event_id']}/").json()
    assert (event["status"], event["results"][0]["id"]) == ("SUCCEEDED", done["results"][0]["id"])
    page, seen = "/v1/events/?page_size=2", list[str]()
    while page:
        answer = server.http.get(page).json()
        seen += [one["memory_id"] for one in answer["results"]]
        page = answer["next"]
    assert done["results"][0]["id"] in seen


def test_errors_are_theirs_and_say_what_is_wrong(client: Any, mem0: Any) -> None:
    errors = mem0.exceptions
    cases: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: client.get("id/1"), errors.MemoryNotFoundError, "no memory 'id/1'"),
        (lambda: client.search("茶", filters={"topic": "tea"}), errors.ValidationError, "names no user_id"),
        (lambda: client.search("x", filters={"user_id": "a"}, top_k=0), errors.ValidationError, "top_k"),
        (client.delete_all, errors.ValidationError, "name an id"),
        (lambda: client.add("x"), errors.ValidationError, "whose memory"),
        (lambda: client.add("x" * 30_000, user_id="a"), errors.ValidationError, "20,000"),
        (lambda: client.get_profile("nobody"), errors.MemoryNotFoundError, "nothing is stored"),
        (lambda: client.get_memory_export(memory_export_id="x"), errors.MemoryNotFoundError, "no export"),
    ]
    for call, kind, said in cases:
        with pytest.raises(kind) as refused:
            call()
        assert str(refused.value).startswith(said) or said in str(refused.value)
        assert not str(refused.value).startswith("{")


@pytest.mark.parametrize(("said", "asks"), [(PORTO, "where does she live?"), (SHANGHAI, "他住在哪里？")])
def test_the_async_client_does_the_same(server: Running, mem0: Any, user: str, said: str, asks: str) -> None:
    async def work() -> None:
        async with httpx.AsyncClient() as http:
            client = mem0.AsyncMemoryClient(api_key="any", host=server.url, client=http)
            name = (await client.add(said, user_id=user))["results"][0]["id"]
            assert (await client.get(name))["memory"] == said
            assert (await client.search(asks, filters={"user_id": user}))["results"]
            assert (await client.get_all(filters={"user_id": user}))["count"] == 3
            assert (await client.update(name, text="x"))["memory"] == "x"
            assert len(await client.history(name)) == 2
            assert (await client.feedback(name, "NEGATIVE"))["feedback"] == "NEGATIVE"
            assert (await client.batch_update([{"memory_id": name, "text": "y"}]))["updated"] == 1
            assert (await client.get_profile(user))["status"] == "succeeded"
            assert (await client.get_summary({"user_id": user}))["memories"] == 3
            made = await client.create_memory_export(schema={}, filters={"user_id": user})
            assert len((await client.get_memory_export(memory_export_id=made["id"]))["memories"]) == 3
            assert (await client.project.get())["project_id"] == "default"
            assert any(one["name"] == user for one in (await client.users())["results"])
            assert (await client.delete(name))["deleted"] >= 1
            await client.delete_all(user_id=user)
            await client.delete_users(user_id=user)
            assert (await client.get_all(filters={"user_id": user}))["count"] == 0

    asyncio.run(work())
