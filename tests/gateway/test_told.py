"""What an answer's headers say of its request, and that the ledger says the same."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import offprompt
from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import LedgerEntry
from offprompt.service.offprompt import Offprompt
from offprompt.wire.profiles import SHAPES
from offprompt.wire.sizes import messages_size, tools_size
from tests.gateway.conftest import Running
from tests.gateway.standing import body, post, said, standing
from tests.service.talk import MODELS, Say, Wire, call, result, tool

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"
COUNTS: dict[Wire, dict[str, Any]] = {
    "openai": {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}},
    "responses": {"input_tokens": 100, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 64}},
    "anthropic": {"input_tokens": 36, "output_tokens": 5, "cache_read_input_tokens": 64},
}


@pytest.fixture
def memory() -> Generator[Offprompt]:
    with offprompt.open(":memory:") as opened:
        yield opened


def ledger(running: Running, wire: Wire, session: str) -> list[LedgerEntry]:
    return running.alice.session(session, wire=wire, model="").ledger()


def test_an_answer_says_what_the_request_was_before_and_after_and_the_ledger_says_the_same(
    memory: Offprompt, wire: Wire
) -> None:
    memory.scope(user="alice").write("home_city", "Ulm an der Donau")
    asked = body(wire, "What is my home city?", tools=[tool("look", wire)])
    with standing(memory, said(wire, Say("Ulm.", usage=COUNTS[wire])), user="alice") as running:
        told = post(running, wire, asked).headers
        (entry,) = ledger(running, wire, told["offprompt-session"])
    shape, count = SHAPES[wire], tokenizer_for(MODELS[wire])
    given = asked["input" if wire == "responses" else "messages"]
    plain = messages_size(shape.gather(given), shape, count) + tools_size(asked["tools"], count)
    assert told["offprompt-memory"] == "on"
    assert int(told["offprompt-tokens-before"]) == entry.before == plain.tokens
    assert int(told["offprompt-tokens"]) == entry.sent.tokens > plain.tokens
    assert int(told["offprompt-shown"]) == sum(each.tokens for each in entry.shown) > 0
    assert int(told["offprompt-leaked"]) == len(entry.leaked) == 0
    assert int(told["offprompt-cached"]) == entry.usage.cached == 64
    assert int(told["offprompt-entry"]) == entry.seq == 1
    price, _, sheet = unquote(told["offprompt-price"]).partition("; ")
    assert price == f"{entry.price:.9f} {entry.currency}"
    assert sheet in {each.name for each in memory.parts.sheets}


def test_a_reply_that_took_several_requests_says_their_sum(memory: Offprompt, wire: Wire) -> None:
    memory.scope(user="alice").write("home_city", "Ulm an der Donau", policy="by_handle")
    replies = said(
        wire,
        Say(calls=(("mem_read", {"slot": "home_city"}, "m1"),), usage=COUNTS[wire]),
        Say("Ulm.", usage=COUNTS[wire]),
    )
    with standing(memory, replies, user="alice") as running:
        told = post(running, wire, body(wire, "Where do I live?")).headers
        first, second = ledger(running, wire, told["offprompt-session"])
    assert int(told["offprompt-tokens"]) == first.sent.tokens + second.sent.tokens
    assert int(told["offprompt-cached"]) == 128
    assert int(told["offprompt-entry"]) == first.seq
    assert int(told["offprompt-tokens-before"]) == first.before == second.before
    assert float(told["offprompt-price"].split(" ")[0]) == pytest.approx((first.price or 0) + (second.price or 0))


def test_a_streams_headers_say_what_is_known_before_its_reply_and_the_ledger_has_the_rest(
    memory: Offprompt, wire: Wire
) -> None:
    usage = COUNTS[wire] if wire != "openai" else {**COUNTS[wire], "total_tokens": 105}
    more: dict[str, Any] = {"stream_options": {"include_usage": True}} if wire == "openai" else {}
    with standing(memory, said(wire, Say("Hi.", usage=usage)), user="alice") as running:
        told = post(running, wire, body(wire, "Hello", stream=True, **more)).headers
        (entry,) = ledger(running, wire, told["offprompt-session"])
    assert {"offprompt-cached", "offprompt-price"}.isdisjoint(told)
    assert int(told["offprompt-tokens"]) == entry.sent.tokens
    assert int(told["offprompt-tokens-before"]) == entry.before
    assert entry.usage.cached == 64
    assert entry.price is not None


def test_a_value_that_stands_where_it_should_not_is_counted(memory: Offprompt, wire: Wire) -> None:
    report = "The herring fleet lands at Saltby pier on Tuesday, crates twelve to forty go to Dorn, the rest is smoked."
    memory.scope(user="alice").write("report", report, policy="by_handle")
    with standing(memory, said(wire, call("look", "c1", text="a"), "Seen."), user="alice") as running:
        first = body(wire, "Look", tools=[tool("look", wire)])
        reply = post(running, wire, first).json()
        back = (
            [reply["choices"][0]["message"]]
            if wire == "openai"
            else [{"role": "assistant", "content": reply["content"]}]
            if wire == "anthropic"
            else reply["output"]
        )
        seen = result(wire, ("c1", f"the log says: {report[5:60]}"))
        told = post(running, wire, body(wire, "Look", *back, *seen, tools=[tool("look", wire)])).headers
    assert told["offprompt-leaked"] == "1"


def test_before_is_what_the_client_gave_though_long_results_have_left(memory: Offprompt) -> None:
    long = "a line of a very long log that says little\n" * 8000
    with standing(memory, said("openai", call("look", "c1", text="a"), "Seen."), user="alice") as running:
        reply = post(running, "openai", body("openai", "Look", tools=[tool("look", "openai")])).json()
        seen = result("openai", ("c1", long))
        asked = body("openai", "Look", reply["choices"][0]["message"], *seen, tools=[tool("look", "openai")])
        told = post(running, "openai", asked).headers
    assert int(told["offprompt-tokens-before"]) > 50_000
    assert int(told["offprompt-tokens"]) < 10_000


def test_an_answer_without_memory_says_why_in_one_line_of_ascii(memory: Offprompt, monkeypatch: Any) -> None:
    def away(*_: object) -> Any:
        raise offprompt.BackendError("der Speicher 数据库 ist fort:\r\nSet-Cookie: a=b")

    monkeypatch.setattr(memory.parts.main, "load", away)
    with standing(memory, said("openai", "Hi."), user="alice") as running:
        told = post(running, "openai", body("openai", "Hello")).headers
    assert told["offprompt-memory"].startswith("off; ")
    assert "%E6%95%B0" in told["offprompt-memory"]
    assert "set-cookie" not in told


def test_the_page_names_every_header() -> None:
    page = PAGE.read_text(encoding="utf-8")
    names = ["Memory", "Request", "Session", "Entry", "Tokens-Before", "Tokens", "Cached", "Price", "Shown", "Leaked"]
    assert [name for name in names if f"`Offprompt-{name}`" not in page] == []
