"""Filters over memories: which may be found, decided before anything is ranked.

    {"topic": "travel"}                                    a member of the metadata, or a field, is this
    {"year": {"gte": 2020, "lt": 2024}}                    all operators of one name must hold
    {"OR": [{"tags": {"contains": "vip"}}, {"NOT": {"role": "assistant"}}]}

Operators  eq ne in nin gt gte lt lte contains icontains exists. Several names in one object: all must hold (AND).
Fields     kind, role, speaker, session, order, subject, attribute, source, trust, created_at, updated_at, event_at,
           expires_at, used_at, pinned, importance, repeats, uses, tags, text; every other name is one of the metadata,
           and `metadata.NAME` always is. `a.b` looks into an object.
Missing    a member that is not there fits `ne`, `nin` and `exists: false` only.
Types      numbers compare with numbers, texts with texts; else nothing fits but `ne` and `nin`. Times (`…_at`) may be
           given as seconds or as ISO 8601 text, UTC unless it says otherwise.
Size       at most MAX_PARTS members and values in the whole of a filter: each is asked of each memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, cast

from offprompt.errors import UsageError
from offprompt.records import Memory, as_dict, as_list

Fits: TypeAlias = Callable[[Memory], bool]

OPERATORS: Final = ("eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "contains", "icontains", "exists")
FIELDS: Final = frozenset(item.name for item in fields(Memory)) - {
    "scope",
    "metadata",
    "digest",
    "revision",
    "gist",
    "rule",
    "quote",
    "source_id",
    "superseded_by",
    "state_at",
    "version",
    "actor",
    "precision",
    "state",
}
MAX_DEPTH: Final = 20
MAX_PARTS: Final = 1000

MISSING: Final = object()
"""What a member holds that is not there."""


def compile_filter(given: object) -> Fits:
    """A function that tells whether a memory passes the filter; None passes all.

    Raises   UsageError for an unknown operator, a wrong shape, too deep nesting or too many parts: which, where, what
             would fit.
    """
    check_size(given)
    return _all_pass if given is None else _compiled(given, "filters", 0)


def check_size(given: object) -> None:
    """Raises UsageError for a filter of more than MAX_PARTS members and values: what it costs grows with each."""
    parts, waiting = 0, [given]
    while waiting and parts <= MAX_PARTS:
        one = waiting.pop()
        members, listed = as_dict(one), as_list(one)
        inner: Sequence[Any] = list(members.values()) if members is not None else listed or ()
        parts += len(inner)
        waiting += inner[: MAX_PARTS + 1]
    if parts > MAX_PARTS:
        raise UsageError(f"filters have more than {MAX_PARTS:,} members and values; ask for them in parts")


def compile_test(name: str, value: object, where: str) -> Callable[[Any], bool]:
    """A function that tells whether what the member of that name holds passes: a value, or an object of operators.

    where    the member's place, as errors name it. Raises UsageError.
    """
    tests = as_dict(value)
    if tests is None:
        tests = {"eq": value}
    elif not tests:
        raise UsageError(f"{where} is an empty object; name an operator: {', '.join(OPERATORS)}")
    checks = [_check(operator, wanted, name, where) for operator, wanted in tests.items()]
    return lambda found: all(check(found) for check in checks)


def compile_member(name: str, value: object, where: str) -> Fits:
    """A function that tells whether a memory's member of that name passes; see `compile_test`."""
    found, passes = _finder(name), compile_test(name, value, where)
    return lambda memory: passes(found(memory))


def _all_pass(memory: Memory) -> bool:  # noqa: ARG001 - a filter like the others
    return True


def _compiled(given: object, where: str, depth: int) -> Fits:
    members = as_dict(given)
    if members is None:
        raise UsageError(f"{where} is a {type(given).__name__}; give an object such as {{'topic': 'travel'}}")
    if depth > MAX_DEPTH:
        raise UsageError(f"{where} is nested more than {MAX_DEPTH} deep; write it flatter")
    parts = [_member(name, value, where, depth) for name, value in members.items()]
    return lambda memory: all(part(memory) for part in parts)


