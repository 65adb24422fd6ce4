"""What a setting of the gateway's changes for the requests behind it: the policy, lapsing values, late replies."""

from __future__ import annotations

import re
from typing import Any

import httpx
import openai
import pytest

from offprompt.errors import BackendError
from offprompt.gateway.fitting import NO_CLEARING, NO_LAPSING
from offprompt.testing.upstream import Upstream
from offprompt.wire.clearing import EDIT
from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import NewGateway, before
from tests.gateway.standing import body, post
from tests.service.talk import MODELS, Wire, flat

FRAME = re.compile(r"memory [0-9a-f]{8}>")


def unable(*_: object, **__: object) -> Any:
    raise BackendError("the store is away")


def test_a_policy_of_the_gateways_is_each_sessions_where_its_wire_has_it(
    gateway: NewGateway, wire: Wire, streams: bool
) -> None:
    """Anthropic's own clearing on its wire; the others have `auto`, and no request is refused for it."""
    running = gateway(*script(wire, "Hello.", "Bye."), policy="context_editing")
    with Client(running, wire, streams=streams) as client:
        assert text_of(client.say("Hi"), wire) == "Hello."
        assert text_of(client.say("I go"), wire) == "Bye."
    (session,) = running.alice.memories.sessions()
    record = running.alice.session(session, wire=wire, model="").record
    assert record is not None
    assert record.policy == ("context_editing" if wire == "anthropic" else "auto")
    edits = [request.get("context_management", {"edits": []})["edits"] for request in running.upstream.requests]
    assert [[edit["type"] for edit in each] for each in edits] == [[EDIT] if wire == "anthropic" else []] * 2
    assert running.upstream.faults == []


def test_values_that_lapse_go_through_the_gateway(streams: bool) -> None:
    upstream = Upstream(script("anthropic", "Blue.", "Bye."))
    with before(upstream, settings={"shown_after_turn": "clear_at", "recall_tokens": 0}) as running:
        running.alice.write("plan", "rest at the blue lantern", policy="when_asked")
        with Client(running, "anthropic", streams=streams) as client:
            client.model = "claude-opus-5-5"
            assert text_of(client.say("What is my plan?"), "anthropic") == "Blue."
            assert text_of(client.say("Thanks"), "anthropic") == "Bye."
    first, second = upstream.requests
    assert "blue lantern" in flat(first["messages"])
    assert [each for each in first["messages"] if each.get("clear_at")]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert upstream.faults == []


@pytest.mark.parametrize("model", ["gpt-4o-mini", "claude-sonnet-5"])
def test_what_a_model_cannot_do_is_left_out_and_said(
    wire: Wire, streams: bool, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Values that lapse, and clearing by the provider, are for some of the models behind a gateway: no request to
    another one is refused for it, and it has what is the default.
    """
    upstream = Upstream(script(wire, "Blue.", "Bye.", "Once more."))
    settings = {"shown_after_turn": "clear_at", "recall_tokens": 0}
    with before(upstream, settings=settings, options={"policy": "context_editing"}) as running:
        running.alice.write("plan", "rest at the blue lantern", policy="when_asked")
        with Client(running, wire, streams=streams) as client:
            client.model = model
            assert text_of(client.say("What is my plan?"), wire) == "Blue."
            assert text_of(client.say("Thanks"), wire) == "Bye."
        answer = post(running, wire, body(wire, "Hi", model=model))
    first, second = upstream.requests[:2]
    assert "blue lantern" in flat(first)
    assert "blue lantern" not in flat(second), "it was replaced"
    assert "clear_at" not in flat([first, second])
    assert upstream.faults == []
    assert (answer.status_code, answer.headers["offprompt-memory"]) == (200, "on")
    hints = [NO_LAPSING, *([] if wire == "anthropic" else [NO_CLEARING])]
    assert answer.headers["offprompt-hint"] == "; ".join(hints)
    assert [record.getMessage() for record in caplog.records if record.name == "offprompt.gateway"] == hints


def test_a_request_that_goes_without_memory_is_bounded_for_any_model(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens to shown values: a model that cannot take them is no reason to send what is too much."""
    upstream = Upstream(script(wire, "Hello."))
    settings = {"shown_after_turn": "clear_at", "context_tokens": 6000}
    said = [("user", "Old. " + "many words " * 4000), ("assistant", "Yes."), ("user", "And now?")]
    with before(upstream, settings=settings) as running, monkeypatch.context() as away:
        away.setattr(running.memory.parts.main, "load", unable)
        asked = body(wire, *({"role": role, "content": text} for role, text in said), model="some-small-model")
        assert post(running, wire, asked).headers["offprompt-memory"].startswith("off; ")
    assert len(flat(upstream.requests[-1])) < len(flat(asked)) / 2


def test_a_late_reply_is_refused_where_that_is_wanted(
    gateway: NewGateway, wire: Wire, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = gateway(*script(wire, "Red.", "Blue."), on_trouble="refuse")
    main = running.memory.parts.main
    own, commits = main.commit, list[int]()

    def second_fails(*given: Any, **named: Any) -> Any:
        commits.append(1)
        if len(commits) == 2:
            raise BackendError("the store is away")
        return own(*given, **named)

    with monkeypatch.context() as away:
        away.setattr(main, "commit", second_fails)
        answer = post(running, wire, body(wire, "Name a colour", stream=streams))
    assert answer.status_code == (200 if streams else 503)
    assert "the store is away" in answer.text
    assert "ask again" in answer.text
    again = post(running, wire, body(wire, "Name a colour"))
    assert (again.status_code, again.headers["offprompt-memory"]) == (200, "on")


def test_the_input_of_responses_is_counted_as_it_would_be_sent(gateway: NewGateway) -> None:
    running = gateway(*script("responses", "Hello."))
    running.alice.write("home_city", "Ulm an der Donau")
    counted: list[dict[str, Any]] = []

    def count(request: dict[str, Any]) -> dict[str, Any]:
        counted.append(request)
        return {"object": "response.input_tokens", "input_tokens": 42}

    running.upstream.answers["POST /v1/responses/input_tokens"] = count
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-theirs", max_retries=0) as client:
        asked = "What is my home city?"
        told = client.responses.input_tokens.count(model=MODELS["responses"], input=asked)
        assert told.input_tokens == 42
        assert not list(running.alice.memories.sessions())
        assert [slot.uses for slot in running.alice.slots.list()] == [0]
        client.responses.create(model=MODELS["responses"], input=asked)
    (request,), sent = counted, running.upstream.requests[-1]
    asked_of_both = [{key: each[key] for key in ("input", "tools", "model")} for each in (request, sent)]
    first, second = (FRAME.sub("<memory>", flat(each)) for each in asked_of_both)
    assert first == second, "but for the random name of a conversation that does not exist yet"
    assert set(request) == {"input", "tools", "model"}
    assert "Ulm an der Donau" in flat(request)
    assert running.upstream.faults == []


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/nothing/chat/completions"])
def test_a_base_url_without_its_version_is_said_where_the_upstream_knows_no_such_path(
    gateway: NewGateway, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    running = gateway()
    answer = httpx.post(running.url + path, json=body("openai", "Hi"), timeout=30)
    assert answer.status_code == 404
    lacks = path == "/chat/completions"
    assert ("end the client's base URL" in answer.headers.get("offprompt-hint", "")) is lacks
    assert ("no /v1" in caplog.text) is lacks
