"""Whatever passes a tree of filters lies within its bounds: so nothing is missed, and nobody else's is looked at."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offprompt.compat.mem0.filters import compile_tree
from offprompt.compat.mem0.marks import run_of
from offprompt.errors import UsageError
from offprompt.records import Memory, Scope, as_dict
from offprompt.service.peers import MARKS

NAMES = st.sampled_from(["a", "小", "*", "b"])
KINDS = st.sampled_from(["user_id", "agent_id", "run_id", "app_id"])
TESTS = st.one_of(
    NAMES,
    st.fixed_dictionaries({"eq": NAMES}),
    st.fixed_dictionaries({"ne": NAMES}),
    st.fixed_dictionaries({"in": st.lists(NAMES, max_size=3)}),
    st.fixed_dictionaries({"nin": st.lists(NAMES, max_size=2)}),
    st.fixed_dictionaries({"contains": NAMES}),
    st.fixed_dictionaries({"in": st.lists(NAMES, min_size=1, max_size=2), "ne": NAMES}),
)
LEAVES = st.one_of(
    st.dictionaries(KINDS, TESTS, min_size=1, max_size=2),
    st.fixed_dictionaries({"topic": st.sampled_from(["tea", "茶"])}),
)


def joined(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Trees of such trees."""
    lists = st.lists(inner, min_size=1, max_size=3)
    return st.dictionaries(st.sampled_from(["AND", "OR", "NOT"]), lists, min_size=1, max_size=1)


TREES: st.SearchStrategy[dict[str, Any]] = st.recursive(LEAVES, joined, max_leaves=8)
IDS = st.none() | NAMES


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    user, agent, run = draw(IDS), draw(IDS), draw(IDS)
    app = draw(IDS)
    scope = Scope(
        user=user, agent=agent, session=run if user is agent is None else None, shared=not (user or agent or run)
    )
    metadata: dict[str, Any] = {"topic": draw(st.sampled_from(["tea", "茶"])), MARKS: {"app_id": app} if app else {}}
    return Memory("m_1", scope, "fact", "x", session=run or "", metadata=metadata)


def passes(operator: str, own: str | None, want: Any) -> bool:
    """What an operator means."""
    if operator in ("in", "nin"):
        return (own in want) == (operator == "in")
    if operator == "contains":
        return own is not None and want in own
    return (own == want) == (operator == "eq")


def naive(tree: dict[str, Any], ids: dict[str, str | None]) -> bool:
    """What the tree means, told without a word of the compiler's."""
    for name, value in tree.items():
        if name in ("AND", "OR", "NOT"):
            found = [naive(one, ids) for one in value]
            fits = {"AND": all(found), "OR": any(found), "NOT": not any(found)}[name]
        else:
            tests = as_dict(value) or {"eq": value}
            fits = all(passes(operator, ids[name], want) for operator, want in tests.items())
        if not fits:
            return False
    return True


@given(tree=TREES, memory=memories())
def test_what_passes_lies_within_a_bound_and_passes_as_the_tree_says(tree: dict[str, Any], memory: Memory) -> None:
    try:
        wanted = compile_tree(tree)
    except UsageError:
        return
    ids = {
        "user_id": memory.scope.user,
        "agent_id": memory.scope.agent,
        "run_id": run_of(memory),
        "app_id": memory.metadata[MARKS].get("app_id"),
        "topic": memory.metadata["topic"],
    }
    fits = wanted.fits(memory)
    assert fits == naive(tree, ids)
    within = any(all(ids[kind] == value for kind, value in bound.items()) for bound in wanted.bounds)
    assert within or not fits
    if wanted.only:
        assert fits == within
    assert all(bound for bound in wanted.bounds)
