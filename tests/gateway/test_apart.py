"""What stays apart: upstreams by the model's name, and users whose conversations have one name and one text."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack

import httpx
import pytest

import offprompt
from offprompt.gateway.made import gateway_for
from offprompt.gateway.options import GatewayOptions
from offprompt.gateway.upstream import Target, targets
from offprompt.service.offprompt import Offprompt
from offprompt.testing.upstream import Upstream
from tests.gateway.conftest import served
from tests.gateway.standing import PATHS, body, post, said, standing
from tests.service.talk import Wire

ORDER = "ORD-2291-KX-7-upper-deck-window"


@pytest.fixture
def memory() -> Generator[Offprompt]:
    with offprompt.open(":memory:") as opened:
        yield opened


def test_the_models_name_chooses_the_upstream_and_none_is_said(memory: Offprompt) -> None:
    """The first whose pattern fits; what names no model goes to the one for all; the client cannot choose it."""
    with ExitStack() as stack:
        claude = stack.enter_context(Upstream(said("anthropic", "Claude.")))
        mini = stack.enter_context(Upstream(said("openai", "Mini.")))
        given = (f"claude-*={claude.url}", f"gpt-*-mini={mini.url}")
        made = gateway_for(memory, ("127.0.0.1",) * 2, GatewayOptions(upstreams=given), user="alice")
        url = stack.enter_context(served(made))

        def ask(wire: Wire, model: str) -> httpx.Response:
            return httpx.post(url + PATHS[wire], json={**body(wire, "Who?"), "model": model}, timeout=30)

        assert "Mini." in ask("openai", "gpt-4o-mini").text
        assert "Claude." in ask("anthropic", "claude-sonnet-5-5").text
        nobody = ask("openai", "llama-3")
        assert nobody.status_code == 400
        assert "no upstream serves the model 'llama-3'" in nobody.json()["error"]["message"]
        claude.answers["GET /v1/models"] = mini.answers["GET /v1/models"] = lambda _: {"data": []}
        assert httpx.get(f"{url}/v1/models", headers={"X-Upstream": mini.url}, timeout=30).status_code == 200
    assert [len(each.requests) for each in (claude, mini)] == [1, 1]
    assert targets(["https://x.example/a=b", "m=https://y.example"]) == [
        Target("https://x.example/a=b"),
        Target("https://y.example", "m"),
    ]


def test_two_users_with_one_name_and_one_text_for_their_conversation_share_nothing(
    memory: Offprompt, wire: Wire
) -> None:
    """Turn about, so that what a process keeps of the one is at hand when the other comes."""
    memory.scope(user="alice").write("order", ORDER, policy="by_handle")
    memory.scope(user="bob").write("other", "nothing of hers is here at all", policy="by_handle")
    with standing(memory, said(wire, *["It is [[mem:order]]."] * 6), trust_users=True) as running:
        told = [
            post(running, wire, body(wire, "Where is it?"), Offprompt_User=user, Offprompt_Session="one")
            for user in ("alice", "bob", "alice", "bob")
        ]
    assert [ORDER in each.text for each in told] == [True, False, True, False]
    assert {each.headers["offprompt-session"] for each in told} == {"one"}
    ledgers = [memory.scope(user=user).session("one", wire=wire, model="").ledger() for user in ("alice", "bob")]
    assert all(ledgers)
    assert [ORDER in str(request) for request in running.upstream.requests] == [False] * 4
