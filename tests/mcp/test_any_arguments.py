"""Whatever a model hands in is answered: nothing unexpected is raised, and no answer is over 2,000 tokens."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.models.tokenizers import tokenizer_for
from offprompt.service.model_answers import MAX_TOKENS
from offprompt.service.model_doors import StoreDoor
from offprompt.service.model_memory import ModelMemory
from offprompt.service.model_tools import ALIASES, TOOLS, Tools

count = tokenizer_for().count
NAMES = ["city", "城市", "m_01m8q0tjxxtq6aptaspsnqxad4", "[[mem:city]]", "", " ", "a.b", "x" * 65, "m_", "\u202e"]
TEXTS = st.one_of(st.sampled_from(NAMES), st.text(max_size=40), st.text(st.characters(), min_size=1, max_size=3))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["name", "value", "query", "cursor", "if_version", *ALIASES, "scope"]), VALUES, max_size=3
)
CALLS = st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), ARGUMENTS), min_size=1, max_size=6)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@settings(max_examples=150)
@given(CALLS)
@example([("mem_write", {"value": "\ud800"}), ("mem_list", {})])
@example([("mem_write", {"value": "\ud800", "name": "x"}), ("mem_read", {"name": "\ud800"})])
@example([("mem_write", {"value": nested(3000), "name": "x"}), ("mem_read", {"name": "x"})])
@example([("mem_write", {"value": "\x00", "name": "x"}), ("mem_read", {"name": "x"})])
@example([("mem_write", {"value": "\x00"}), ("mem_search", {"query": "\x00"}), ("mem_search", {"query": "\ud800"})])
@example([("mem_list", {"cursor": "m_"}), ("mem_list", {"cursor": "\ud800"}), ("mem_read", {"name": "m_\ud800"})])
@example([("mem_write", {"value": "x", "name": "x", "if_version": 10**30}), ("mem_forget", {"name": "x"})])
@example([("mem_write", {"value": "x", "name": "x", "if_version": -1}), ("mem_read", {"name": "x", "cursor": "1-1"})])
def test_any_call_is_answered(calls: list[tuple[str, dict[str, Any]]]) -> None:
    with offprompt.open(":memory:", embedder="none") as memory:
        own = ModelMemory(StoreDoor(memory.parts, memory.scope(user="alice")))
        tools = Tools(memory.parts.tokenizer)
        for name, arguments in calls:
            answer = tools.call(own, TOOLS[name], arguments)
            assert answer.text
            assert answer.is_error == (not answer.data)
            told = json.dumps([answer.text, answer.data], ensure_ascii=False, separators=(",", ":"))
            assert count(told.encode().decode()) <= MAX_TOKENS
