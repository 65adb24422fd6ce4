"""The strict upstream's other profiles: refusals come in the provider's words, its cache is in the ledger."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from offprompt.testing.strict_server import StrictServer
from offprompt.testing.upstream import Upstream
from offprompt.wire.prices import PriceSheet
from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import NewGateway, before
from tests.service.talk import Wire, tool

SHEET = PriceSheet("s", 1, 1.25, 0.1, 5)


def test_what_the_provider_refuses_is_told_in_its_words_and_the_conversation_goes_on(
    gateway: NewGateway, wire: Wire, streams: bool
) -> None:
    running = gateway(*script(wire, "Ulm."))
    running.alice.write("home_city", "Ulm an der Donau")
    with Client(running, wire, streams=streams, tools=[tool("look", wire)]) as client:
        client.messages.append({"role": "user", "content": "What is my home city?"})
        asked = list(client.messages)
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as refused:
            client.answer(("c_of_nobody", "seen"))
        (fault,) = running.upstream.faults
        assert fault in str(refused.value)
        assert "c_of_nobody" in fault
        client.messages = asked
        assert text_of(client.ask(), wire) == "Ulm."
    assert len(running.upstream.faults) == 1


class Caching(Upstream):
    """Counts by the prompt cache, as its sheet says."""

    def __init__(self) -> None:
        StrictServer.__init__(self, self._say, sheet=SHEET)

    def _say(self, **request: Any) -> str:
        del request
        return "So they did."


def test_what_the_provider_reads_from_its_cache_is_in_the_ledger_as_it_counts_it(wire: Wire, streams: bool) -> None:
    more: dict[str, Any] = {"stream_options": {"include_usage": True}} if wire == "openai" and streams else {}
    told: list[tuple[int, int]] = []
    with (
        before(Caching(), options={"head": "always"}) as running,
        Client(running, wire, streams=streams, **more) as client,
    ):
        for at in range(3):
            usage = client.say(f"Chapter {at}: " + "and then they went on to the next town; " * 60).usage
            if wire == "anthropic":
                told.append((usage.cache_read_input_tokens, usage.output_tokens))
            elif wire == "openai":
                told.append((usage.prompt_tokens_details.cached_tokens, usage.completion_tokens))
            else:
                told.append((usage.input_tokens_details.cached_tokens, usage.output_tokens))
        session = next(iter(running.alice.memories.sessions()))
        ledger = running.alice.session(session, wire=wire, model="").ledger()
    assert running.upstream.faults == []
    assert [(entry.usage.cached, entry.usage.output) for entry in ledger] == told
    if wire != "anthropic":  # there what is cached is marked, by the client
        assert told[2][0] > told[1][0] > 0, "the prefix stays the same bytes"
