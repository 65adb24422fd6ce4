"""Whose memory a request is about, and which conversation it is: by key, headers, and what clients themselves send."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

import offprompt
from offprompt.gateway.asked import taken
from offprompt.gateway.clients import conversation_of, user_of
from offprompt.service.offprompt import Offprompt
from tests.gateway.standing import body, post, said, standing
from tests.service.talk import Wire, flat

MACHINE = "a" * 64
ACCOUNT = "11111111-2222-3333-4444-555555555555"
TALK = "57a121ec-f78c-48c3-a745-e3036a3ecc33"


@pytest.fixture
def memory() -> Generator[Offprompt]:
    with offprompt.open(":memory:") as opened:
        yield opened


@pytest.mark.parametrize(
    ("wire", "headers", "fields", "user", "conversation"),
    [
        ("anthropic", {}, {"metadata": {"user_id": f"user_{MACHINE}_account_{ACCOUNT}_session_{TALK}"}}, ACCOUNT, TALK),
        ("anthropic", {}, {"metadata": {"user_id": f"user_{MACHINE}_account__session_{TALK}"}}, MACHINE, TALK),
        (
            "anthropic",
            {},
            {"metadata": {"user_id": json.dumps({"device_id": MACHINE, "account_uuid": "", "session_id": TALK})}},
            MACHINE,
            TALK,
        ),
        (
            "anthropic",
            {"x-claude-code-session-id": "other"},
            {"metadata": {"user_id": json.dumps({"device_id": MACHINE, "account_uuid": ACCOUNT, "session_id": TALK})}},
            ACCOUNT,
            "other",
        ),
        ("anthropic", {}, {"metadata": {"user_id": '{"device_id": 7}'}}, '{"device_id": 7}', None),
        ("anthropic", {}, {"metadata": {"user_id": "{" * 9000}}, "{" * 9000, None),
        ("openai", {}, {"user": "google-oauth2|117"}, "google-oauth2|117", None),
        ("openai", {}, {"user": "小明", "safety_identifier": "hash"}, "小明", None),
        ("responses", {"session-id": TALK}, {"safety_identifier": "hash", "prompt_cache_key": TALK}, "hash", TALK),
        ("responses", {"session_id": TALK}, {"prompt_cache_key": "our-app"}, None, TALK),
        ("openai", {}, {"metadata": {"user_id": "ann"}, "session_id": "s1"}, "ann", "s1"),
        ("openai", {"x-litellm-end-user-id": "ann", "x-litellm-session-id": "s2"}, {"user": "proxy"}, "ann", "s2"),
        ("openai", {"x-openwebui-user-id": "u7", "x-openwebui-chat-id": "c7"}, {}, "u7", "c7"),
        ("openai", {"x-opencode-session": "ses_1"}, {"user": ["no", "text"]}, None, "ses_1"),
        ("openai", {}, {"prompt_cache_key": "our-app"}, None, None),
    ],
)
def test_what_clients_send_is_taken_apart(
    wire: Wire, headers: dict[str, str], fields: dict[str, Any], user: str | None, conversation: str | None
) -> None:
    asked = taken(wire, json.dumps(body(wire, "hi", **fields)).encode())
    assert (user_of(headers, asked), conversation_of(headers, asked)) == (user, conversation)


NAMING: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"Offprompt-User": "bob"}, {}),
    ({"X-OpenWebUI-User-Id": "bob"}, {}),
    ({"X-LiteLLM-End-User-Id": "bob"}, {}),
    ({}, {"user": "bob"}),
    ({}, {"safety_identifier": "bob"}),
    ({}, {"metadata": {"user_id": "bob"}}),
    ({}, {"metadata": {"user_id": json.dumps({"device_id": "bob", "account_uuid": "", "session_id": TALK})}}),
]


@pytest.mark.parametrize(("headers", "fields"), NAMING, ids=[str(number) for number in range(len(NAMING))])
def test_no_client_names_a_user_that_its_key_is_not_for(
    memory: Offprompt, wire: Wire, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    """Of a key for several users every name is held against it; with one for one user, a field is the provider's."""
    memory.scope(user="bob").write("home_city", "a city that only Bob may hear of")
    several = memory.keys.create("two", users=["alice", "carol"]).token
    single = memory.keys.create("one", users=["alice"]).token
    asked = body(wire, "What is my home city?", **fields)
    with standing(memory, said(wire, "Ulm.")) as running:
        refused = post(running, wire, asked, Offprompt_Key=several, **headers)
        assert refused.status_code == 403
        assert refused.headers["offprompt-memory"] == "refused"
        assert running.upstream.requests == []
        own = post(running, wire, asked, Offprompt_Key=single, **headers)
        assert own.headers["offprompt-memory"] == ("refused" if "Offprompt-User" in headers else "on")
    assert "only Bob" not in flat(running.upstream.requests)
    assert [each.scope.user for each in memory.users()] in (["bob"], ["alice", "bob"])


