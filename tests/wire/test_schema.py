"""Schemas of slots: what is none is said before a value is stored, nothing is fetched, every check ends."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from offprompt.errors import SchemaError, UsageError
from offprompt.records import Json
from offprompt.wire import _json_schema
from offprompt.wire.schema import check_schema

DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]
SAID = "hunter-two-4711"


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


FITTING: list[tuple[Json, Mapping[str, Any]]] = [
    ("v", {}),
    ("v", {"type": "string", "pattern": "^v$"}),
    ("杭州", {"enum": ["杭州", "上海"]}),
    ({"a": 1}, {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}),
    ([[[]]], {"$id": "https://a.example/tree", "type": "array", "items": {"$ref": "#"}}),
    ([[1]], {"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}, "type": ["array", "integer"]}),
    ({"a": 1}, {"$ref": "https://json-schema.org/draft/2020-12/schema"}),
    ({"x1": 1}, {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}),
    ({"x": 1}, {"additionalProperties": {"type": "integer"}}),
    ("a", {"$ref": "b", "$id": "https://a.example/a", "$defs": {"b": {"$id": "b", "const": "a"}}}),
    ("v", MappingProxyType({"type": "string"})),
    (5, {"if": {"type": "string"}, "then": {"maxLength": 2}, "else": {"$ref": "#/$defs/n"}, "$defs": {"n": True}}),
]


@pytest.mark.parametrize(("value", "schema"), FITTING)
def test_a_value_that_fits_is_taken(value: Json, schema: Mapping[str, Any]) -> None:
    check_schema("x", value, schema)


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_draft_is_served(draft: str) -> None:
    schema = {"$schema": draft, "definitions": {"n": {"type": "integer"}}, "items": {"$ref": "#/definitions/n"}}
    check_schema("x", [1, 2], schema)
    with pytest.raises(SchemaError, match="at /1: it must satisfy type 'integer'"):
        check_schema("x", [1, "no"], schema)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            {"$ref": "http://127.0.0.1:9/s.json"},
            "refers to 'http://127.0.0.1:9/s.json', which is not in it; nothing is",
        ),
        ({"$ref": "file:///etc/hostname"}, "nothing is fetched"),
        ({"$schema": "http://127.0.0.1:9/meta"}, r"names 'http://127.0.0.1:9/meta' as its \$schema"),
        ({"$schema": 5}, r"names '5' as its \$schema"),
        ({"if": {"const": "boom"}, "then": {"$ref": "#/$defs/none"}}, "refers to '#/\\$defs/none'"),
        ({"properties": {"a": {"$dynamicRef": "#none"}}}, "refers to '#none'"),
        ({"properties": {"a": {"$ref": "#/enum/0"}}, "enum": [5]}, "which is no schema"),
        ({"properties": {"a": {"$ref": "#/x"}}, "x": {"type": 5}}, "is not a JSON Schema"),
        ({"properties": {"a": {"$ref": "#/x"}}, "x": {"pattern": "("}}, "not a JSON Schema|pattern that is none"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#"}}}}, "to itself without end"),
        ({"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}]}}}, "to itself without end"),
        ({"$dynamicAnchor": "n", "anyOf": [{"$dynamicRef": "#n"}]}, "to itself without end"),
        ({"type": "no such type"}, "is not a JSON Schema"),
        ({"pattern": "("}, "is not a JSON Schema|pattern that is none"),
        ({"patternProperties": {"[": {}}}, "is not a JSON Schema|pattern that is none"),
        ({"properties": {"a": {"$schema": DRAFTS[2]}}}, r"has a \$schema inside"),
        ({"unevaluatedProperties": False, "patternProperties": {"a": {}}}, "use additionalProperties"),
        ({"$id": "http://[", "$ref": "x"}, "refers to|identifier"),
        ({"const": float("nan")}, "is not JSON"),
        ({"const": {1, 2}}, "is not JSON"),
        ({"const": "\ud800"}, "is not JSON"),
        ("text", "is a str"),
        ([], "is a list"),
        (True, "is a bool"),
        (None, "is a NoneType"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_whatever_the_value(schema: Any, said: str) -> None:
    for value in ("v", {"b": 1}, 5):
        with pytest.raises(UsageError, match=said) as caught:
            check_schema("x", value, schema)
        assert not isinstance(caught.value, SchemaError)


def test_a_schema_nested_beyond_reason_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(3000):
        schema = {"not": schema}
    with pytest.raises(UsageError):
        check_schema("x", "v", schema)
    with pytest.raises(UsageError):
        check_schema("x", "v", {"pattern": "(" * 5000 + ")" * 5000})


ENDED = r"takes more than 0\.2 s|it must satisfy"
BOMBS = [r"^(a+)+$", r"^(a|a)*$", r"^(\w+\s?)*$", r"(a*)*b", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"a*a*a*a*a*b"]


@pytest.mark.parametrize("pattern", BOMBS)
def test_a_pattern_that_explodes_on_a_value_is_stopped(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_schema, "MAX_SECONDS", 0.2)
    value = "a" * 4000 + "!"
    for schema in ({"pattern": pattern}, {"items": {"pattern": pattern}}, {"propertyNames": {"pattern": pattern}}):
        given: Json = value if "pattern" in schema else [value] if "items" in schema else {value: 1}
        with pytest.raises(UsageError, match=ENDED) as caught:
            check_schema("x", given, schema)
        assert "aaaaaaaaaaaa" not in str(caught.value)
    for rest in ({}, {"additionalProperties": False}):
        with pytest.raises(UsageError, match=ENDED):
            check_schema("x", {value: 1}, {"patternProperties": {pattern: False}, "required": ["b"], **rest})


def test_a_schema_that_doubles_at_each_step_is_stopped() -> None:
    inner: Json = 1
    for _ in range(60):
        inner = {"a": inner}
    with pytest.raises(UsageError, match="more than 100,000 steps"):
        check_schema("x", inner, {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}})


def test_a_value_deeper_or_larger_than_can_be_checked_is_an_error_of_ours() -> None:
    deep: Json = 1
    for _ in range(900):
        deep = [deep]
    with pytest.raises(UsageError):
        check_schema("x", deep, {"items": {"$ref": "#"}})
    with pytest.raises(UsageError):
        check_schema("x", 10**400, {"multipleOf": 0.1})


@pytest.mark.parametrize(
    ("value", "schema", "where", "rule"),
    [
        (SAID, {"type": "integer"}, "/", "type 'integer'"),
        (SAID, {"maxLength": 3}, "/", "maxLength 3"),
        (SAID, {"pattern": "^[a-z]+$"}, "/", "pattern"),
        ({"a": {"b": SAID}}, {"properties": {"a": {"properties": {"b": {"type": "null"}}}}}, "/a/b", "type 'null'"),
        ({SAID: 1}, {"additionalProperties": False}, "/", "additionalProperties False"),
        ({SAID: 1}, {"additionalProperties": {"type": "null"}}, "/*", "type 'null'"),
        (
            {"a": [0, {SAID: 1}]},
            {"properties": {"a": {"items": {"patternProperties": {"": {"type": "null"}}}}}},
            "/a/1/*",
            "type 'null'",
        ),
        ({SAID: 1}, {"propertyNames": {"maxLength": 2}}, "/", "maxLength 2"),
        ([SAID, SAID], {"uniqueItems": True}, "/", "uniqueItems True"),
        (SAID, {"anyOf": [{"const": 1}, {"const": 2}]}, "/", "anyOf"),
    ],
)
def test_what_is_broken_is_said_without_the_value(value: Json, schema: dict[str, Any], where: str, rule: str) -> None:
    with pytest.raises(SchemaError) as caught:
        check_schema("x", value, schema)
    assert caught.value.path == where
    assert rule in str(caught.value)
    assert SAID not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_the_same_schema_is_checked_anew_for_each_value() -> None:
    schema = {"type": "array", "items": {"pattern": "^a+$"}}
    for count in (1, 500, 900):
        check_schema("x", ["aaa"] * count, schema)
