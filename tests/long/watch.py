"""What holds at each request of a session, however long it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import LedgerEntry, SessionRecord, as_list
from offprompt.testing.scripted import OURS
from offprompt.wire.profiles import SHAPES
from offprompt.wire.shapes import Wire
from offprompt.wire.sizes import message_size, messages_size, tools_size
from tests.service.canary import found
from tests.service.talk import flat, messages_of, newest_user

FRAME = re.compile(r"<memory [^>\n]*>\n.*?\n</memory [^>\n]*>", re.DOTALL)
STUB = re.compile(r"\[\[mem:(@[^\]#]+)\]\]")
SCRUBBED_FROM = 24
FIXED = ("system", "instructions", "directory", "card", "tools", "memory_tools")


@dataclass
class Figures:
    """What a session cost: tokens in as sent, as they would have been without Offprompt, and by request."""

    sent: list[int] = field(default_factory=list[int])
    whole: list[int] = field(default_factory=list[int])
    cuts: int = 0
    stubbed: int = 0
    repeated: int = 0


@dataclass
class Watch:
    """Looks at each request; says with an AssertionError what does not hold.

    window    tokens of history that its policy allows at most, None: what the context holds.
    values    of ordinary slots, by name: the application adds and changes them as it goes.
    authored  what the application itself said: tool results by call id, user texts; spoken: what the model said.
    """

    wire: Wire
    model: str
    window: int | None = None
    context: int = 128_000
    values: dict[str, str] = field(default_factory=dict[str, str])
    results: dict[str, str] = field(default_factory=dict[str, str])
    spoken: list[str] = field(default_factory=list[str])
    figures: Figures = field(default_factory=Figures)
    bodies: set[str] = field(default_factory=set[str])
    _last: dict[str, Any] | None = None
    _turn: int = 0
    _clean: set[str] = field(default_factory=set[str])
    _sizes: dict[int, tuple[object, int]] = field(default_factory=dict[int, tuple[object, int]])

    def __post_init__(self) -> None:
        self._shape, self._tokenizer = SHAPES[self.wire], tokenizer_for(self.model)

    def request(self, given: Sequence[Mapping[str, Any]], request: dict[str, Any], record: SessionRecord) -> None:
        """All of it, for one request; the wire's own rules are the strict upstream's."""
        pending = record.pending
        assert pending is not None
        self._prefix(request, record, pending)
        self._no_canary(request)
        self._values_where_shown(request, record, pending)
        assert pending.leaked == ()
        self._sums(request, pending)
        self.bodies.update(STUB.findall(flat(messages_of(request))))
        self.figures.whole.append(self._whole(given, pending))
        self._last, self._turn = request, record.turn

    def _prefix(self, request: dict[str, Any], record: SessionRecord, pending: LedgerEntry) -> None:
        """Rule 1, byte by byte: all before the last request's newest user message, but at counted cuts and stubs."""
        if self._last is None:
            return
        for part in ("tools", "system"):
            assert _bytes(self._last.get(part)) == _bytes(request.get(part)), f"{part} changed"
        old, new = messages_of(self._last), messages_of(request)
        end = len(old) if record.turn == self._turn else newest_user(old, self.wire)
        if pending.cut:
            self._after_cut(old[:end], new)
            return
        for at in range(end):
            assert at < len(new), f"message {at} of {end} is gone"
            if pending.stubbed and STUB.search(flat(new[at])) and len(flat(new[at])) < len(flat(old[at])):
                continue
            assert _bytes(old[at]) == _bytes(new[at]), f"message {at} of {end} changed"

    def _after_cut(self, old: Sequence[Any], new: Sequence[Any]) -> None:
        """What a cut leaves is the end of what was there, but for the line on its first message, and stubs."""
        before, now = [_bytes(each) for each in old], [_bytes(each) for each in new]
        for start in range(len(before) + 1):
            kept = before[start:]
            for lead in range(4):
                same = zip(kept[1:], now[lead + 1 :], strict=False)
                if all(one == two or "[[mem:@" in two for one, two in same):
                    return
        raise AssertionError("a cut changed what it left")

    def _no_canary(self, request: dict[str, Any]) -> None:
        """No secret in any spelling, in what is new."""
        parts = [
            *messages_of(request),
            *(as_list(request.get("tools")) or []),
            {"text": flat(request.get("system", ""))},
        ]
        for part in parts:
            text = flat(part)
            if text not in self._clean:
                assert found(text) == {}, (found(text), text[:300])
                self._clean.add(text)

    def _values_where_shown(self, request: dict[str, Any], record: SessionRecord, pending: LedgerEntry) -> None:
        """Ordinary values stand where they were said, or where the ledger says that they are shown."""
        shown = {each.name for each in pending.shown}
        carded = set(record.head.carded) if record.head is not None else set[str]()
        names = {name: value for name, value in self.values.items() if value in flat(request)}
        head = flat([request.get("system", ""), request.get("tools", [])])
        for name, value in names.items():
            assert value not in head or name in carded, f"{name} stands in the head"
            for message in messages_of(request):
                if value in flat(message):
                    self._may_stand(name, value, message, shown, carded)

    def _may_stand(self, name: str, value: str, message: dict[str, Any], shown: set[str], carded: set[str]) -> None:
        kind = self._shape.kind(message)
        if kind == "system":
            assert name in carded, f"{name} stands in the system text"
        elif kind == "assistant":
            assert any(value in text for text in self.spoken), f"{name} stands in a reply that did not say it"
        else:
            for result in self._shape.results(message):
                if value in result.text and result.call_id in self.results:
                    assert value in self.results[result.call_id], f"{name} was put into a tool result"
                    assert len(value) < SCRUBBED_FROM, f"{name} came in with a tool result"
                elif value in result.text:
                    assert name in shown, f"{name} stands in an answer and is not shown: {result.text[:200]}"
            text = self._shape.text(message)
            framed = "\n".join(FRAME.findall(text))
            assert value not in framed or name in shown, f"{name} stands in a frame and is not shown"
            if text.startswith(OURS):
                assert value not in text or name in shown, f"{name} stands in an answer in text and is not shown"

    def _sums(self, request: dict[str, Any], pending: LedgerEntry) -> None:
        """The ledger's parts make the request, to the token."""
        sent = pending.sent.tokens
        assert pending.prefix <= sent
        tokens = messages_size(self._shape.gather(messages_of(request)), self._shape, self._tokenizer).tokens
        tokens += tools_size(request.get("tools", []), self._tokenizer).tokens
        tokens += self._tokenizer.count(flat(request.get("system", "")))
        # A text is a few tokens shorter or longer whole than in parts.
        assert abs(sent - tokens) <= 16 + 0.01 * tokens, (sent, tokens)
        self._bounded(request, pending)
        self.figures.sent.append(sent)
        self.figures.cuts += pending.cut > 0
        self.figures.stubbed += pending.stubbed
        self.figures.repeated += pending.prefix

    def _bounded(self, request: dict[str, Any], pending: LedgerEntry) -> None:
        """What stands before the turn is within the window; all of it is within the context."""
        fixed = sum(pending.parts[part].tokens for part in FIXED if part in pending.parts)
        first = newest_user(messages_of(request), self.wire)
        turn = messages_size(messages_of(request)[first:], self._shape, self._tokenizer).tokens
        assert self.window is None or pending.sent.tokens - fixed - turn <= self.window
        assert pending.sent.tokens <= self.context

    def _whole(self, given: Sequence[Mapping[str, Any]], pending: LedgerEntry) -> int:
        """Tokens of the request without Offprompt: the client's system text, tools and messages as they are."""
        own = sum(size.tokens for part, size in pending.parts.items() if part in ("system", "tools"))
        total = own
        for message in given:
            key = id(message)
            if key not in self._sizes:
                # The message is held with its size, so that no other gets its id.
                self._sizes[key] = (message, message_size(dict(message), self._shape, self._tokenizer).tokens)
            total += self._sizes[key][1]
        return total

    def spoke(self, reply: Mapping[str, Any]) -> None:
        """What the model said beside its memory calls."""
        self.spoken.append(flat(dict(reply)))


def _bytes(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
