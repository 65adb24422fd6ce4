"""One log through the gateway: what its upstream receives, beside the same without it and beside truncation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import accumulate, takewhile
from typing import Any

import httpx

import offprompt
from offprompt.gateway.app import Gateway, GatewayOptions
from offprompt.gateway.upstream import Target, Upstreams
from offprompt.gateway.who import Who
from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import Identity, Message, compact
from offprompt.service.offprompt import Offprompt
from offprompt.service.replay.columns import Truncation
from offprompt.service.replay.evidence import Sightings, Use, uses
from offprompt.service.replay.log import STUBBED, Log, Rules
from offprompt.service.replay.logged import Conversation, LoggedMessage
from offprompt.service.replay.received import Received
from offprompt.testing.strict import Said, SaidCall
from offprompt.testing.strict_server import StrictServer
from offprompt.wire.openai import OpenAIChat
from offprompt.wire.prices import PriceSheet

ALICE = Identity(users=("alice",), default_user="alice")
SESSION = "log"
SHOWN_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Step:
    """One message of a log, and as the client or the model sends it."""

    logged: LoggedMessage
    wire: Message


@dataclass(frozen=True, slots=True)
class Way:
    """How a log goes through the gateway.

    model    its name decides the sheet. high, low: the window. recall: what left comes back by itself, and the model
             asks for what it is about to use and does not see, 512 tokens a turn; else neither.
    """

    model: str
    sheet: PriceSheet
    high: int = 8000
    low: int = 4000
    recall: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Of the memory."""
        return {
            "window_high_tokens": self.high,
            "window_low_tokens": self.low,
            "recall_tokens": SHOWN_TOKENS if self.recall else 0,
            "shown_tokens": SHOWN_TOKENS,
        }


@dataclass(slots=True)
class Run:
    """What a run found.

    without, cut, through   the log's requests without the gateway, under truncation, and as the upstream got them.
    answered   requests of the upstream up to each of the client's. said: for each of the client's, the tokens that the
               gateway says it sent, and those that came.
    values     uses of values first seen in a result; kept_cut: of them by truncation. seen: those that stood in words
               in a request behind the gateway; kept: these, and those whose message a search found.
    """

    without: Received
    cut: Received
    through: Received
    answered: list[int] = field(default_factory=list[int])
    said: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    values: int = 0
    kept_cut: int = 0
    kept: int = 0
    seen: int = 0

    def ratios(self, sheet: str) -> list[float]:
        """Price of what came through the gateway ÷ price of sending everything, after each request of the client."""
        ours = list(accumulate(self.through.series[sheet].price))
        everything = accumulate(self.without.series[sheet].price)
        return [ours[sent - 1] / other for sent, other in zip(self.answered, everything, strict=True)]

    def judge(self, used: Sequence[Use], truncated: str, passage: Passage) -> None:
        """Count the values that one message uses; truncated: what truncation would have sent for it."""
        found = passage.model.found
        holders = [text for name, text in passage.holders().items() if name in found] if found else []
        for use in used:
            is_seen = use.value in passage.model.seen
            self.values += 1
            self.kept_cut += use.value in truncated
            self.seen += is_seen
            self.kept += is_seen or any(use.value in text for text in holders)


def steps(conversations: Iterator[Conversation], limit: int | None) -> tuple[str, list[Step]]:
    """The first system text, and the messages of all conversations up to the reply number `limit`, in chat form."""
    system, found, replies = "", list[Step](), 0
    for conversation in conversations:
        system = system or conversation.system
        open_calls: list[str] = []
        for at, message in enumerate(conversation.messages):
            if message.kind == "assistant" and found:
                if replies == limit:
                    return system, found
                replies += 1
            behind = conversation.messages[at + 1 :]
            results = sum(1 for _ in takewhile(lambda each: each.kind in STUBBED, behind))
            ids = [f"call_{len(found)}_{number}" for number in range(min(results, len(message.calls)))]
            if message.kind == "assistant":
                open_calls = list(ids)
            found.append(Step(message, _wire(message, ids, open_calls)))
    return system, found


def _wire(message: LoggedMessage, ids: Sequence[str], open_calls: list[str]) -> Message:
    """A message as chat completions carry it; a command line is a call of one tool, a call without a result is none."""
    if message.kind == "assistant":
        inline = [call.arguments for call in message.calls if call.inline]
        text = message.text if not ids or not inline else message.text.replace(inline[0], "").strip()
        calls = [
            {
                "id": each,
                "type": "function",
                "function": {"name": call.name or "run", "arguments": _object(call.arguments)},
            }
            for each, call in zip(ids, message.calls, strict=False)
        ]
        return {
            "role": "assistant",
            "content": text or (None if calls else ""),
            **({"tool_calls": calls} if calls else {}),
        }
    if message.kind in STUBBED and open_calls:
        return {"role": "tool", "tool_call_id": open_calls.pop(0), "content": message.text}
    return {"role": "system" if message.kind == "note" else "user", "content": message.text}


def _object(arguments: str) -> str:
    try:
        return arguments if isinstance(json.loads(arguments), dict) else compact({"command": arguments})
    except ValueError:
        return compact({"command": arguments})


def words(messages: Sequence[Message]) -> str:
    """All that messages say: texts and calls' arguments."""
    shape = OpenAIChat()
    said = (text for each in messages for text in (shape.text(each), *(call.arguments for call in shape.calls(each))))
    return "\n".join(said)


