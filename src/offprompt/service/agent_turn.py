"""One run of an agent, step by step: what the model is asked, which tools run, when it is over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from offprompt.errors import BackendError, ConflictError
from offprompt.records import (
    MEMORY_ACTIONS,
    AgentReply,
    LedgerEntry,
    Message,
    Receipt,
    Remembered,
    Reply,
    Stopped,
    ToolCall,
    ToolRun,
)
from offprompt.service.session import Session
from offprompt.wire.head import Language, language_of
from offprompt.wire.payload import is_silent
from offprompt.wire.shapes import Result, Shape
from offprompt.wire.thinking import without_thinking

log = logging.getLogger("offprompt")

NO_MORE: Final[Mapping[Language, str]] = {
    "en": "not run: no more tool calls in this turn; answer with what you have",
    "zh": "未执行：本轮不能再调用工具；请根据已有内容回答",
}
BROKEN_OFF: Final[Mapping[Language, str]] = {
    "en": "not known: the run was broken off before this result was recorded; look before you call it again",
    "zh": "结果未知：运行在记录结果之前中断；再次调用前请先确认",
}
ANSWERED: Final = "[memory]\n"
SILENT: Final = "the model answered nothing; it was asked once more"


@dataclass(frozen=True, slots=True)
class Ask:
    """Send this request to the model, and give the absorbed reply back; left_s: seconds that the run still has."""

    payload: dict[str, Any]
    left_s: float


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls, and give their results back, in order."""

    calls: tuple[ToolCall, ...]
    left_s: float


Step: TypeAlias = "Ask | RunTools | AgentReply"
Steps: TypeAlias = Generator["Ask | RunTools", "Reply | Sequence[ToolRun]", AgentReply]


@dataclass(slots=True)
class Talk:
    """A session with its conversation as this process holds it.

    known   the session's place in the store when the last run ended here; None: it broke off, and the store knows more.
    """

    session: Session
    shape: Shape
    messages: list[Message] = field(default_factory=list[Message])
    known: tuple[str, str, bool] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, text: str) -> None:
        """Bring the conversation up to what the store has, end what broke off, add the user's words.

        Again    the words of a turn that has no answer yet are that turn: it goes on, and no tool that was answered
                 in it is called anew.
        """
        try:
            if self.known is None or self.known != self._place():
                self.messages = list(self.session.messages())
        except BackendError as exc:
            # Requests go on without memory, with what this process knows; the replies' warnings say so.
            log.warning("session %r is gone on with as this process knows it: %s", self.session.scope.session, exc)
        while self.messages and self.shape.kind(self.messages[-1]) == "assistant" and is_silent(self.messages[-1]):
            self.messages.pop()
        language = language_of(text)
        self.messages += self._unanswered(language)
        if self._waits() and self._asked() == text:
            return
        self.messages.append({"role": "user", "content": text})

    def end(self) -> None:
        """The run is over, and all that it did is stored, or cannot be."""
        try:
            self.known = self._place()
        except BackendError:
            self.known = None

    def _place(self) -> tuple[str, str, bool]:
        record = self.session.record
        return ("", "", False) if record is None else (record.tail, record.sent_last, record.pending is not None)

    def _unanswered(self, language: Language) -> list[Message]:
        """Results in place of those that calls of the last reply still lack."""
        last = max((at for at, each in enumerate(self.messages) if self._says(each)), default=-1)
        if last < 0:
            return []
        had = {result.call_id for each in self.messages[last:] for result in self.shape.results(each)}
        calls = [each for each in self.shape.calls(self.messages[last]) if each.name not in MEMORY_ACTIONS]
        lacking = [Result(each.call_id, BROKEN_OFF[language]) for each in calls if each.call_id not in had]
        return self.shape.result_messages(lacking, frozenset(each.call_id for each in lacking)) if lacking else []

    def _says(self, message: Message) -> bool:
        return self.shape.kind(message) == "assistant"

    def _waits(self) -> bool:
        """Whether the newest turn has no answer yet."""
        if not self.messages or self._says(self.messages[-1]):
            return False
        return not self._is_ours(self.messages[-1]) or self._asks_memory()

    def _asks_memory(self) -> bool:
        try:
            record = self.session.record
        except BackendError:
            return False
        return record is not None and record.open

    def _is_ours(self, message: Message) -> bool:
        """Whether a user message is the answer to a memory call in text."""
        return self.shape.text(message).startswith(ANSWERED)

    def _asked(self) -> str:
        """The user's newest words."""
        users = (each for each in reversed(self.messages) if self.shape.kind(each) == "user")
        return next((self.shape.text(each) for each in users if not self._is_ours(each)), "")