def test_a_key_of_several_users_takes_whom_the_request_names(memory: Offprompt, wire: Wire) -> None:
    memory.scope(user="carol").write("home_city", "Ulm an der Donau")
    key = memory.keys.create("two", users=["alice", "carol"]).token
    with standing(memory, said(wire, "Ulm.", "Ulm.")) as running:
        named = {"metadata": {"user_id": "carol"}} if wire == "anthropic" else {"user": "carol"}
        assert post(running, wire, body(wire, "What is my home city?", **named), Offprompt_Key=key).status_code == 200
        assert (
            post(running, wire, body(wire, "Hi", **named), Offprompt_Key=key, Offprompt_User="alice").status_code == 200
        )
        neither = post(running, wire, body(wire, "Hi"), Offprompt_Key=key)
    first, second = running.upstream.requests
    assert "Ulm an der Donau" in flat(first)
    assert "home_city" not in flat(second), "the header goes before the field"
    assert neither.status_code == 400
    assert "Offprompt-User: alice" in neither.json()["error"]["message"]


def test_keys_of_agents_roles_and_apps_hold_here_too(memory: Offprompt) -> None:
    bot = memory.keys.create("bot", agents=["bot"]).token
    reader = memory.keys.create("reader", users=["alice"], roles=["read"]).token
    gone = memory.keys.create("gone", users=["alice"])
    memory.keys.revoke("default", gone.key.key_id)
    asked = body("openai", "Hi", user="alice")
    with standing(memory, said("openai", "Hi.")) as running:
        statuses = [
            post(running, "openai", asked, **headers).status_code
            for headers in (
                {"Offprompt-Key": bot, "Offprompt-Agent": "other"},
                {"Offprompt-Key": reader},
                {"Offprompt-Key": gone.token},
                {"Offprompt-Key": bot, "Offprompt-App": "other"},
                {"Offprompt-Key": bot, "Offprompt-User": "%FF"},
                {"Offprompt-Key": bot, "Offprompt-Shared": "true"},
                {"Offprompt-Key": bot, "Offprompt-User": "alice"},
            )
        ]
    assert statuses == [403, 403, 401, 403, 400, 400, 200]
    (session,) = memory.scope(user="alice", agent="bot").memories.sessions()
    assert session.startswith("gw-")


def test_a_header_of_ours_that_stands_there_twice_is_refused(memory: Offprompt) -> None:
    with standing(memory, said("openai", "Hi."), user="alice") as running:
        twice = [("Offprompt-Session", "a"), ("Offprompt-Session", "b")]

        refused = httpx.post(f"{running.url}/v1/chat/completions", json=body("openai", "Hi"), headers=twice)
    assert refused.status_code == 400
    assert "twice" in refused.json()["error"]["message"]


def test_whom_a_request_names_is_believed_only_where_that_is_said(memory: Offprompt) -> None:
    asked = body("openai", "Hi", user="小明")
    with standing(memory, said("openai", "Hi.")) as running:
        assert post(running, "openai", asked).status_code == 400
    with standing(memory, said("openai", "Hi."), without_scope="pass") as running:
        passed = post(running, "openai", asked)
        assert passed.headers["offprompt-memory"].startswith("off; no memory is named")
    with standing(memory, said("openai", "Hi."), trust_users=True) as running:
        assert post(running, "openai", asked).headers["offprompt-memory"] == "on"
    assert [each.scope.user for each in memory.users()] == ["小明"]


def test_what_is_missing_is_what_is_said(memory: Offprompt) -> None:
    """A key that is for anybody lacks a user, not a key; without a key it is the gateway's own user that is allowed."""
    key, asked = memory.keys.create("any").token, body("openai", "Hi")
    with standing(memory, []) as running:
        keyless = post(running, "openai", asked).json()["error"]["message"]
        unnamed = post(running, "openai", asked, Offprompt_Key=key).json()["error"]["message"]
        unknown = post(running, "openai", asked, Offprompt_Key="op_x_y").json()["error"]["message"]
    assert "send your key" in keyless
    assert "send your key" not in unnamed
    assert "Offprompt-User" in unnamed
    assert "Offprompt-Key: op_…" in unknown
    with standing(memory, [], user="alice") as running:
        other = post(running, "openai", asked, Offprompt_User="bob")
    assert other.status_code == 403
    assert "--trust-users" in other.json()["error"]["message"]


