"""The policy `context_editing`: Anthropic itself clears old tool results, and what it cleared is still found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import anthropic
import pytest

import offprompt
from offprompt.errors import UnsupportedError
from offprompt.records import LedgerEntry, Usage
from offprompt.service.accounting import entry_hash
from offprompt.service.audit import audit
from offprompt.service.session import Session
from offprompt.testing import MovedClock
from offprompt.testing.strict import RefusedError, Said, SaidCall, StrictUpstream
from offprompt.testing.strict_clearing import PLACEHOLDER
from offprompt.testing.strict_server import StrictServer
from offprompt.wire.clearing import BETA, EDIT
from offprompt.wire.prices import builtin_sheets, named_sheet
from tests.service.talk import Talk, call, result, tool

CLAUDE = "claude-sonnet-5-5"
NEEDLE = "the zebra crossed the road at 9:15"


class Looking:
    """A model that looks at one thing after the other, then says so; keeps what it was given to read."""

    def __init__(self, looks: int) -> None:
        self.looks, self.read = looks, list[str]()

    def __call__(self, **request: Any) -> Said:
        self.read.append(json.dumps(request["messages"], ensure_ascii=False))
        number = len(self.read)
        if number <= self.looks:
            return Said(calls=(SaidCall("look", {"text": f"thing {number}"}),))
        if number == self.looks + 1:
            return Said(calls=(SaidCall("mem_search", {"query": "zebra crossed"}),))
        return Said("It crossed at 9:15.")


@pytest.fixture
def session() -> Iterator[Session]:
    with offprompt.open(":memory:", clock=MovedClock(), context_editing_tokens=3000) as opened:
        yield opened.scope(user="u").session(
            "s", model=CLAUDE, policy="context_editing", tools=[tool("look", "anthropic")]
        )


def seen(number: int) -> str:
    return (f"{NEEDLE}. " if number == 1 else "") + f"row {number} of the table " * 120


def run(session: Session, create: Any, *, streamed: bool = False) -> None:
    """One turn of an agent, to its end."""
    messages: list[Any] = [{"role": "user", "content": "Look at all of it. When did the zebra cross?"}]
    for number in range(1, 20):
        request = session.prepare(messages)
        if streamed:
            stream = session.absorb_stream(create(**request, stream=True))
            for _ in stream:
                pass
            reply = stream.reply
        else:
            reply = session.absorb(create(**request))
        messages += reply.messages
        if reply.done and not reply.tool_calls:
            assert reply.warnings == ()
            return
        if reply.done:
            messages += result("anthropic", *((each.call_id, seen(number)) for each in reply.tool_calls))
    raise AssertionError("the turn has no end")


@pytest.mark.parametrize("streamed", [False, True])
def test_the_real_client_sends_it_and_the_ledger_has_the_providers_report(session: Session, streamed: bool) -> None:
    model = Looking(8)
    with StrictServer(model, sheet=named_sheet("anthropic-sonnet-5-5", builtin_sheets())) as server:
        client = anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0)
        run(session, client.beta.messages.create, streamed=streamed)
        assert server.faults == []
        edits = server.requests[-1]["context_management"]["edits"]
        assert edits[0]["trigger"] == {"type": "input_tokens", "value": 3000}
    assert PLACEHOLDER not in model.read[3]
    assert NEEDLE in model.read[3]
    assert PLACEHOLDER in model.read[8]
    assert NEEDLE not in model.read[8]
    entries = session.ledger()
    reported = [(entry.usage.cleared, entry.usage.cleared_results) for entry in entries]
    assert reported[0] == (0, 0)
    assert reported[8] == (reported[8][0], 5)
    assert (reported[8][0] or 0) > 1500
    assert all(entry.usage.input is not None and entry.usage.input < 4500 for entry in entries)
    assert entries[8].sent.tokens > 4500, "what we sent is whole"
    assert NEEDLE in model.read[9], "what was cleared is searched as what left"


def reported(*blocks: dict[str, Any], cleared: int) -> dict[str, Any]:
    """A reply with what the provider says that it cleared of the request."""
    report = {"type": EDIT, "cleared_tool_uses": cleared, "cleared_input_tokens": cleared * 700}
    edits = {"context_management": {"applied_edits": [report] if cleared else []}}
    return {"role": "assistant", "content": list(blocks), **edits}


def use(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def test_what_was_cleared_can_be_read_by_its_handle(session: Session) -> None:
    one = Talk(session, "anthropic")
    one.turn("Look", call("look", "c1", text="x"))
    one.messages += result("anthropic", ("c1", seen(1)))
    one.go("Seen.")
    one.messages.append({"role": "user", "content": "When did the zebra cross?"})
    one.prepare()
    whole = session.absorb(reported(use("mem_search", "s1", query="zebra"), cleared=0))
    assert NEEDLE not in whole.receipts[0].shown, "it stands in the prompt"
    one.prepare([*one.messages, *whole.messages])
    found = session.absorb(reported(use("mem_search", "s2", query="zebra crossed"), cleared=1))
    assert NEEDLE in found.receipts[0].shown
    assert session.ledger()[-1].usage.cleared == 700
    handle = next(word for word in found.receipts[0].shown.split() if word.startswith("@"))
    one.prepare([*one.messages, *found.messages])
    read = session.absorb(reported(use("mem_read", "r1", slot=handle), cleared=1))
    assert NEEDLE in read.receipts[0].shown


def test_requests_need_the_beta(session: Session) -> None:
    request = session.prepare([{"role": "user", "content": "Hello"}])
    assert request["betas"] == [BETA]
    upstream = StrictUpstream("anthropic", Looking(0))
    with pytest.raises(RefusedError, match="context_management: Extra inputs are not permitted"):
        upstream(**{**request, "betas": []})
    upstream(**request)
    client = anthropic.Anthropic(api_key="k")
    with pytest.raises(TypeError, match=r"betas|context_management"):
        client.messages.create(**request)


@pytest.mark.parametrize("cleared", [1, 0])
def test_a_cache_that_a_clearing_broke_is_no_cache_that_is_not_used(cleared: int) -> None:
    usage = {"usage": {"input_tokens": 3000, "cache_read_input_tokens": 0, "output_tokens": 3}}
    with offprompt.open(":memory:", clock=MovedClock()) as opened:
        one = opened.scope(user="u").session("s", model=CLAUDE, policy="context_editing", system="Be kind. " * 800)
        messages: list[Any] = []
        for number in range(3):
            messages.append({"role": "user", "content": f"Go on {number}"})
            one.prepare(messages)
            messages += one.absorb({**reported({"type": "text", "text": "Well."}, cleared=cleared), **usage}).messages
        (found,) = audit(opened.parts, None, diagnosis=True).sessions
        assert ("uncached" in [each.cause for each in found.diagnoses]) is (cleared == 0)


@pytest.mark.parametrize("wire", ["openai", "responses"])
def test_other_wires_say_that_they_cannot(wire: Any) -> None:
    with (
        offprompt.open(":memory:") as opened,
        pytest.raises(UnsupportedError, match=f"the wire is {wire}; use policy="),
    ):
        opened.scope(user="u").session("s", model="gpt-5", wire=wire, policy="context_editing")


def test_ledgers_from_before_stay_valid() -> None:
    hashed: list[str] = []

    def digest(text: str) -> str:
        hashed.append(text)
        return "h"

    entry = LedgerEntry(1, 0.0, 1, "m", usage=Usage(5, 2, None, 1))
    entry_hash(entry, digest)
    entry_hash(replace(entry, usage=Usage(5, 2, None, 1, 7, 1)), digest)
    assert ["cleared" in text for text in hashed] == [False, True]
    assert '"usage":{"cached":2,"input":5,"output":1,"written":null}' in hashed[0]
