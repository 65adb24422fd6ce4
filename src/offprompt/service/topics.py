"""What a question asks of somebody, told from the facts that are known: identity is a rule, not a search."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from offprompt.records import Memory
from offprompt.wire.asking import asked_for

USER: Final = "user"

_THEY: Final = r"(?:she|he|they|the (?:user|customer|client)|user)"
_TURNED: Final = (
    (re.compile(rf"\b(?:does|do) {_THEY}\b", re.IGNORECASE), "do i"),
    (re.compile(rf"\b(?:is|are) {_THEY}\b", re.IGNORECASE), "am i"),
    (re.compile(rf"\bwas {_THEY}\b", re.IGNORECASE), "was i"),
    (re.compile(r"\b(?:her|his|their|the user['’]s|user['’]s)\b", re.IGNORECASE), "my"),
    (re.compile(rf"\b{_THEY}\b", re.IGNORECASE), "i"),
    (re.compile(r"她们|他们|她|他|该?用户|客户|对方"), "我"),
)


class Topics:
    """Ids of facts by subject and attribute; kept up to date as memories come and go. O(1) each."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, set[str]]] = {}
        self._named: dict[str, set[str]] = {}

    def add(self, memory: Memory) -> None:
        """Take in a memory; one without an attribute is none of these."""
        if memory.attribute:
            own = self._ids.setdefault(memory.subject, {})
            if memory.subject == memory.speaker.casefold():
                self._named.setdefault(memory.subject, set()).add(memory.memory_id)
            own.setdefault(_base(memory), set()).add(memory.memory_id)

    def remove(self, memory: Memory) -> None:
        """Take a memory out."""
        named = self._named.get(memory.subject, set())
        named.discard(memory.memory_id)
        if not named:
            self._named.pop(memory.subject, None)
        own = self._ids.get(memory.subject, {})
        ids = own.get(_base(memory), set())
        ids.discard(memory.memory_id)
        if not ids:
            own.pop(_base(memory), None)
        if not own:
            self._ids.pop(memory.subject, None)

    def asked(self, question: str) -> Mapping[str, str]:
        """The facts that the question asks for by what they are about, each with why; see `asking.asked_for`.

        "I"      the user; and where all who spoke of themselves by name are one, that one.
        Rule     the same words as for slots, with whom it asks about turned to "I": "where does she live", 他住哪 and
                 "where does Jack live" are "where do I live" of the user, and of Jack.
        Cost     O(subjects named in the question, and their attributes).
        """
        found: dict[str, str] = {}
        for subject, own in self._ids.items():
            text = _turned(question, subject)
            if text is None and [*self._named] == [subject]:
                text = _turned(question, USER)
            if text is None:
                continue
            for attribute, why in asked_for(text, dict.fromkeys(own, ())).items():
                found |= dict.fromkeys(own[attribute], why)
        return found


def _base(memory: Memory) -> str:
    return memory.attribute.partition(":")[0]


def _turned(question: str, subject: str) -> str | None:
    """The question as its subject would ask it; None if it is not about them."""
    if subject == USER:
        for pattern, own in _TURNED:
            question = pattern.sub(own, question)
        return question
    name = re.escape(subject)
    pattern = re.compile(rf"(?<![^\W_]){name}(?:['’]s)?(?![^\W_])" if subject.isascii() else name, re.IGNORECASE)
    if not pattern.search(question):
        return None
    for verb, own in (("does", "do i"), ("do", "do i"), ("is", "am i"), ("was", "was i")):
        question = re.sub(rf"\b{verb} {name}\b", own, question, flags=re.IGNORECASE)
    question = re.sub(rf"{name}['’]s", "my", question, flags=re.IGNORECASE)
    return pattern.sub("我" if not subject.isascii() else "i", question)
