"""A real small model reads turns: what it gets right is printed; what is asserted holds whatever it says."""

from __future__ import annotations

from typing import Any

import offprompt
from offprompt.records import PENDING
from offprompt.service.checkup import checkup
from offprompt.service.consolidating import consolidate, waits
from offprompt.service.memory_kit import MemoryKit
from tests.servers import Server, openai_url

SAID = (
    "My name is Margarethe and I live in Oslo.",
    "I am allergic to hazelnuts.",
    "What is the weather like?",
    "Next month I start a job at the harbour office.",
    "我喜欢喝乌龙茶。",
    "Thanks, that is all for today.",
)


def test_nothing_that_it_says_is_stored_unless_its_turns_carry_it(small_model: Server, record_property: Any) -> None:
    model = offprompt.chat_model("smollm2", base_url=openai_url(small_model), timeout_s=120, retries=0)
    with offprompt.open(":memory:", models={"extract": model}, derive="model", extract_turns=1, embedder="none") as mem:
        ann = mem.scope(user="ann", session="s1")
        ann.remember([{"role": "user", "content": text} for text in SAID], derive="none")
        kit: MemoryKit = mem.parts.memories.kit
        (found,) = consolidate(kit, limit=1)
        facts = ann.memories.list(kinds=["fact"]).memories
        told = {"read": found.read, "pending": found.pending, "waiting": found.waiting, "dropped": dict(found.dropped)}
        told |= {"calls": found.calls, "tokens": found.input_tokens + found.output_tokens, "stopped": found.stopped}
        told |= {"facts": [fact.text for fact in facts]}
        record_property("small model", str(told))
        print(f"\nthe small model: {told}")
        assert found.calls >= 1
        assert found.input_tokens > 0
        turns = {turn.memory_id: turn for turn in ann.memories.list(kinds=["episode"])}
        assert len(turns) == len(SAID)
        for fact in facts:
            assert fact.quote
            assert fact.quote in turns[fact.source_id].text
            assert turns[fact.source_id].extracted == fact.rule
        marks = [turn.extracted for turn in turns.values()]
        left = waits(mem.parts.main)
        assert (left.waiting, left.pending) == (marks.count(""), marks.count(PENDING))
        assert found.read + found.pending + found.waiting == len(SAID)
        assert checkup(mem.parts).is_sound
        place = next(one for one in mem.parts.sessions.sessions() if str(one.scope.session).startswith("@models/"))
        assert len(mem.parts.sessions.ledger(place.scope)) == found.calls
