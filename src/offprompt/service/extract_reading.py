"""Turns are read by a language model: what it is given, and what of its answer holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final, Protocol

from offprompt.protocols import Tokenizer
from offprompt.recall.extract import BadAnswerError, Checked, Known, Line, Prompt, check, read_decisions, schema_of
from offprompt.recall.extract.prompting import language_of, prompt_for
from offprompt.recall.extract.records import Decision, Strictness
from offprompt.records import Cancel, Completion, Memory, Scope
from offprompt.service.exporting import secret_hider
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.memory_recall import Asked, Recaller
from offprompt.wire.answered import read_answer

KNOWN_PER_TURN: Final = 5
MAX_KNOWN: Final = 24
QUERY_CHARS: Final = 500
ROOM_TOKENS: Final = 4000
"""Tokens of turns in one call, and no more than a third of the model's window."""

ANSWER_TOKENS: Final = 256
TURN_ANSWER_TOKENS: Final = 160


class Reader(Protocol):
    """A language model that reads turns; its tokens are counted and its budget is kept."""

    @property
    def name(self) -> str:
        """The model, as its provider calls it."""
        ...

    @property
    def context_tokens(self) -> int:
        """Its window; 0: not known."""
        ...

    def complete(
        self,
        scope: Scope,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any],
        max_tokens: int,
        cancel: Cancel | None = None,
    ) -> Completion:
        """One answer, see `ChatModel.complete`; the tokens are the scope's.

        Raises   as there; BudgetError where the scope's budget of the day is spent.
        """
        ...


class UnusableError(Exception):
    """The model gave no answer of use, not even to the second try; the message says why.

    unfounded   it was an answer, and its turns carry nothing of it.
    """

    def __init__(self, why: str, *, unfounded: bool = False) -> None:
        self.why, self.unfounded = why, unfounded
        super().__init__(why)


class _UnfoundedError(BadAnswerError):
    """An answer of which its turns carry nothing."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the application adds to the instructions."""

    strictness: Strictness = "normal"
    categories: tuple[str, ...] = ()
    instructions: str = ""


