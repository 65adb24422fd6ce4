"""Where mem0's own server is unsafe and this one is not, with their client and keys of ours."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from offprompt.records import Role
from offprompt.rest.app import make_app
from offprompt.rest.dispatch import Dispatch
from offprompt.rest.guards import Guard, Identify
from offprompt.service.keys import Keys
from offprompt.service.offprompt import Offprompt
from tests.rest.mem0_clients import client_of, mem0_module
from tests.rest.running import Running, running

TEXTS = [("she likes green tea", "green tea"), ("她喜欢喝绿茶", "绿茶")]
_count = itertools.count()


def guarded(memory: Offprompt, identify: Identify) -> Dispatch:
    """The application behind keys."""
    del identify
    return make_app(memory, Guard(Keys(memory.parts.main, memory.parts.clock)))


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(app_of=guarded) as own:
        yield own


@pytest.fixture(scope="module")
def mem0(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return mem0_module(tmp_path_factory.mktemp("mem0"))


Clients = Callable[..., Any]


@pytest.fixture(scope="module")
def client(server: Running, mem0: Any) -> Iterator[Clients]:
    """Makes their client with a key of these roles, of an app and of users."""
    keys = Keys(server.memory.parts.main, server.memory.parts.clock)
    opened: list[httpx.Client] = []

    def make(*roles: Role, app: str = "default", users: tuple[str, ...] | None = None) -> Any:
        key = keys.create("test", app=app, users=users, roles=roles or ("read", "write"))
        opened.append(httpx.Client())
        return client_of(mem0, server.url, opened[-1], key.token)

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def user() -> str:
    return f"user-{next(_count)}"


def test_no_key_or_a_wrong_one_makes_no_client(server: Running, mem0: Any) -> None:
    for key in ("m0-of-theirs", "op_0000_secret"):
        with httpx.Client() as http, pytest.raises(ValueError, match="the key is not valid"):
            client_of(mem0, server.url, http, key)


@pytest.mark.parametrize(("text", "word"), TEXTS)
def test_a_star_is_a_literal(client: Clients, user: str, text: str, word: str) -> None:
    own = client("admin")
    own.add(text, user_id=user, infer=False)
    assert own.get_all(filters={"user_id": "*"})["results"] == []
    assert own.search(word, filters={"user_id": "*"})["results"] == []
    assert own.search(word, filters={"AND": [{"user_id": user}, {"agent_id": "*"}]})["results"] == []
    assert own.delete_all(user_id="*")["deleted"] == 0
    own.delete_users(user_id="*")
    assert own.get_all(filters={"user_id": user})["count"] == 1


@pytest.mark.parametrize(("text", "word"), TEXTS)
def test_a_filter_bounds_an_id_in_every_or_branch(client: Clients, mem0: Any, user: str, text: str, word: str) -> None:
    own = client()
    own.add(text, user_id=user, infer=False, metadata={"topic": word})
    for filters in (
        {"topic": word},
        {"OR": [{"user_id": "nobody"}, {"topic": word}]},
        {"NOT": [{"user_id": "nobody"}]},
        {"user_id": {"ne": "nobody"}},
    ):
        for call in (
            lambda one=filters: own.search(word, filters=one),
            lambda one=filters: own.get_all(filters=one),
            lambda one=filters: own.delete_all(filters=one),
        ):
            with pytest.raises(mem0.exceptions.ValidationError, match="names no user_id"):
                call()
    assert own.get_all(filters={"AND": [{"user_id": user}, {"OR": [{"topic": word}, {"topic": "x"}]}]})["count"] == 1


@pytest.mark.parametrize(("text", "word"), TEXTS)
def test_wiping_needs_an_admin_key(client: Clients, mem0: Any, text: str, word: str) -> None:
    app = f"app-{next(_count)}"
    own = client("read", "write", app=app)
    own.add(text, user_id="小明", infer=False)
    for call in (own.reset, own.delete_users, lambda: own.delete_users(user_id="小明")):
        with pytest.raises(mem0.exceptions.AuthenticationError, match="admin"):
            call()
    assert own.search(word, filters={"user_id": "小明"})["results"]
    client("admin", app=app).reset()
    assert own.users()["count"] == 0


@pytest.mark.parametrize(("text", "word"), TEXTS)
def test_deletes_say_how_many(client: Clients, user: str, text: str, word: str) -> None:
    own = client()
    for at in range(3):
        own.add(f"{text} {at}", user_id=user, infer=False)
    first = own.search(word, filters={"user_id": user})["results"][0]["id"]
    assert own.delete(first)["deleted"] == 1
    assert own.delete_all(user_id=user)["deleted"] == 2
    assert own.delete_all(user_id=user)["deleted"] == 0


@pytest.mark.parametrize(("text", "word"), [("invoice ZX-4471 is paid", "ZX-4471"), ("发票甲乙丙丁已付", "甲乙丙丁")])
def test_what_only_its_words_find_is_found(client: Clients, user: str, text: str, word: str) -> None:
    own = client()
    for at in range(12):
        own.add(f"note {at} about gardens and 花园", user_id=user, infer=False)
    own.add(text, user_id=user, infer=False)
    assert own.search(word, filters={"user_id": user}, threshold=0.1)["results"][0]["memory"] == text


@pytest.mark.parametrize(("text", "word"), TEXTS)
def test_expired_rows_crowd_out_nothing(client: Clients, user: str, text: str, word: str) -> None:
    own = client()
    past = (datetime.now(UTC) - timedelta(days=3)).date().isoformat()
    for at in range(12):
        own.add(f"{word} {word} {at}", user_id=user, infer=False, expiration_date=past)
    own.add(text, user_id=user, infer=False)
    assert [one["memory"] for one in own.search(word, filters={"user_id": user}, top_k=1)["results"]] == [text]
    assert own.get_all(filters={"user_id": user}, page_size=1)["count"] == 1
    assert own.get_all(filters={"user_id": user}, show_expired=True)["count"] == 13


@pytest.mark.parametrize(("text", "word"), TEXTS)
def test_history_is_in_order(client: Clients, user: str, text: str, word: str) -> None:
    own = client()
    name = own.add(text, user_id=user, infer=False)["results"][0]["id"]
    for at in range(3):
        own.update(name, text=f"{word} {at}")
    own.delete(name)
    told = own.history(name)
    assert [one["event"] for one in told] == ["ADD", "UPDATE", "UPDATE", "UPDATE", "DELETE"]
    assert [one["updated_at"] for one in told] == sorted(one["updated_at"] for one in told)
    assert word not in str(told)


def test_app_id_is_no_tenant_and_the_key_s_app_is(client: Clients, mem0: Any, user: str) -> None:
    own, other = client(), client("admin", app=f"app-{next(_count)}")
    name = own.add("tea", user_id=user, app_id="shop", infer=False)["results"][0]["id"]
    assert own.get_all(filters={"app_id": "shop", "user_id": user})["count"] == 1
    assert other.get_all(filters={"app_id": "shop"})["count"] == 0
    assert other.users()["count"] == 0
    with pytest.raises(mem0.exceptions.MemoryNotFoundError):
        other.get(name)


def test_another_user_s_memory_answers_as_one_that_never_was(client: Clients, server: Running, user: str) -> None:
    name = client().add("secret tea", user_id=user, infer=False)["results"][0]["id"]
    gone = "m_" + "0" * (len(name) - 2)
    headers = client("admin", users=("someone else",)).client.headers
    for method, path, body in (
        ("GET", "/v1/memories/{}/", None),
        ("PUT", "/v1/memories/{}/", {"text": "x"}),
        ("DELETE", "/v1/memories/{}/", None),
        ("GET", "/v1/memories/{}/history/", None),
        ("PUT", "/v1/batch/", {"memories": [{"memory_id": "{}", "text": "x"}]}),
        ("DELETE", "/v1/batch/", {"memories": [{"memory_id": "{}"}]}),
        ("POST", "/v1/feedback/", {"memory_id": "{}", "feedback": "POSITIVE"}),
    ):
        answers: list[tuple[int, str, list[tuple[str, str]]]] = []
        for one in (name, gone):
            given = (
                None
                if body is None
                else httpx.Request("GET", "http://x", json=body).content.replace(b"{}", one.encode())
            )
            asked = {**headers, "content-type": "application/json"}
            answer = server.http.request(method, path.format(one), content=given, headers=asked)
            told = sorted((k, v) for k, v in answer.headers.items() if k not in ("date", "request-id"))
            answers.append((answer.status_code, answer.text.replace(one, "ID"), told))
        assert answers[0] == answers[1], path
        assert answers[0][0] == 404
    assert client().get(name)["memory"] == "secret tea"


def test_ids_of_another_user_s_events_exports_and_jobs_are_as_if_none_had_issued_them(
    client: Clients, server: Running, user: str
) -> None:
    own = client("admin")
    added = own.add("她喜欢喝绿茶", user_id=user, infer=False)["event_id"]
    deleted = own.delete_all(user_id=user, agent_id="bot")["event_id"]
    made = own.create_memory_export(schema={}, filters={"user_id": user})["id"]
    job = own.generate_profile(user, idempotency_key=f"job of {user}")["job_id"]
    other = client("admin", users=("someone else",)).client.headers
    cases: list[tuple[str, str, Any, str]] = [
        ("GET", "/v1/event/{}/", None, added),
        ("GET", "/v1/event/{}/", None, deleted),
        ("POST", "/v1/exports/get/", "memory_export_id", made),
        ("GET", "/v2/profiles/jobs/{}/", None, job),
    ]
    for method, path, member, one in cases:

        def answer(token: str, headers: Any, line: tuple[str, str, Any] = (method, path, member)) -> httpx.Response:
            body = None if line[2] is None else {line[2]: token}
            return server.http.request(line[0], line[1].format(token), headers=headers, json=body)

        forged = one[:-4] + ("AAAA" if one[-4:] != "AAAA" else "BBBB")
        assert answer(one, own.client.headers).status_code == 200, path
        theirs, none = answer(one, other), answer(forged, other)
        assert (theirs.status_code, theirs.content) == (404, none.content.replace(forged.encode(), one.encode())), path


@pytest.mark.parametrize(
    "filters",
    ["{{'user_id': '{}', 'n': {{1, 2}}}}", "{{'user_id': '{}', 'n': ...}}", "{{'user_id': '{}', 'n': 1e999}}", "((("],
    ids=["a set", "an ellipsis", "no number", "no dict"],
)
def test_filters_in_an_address_are_json_or_what_could_be(client: Clients, mem0: Any, user: str, filters: str) -> None:
    own = client()
    own.add("茶", user_id=user, infer=False)
    with pytest.raises(mem0.exceptions.ValidationError, match="filters in the address are no object"):
        own.delete_all(filters=filters.format(user))
    assert own.get_all(filters={"user_id": user})["count"] == 1


def test_a_tree_of_a_hundred_thousand_parts_is_refused(client: Clients, mem0: Any, user: str) -> None:
    filters = {"user_id": user, "NOT": [{"n": at} for at in range(100_000)]}
    for call in (lambda: client().get_all(filters=filters), lambda: client().search("茶", filters=filters)):
        with pytest.raises(mem0.exceptions.ValidationError, match="ask for them in parts"):
            call()


def test_a_key_of_one_user_cannot_name_another(client: Clients, mem0: Any, user: str) -> None:
    own = client(users=(user,))
    own.add("tea", user_id=user, agent_id="bot", infer=False)
    client().add("coffee", user_id="another", agent_id="bot", infer=False)
    assert [one["memory"] for one in own.get_all(filters={"agent_id": "bot"})["results"]] == ["tea"]
    for call in (
        lambda: own.get_all(filters={"user_id": "another"}),
        lambda: own.search("coffee", filters={"OR": [{"user_id": user}, {"user_id": "another"}]}),
        lambda: own.add("x", user_id="another"),
        lambda: own.delete_all(user_id="another"),
        lambda: own.get_profile("another"),
    ):
        with pytest.raises(mem0.exceptions.AuthenticationError, match="another"):
            call()


def test_events_say_which_key_did_it_for_whom(client: Clients, server: Running, user: str) -> None:
    own = client()
    name = own.add("tea", user_id=user, infer=False)["results"][0]["id"]
    own.update(name, text="green tea")
    own.delete(name)
    told = server.memory.scope(user=user).events(op="memory.")
    assert [one.op for one in told] == ["memory.add", "memory.update", "memory.forget"]
    for one in told:
        assert one.actor.startswith("key:")
        assert one.actor.endswith(f"for:{user}")
        assert "tea" not in str(one)


def test_errors_are_plain_json_with_a_detail_wherever_they_arise(client: Clients, server: Running) -> None:
    headers = {name: client().client.headers[name] for name in ("authorization",)}
    wrong = {"authorization": "Token op_0_x"}
    cases: list[tuple[str, str, dict[str, Any], int]] = [
        ("GET", "/v1/ping/", {"headers": wrong}, 401),
        ("GET", "/v1/memories/m_none/", {"headers": headers}, 404),
        ("PUT", "/v1/memories/m_none/", {"headers": {**headers, "idempotency-key": "k"}, "json": {"text": "x"}}, 404),
        ("PUT", "/v1/memories/m_none/", {"headers": {**headers, "idempotency-key": "k"}, "json": {"text": "x"}}, 404),
        ("POST", "/v3/memories/", {"headers": headers, "json": {"filters": {"a": 1}}}, 400),
        (
            "POST",
            "/v3/memories/",
            {
                "headers": headers,
                "content": "{",
            },
            415,
        ),
        ("POST", "/v3/memories/?page=0", {"headers": headers, "json": {"filters": {"user_id": "a"}}}, 400),
        ("DELETE", "/v2/entities/user/alice/", {"headers": headers}, 403),
    ]
    for method, path, given, status in cases:
        answer = server.http.request(method, path, **given)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), answer.text
        assert answer.json()["detail"]
