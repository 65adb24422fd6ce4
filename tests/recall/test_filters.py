"""Filters over memories."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.errors import UsageError
from offprompt.recall.filters import MAX_DEPTH, MAX_PARTS, OPERATORS, compile_filter
from offprompt.records import Memory, Scope

MEMORY = Memory(
    "m_1",
    Scope(user="alice"),
    "fact",
    "I moved to 上海 in May",
    role="user",
    tags=("home", "VIP"),
    event_at=1_714_521_600.0,  # 2024-05-01
    importance=0.7,
    metadata={"topic": "travel", "year": 2024, "done": True, "place": {"city": "Shanghai"}, "a.b": 1, "list": [1, "x"]},
)


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        (None, True),
        ({}, True),
        ({"topic": "travel"}, True),
        ({"topic": "work"}, False),
        ({"topic": {"eq": "travel"}, "year": {"gte": 2020, "lt": 2024}}, False),
        ({"year": {"gte": 2024, "lte": 2024.0}}, True),
        ({"year": {"gt": 2023}}, True),
        ({"year": {"gt": "2023"}}, False),
        ({"year": {"ne": "2024"}}, True),
        ({"year": {"in": [2023, 2024]}}, True),
        ({"year": {"nin": [2023, 2024]}}, False),
        ({"topic": {"contains": "rav"}}, True),
        ({"topic": {"contains": "RAV"}}, False),
        ({"topic": {"icontains": "RAV"}}, True),
        ({"text": {"contains": "上海"}}, True),
        ({"tags": {"contains": "VIP"}}, True),
        ({"tags": {"icontains": "vip"}}, True),
        ({"tags": "home"}, True),
        ({"list": {"contains": 1}}, True),
        ({"list": {"contains": True}}, False),
        ({"missing": {"exists": False}}, True),
        ({"missing": {"exists": True}}, False),
        ({"missing": {"ne": 1}}, True),
        ({"missing": {"nin": [1]}}, True),
        ({"missing": {"gt": 0}}, False),
        ({"missing": None}, False),
        ({"speaker": ""}, True),
        ({"done": True}, True),
        ({"done": 1}, False),
        ({"place.city": "Shanghai"}, True),
        ({"metadata.topic": "travel"}, True),
        ({"a.b": 1}, True),
        ({"kind": "fact", "role": "user"}, True),
        ({"event_at": {"gte": "2024-05-01", "lt": "2024-06-01T00:00:00+00:00"}}, True),
        ({"event_at": {"lt": 1_714_521_600}}, False),
        ({"importance": {"gte": 0.7}}, True),
        ({"expires_at": {"exists": False}}, True),
        ({"AND": [{"topic": "travel"}, {"year": 2024}]}, True),
        ({"OR": [{"topic": "work"}, {"year": 2024}]}, True),
        ({"OR": []}, False),
        ({"AND": []}, True),
        ({"NOT": {"topic": "work"}}, True),
        ({"NOT": [{"topic": "work"}, {"topic": "travel"}]}, False),
        ({"OR": [{"NOT": {"AND": [{"topic": "travel"}]}}, {"kind": "episode"}]}, False),
    ],
)
def test_a_filter_passes_what_it_says(given: Any, fits: bool) -> None:
    assert compile_filter(given)(MEMORY) is fits


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"year": {"regex": ".*"}}, "'regex' is no operator; the operators are eq, ne"),
        ({"year": {"$gte": 1}}, "is no operator"),
        ({"$or": []}, "AND, OR, NOT"),
        ({"and": []}, "AND, OR, NOT"),
        ({"OR": {"topic": 1}}, "give a list of filters"),
        ({"topic": {}}, "empty object"),
        ({"topic": {"in": "travel"}}, "give a list of values"),
        ({"topic": {"exists": "yes"}}, "give true or false"),
        ({"topic": {"gt": [1]}}, "give a number or a text"),
        ({"event_at": {"gt": "yesterday"}}, "ISO 8601"),
        ("topic=travel", "give an object"),
        ({1: 2}, "names of members are texts"),
        ({"OR": ["topic"]}, r"filters.OR\[0\] is a str"),
    ],
)
def test_a_wrong_filter_is_an_error_that_says_where(given: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        compile_filter(given)


def test_a_filter_may_not_be_nested_without_end() -> None:
    given: Any = {"topic": "travel"}
    for _ in range(MAX_DEPTH + 1):
        given = {"NOT": given}
    with pytest.raises(UsageError, match="write it flatter"):
        compile_filter(given)


@pytest.mark.parametrize(
    "given",
    [
        {f"n{at}": at for at in range(MAX_PARTS + 1)},
        {"n": {"nin": list(range(MAX_PARTS))}},
        {"NOT": [{"话题": at} for at in range(MAX_PARTS // 2 + 1)]},
    ],
    ids=["members", "values", "branches"],
)
def test_a_filter_has_an_end_in_width_too(given: Any) -> None:
    with pytest.raises(UsageError, match="ask for them in parts"):
        compile_filter(given)


def test_a_filter_of_many_values_passes_what_it_names() -> None:
    assert compile_filter({"subject": {"nin": [f"s{at}" for at in range(MAX_PARTS - 2)]}})(MEMORY)


def test_every_operator_is_tried_above() -> None:
    assert set(OPERATORS) == {"eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "contains", "icontains", "exists"}