@dataclass(slots=True)
class Tally:
    """Calls and tokens of a run, with the provider's own counts."""

    calls: int = 0
    input: int = 0
    output: int = 0

    def add(self, completion: Completion) -> None:
        """Count an answer."""
        self.calls += 1
        self.input += completion.usage.input or 0
        self.output += completion.usage.output or 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Turns of one scope that are read in one call, and the facts near them; both are numbered from 1, in order.

    again   they were read once, and the answer passed them over.
    """

    turns: tuple[Memory, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """A batch as it was read."""

    batch: Batch
    known: tuple[Memory, ...]
    prompt: Prompt
    checked: Checked
    malformed: int

    @property
    def named(self) -> tuple[Memory, ...]:
        """The turns that the answer names."""
        return tuple(turn for number, turn in enumerate(self.batch.turns, 1) if number in self.checked.named)

    @property
    def unnamed(self) -> tuple[Memory, ...]:
        """Those that it passed over."""
        return tuple(turn for number, turn in enumerate(self.batch.turns, 1) if number not in self.checked.named)


@dataclass(slots=True)
class BatchReader:
    """Reads batches of one scope.

    before   by the id of a turn what the assistant said right before it.
    Given    neither secrets nor what was redacted: values of `never` slots are handles, and a decision that holds one
             is dropped. Facts are those of exactly the scope: nothing else may be changed.
    """

    kit: MemoryKit
    scope: Scope
    reader: Reader
    rules: Rules
    before: Mapping[str, str]
    tally: Tally = field(default_factory=Tally)
    clipped: int = 0
    _hide: Callable[[str], str] | None = None

    def room(self) -> int:
        """Tokens that the turns of a call may take."""
        window = self.reader.context_tokens or self.kit.settings.context_tokens
        return max(min(ROOM_TOKENS, window // 3), 1)

    def read(self, batch: Batch, cancel: Cancel | None) -> Read:
        """The answer about a batch, checked.

        Cost     a recall for each turn, and one call of the model, or two.
        Raises   UnusableError; as `Reader.complete`.
        """
        known = self._near(batch.turns)
        lines = [self._line(number, turn) for number, turn in enumerate(batch.turns, 1)]
        facts = [self._known(number, fact) for number, fact in enumerate(known, 1)]
        own = self.rules
        prompt = prompt_for(
            self.kit.settings.language or language_of("\n".join(line.text for line in lines)),
            strictness=own.strictness,
            categories=own.categories,
            instructions=own.instructions,
        )
        messages = prompt.messages(lines, facts, zone=UTC)
        answer = self._ask(messages, lines, facts, cancel)
        try:
            checked, malformed = self._checked(answer, lines, facts)
        except BadAnswerError as exc:
            if answer.finish == "length" and len(lines) > 1:
                raise UnusableError(str(exc)) from exc
            answer = self._ask(prompt.once_more(messages, answer.text, str(exc)), lines, facts, cancel)
            try:
                checked, malformed = self._checked(answer, lines, facts)
            except BadAnswerError as again:
                raise UnusableError(str(again), unfounded=isinstance(again, _UnfoundedError)) from again
        return Read(batch, known, prompt, checked, malformed)

    def _ask(
        self,
        messages: Sequence[Mapping[str, str]],
        lines: Sequence[Line],
        known: Sequence[Known],
        cancel: Cancel | None,
    ) -> Completion:
        completion = self.reader.complete(
            self.scope,
            messages,
            schema=schema_of(len(lines), len(known), self.rules.categories),
            max_tokens=ANSWER_TOKENS + TURN_ANSWER_TOKENS * len(lines),
            cancel=cancel,
        )
        self.tally.add(completion)
        return completion

    def _checked(self, answer: Completion, lines: Sequence[Line], known: Sequence[Known]) -> tuple[Checked, int]:
        """The decisions in an answer, checked, and how many of its parts are none.

        Raises   BadAnswerError where nothing in it holds: it is no answer, it was cut, or each decision was dropped.
        """
        if answer.finish in ("length", "cut"):
            raise BadAnswerError("it was cut off before its end; answer shorter")
        if answer.finish == "refused":
            raise BadAnswerError("the provider's filter held it back")
        found = answer.data if answer.data is not None else read_answer(answer.text)
        if isinstance(found, str):
            raise BadAnswerError(found)
        decisions, malformed = read_decisions(found, len(lines))
        checked = check(decisions, lines, known, strictness=self.rules.strictness, categories=self.rules.categories)
        is_none = any(one.action == "NONE" for one in decisions if _is_kept(one, checked))
        if not checked.accepted and not is_none:
            raise _UnfoundedError(f"none of its decisions holds: {reasons(checked)}")
        return checked, malformed

    def _near(self, turns: Sequence[Memory]) -> tuple[Memory, ...]:
        """The facts of the scope that lie near the turns, the nearest first."""
        recaller = Recaller(self.kit, self.scope)
        found: dict[str, Memory] = {}
        for turn in turns:
            asked = Asked(query=turn.text[:QUERY_CHARS], top_k=KNOWN_PER_TURN, within="exact", kinds=("fact",))
            found |= {hit.memory_id: hit.memory for hit in recaller.recall(asked)}
        return tuple(found.values())[:MAX_KNOWN]

    def _line(self, number: int, turn: Memory) -> Line:
        tokenizer: Tokenizer = self.kit.slots.tokenizer
        text = self._hidden(turn.text)
        clipped = tokenizer.clip(text, self.room())
        self.clipped += clipped != text
        before = self._hidden(self.before.get(turn.memory_id, ""))
        return Line(number, clipped, turn.happened_at, turn.speaker, before, turn.trust)

    def _known(self, number: int, fact: Memory) -> Known:
        about = fact.subject or str(fact.metadata.get(ABOUT, ""))
        return Known(number, self._hidden(fact.text), fact.happened_at, about, fact.trust)

    def _hidden(self, text: str) -> str:
        if self._hide is None:
            self._hide = secret_hider(self.kit, self.scope)
        return self._hide(text)


ABOUT: Final = "about"
"""The member of a fact's metadata that says whom a model says that it is about."""


def reasons(checked: Checked) -> str:
    """Why decisions were dropped, with how many, in words; empty if none was."""
    return ", ".join(f"{why} {count}" for why, count in Counter(why for _, why in checked.dropped).most_common())


def _is_kept(decision: Decision, checked: Checked) -> bool:
    return all(decision is not one for one, _ in checked.dropped)