@dataclass(slots=True)
class StandIn:
    """The model behind the gateway: answers what the log says next, and asks its memory for what it uses unseen.

    seen     values of the next message that stood in a request for it. found: what its search brought.
    """

    searches: bool
    answer: Message = field(default_factory=dict[str, Any])
    uses: Sequence[Use] = ()
    seen: set[str] = field(default_factory=set[str])
    found: str = ""
    has_asked: bool = False

    def expect(self, answer: Message, uses: Sequence[Use]) -> None:
        """The next reply."""
        self.answer, self.uses, self.seen, self.found, self.has_asked = answer, uses, set[str](), "", False

    def __call__(self, **body: Any) -> Any:
        messages: list[Message] = body["messages"]
        text = words(messages) if self.uses else ""
        self.seen |= {use.value for use in self.uses if use.value in text}
        lacking = [use for use in self.uses if use.value not in self.seen]
        if self.has_asked:
            results = takewhile(lambda each: each["role"] == "tool", reversed(messages))
            self.found = words(list(results))
        elif lacking and self.searches and "mem_search" in {tool["function"]["name"] for tool in body.get("tools", ())}:
            self.has_asked = True
            queries = dict.fromkeys(use.query for use in lacking)
            return Said(calls=tuple(SaidCall("mem_search", {"query": query}) for query in queries))
        finish = "tool_calls" if self.answer.get("tool_calls") else "stop"
        return {"choices": [{"index": 0, "message": self.answer, "finish_reason": finish}]}


class Passage:
    """A gateway in this process, before a strict upstream on loopback; an agent's client asks it."""

    def __init__(self, way: Way, store: str = ":memory:") -> None:
        self.way = way
        self.model = StandIn(searches=way.recall)
        self._store = store
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Passage:
        self.memory: Offprompt = self._stack.enter_context(
            offprompt.open(self._store, durability="process", **self.way.settings)
        )
        self.upstream = self._stack.enter_context(StrictServer(self.model))
        upstreams = Upstreams([Target(self.upstream.url)])
        self._stack.push_async_callback(upstreams.close)
        app = Gateway(Who(self.memory, _nobody, ALICE), upstreams, GatewayOptions())
        transport = httpx.ASGITransport(app)
        self.client = await self._stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=600)
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def ask(self, messages: Sequence[Message]) -> tuple[Message, list[dict[str, Any]], int]:
        """The reply, the bodies that the upstream received for it, and the tokens that the gateway says it sent.

        Raises   RuntimeError for any answer but a reply.
        """
        body = {"model": self.way.model, "messages": list(messages)}
        answer = await self.client.post("/v1/chat/completions", json=body, headers={"offprompt-session": SESSION})
        if answer.status_code != HTTPStatus.OK or answer.headers["offprompt-memory"] != "on":
            raise RuntimeError(f"{answer.status_code} {answer.headers}: {answer.text[:2000]}")
        bodies = list(self.upstream.requests)
        self.upstream.requests.clear()
        for each in self.upstream.upstreams.values():
            each.requests.clear()
        return answer.json()["choices"][0]["message"], bodies, int(answer.headers["offprompt-tokens"])

    def holders(self) -> dict[str, str]:
        """What stands in the session's journal and bodies, by the names that `mem_search` gives."""
        session = self.memory.scope(user="alice").session(SESSION, model=self.way.model, wire="openai")
        found = {f"@{entry.key[:12]}": entry.text for entry in session.journal()}
        bodies = self.memory.parts.sessions.bodies(session.scope)
        return found | {f"@{body.body_id}": body.text for body in bodies}


def _nobody(headers: Mapping[str, str]) -> Identity:
    raise offprompt.UnauthenticatedError(f"no key is known here: {sorted(headers)}")


async def through(system: str, log: Sequence[Step], way: Way, sheets: Sequence[PriceSheet]) -> Run:
    """The log through the gateway: one request for each assistant message; sheets: to price all of it by."""
    tokenizer = tokenizer_for(way.model)
    rules = Rules(way.sheet, high_tokens=way.high, low_tokens=way.low)
    counted, truncation, sightings = Log(system, tokenizer, rules), Truncation(), Sightings(system)
    run = Run(Received(tokenizer, sheets), Received(tokenizer, sheets), Received(tokenizer, sheets))
    front: list[Message] = [{"role": "system", "content": system}] if system else []
    messages = list(front)
    async with Passage(way) as passage:
        for step in log:
            if step.logged.kind == "assistant" and counted.history.items:
                used = list(uses(step.logged, counted, sightings))
                start = truncation.request(counted).start
                truncated = {"messages": [*front, *messages[len(front) + start :]]}
                passage.model.expect(step.wire, used)
                reply, bodies, said = await passage.ask(messages)
                for received, body in [(run.without, {"messages": messages}), (run.cut, truncated)]:
                    received.take(body)
                came = 0
                for body in bodies:
                    run.through.take(body)
                    came += run.through.total
                run.said.append((said, came))
                run.answered.append(len(bodies) + (run.answered[-1] if run.answered else 0))
                run.judge(used, words(truncated["messages"]) if used else "", passage)
                if reply.get("content") != step.wire["content"] or reply.get("tool_calls") != step.wire.get(
                    "tool_calls"
                ):
                    raise RuntimeError(f"the client got {reply}, and the model said {step.wire}")
            messages.append(step.wire)
            counted.append(step.logged)
        if passage.upstream.faults:
            raise RuntimeError(f"the upstream refused: {passage.upstream.faults[:3]}")
    return run
