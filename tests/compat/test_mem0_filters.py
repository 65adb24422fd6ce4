"""mem0's tree of filters: every branch is bounded, a star is a star, and what passes passes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from offprompt.compat.mem0.filters import MAX_BRANCHES, compile_tree, expiry_of
from offprompt.compat.mem0.marks import MARKS
from offprompt.errors import UsageError
from offprompt.recall.filters import MAX_PARTS
from offprompt.records import Memory, Scope

AT = 1_780_000_000.0
NOTHING: dict[str, Any] = {}


def memory(text: str = "likes tea", *, user: str | None = "alice", run: str = "", **more: Any) -> Memory:
    scope = Scope(user=user, agent=more.pop("agent", None), shared=user is None)
    return Memory("m_1", scope, "fact", text, session=run, created_at=AT, updated_at=AT, **more)


@pytest.mark.parametrize(
    ("tree", "passes"),
    [
        ({"user_id": "alice"}, True),
        ({"user_id": "bob"}, False),
        ({"user_id": {"in": ["bob", "alice"]}}, True),
        ({"AND": [{"user_id": "alice"}, {"NOT": [{"user_id": "alice"}]}]}, False),
        ({"AND": [{"user_id": "alice"}, {"user_id": {"ne": "bob"}}]}, True),
        ({"AND": [{"user_id": "alice"}, {"run_id": "r1"}]}, True),
        ({"user_id": "alice", "run_id": "r2"}, False),
        ({"user_id": "alice", "app_id": "shop"}, True),
        ({"OR": [{"user_id": "bob"}, {"app_id": "shop"}]}, True),
        ({"user_id": "alice", "topic": "tea"}, True),
        ({"user_id": "alice", "metadata": {"topic": "coffee"}}, False),
        ({"user_id": "alice", "n": {"gte": 2, "lt": 4}}, True),
        ({"user_id": "alice", "n": {"nin": [3]}}, False),
        ({"user_id": "alice", "categories": {"contains": "Drinks"}}, True),
        ({"user_id": "alice", "categories": {"in": ["food", "drinks"]}}, True),
        ({"user_id": "alice", "text": {"icontains": "TEA"}}, True),
        ({"user_id": "alice", "keywords": "TEA"}, True),
        ({"user_id": "alice", "keywords": {"contains": "TEA"}}, False),
        ({"user_id": "alice", "keywords": ["茶", "TEA"]}, True),
        ({"user_id": "alice", "keywords": ["茶"]}, False),
        ({"user_id": "alice", "agent_id": {"exists": False}}, True),
        ({"user_id": "alice", "memory_ids": ["m_1", "m_2"]}, True),
        ({"user_id": "alice", "created_at": {"gte": "2026-05-28", "lte": "2026-05-29"}}, True),
        ({"user_id": "alice", "created_at": {"lt": "2026-05-28"}}, False),
        ({"user_id": "alice", "updated_at": {"gt": AT - 1}}, True),
        ({"user_id": "alice", "expiration_date": "2030-01-01"}, True),
        ({"user_id": "alice", "expiration_date": {"lt": "2030-01-01"}}, False),
        ({"user_id": "alice", "expiration_date": {"exists": False}}, False),
    ],
    ids=str,
)
def test_what_passes_a_tree(tree: dict[str, Any], passes: bool) -> None:
    one = memory(
        run="r1",
        tags=("drinks",),
        metadata={"topic": "tea", "n": 3, MARKS: {"app_id": "shop"}},
        expires_at=datetime(2030, 1, 2, tzinfo=UTC).timestamp(),
    )
    assert compile_tree(tree).fits(one) is passes


@pytest.mark.parametrize(
    ("tree", "branch"),
    [
        ({}, "none were given"),
        (None, "none were given"),
        ({"topic": "tea"}, "filters names no user_id"),
        ({"OR": [{"user_id": "alice"}, {"topic": "tea"}]}, "filters.OR[1] names no user_id"),
        ({"OR": [{"user_id": "alice"}, {"AND": [{"a": 1}, {"b": 2}]}]}, "filters.OR[1] names no user_id"),
        ({"AND": [{"OR": [{"user_id": "小明"}, {"主题": "茶"}]}]}, "filters.AND[0].OR[1] names no user_id"),
        ({"NOT": [{"user_id": "alice"}]}, "filters names no user_id"),
        ({"user_id": {"ne": "alice"}}, "filters names no user_id"),
        ({"user_id": {"contains": ""}}, "filters names no user_id"),
        ({"user_id": {"in": []}}, "filters names no user_id"),
    ],
    ids=str,
)
def test_theirs_finds_everybody_where_a_branch_names_nobody_and_ours_refuses(tree: object, branch: str) -> None:
    with pytest.raises(UsageError) as refused:
        compile_tree(tree)
    assert branch in str(refused.value)
    assert "user_id" in str(refused.value)


def test_a_branch_may_be_bounded_from_outside() -> None:
    tree = {"AND": [{"user_id": "alice"}, {"OR": [{"topic": "tea"}, {"topic": "food"}]}]}
    assert compile_tree(tree).bounds == ({"user_id": "alice"},)


def test_a_star_is_a_star_and_no_wildcard() -> None:
    stars = compile_tree({"user_id": "*"})
    assert stars.bounds == ({"user_id": "*"},)
    assert not stars.fits(memory())
    assert stars.fits(memory(user="*"))
    assert not compile_tree({"user_id": "alice", "topic": "*"}).fits(memory(metadata={"topic": "tea"}))


def test_bounds_of_branches_meet_where_both_hold_and_join_where_either_does() -> None:
    both = compile_tree({"AND": [{"OR": [{"user_id": "a"}, {"user_id": "b"}]}, {"agent_id": "x"}]})
    assert both.bounds == ({"user_id": "a", "agent_id": "x"}, {"user_id": "b", "agent_id": "x"})
    assert compile_tree({"AND": [{"user_id": "a"}, {"user_id": "b"}]}).bounds == ()
    assert compile_tree({"user_id": "a", "agent_id": "x"}).only
    assert not compile_tree({"user_id": "a", "topic": "tea"}).only
    assert not compile_tree({"user_id": "a", "run_id": "r"}).only


def test_wide_trees_of_two_sides_keep_the_narrower_side() -> None:
    users = {"OR": [{"user_id": f"u{at}"} for at in range(60)]}
    agents = {"OR": [{"agent_id": f"a{at}"} for at in range(50)]}
    assert len(compile_tree({"AND": [users, agents]}).bounds) == 50


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"user_id": 7}, "filters.user_id is a int"),
        ({"user_id": "a", "OR": {"b": 1}}, "filters.OR is no list"),
        ({"user_id": "a", "OR": []}, "filters.OR is no list"),
        ({"user_id": "a", "AND": ["x"]}, "filters.AND[0] is a str"),
        ({"user_id": "a", "and": []}, "AND, OR, NOT"),
        ({"user_id": "a", "$or": []}, "AND, OR, NOT"),
        ({"user_id": "a", "n": {"like": 1}}, "'like' is no operator"),
        ({"user_id": "a", "metadata": "x"}, "filters.metadata is a str"),
        ({"user_id": "a", "expiration_date": "soon"}, "YYYY-MM-DD"),
        ({"user_id": {"in": ["alice", 7]}}, "filters.user_id.in[1] is a int"),
        ({"user_id": {"eq": 7}}, "filters.user_id.eq is a int"),
        ({"user_id": {"eq": ["alice"]}}, "filters.user_id.eq is a list"),
        ({"user_id": {"in": "alice"}}, "filters.user_id.in is a str"),
        ({"OR": [{"user_id": "小"}, {"run_id": NOTHING}]}, "filters.OR[1].run_id is an empty object"),
        ({"OR": [{"user_id": "小"}, {"user_id": "a", "数": {"in": 5}}]}, "filters.OR[1].数.in is a int"),
        ({"user_id": "a", "metadata": {"n": NOTHING}}, "filters.metadata.n is an empty object"),
        ({"user_id": "a", "created_at": "昨天"}, "filters.created_at is '昨天'"),
        ({"user_id": "a", "expiration_date": "*"}, "YYYY-MM-DD"),
        ({"user_id": "a", "keywords": 5}, "filters.keywords is '5'"),
        ({"user_id": "a", "keywords": []}, "filters.keywords is '[]'"),
        ({"user_id": "a", "NOT": [{"n": at} for at in range(MAX_PARTS)]}, "ask for them in parts"),
        ({"user_id": {"in": [f"u{at}" for at in range(MAX_BRANCHES + 1)]}}, "ids"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_tree_is_refused_with_its_place(tree: object, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        compile_tree(tree)
    assert said in str(refused.value)


def test_many_branches_of_one_id_are_one_bound() -> None:
    tree = {"OR": [{"user_id": "alice", "n": at} for at in range(MAX_BRANCHES + 100)]}
    assert compile_tree(tree).bounds == ({"user_id": "alice"},)


def test_a_tree_of_any_depth_ends() -> None:
    tree: dict[str, Any] = {"user_id": "a"}
    for _ in range(200):
        tree = {"AND": [tree]}
    with pytest.raises(UsageError, match="deep"):
        compile_tree(tree)


def test_ids_are_asked_for_as_they_are_stored() -> None:
    tree = {"OR": [{"user_id": "old"}, {"user_id": {"in": ["old"]}}]}
    wanted = compile_tree(tree, as_stored=lambda kind, value: f"{kind}/{value}")
    assert wanted.fits(memory(user="user_id/old"))
    assert not wanted.fits(memory(user="old"))


def test_a_day_of_expiry_is_the_last_one() -> None:
    assert expiry_of("2030-01-01") == datetime(2030, 1, 2, tzinfo=UTC).timestamp()
    assert expiry_of("2030-01-01T10:00:00+00:00") == datetime(2030, 1, 1, 10, tzinfo=UTC).timestamp()
    assert expiry_of(None) is None
