"""JSON Schemas made ready: nothing is fetched, every fault is found before a value is, no check runs without end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias, cast

import regex
from jsonschema import SchemaError, ValidationError
from jsonschema import validators as drafts
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs]
from referencing import Registry, Resource, Specification
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaRegistry, specification_with

from offprompt.records import Json, as_dict, as_list

MAX_STEPS: Final = 100_000
"""Rules applied in one check; a schema of 100 rules on a value of 4 KB takes some thousands."""

MAX_SECONDS: Final = 1.0
"""Of all patterns of one check together."""

Rule: TypeAlias = Callable[[Any, Any, Any, Any], "Iterator[ValidationError] | None"]

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# What is applied to the same value again: a circle of these never ends.
_SAME_VALUE: Final = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
# The library matches the patterns beside these by itself, where nothing guards them.
_UNGUARDED: Final = "unevaluatedProperties"


class SchemaFaultError(ValueError):
    """What is wrong with a schema, as the end of a sentence."""


class EndlessError(ValueError):
    """A check of a value that would take too long; the same."""


@dataclass(slots=True)
class _Work:
    steps: int
    ends: float


_work: ContextVar[_Work] = ContextVar("work")


def broken_rule(schema: Validator, value: Json) -> ValidationError | None:
    """The first rule, by its place, that the value breaks.

    Raises   EndlessError if the check takes too many steps, or its patterns too long.
    """
    token = _work.set(_Work(MAX_STEPS, time.monotonic() + MAX_SECONDS))
    try:
        errors = list(schema.iter_errors(value))
    except RecursionError as exc:
        raise EndlessError("it applies to itself without end, or the value is nested too deeply") from exc
    except ArithmeticError as exc:
        raise EndlessError("a number in the value is too large for its rules") from exc
    finally:
        _work.reset(token)
    return min(errors, key=lambda error: [str(step) for step in error.absolute_path], default=None)


@lru_cache(maxsize=64)
def ready_schema(text: str) -> Validator:
    """The schema that a JSON text is, ready to check values.

    Raises   SchemaFaultError if it is none, refers to what is not in it, or to itself without end, or holds patterns
             that are none.
    """
    schema = as_dict(json.loads(text))
    if schema is None:
        raise SchemaFaultError("is not an object")
    draft = schema.get("$schema")
    kind = drafts.validator_for(schema, default=cast("Any", None)) if draft is None or isinstance(draft, str) else None
    if draft is None:
        kind = drafts.validator_for({})
    if kind is None:
        raise SchemaFaultError(f"names {str(draft)[:80]!r} as its $schema, which is not known")
    try:
        kind.check_schema(schema)
        specification = specification_with(draft) if draft is not None else DRAFT202012
        _look_through(schema, kind, specification)
    except SchemaError as exc:
        raise SchemaFaultError(f"is not a JSON Schema: {exc.message}") from exc
    except RecursionError as exc:
        raise SchemaFaultError("is nested too deeply") from exc
    return _guarded(kind)(schema, registry=cast("Any", _nothing_fetched()))


def _refuse(uri: str) -> Resource[Any]:
    raise NoSuchResource(ref=uri)


def _nothing_fetched() -> SchemaRegistry:
    return Registry(retrieve=_refuse)


def _look_through(schema: dict[str, Any], kind: type[Validator], specification: Specification[Any]) -> None:
    """Nothing, if all that the schema holds and refers to can be used.

    Raises   SchemaFaultError, SchemaError.
    """
    root = specification.create_resource(schema)
    try:
        resolver = REGISTRY.combine(_nothing_fetched()).resolver_with_root(root)
    except ValueError as exc:
        raise SchemaFaultError(f"has an identifier that is none: {exc}") from exc
    waiting = [(cast("object", schema), resolver)]
    steps: dict[int, list[int]] = {}
    keywords: set[str] = set()
    while waiting:
        found, resolver = waiting.pop()
        part = as_dict(found)
        if part is None or id(part) in steps:
            continue
        if "$schema" in part and part is not schema:
            raise SchemaFaultError("has a $schema inside; give it once, at the top")
        keywords |= part.keys()
        _check_patterns(part)
        steps[id(part)] = [id(each) for each in _same_value(part)]
        for key in _REFERENCES:
            if key in part:
                target = _target(resolver, part[key])
                if target is not None:
                    kind.check_schema(target.contents)
                    steps[id(part)].append(id(target.contents))
                    waiting.append((target.contents, target.resolver))
        inner = specification.create_resource(part).subresources()
        waiting += [(each.contents, resolver.in_subresource(each)) for each in inner]
    if _UNGUARDED in keywords and "patternProperties" in keywords:
        raise SchemaFaultError(f"has {_UNGUARDED} and patternProperties; use additionalProperties with the patterns")
    if _has_circle(steps):
        raise SchemaFaultError("refers to itself without end")


def _target(resolver: Any, reference: object) -> Any:
    """What a reference leads to, looked up; None for one of the drafts themselves.

    Raises   SchemaFaultError if it is not there.
    """
    try:
        target = resolver.lookup(reference)
    except (Unresolvable, ValueError, LookupError, TypeError, AttributeError) as exc:
        raise SchemaFaultError(f"refers to {str(reference)[:80]!r}, which is not in it; nothing is fetched") from exc
    contents = target.contents
    own = as_dict(contents)
    if own is None and not isinstance(contents, bool):
        raise SchemaFaultError(f"refers to {str(reference)[:80]!r}, which is no schema")
    name = str((own or {}).get("$id") or (own or {}).get("id") or "")
    return None if name and name in REGISTRY and REGISTRY.contents(name) == contents else target


def _same_value(part: dict[str, Any]) -> list[object]:
    found: list[object] = []
    for key in _SAME_VALUE:
        inner = part.get(key)
        members = as_dict(inner)
        found += as_list(inner) or (list(members.values()) if members and key.startswith("dep") else [inner])
    return [each for each in found if isinstance(each, dict)]


def _has_circle(steps: Mapping[int, list[int]]) -> bool:
    done: set[int] = set()
    for start in steps:
        path: dict[int, Iterator[int]] = {start: iter(steps[start])}
        while path:
            here, onward = next(reversed(path.items()))
            there = next(onward, None)
            if there is None:
                del path[here]
                done.add(here)
            elif there in path:
                return True
            elif there in steps and there not in done:
                path[there] = iter(steps[there])
    return False


def _check_patterns(part: dict[str, Any]) -> None:
    named = [*(as_dict(part.get("patternProperties")) or {}), part.get("pattern")]
    for pattern in named:
        if isinstance(pattern, str):
            try:
                regex.compile(pattern)
            except regex.error as exc:
                raise SchemaFaultError(f"has a pattern that is none, {pattern[:80]!r}: {exc}") from exc


@cache
def _guarded(kind: type[Validator]) -> type[Validator]:
    """The draft's rules, counted, its patterns with an end."""
    rules = cast("Mapping[str, Rule]", kind.VALIDATORS)
    own: dict[str, Rule] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    chosen = {**rules, **{name: rule for name, rule in own.items() if name in rules}}
    extend: Callable[..., type[Validator]] = cast("Any", drafts).extend
    return extend(kind, validators={name: _counted(rule) for name, rule in chosen.items()})


