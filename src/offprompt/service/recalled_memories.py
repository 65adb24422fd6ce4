"""Memories that come back by themselves: for one turn, where the user asks for something told in another session."""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

from offprompt.errors import OffpromptError
from offprompt.recall.telling import telling_words, words_with
from offprompt.recall.text import snippet
from offprompt.records import Hit as MemoryHit
from offprompt.records import Known, Memory
from offprompt.service.memory_search import ID_CHARS, has_memories
from offprompt.service.recalling import FEW_WORDS, LINE_TOKENS, Hit, Question
from offprompt.service.session_kit import date_of
from offprompt.service.slots import Slots
from offprompt.service.turn import Turn
from offprompt.wire.head import memory_source
from offprompt.wire.referring import asks_of_oneself, asks_what_is_known, is_question

log = logging.getLogger("offprompt")

FLOOR: Final = 0.4
"""Evidence from which a memory comes back."""

ASKED: Final = "asked"
"""The part of a hit's score that says: it is asked for by what it is about."""

MAX_PASSAGES: Final = 3
NEAR_BEST: Final = 0.6
"""Memories with less than this part of the best one's evidence stay away."""


@dataclass(frozen=True, slots=True)
class MemoryRecaller:
    """Finds the memories that a turn's newest user message asks for.

    Property B   only a question that concerns the user, or words that refer back, bring anything; and nothing of what
                 the request still holds.
    Trouble      no hits, and a warning: the request goes out.
    """

    turn: Turn

    def hits(self, question: Question, text: str, before: str, held: Set[str]) -> list[tuple[Hit, Memory | None]]:
        """The hits with their memories, best first.

        text     the user's own words, read with those of the turn before where they tell too little alone.
        held     journal keys, shortened, of the messages that the request holds or that come back already.
        """
        asks = question.back or question.wishes or asks_of_oneself(text)
        wants_all = asks_what_is_known(text)
        tells = bool(question.own or (question.terms and question.back))
        try:
            if wants_all:
                return self._all_known()
            found = self._found(text, before, held) if asks and tells and has_memories(self.turn) else []
            if self.turn.kit.spaces and question.own and (asks or is_question(text)):
                found += self._passages(text)
        except OffpromptError as exc:
            log.warning("nothing was recalled in session %r: %s", self.turn.scope.session, exc)
            self.turn.warnings.append(f"memories were not searched for this turn: {exc}")
            return []
        return [(self._hit(one, question), one.memory) for one in found]

    def _all_known(self) -> list[tuple[Hit, Memory | None]]:
        """What is known of the user beside what is in view: pinned first, then the newest; secrets are not told."""
        from offprompt.service.known import known  # noqa: PLC0415 - loads NumPy

        turn, scope = self.turn, self.turn.scope.without_session()
        seen = {*turn.in_view, *(each.name for each in turn.shown)}
        memories = turn.kit.memories.of(scope)
        found = [one for one in known(Slots(turn.kit.slot_kit, scope), memories) if one.text and one.name not in seen]
        if (purposes := turn.kit.purposes) is not None:
            found = [one for one in found if not one.purpose or not purposes.isdisjoint(one.purpose.split(","))]
        return [(self._line(one), None) for one in found]

    def _line(self, one: Known) -> Hit:
        text = self.turn.scrubber.hide(self.turn.without_forgotten(one.text))
        part = snippet(text if one.kind == "fact" else f"{one.name}: {text}", "", max_tokens=LINE_TOKENS)
        source = memory_source(one.source, self.turn.language)
        return Hit(one.name, part, source, date_of(one.at), 1.0, one.trust == "tool")

    def _found(self, text: str, before: str, held: Set[str]) -> list[MemoryHit]:
        from offprompt.service.memory_purposes import usable  # noqa: PLC0415
        from offprompt.service.memory_recall import Asked, Recaller  # noqa: PLC0415 - loads NumPy

        asked = f"{before}\n{text}" if before and telling_words(text) < FEW_WORDS else text
        recaller = Recaller(self.turn.kit.memories.kit, self.turn.scope.without_session())
        purposes = self.turn.kit.purposes
        recalled = recaller.recall(Asked(asked, filters=None if purposes is None else usable(purposes), floor=FLOOR))
        if recalled.degraded:
            self.turn.warnings.append(f"recall is degraded: {recalled.degraded}")
        fresh = [one for one in recalled if _tells(one.memory, held)]
        if not asks_of_oneself(text):
            # What a fact is about, words that only refer back may name by chance.
            fresh = [one for one in fresh if ASKED not in one.parts]
        best = max((one.parts["evidence"] for one in fresh if ASKED not in one.parts), default=0.0)
        return _without_facts([one for one in fresh if ASKED in one.parts or one.parts["evidence"] >= NEAR_BEST * best])

    def _passages(self, text: str) -> list[MemoryHit]:
        """What documents of the session's spaces say about a question."""
        from offprompt.service.memory_recall import Asked  # noqa: PLC0415 - loads NumPy
        from offprompt.service.space_recall import granted_spaces, passages_in  # noqa: PLC0415

        kit, scope = self.turn.kit.memories.kit, self.turn.scope.without_session()
        granted, lacking = granted_spaces(kit, scope, self.turn.kit.actor, self.turn.kit.spaces)
        recalled = passages_in(kit, granted, Asked(text, top_k=MAX_PASSAGES, kinds=("passage",), floor=FLOOR))
        for why in (recalled.degraded, lacking):
            if why:
                self.turn.warnings.append(f"recall is degraded: {why}")
        best = max((one.parts["evidence"] for one in recalled), default=0.0)
        return [one for one in recalled if one.parts["evidence"] >= NEAR_BEST * best]

    def _hit(self, found: MemoryHit, question: Question) -> Hit:
        memory, turn = found.memory, self.turn
        text = turn.scrubber.hide(turn.without_forgotten(memory.text))
        part = snippet(text, words_with(text, set(question.terms)), max_tokens=LINE_TOKENS)
        source = memory_source(memory.role or memory.source, turn.language)
        source = source if found.citation is None else turn.scrubber.hide(str(found.citation))
        foreign = memory.trust == "tool"
        return Hit(memory.memory_id, part, source, date_of(memory.happened_at), found.score, foreign)


def _tells(memory: Memory, held: Set[str]) -> bool:
    """Whether a memory may come back: it stands nowhere else in the request, and is no question itself."""
    asks = memory.kind == "episode" and memory.role == "user" and is_question(memory.text)
    return not asks and str(memory.metadata.get("message", "")) not in held


def _without_facts(found: Sequence[MemoryHit]) -> list[MemoryHit]:
    """The hits without facts whose turn is among them: it says the same in the user's words."""
    ids = {one.memory_id for one in found}
    return [one for one in found if one.memory.source_id not in ids]


def message_places(keys: Sequence[str]) -> frozenset[str]:
    """Journal keys as memories name them."""
    return frozenset(key[:ID_CHARS] for key in keys)
