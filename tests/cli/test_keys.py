"""`offprompt key …`."""

from __future__ import annotations

import pytest

import offprompt
from offprompt.errors import UnauthenticatedError
from offprompt.records.access import TOKEN
from tests.cli.conftest import Run


def test_a_key_is_made_shown_once_listed_rotated_and_revoked(run: Run, store: str) -> None:
    ran = run("key create 'support bot' --user alice --also-user 李雷 --role read --per-minute 60 --app shop")
    token, told, behind = ran.out.splitlines()
    assert TOKEN.fullmatch(token), "what the gateway knows a misplaced one by"
    assert "Authorization: Bearer" in told
    assert "Offprompt-Key: op_…" in behind
    listed = run("key list --app shop --json")
    assert token not in listed.out
    (key,) = listed.document["keys"]
    assert (key["name"], key["users"], key["agents"], key["roles"]) == (
        "support bot",
        ["alice", "李雷"],
        None,
        ["read"],
    )
    assert run("key list").out.startswith("nothing here")
    with offprompt.open(str(store)) as memory:
        assert memory.keys.find(token).users == ("alice", "李雷")
    again = run(f"key rotate {key['key_id']} --app shop --overlap 0 --json").document
    with offprompt.open(str(store)) as memory:
        assert memory.keys.find(again["token"]).key == key["key_id"]
        with pytest.raises(UnauthenticatedError):
            memory.keys.find(token)
    assert run(f"key revoke {key['key_id']} --app shop").code == 2
    assert run(f"key revoke {key['key_id']} --app shop --yes --json").document["revoked"]["name"] == "support bot"
    assert run(f"key revoke {key['key_id']} --app shop --yes").code == 3


def test_the_list_says_what_each_is_for(run: Run) -> None:
    made = run("key create a --agent bot --expires 2099-01-31 --json").document["key"]
    run(f"key rotate {made['key_id']}")
    run("key create b")
    first, second = run("key list").out.splitlines()[2:]
    assert first.split()[:5] == [made["key_id"], "a", "any", "bot", "read,"]
    assert "2099-01-31 00:00:00Z" in first
    assert first.endswith("two tokens")
    assert second.endswith("ok")
    assert "新旧令牌并用" in run("key list --lang zh").out


@pytest.mark.parametrize(
    "line",
    [
        "key create a --session s",
        "key create a --shared",
        "key create a --role root",
        "key create a --expires 2001-01-01",
        "key create a --expires soon",
        "key create ''",
        "key create a --user ''",
        "key rotate nothing",
        "key revoke nothing --yes",
    ],
)
def test_what_cannot_be_done_changes_nothing(run: Run, line: str) -> None:
    run("key create there")
    assert run(line).code in (2, 3)
    assert len(run("key list --json").document["keys"]) == 1


def test_a_key_of_an_unnamed_user_is_for_any_whatever_the_environment_says(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFPROMPT_USER", "alice")
    assert run("key create a --json").document["key"]["users"] is None


@pytest.mark.parametrize("words", ["create a --user 小明", "list", "rotate k", "revoke k --yes"])
def test_keys_of_a_server_are_made_where_its_store_is(run: Run, words: str) -> None:
    ran = run(f"key {words} --url http://127.0.0.1:9")
    assert (ran.code, ran.out) == (4, "")
    assert "http://127.0.0.1:9 is a server; run it where the store is" in ran.err
    assert "/v1/keys" in ran.err
