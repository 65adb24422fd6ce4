"""What is known of a user is seen, corrected, pinned and forgotten by the client, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offprompt.client.clients import Client
from offprompt.errors import NotFoundError
from tests.rest.running import Running, running

SECRET = "s3cret-value-xyz"  # noqa: S105 - what tests look for


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as own:
        yield own


def test_a_user_sees_corrects_pins_and_forgets(server: Running) -> None:
    with Client(server.url, user="ann") as client:
        own = client.scope()
        own.remember([{"role": "user", "content": "I live in Porto."}])
        own.remember("我喜欢喝绿茶。")
        own.write("token", SECRET, policy="never")
        told = {one.text: one for one in own.known()}
        assert set(told) == {"Porto", "我喜欢喝绿茶。", ""}
        tea = told["我喜欢喝绿茶。"].name
        assert own.correct(tea, "我喜欢喝红茶。").text == "我喜欢喝红茶。"
        assert own.correct("token", SECRET[::-1]).text == ""
        assert own.pin(tea).pinned
        assert (own.known(limit=1)[0].text, own.known(limit=1)[0].pinned) == ("我喜欢喝红茶。", True)
        own.forget(tea)
        own.forget("home")
        assert [one.name for one in own.known()] == ["token"]
        with pytest.raises(NotFoundError):
            own.correct(tea, "x")


def test_the_list_says_which_agent_keeps_it(server: Running) -> None:
    with Client(server.url) as client:
        client.scope(user="bea", agent="旅行").write("seat", "Window.")
        client.scope(user="bea").write("city", "Berlin")
        client.scope(user="cy", agent="旅行").write("seat", "Aisle.")
        told = [(one.name, one.text, one.agent) for one in client.scope(user="bea").known()]
        assert sorted(told) == [("city", "Berlin", ""), ("seat", "Window.", "旅行")]
        client.scope(user="bea", agent="旅行").correct("seat", "Aisle.")
        assert {one.text for one in client.scope(user="bea").known()} == {"Berlin", "Aisle."}
