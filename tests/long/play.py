"""An application that talks for hundreds of turns, and expects of each answer what the facts allow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from offprompt.records import Reply, SessionRecord, ToolCall
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from offprompt.testing.mangler import Damage, Mangler
from offprompt.testing.scripted import UNKNOWN
from offprompt.testing.stand_ins import Caller, Reader, slot_of
from offprompt.testing.strict import Delivery, StrictUpstream
from offprompt.testing.strict_replies import Said
from offprompt.wire.shapes import Wire
from tests.long.hands import Hand
from tests.long.plan import Planned
from tests.long.watch import Watch
from tests.service.talk import flat, result
from tests.service.test_session_streams import text_of

TOKEN = "tok 7R2w Kd93 mXq8 Vb41"  # noqa: S105 - made up
STREAMED_EVERY = 3


class Model:
    """The log's replies while it has some, else the stand-in's; with a thought before each where it thinks."""

    def __init__(self, stand_in: Reader, *, thinks: bool = False) -> None:
        self.stand_in, self.thinks = stand_in, thinks
        self.script: list[Said] = []
        self.said: list[Said] = []

    def __call__(self, **request: Any) -> Said:
        said = self.script.pop(0) if self.script else self.stand_in(**request)
        if self.thinks:
            said = replace(said, thinking=f"Thought {len(self.said)}.")
        self.said.append(said)
        return said


@dataclass
class Play:
    """One session. hands: who prepares and absorbs, by turns. record: of the session as stored."""

    wire: Wire
    memory: Offprompt
    scope: BoundScope
    hands: Sequence[Hand]
    upstream: StrictUpstream
    model: Model
    watch: Watch
    record: Callable[[], SessionRecord | None]
    clock: MovedClock | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    chinese: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    known: dict[str, str] = field(default_factory=dict[str, str])
    said: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    hidden: dict[str, str] = field(default_factory=dict[str, str])
    noted: list[str] = field(default_factory=list[str])
    counted: dict[int, int] = field(default_factory=dict[int, int])
    right: int = 0
    told: int = 0
    calls: int = 0
    _trouble: list[str] = field(default_factory=list[str])
    _ran: list[ToolCall] = field(default_factory=list[ToolCall])

    def turn(self, planned: Planned) -> None:
        """One turn, and what must hold behind it."""
        if self.clock is not None:
            self.clock.move(30)
        slot, before = slot_of(planned.label), dict(self.known)
        if planned.kind == "set":
            self.known[slot] = self.watch.values[slot] = planned.value
            self.scope.write(slot, planned.value)
        elif planned.kind == "state" and isinstance(self.model.stand_in, Caller):
            self.watch.values[slot] = planned.value
        elif planned.kind in ("file", "hint"):
            self.hidden[planned.label] = planned.value
        self.model.script = [step.said for step in planned.steps]
        results = [text for step in planned.steps for text in step.results]
        damages = self.model.stand_in.done if isinstance(self.model.stand_in, Mangler) else []
        seen = len(damages)
        self._trouble, self._ran = [], []
        reply = self._talk(planned.user, results)
        if planned.steps:
            assert reply.text == planned.steps[-1].said.text
        elif planned.kind not in ("log", "set"):
            self._judge(planned, slot, reply.text, damages[seen:], before)
            self.told += 1

    def _judge(self, planned: Planned, slot: str, text: str, damages: Sequence[Damage], before: dict[str, str]) -> None:
        """The answer and the memory are as the facts and the damages allow."""
        calls = isinstance(self.model.stand_in, Caller)
        broken = [damage.name for damage in damages if not damage.keeps]
        if planned.kind == "state":
            self.said.setdefault(slot, []).append(planned.value)
            if calls and not broken:
                self.known[slot] = planned.value
        elif planned.kind == "forget" and calls and not broken:
            self.known.pop(slot, None)
            self.watch.values.pop(slot, None)
        stored = {name: self.scope.read(name) for name in {*before, slot} if self.scope.slots.get(name) is not None}
        assert {name: stored.get(name) for name in (*before, slot)} == {
            name: self.known.get(name) for name in (*before, slot)
        } or planned.kind == "sign_in", (planned.kind, slot, broken)
        if broken:
            # A call that is only shown is no call: it is the answer.
            assert self._trouble or "mem_" in text, f"{broken}: nobody was told"
            return
        wanted = self._wanted(planned, slot)
        assert any(each in text for each in wanted), (
            planned.kind,
            planned.user,
            text,
            wanted,
            [d.name for d in damages],
        )
        self.right += 1

    def _wanted(self, planned: Planned, slot: str) -> list[str]:
        """What the answer must hold, one of them."""
        unknown = UNKNOWN[self.chinese]
        calls = isinstance(self.model.stand_in, Caller)
        if planned.kind == "find":
            code = self.hidden.get(planned.label, unknown)
            # Without tools only what still stands in the prompt is known.
            return [code] if calls else [code, unknown]
        if planned.kind == "ask":
            value = self.known.get(slot, unknown)
            return [value] if len(value) < 100 or calls else [value, unknown]
        if planned.kind == "ask_own":
            value = self.known.get(slot, unknown)
            return [value] if calls else [*self.said.get(slot, [])[-1:], unknown]
        if planned.kind in ("send", "sign_in") and calls:
            return self._sent(planned, slot)
        return [""]

    def _sent(self, planned: Planned, slot: str) -> list[str]:
        """The client's tool got the value itself."""
        if planned.kind == "sign_in":
            assert [json.loads(call.arguments)["token"] for call in self._ran] == [TOKEN]
        elif slot in self.known:
            assert [call.name for call in self._ran] == ["send_note"], self._trouble
            assert self.known[slot] in json.loads(self._ran[0].arguments)["text"]
        else:
            assert self._ran == []
            assert self._trouble
        return [""]

    def _talk(self, user: str, results: list[str]) -> Reply:
        """The turn's requests, until the application is next and has nothing to run."""
        self.messages.append({"role": "user", "content": user})
        self.noted.append(user)
        own: list[dict[str, Any]] = []
        while True:
            reply = self._request([*self.messages, *own])
            own = list(reply.messages)
            self._trouble += [receipt.text for receipt in reply.receipts if not receipt.ok]
            self._trouble += [refusal.why for refusal in reply.refused]
            self._trouble += [each for each in reply.warnings if "not resolved" in each or "cut off" in each]
            if not reply.done:
                continue
            self.messages += own
            own = []
            if not reply.tool_calls:
                return reply
            answers = [(call.call_id, self._run(call, results)) for call in reply.tool_calls]
            self.watch.results.update(answers)
            self.noted += [text for _, text in answers]
            self.messages += result(self.wire, *answers)

    def _run(self, call: ToolCall, results: list[str]) -> str:
        self._ran.append(call)
        if results:
            return results.pop(0)
        if call.name.startswith("memory_"):
            self._trouble.append(call.name)
            return f"no such tool: {call.name}"
        return f"{call.name} done: {call.arguments}"

    def _request(self, given: list[dict[str, Any]]) -> Reply:
        self.calls += 1
        hand = self.hands[self.calls // 4 % len(self.hands)]
        request = hand.prepare(given, [])
        record = self.record()
        assert record is not None
        self.watch.request(given, request, record)
        sent = {**request, **self.options}
        if self.calls % STREAMED_EVERY:
            answered = self.upstream(**sent)
            self._spoken()
            self.counted[self.calls - 1] = _counted(answered["usage"])
            return hand.absorb(answered)
        self.upstream.delivery = Delivery(seed=self.calls, longest=40, noise=self.calls % 2 == 0)
        more = {"stream_options": {"include_usage": True}} if self.wire == "openai" else {}
        chunks = list(self.upstream(**sent, **more, stream=True))
        self._spoken()
        reply, out = hand.absorb_stream(chunks)
        assert text_of(out) == reply.text
        return reply

    def _spoken(self) -> None:
        """Note what the model said: its words, and the arguments of calls but those that are stored."""
        said, stand_in = self.model.said[-1], self.model.stand_in
        broken = isinstance(stand_in, Mangler) and stand_in.done and not stand_in.done[-1].keeps
        self.watch.spoken.append(said.text)
        for call in said.calls:
            if broken or not call.name.startswith("mem_"):
                self.watch.spoken.append(_text(call.arguments))
        self.noted.append(said.text)


def _counted(usage: Mapping[str, int]) -> int:
    """What the provider counted as input."""
    if "prompt_tokens" in usage:
        return usage["prompt_tokens"]
    return usage["input_tokens"] + sum(usage.get(f"cache_{each}_input_tokens", 0) for each in ("creation", "read"))


def _text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else flat(dict(arguments))