def test_off_the_loopback_nothing_goes_through_without_a_key(memory: Offprompt) -> None:
    with pytest.raises(offprompt.UsageError, match="there is no key yet"):
        standing(memory, [], host="0.0.0.0").__enter__()  # noqa: S104
    key = memory.keys.create("any").token

    with standing(memory, said("openai", "Hi."), host="0.0.0.0", user="alice", without_scope="pass") as running:  # noqa: S104
        assert post(running, "openai", body("openai", "Hi")).status_code == 401
        assert httpx.get(f"{running.url}/v1/models").status_code == 401
        assert (
            httpx.post(f"{running.url}/v1/embeddings", json={}, headers={"Offprompt-Key": "op_x_y"}).status_code == 401
        )
        assert running.upstream.requests == []
        named = post(running, "openai", body("openai", "Hi", user="bob"), Offprompt_Key=key)
    assert named.headers["offprompt-memory"] == "on"
    assert [each.scope.user for each in memory.users()] == ["bob"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example.com"}, 403),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "localhost:7334"}, 200),
    ],
)
def test_on_the_loopback_no_page_of_another_site_asks(memory: Offprompt, headers: dict[str, str], status: int) -> None:

    with standing(memory, said("openai", "Hi."), user="alice") as running:
        asked = httpx.post(f"{running.url}/v1/chat/completions", json=body("openai", "Hi"), headers=headers)
        models = httpx.get(f"{running.url}/v1/models", headers=headers)
    assert asked.status_code == status
    assert (models.status_code == 403) == (status == 403)


def test_a_conversation_is_known_by_our_header_else_by_the_clients_id_else_by_its_words(
    memory: Offprompt, wire: Wire
) -> None:
    with standing(memory, said(wire, *["Hi."] * 7), user="alice") as running:

        def session(*messages: Any, **headers: str) -> str:
            return post(running, wire, body(wire, *messages), **headers).headers["offprompt-session"]

        plain, again = session("Hello"), session("Hello")
        first, second = session("Hello", Session_Id="one"), session("Hello", Session_Id="two")
        helper = session("Look at the log", Session_Id="one")
        ours = session("Hello", Offprompt_Session="对话 1".encode().hex(), Session_Id="one")
        named = session("Hello", Offprompt_Session="%E5%AF%B9%E8%AF%9D")
    assert plain == again
    assert len({plain, first, second, helper, ours, named}) == 6
    assert named == "%E5%AF%B9%E8%AF%9D", "as it was sent: percent-encoded"
    assert len(memory.scope(user="alice").session("对话", wire=wire, model="").ledger()) == 1


def test_two_workers_of_one_store_go_on_with_each_others_conversations(tmp_path: Path, wire: Wire) -> None:
    """Each has a memory of its own over one file, as processes have; "yes" twice is two turns there too."""
    asked: list[Any] = []
    with offprompt.open(tmp_path / "a.db") as one, offprompt.open(tmp_path / "a.db") as two:
        with (
            standing(one, said(wire, "Sure?", "Done."), user="alice") as first,
            standing(two, said(wire, "Really?", "Gone."), user="alice") as second,
        ):
            for at, (running, text) in enumerate(
                [(first, "Delete it"), (second, "yes"), (first, "yes"), (second, "Ok")]
            ):
                asked.append({"role": "user", "content": text})
                answer = post(running, wire, body(wire, *asked))
                assert answer.headers["offprompt-memory"] == "on", at
                given = answer.json()
                asked += (
                    [given["choices"][0]["message"]]
                    if wire == "openai"
                    else [{"role": "assistant", "content": given["content"]}]
                    if wire == "anthropic"
                    else given["output"]
                )
        alice = one.scope(user="alice")
        (session,) = alice.memories.sessions()
        journal = alice.session(session, wire=wire, model="").journal()
    assert [each.text for each in journal if each.kind == "user"] == ["Delete it", "yes", "yes", "Ok"]
    assert first.upstream.faults == second.upstream.faults == []