@dataclass(slots=True)
class AgentTurn:
    """The turn that a text begins: `steps` says what is to be done, until it returns the reply.

    request    further fields of each request. rounds: tool rounds at most. ends: when time is over (monotonic seconds).
    prefill    seconds until each reply began, as far as they are known; whoever asks the model adds them.
    """

    talk: Talk
    text: str
    request: Mapping[str, Any]
    rounds: int
    ends: float
    prefill: list[float] = field(default_factory=list[float])
    _ran: list[ToolRun] = field(default_factory=list[ToolRun])
    _entries: list[LedgerEntry] = field(default_factory=list[LedgerEntry])
    _receipts: list[Receipt] = field(default_factory=list[Receipt])
    _remembered: list[Remembered] = field(default_factory=list[Remembered])
    _warnings: list[str] = field(default_factory=list[str])

    def steps(self) -> Steps:
        """What is to be done, one after the other; closed early, the next run goes on from what is stored.

        Raises   ConflictError while another run works on the session.
        """
        talk = self.talk
        if not talk.lock.acquire(blocking=False):
            raise ConflictError(
                f"another run works on session {talk.session.scope.session!r} now; wait for it, or name another "
                "session for each conversation that runs at the same time"
            )
        try:
            talk.begin(self.text)
            talk.known = None
            reply = yield from self._steps()
            talk.end()
            return reply
        finally:
            talk.lock.release()

    def _steps(self) -> Steps:
        talk, new = self.talk, tuple[Message, ...]()
        rounds, silent, said = 0, False, ""
        while True:
            left = self.ends - time.monotonic()
            if left <= 0:
                return self._reply(said, "time")
            before = talk.session.last_entry
            reply = yield Ask({**talk.session.prepare([*talk.messages, *new]), **self.request}, left)
            if not isinstance(reply, Reply):
                raise TypeError("an Ask is answered with the absorbed reply")
            self._note(reply, before)
            said = without_thinking(reply.text)
            if not reply.done:
                new = reply.messages
                continue
            talk.messages += reply.messages
            new = ()
            if reply.tool_calls:
                stop = rounds > self.rounds
                yield from self._tools(reply.tool_calls, run=rounds < self.rounds)
                if stop:
                    return self._reply(said, "rounds")
                rounds += 1
            elif said.strip() or reply.receipts or silent or self._was_cut():
                return self._reply(said)
            else:
                silent = True
                self._warnings.append(SILENT)

    def _tools(self, calls: tuple[ToolCall, ...], *, run: bool) -> Generator[RunTools, Reply | Sequence[ToolRun]]:
        """Answer the calls: with what the tools say, or with a refusal where there were too many rounds."""
        if run:
            results = yield RunTools(calls, max(self.ends - time.monotonic(), 0.0))
            if isinstance(results, Reply):
                raise TypeError("RunTools is answered with the calls' results")
        else:
            no = NO_MORE[language_of(self.text)]
            results = [ToolRun(call.call_id, call.name, call.arguments, no, ok=False) for call in calls]
        self._ran += results
        failed = frozenset(each.call_id for each in results if not each.ok)
        told = [Result(each.call_id, each.result) for each in results]
        self.talk.messages += self.talk.shape.result_messages(told, failed)

    def _note(self, reply: Reply, before: LedgerEntry | None) -> None:
        entry = self.talk.session.last_entry
        if entry is not None and entry is not before:
            self._entries.append(entry)
        self._receipts += reply.receipts
        self._remembered += reply.remembered
        self._warnings += reply.warnings

    def _was_cut(self) -> bool:
        return bool(self._entries) and self._entries[-1].outcome == "cut"

    def _reply(self, text: str, stopped: Stopped = "") -> AgentReply:
        return AgentReply(
            text,
            tuple(self._ran),
            tuple(self._entries),
            tuple(self._receipts),
            tuple(self._remembered),
            tuple(dict.fromkeys(self._warnings)),
            stopped,
            sum(self.prefill) if self.prefill else None,
        )