def _member(name: str, value: object, where: str, depth: int) -> Fits:
    here = f"{where}.{name}"
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"{here}: {name!r} is a {type(name).__name__}; names of members are texts")
    if name in ("AND", "OR", "NOT"):
        listed = as_list(value)
        inner = [value] if listed is None and name == "NOT" else listed
        if inner is None:
            raise UsageError(f"{here} is a {type(value).__name__}; give a list of filters")
        parts = [_compiled(each, f"{here}[{at}]", depth + 1) for at, each in enumerate(inner)]
        if name == "NOT":
            return lambda memory: not any(part(memory) for part in parts)
        joined = all if name == "AND" else any
        return lambda memory: joined(part(memory) for part in parts)
    if name.lower() in ("and", "or", "not") or name.startswith("$"):
        raise UsageError(f"{here}: {name!r} is no operator; the ones that join filters are AND, OR, NOT")
    return compile_member(name, value, here)


def _finder(name: str) -> Callable[[Memory], Any]:
    path = name.split(".")
    if path[0] in FIELDS and len(path) == 1:
        return lambda memory: _own(memory, name)
    if path[0] == "metadata" and len(path) > 1:
        path = path[1:]

    def found(memory: Memory) -> Any:
        # A name with dots in it goes before a path.
        if ".".join(path) in memory.metadata:
            return memory.metadata[".".join(path)]
        value: Any = memory.metadata
        for step in path:
            value = value.get(step, MISSING) if isinstance(value, Mapping) else MISSING  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return cast("Any", value)

    return found


def _own(memory: Memory, name: str) -> Any:
    value = memory.happened_at if name == "event_at" else getattr(memory, name)
    return MISSING if value is None else list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _check(operator: str, wanted: object, name: str, where: str) -> Callable[[Any], bool]:
    if operator not in OPERATORS:
        raise UsageError(f"{where}: {operator!r} is no operator; the operators are {', '.join(OPERATORS)}")
    if operator in ("in", "nin"):
        listed = as_list(wanted)
        if listed is None:
            raise UsageError(f"{where}.{operator} is a {type(wanted).__name__}; give a list of values")
        values = [_timed(name, each, where) for each in listed]
        wants = operator == "in"
        return lambda value: any(_same(value, each) for each in values) == wants
    if operator == "exists":
        if not isinstance(wanted, bool):
            raise UsageError(f"{where}.exists is {wanted!r}; give true or false")
        return lambda value: (value is not MISSING) == wanted
    value = _timed(name, wanted, where)
    if operator in ("contains", "icontains"):
        return _holds(value, fold=operator == "icontains")
    if operator == "eq":
        return lambda found: _same(found, value)
    if operator == "ne":
        return lambda found: not _same(found, value)
    if not isinstance(value, (int, float, str)) or isinstance(value, bool):
        raise UsageError(f"{where}.{operator} is a {type(wanted).__name__}; give a number or a text")
    return _ordered(operator, value)


def _ordered(operator: str, wanted: float | str) -> Callable[[Any], bool]:
    def check(found: Any) -> bool:
        if isinstance(found, bool) or isinstance(found, str) != isinstance(wanted, str):
            return False
        if not isinstance(found, (int, float, str)):
            return False
        left, right = cast("Any", found), cast("Any", wanted)
        if operator in ("gt", "gte") and left > right:
            return True
        if operator in ("lt", "lte") and left < right:
            return True
        return operator in ("gte", "lte") and left == right

    return check


def _holds(wanted: object, *, fold: bool) -> Callable[[Any], bool]:
    def folded(value: object) -> object:
        return value.casefold() if fold and isinstance(value, str) else value

    def check(found: Any) -> bool:
        if isinstance(found, str):
            return isinstance(wanted, str) and str(folded(wanted)) in str(folded(found))
        items = as_list(found)
        return items is not None and any(_same(folded(item), folded(wanted)) for item in items)

    return check


def _same(found: Any, wanted: object) -> bool:
    """Equal as JSON: 1 is 1.0, and neither is true. A list holds what equals one of its items."""
    if isinstance(found, bool) != isinstance(wanted, bool):
        return False
    items: Sequence[Any] | None = as_list(found)
    if items is not None and as_list(wanted) is None:
        return any(_same(item, wanted) for item in items)
    return found is not MISSING and found == wanted


def _timed(name: str, wanted: object, where: str) -> object:
    """A text that stands for a time, in seconds."""
    if not (name in FIELDS and name.endswith("_at") and isinstance(wanted, str)):
        return wanted
    try:
        moment = datetime.fromisoformat(wanted)
    except ValueError as exc:
        raise UsageError(f"{where} is {wanted!r}; give seconds since 1970 or ISO 8601, such as '2026-05-01'") from exc
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
