"""mem0's tree of filters, over memories: what passes it, and within which ids all of that lies.

    {"user_id": "alice", "categories": {"contains": "travel"}}             members of one object: all must hold
    {"OR": [{"user_id": "alice"}, {"AND": [{"run_id": "r1"}, {"topic": "tea"}]}]}

Ids        user_id, agent_id, run_id (a session), and app_id, which is an attribute here. Every branch of the tree must
           name one of them with a value, `eq` or `in`: else it would find everybody's memories, and is refused.
Literal    `*` is a star and nothing else, in ids too.
Names      created_at, updated_at, timestamp, expiration_date, text, memory, categories, keywords, memory_ids,
           metadata; each other one is a member of the metadata. Operators, and how large a tree may be: as in
           `offprompt.recall.filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from offprompt.compat.mem0.marks import created_at, marks_of, run_of
from offprompt.errors import UsageError
from offprompt.recall.filters import MISSING, Fits, check_size, compile_filter, compile_member, compile_test
from offprompt.records import Memory, as_dict, as_list
from offprompt.records.slot import fold_name
from offprompt.service.peers import expiry_of

IDS: Final = ("user_id", "agent_id", "run_id", "app_id")
MAX_DEPTH: Final = 20
MAX_BRANCHES: Final = 100

Bound: TypeAlias = Mapping[str, str]
"""Ids that all memories of a branch have."""

_RENAMED: Final = {
    "text": "text",
    "memory": "text",
    "categories": "tags",
    "updated_at": "updated_at",
    "timestamp": "event_at",
    "expiration_date": "expires_at",
    "memory_ids": "memory_id",
}
_ID_OF: Final[Mapping[str, Callable[[Memory], str | None]]] = {
    "user_id": lambda memory: memory.scope.user,
    "agent_id": lambda memory: memory.scope.agent,
    "run_id": run_of,
    "app_id": lambda memory: marks_of(memory).get("app_id"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A compiled tree.

    bounds   of its branches: a memory that fits has all ids of at least one of them.
    only     the one bound says all: whatever lies within it fits.
    """

    fits: Fits
    bounds: tuple[Bound, ...]
    only: bool


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of the tree. bounds: None where nothing bounds it; open: the branch of it that nothing bounds."""

    fits: Fits
    bounds: tuple[Bound, ...] | None = None
    open: str = ""
    plain: bool = False


def _as_given(kind: str, value: str) -> str:  # noqa: ARG001 - as others that know the store's ids
    return value


def compile_tree(given: object, *, as_stored: Callable[[str, str], str] = _as_given) -> Wanted:
    """The tree, compiled.

    as_stored  an id as the store has it, of its kind, such as `user_id`, and its text.
    Raises   UsageError for a branch without an id, unknown operators, a wrong shape, too much of it: which part, and
             what would fit.
    """
    tree = as_dict(given)
    if not tree:
        raise UsageError(
            "filters: none were given, which would be everybody's memories; name an id, such as "
            "filters={'user_id': 'alice'}"
        )
    check_size(tree)
    node = _Compiler(as_stored).of(tree, "filters", 0)
    if node.bounds is None:
        raise UsageError(
            f"{node.open or 'filters'} names no user_id, agent_id, run_id or app_id, so it would find everybody's "
            "memories; add one to it, such as {'AND': [{'user_id': 'alice'}, …]}"
        )
    return Wanted(node.fits, node.bounds, node.plain and len(node.bounds) == 1)


@dataclass(frozen=True, slots=True)
class _Compiler:
    """Makes nodes of parts of a tree."""

    as_stored: Callable[[str, str], str]

    def of(self, members: Mapping[str, Any], where: str, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise UsageError(f"{where} is nested more than {MAX_DEPTH} deep; write it flatter")
        return _all([self._member(str(name), value, where, depth) for name, value in members.items()])

    def _member(self, name: str, value: object, where: str, depth: int) -> _Node:
        here = f"{where}.{name}"
        if name in ("AND", "OR", "NOT"):
            return self._joined(name, value, here, depth)
        if name in IDS:
            return self._id(name, value, here)
        if name == "metadata":
            members = as_dict(value)
            if members is None:
                raise UsageError(f"{here} is a {type(value).__name__}; give an object such as {{'topic': 'travel'}}")
            return _all(
                [_Node(compile_member(f"metadata.{each}", test, f"{here}.{each}")) for each, test in members.items()]
            )
        if name in ("keywords", "keywords_search"):
            return _Node(_words(value, here))
        if name.lower() in ("and", "or", "not") or name.startswith("$"):
            compile_filter({name: value})  # says what joins filters
        if name == "created_at":
            test = compile_test(name, value, here)
            return _Node(lambda memory: test(created_at(memory)))
        if name == "memory_ids" and as_list(value) is not None:
            value = {"in": value}
        if name == "categories":
            value = _folded(value)
        own = _RENAMED.get(name, f"metadata.{name}")
        return _Node(compile_member(own, _timed(name, value), here))

    def _joined(self, name: str, value: object, here: str, depth: int) -> _Node:
        listed = as_list(value)
        items = [value] if listed is None and name == "NOT" else listed
        if not items:
            raise UsageError(f"{here} is no list of filters; give one, such as {{'{name}': [{{'user_id': 'alice'}}]}}")
        nodes: list[_Node] = []
        for at, item in enumerate(items):
            members = as_dict(item)
            if members is None:
                kind = type(item).__name__
                raise UsageError(f"{here}[{at}] is a {kind}; give an object such as {{'user_id': 'alice'}}")
            nodes.append(self.of(members, f"{here}[{at}]", depth + 1))
        if name == "AND":
            return _all(nodes)
        parts = [node.fits for node in nodes]
        if name == "NOT":
            return _Node(lambda memory: not any(part(memory) for part in parts))
        free = next((node.open or f"{here}[{at}]" for at, node in enumerate(nodes) if node.bounds is None), "")
        bounds = None if free else _few([one for node in nodes for one in node.bounds or ()], here)
        return _Node(lambda memory: any(part(memory) for part in parts), bounds, free)

    def _id(self, name: str, value: object, here: str) -> _Node:
        tests = as_dict(value)
        if tests is None and not isinstance(value, str):
            raise UsageError(f"{here} is a {type(value).__name__}; give an id as text, or {{'in': ['alice', 'bob']}}")
        given = {"eq": value} if tests is None else tests
        tests = {op: self._stored(name, each, f"{here}.{op}") for op, each in given.items()}
        passes, found = compile_test(name, tests, here), _ID_OF[name]
        bound = tests.get("eq", tests.get("in"))
        named = [bound] if isinstance(bound, str) else as_list(bound) or []
        bounds = _few([{name: one} for one in named], here) if named else None

        def fits(memory: Memory) -> bool:
            own = found(memory)
            return passes(MISSING if own is None else own)

        return _Node(fits, bounds, plain=list(tests) in (["eq"], ["in"]) and name in ("user_id", "agent_id"))

    def _stored(self, name: str, value: object, here: str) -> object:
        """An id, or for `in` and `nin` a list of some, as the store has it."""
        listed = as_list(value) if here.endswith((".in", ".nin")) else None
        if listed is not None:
            return [self._stored(name, each, f"{here}[{at}]") for at, each in enumerate(listed)]
        if isinstance(value, str):
            return self.as_stored(name, value)
        if here.endswith(".exists") and isinstance(value, bool):
            return value
        raise UsageError(f"{here} is a {type(value).__name__}; an id is text, such as {{'{name}': 'alice'}}")


def _all(nodes: list[_Node]) -> _Node:
    """What passes all of them: it lies within the bounds of each."""
    bounds: tuple[Bound, ...] | None = None
    for own in (node.bounds for node in nodes if node.bounds is not None):
        if bounds is None:
            bounds = own
        elif len(bounds) * len(own) > MAX_BRANCHES:
            bounds = min(bounds, own, key=len)
        else:
            bounds = _joint(bounds, own)
    parts = [node.fits for node in nodes]

    def fits(memory: Memory) -> bool:
        return all(part(memory) for part in parts)

    free = next((node.open for node in nodes if node.open), "")
    return _Node(fits, bounds, free, all(node.plain for node in nodes))


def _joint(some: Sequence[Bound], others: Sequence[Bound]) -> tuple[Bound, ...]:
    return tuple({**one, **other} for one in some for other in others if _agree(one, other))


def _agree(one: Bound, other: Bound) -> bool:
    """Whether a memory can lie within both: they name no id differently."""
    return all(other.get(kind, value) == value for kind, value in one.items())


def _few(given: Sequence[Bound], where: str) -> tuple[Bound, ...]:
    """Bounds, each once."""
    bounds = {tuple(sorted(one.items())): one for one in given}
    if len(bounds) > MAX_BRANCHES:
        raise UsageError(f"{where} names {len(bounds)} ids, and {MAX_BRANCHES} are the most; ask for them in parts")
    return tuple(bounds.values())


def _words(value: object, here: str) -> Fits:
    """Any of the words stands in the text, in small letters or large; or operators over the text."""
    if as_dict(value) is not None:
        return compile_member("text", value, here)
    words = [value] if isinstance(value, str) else as_list(value)
    if not words or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{here} is {str(value)[:40]!r}; give a text, or a list of some: any of them may stand there")
    parts = [compile_member("text", {"icontains": word}, here) for word in words]
    return lambda memory: any(part(memory) for part in parts)


def _folded(value: object) -> object:
    """Categories as they are stored: tags, which are folded."""
    tests, listed = as_dict(value), as_list(value)
    if tests is not None:
        return {operator: _folded(each) for operator, each in tests.items()}
    if listed is not None:
        return [_folded(each) for each in listed]
    return fold_name(value).strip() if isinstance(value, str) else value


def _timed(name: str, value: object) -> object:
    """What is asked of a time, in seconds or ISO 8601; a day of expiry is over when the day is."""
    if name != "expiration_date":
        return value
    tests = as_dict(value)
    return _over(value) if tests is None else {operator: _over(each) for operator, each in tests.items()}


def _over(value: object) -> object:
    return expiry_of(value) if isinstance(value, str) else value