def _counted(rule: Rule) -> Rule:
    def counted(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError] | None:
        work = _work.get()
        work.steps -= 1
        if work.steps < 0:
            raise EndlessError(f"it takes more than {MAX_STEPS:,} steps on the value")
        return rule(validator, wanted, instance, schema)

    return counted


def _matches(pattern: str, text: str) -> bool:
    left = _work.get().ends - time.monotonic()
    try:
        return regex.search(pattern, text, timeout=max(left, 0.001)) is not None
    except TimeoutError as exc:
        raise EndlessError(f"its pattern {pattern[:80]!r} takes more than {MAX_SECONDS:g} s on the value") from exc


def _pattern(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001 - a rule's arguments
    if validator.is_type(instance, "string") and not _matches(wanted, instance):
        yield ValidationError("the pattern does not match")


def _pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001 - a rule's arguments
    if validator.is_type(instance, "object"):
        for pattern, inner in wanted.items():
            for key, item in instance.items():
                if _matches(pattern, key):
                    yield from validator.descend(item, inner, path=key, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras = [key for key in instance if key not in named and not any(_matches(each, key) for each in patterns)]
    if validator.is_type(wanted, "object"):
        for key in extras:
            yield from validator.descend(instance[key], wanted, path=key)
    elif not wanted and extras:
        yield ValidationError("there is more than the named properties")
