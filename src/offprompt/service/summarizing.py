"""Summaries of long values, made by a language model and kept beside them as `NAME.summary`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from offprompt.errors import BackendError, BudgetError, UnsupportedError, UsageError
from offprompt.protocols import run
from offprompt.recall.extract.checking import HANDLE
from offprompt.recall.extract.grounding import is_grounded
from offprompt.recall.extract.language import is_kept
from offprompt.recall.extract.prompting import language_of, summary_prompt
from offprompt.records import MAX_NAME_CHARS, Cancel, GetSlot, ListSlots, Scope, Slot, SlotQuery, text_of
from offprompt.service.exporting import secret_hider
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.model_calls import CountedModel
from offprompt.service.slot_writer import SUMMARY, Writer, summary_names
from offprompt.service.slots import Slots

WORDS: Final = 60
ACTOR: Final = "summarize"
RARE_S: Final = 30 * 86400.0
ROOM_TOKENS: Final = 8000
"""Tokens of a value that are given, and no more than half of the model's window; what is longer has no summary."""


@dataclass(frozen=True, slots=True)
class Summarized:
    """What became of one slot: `outcome` `made`, or why there is none: `too long`, `invented`, `language`, `empty`,
    `cut`, `changed` meanwhile, `refused` by the store, `budget`, `trouble`. why: in words, for the last three.
    """

    scope: Scope
    name: str
    outcome: str
    why: str = ""


def summarize(
    kit: MemoryKit, scope: Scope, *, limit: int | None = None, cancel: Cancel | None = None
) -> Iterator[Summarized]:
    """Give the long values of a scope and those below it their summaries, where they have none.

    Long     `summary_tokens` tokens or more, or a quarter of that where it was not used for 30 days; what is secret,
             split, or passes away by itself gets none.
    Kept     only if it is shorter than the value, in its script, and says nothing that the value does not.
    Stays    as long as the value: a new value, forgetting and erasing take it along.
    Yields   each slot that was tried; trouble of the model ends it, a spent budget is one scope's.
    Nothing  if the setting is 0. Cost: O(slots of the scope).
    Raises   UnsupportedError if no model is set for `summarize` or `extract`.
    """
    if not kit.settings.summary_tokens:
        return
    if kit.models is None:
        raise UnsupportedError("this memory was made without models; use offprompt.open with models")
    model, tried = kit.models.needed("summarize"), 0
    spent: set[Scope] = set()
    for slot in run(kit.slots.slots, ListSlots(SlotQuery(scope, "subtree"))):
        if limit is not None and tried >= limit:
            return
        if slot.scope in spent or not _wants(kit, slot):
            continue
        tried += 1
        done = _summarized(kit, model, slot, cancel)
        yield done
        if done.outcome == "trouble":
            return
        spent |= {slot.scope} if done.outcome == "budget" else set()


def _wants(kit: MemoryKit, slot: Slot) -> bool:
    """Whether a summary is to be made of a slot's value."""
    least = kit.settings.summary_tokens
    plain = slot.policy != "never" and not slot.parts and slot.expires_at is None and SUMMARY not in slot.tags
    if not plain or len(slot.name) + len(SUMMARY) >= MAX_NAME_CHARS:
        return False
    free = run(kit.slots.slots, GetSlot(slot.scope, f"{slot.name}.{SUMMARY}")) is None
    rare = kit.clock.now() - max(slot.used_at or 0.0, slot.updated_at) >= RARE_S
    return free and kit.slots.tokenizer.count(text_of(slot.value)) >= (least / 4 if rare else least)


def _summarized(kit: MemoryKit, model: CountedModel, slot: Slot, cancel: Cancel | None) -> Summarized:
    text = kit.redacted(secret_hider(kit, slot.scope)(text_of(slot.value)))[0]
    count = kit.slots.tokenizer.count
    window = model.context_tokens or kit.settings.context_tokens
    if count(text) > min(ROOM_TOKENS, window // 2):
        return Summarized(slot.scope, slot.name, "too long")
    name, system = summary_prompt(kit.settings.language or language_of(text), WORDS)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    try:
        answer = model.complete(slot.scope, messages, max_tokens=WORDS * 4, cancel=cancel)
        summary = kit.redacted(answer.text.strip())[0]
        outcome = _fault(summary, text, count(summary) < count(text), cut=answer.finish != "stop")
        if not outcome:
            outcome = _stored(kit, slot, summary, name)
    except (UsageError, BackendError) as exc:
        kind = "budget" if isinstance(exc, BudgetError) else "refused" if isinstance(exc, UsageError) else "trouble"
        return Summarized(slot.scope, slot.name, kind, str(exc))
    return Summarized(slot.scope, slot.name, outcome)


def _fault(summary: str, text: str, is_shorter: bool, *, cut: bool) -> str:  # noqa: FBT001 - a fact, not a switch
    """Why a summary is not kept; empty if it is."""
    if cut:
        return "cut"
    if not summary or not is_shorter:
        return "empty"
    if not is_kept(summary, text):
        return "language"
    return "invented" if HANDLE in summary or not is_grounded(summary, text, "low") else ""


def _stored(kit: MemoryKit, slot: Slot, summary: str, prompt: str) -> str:
    slots = Slots(kit.slots, slot.scope)
    own = f"{slot.name}.{SUMMARY}"
    writer = Writer("model", slot.trust, ACTOR)
    # What the instructions were, and which version it is of, are said by its tags.
    slots.write_as(writer, own, summary, policy="by_handle", tags=(SUMMARY, prompt, f"of v{slot.version}"))
    now = run(kit.slots.slots, GetSlot(slot.scope, slot.name))
    if now is None or now.version != slot.version:
        for name in summary_names(kit.slots.slots, slot.scope, slot.name):
            slots.erase(name)
        return "changed"
    return "made"
