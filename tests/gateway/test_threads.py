"""Responses that the provider keeps: a client goes on from the id that it holds, whatever ran inside meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import openai
import pytest

from offprompt.testing.upstream import Upstream
from tests.gateway.client import script
from tests.gateway.conftest import Running, before, worker
from tests.service.talk import call, tool

MODEL = "gpt-5-mini"


def replies() -> list[dict[str, Any]]:
    """Two replies of one turn, of which the first only asks the memory, and the next turn's."""
    said = script("responses", call("mem_read", "m1", slot="city"), "It is Ulm.", "As I said.")
    return [{**reply, "id": f"resp_{at}"} for at, reply in enumerate(said)]


@contextlib.contextmanager
def client_of(running: Running) -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-theirs", max_retries=0) as client:
        yield client


def first_turn(client: Any, *, streams: bool, **options: Any) -> str:
    """The id that a client holds behind a turn; of a stream the one that it says at once, as some clients take it."""
    given: dict[str, Any] = {"model": MODEL, "input": "Look it up", **options}
    if not streams:
        return str(client.responses.create(**given).id)
    ids: set[str] = set()
    with client.responses.create(**given, stream=True) as stream:
        event: Any
        for event in stream:
            if event.type in ("response.created", "response.completed"):
                ids.add(event.response.id)
    (told,) = ids
    return told


def test_a_client_goes_on_from_a_response_with_hidden_calls(streams: bool, tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    with before(Upstream(replies()), store=store) as running, worker(running.upstream, store=store) as other:
        running.alice.write("city", "Ulm")
        with client_of(running) as client:
            held = first_turn(client, streams=streams)
        with client_of(other) as client:
            answer = client.responses.create(model=MODEL, input="Sure?", previous_response_id=held)
        assert answer.output_text == "As I said."
        assert running.upstream.faults == []
        assert running.upstream.requests[-1]["previous_response_id"] == "resp_1"


def test_what_is_kept_nowhere_stands_for_nothing(streams: bool) -> None:
    with before(Upstream(replies())) as running:
        running.alice.write("city", "Ulm")
        with client_of(running) as client:
            held = first_turn(client, streams=streams, store=False)
            with pytest.raises(openai.BadRequestError, match="not found"):
                client.responses.create(model=MODEL, input="Sure?", previous_response_id=held)
        assert running.upstream.requests[-1]["previous_response_id"] == held


def test_an_id_of_which_nothing_is_hidden_goes_on_as_it_came(streams: bool) -> None:
    own = script("responses", call("look", "c1", text="a"), "Done.")
    with before(Upstream([{**reply, "id": f"resp_{at}"} for at, reply in enumerate(own)])) as running:
        with client_of(running) as client:
            held = first_turn(client, streams=streams, tools=[tool("look", "responses")])
            given: Any = [{"type": "function_call_output", "call_id": "c1", "output": "nothing"}]
            answer = client.responses.with_raw_response.create(model=MODEL, input=given, previous_response_id=held)
        assert answer.parse().output_text == "Done."
        assert answer.headers["offprompt-memory"].startswith("off; previous_response_id is set")
        assert running.upstream.requests[-1] == {"model": MODEL, "input": given, "previous_response_id": "resp_0"}
