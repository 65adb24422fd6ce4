"""Five tools with which a model outside of any session uses a scope: what is listed, and what each call does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from offprompt.errors import OffpromptError, UsageError
from offprompt.protocols import Tokenizer
from offprompt.recall.text import snippet
from offprompt.records import Body, Role, compact
from offprompt.records.values import check_unversioned
from offprompt.service.action_problems import NeedsError
from offprompt.service.model_answers import Answer, Pager, is_number
from offprompt.service.model_doors import Door
from offprompt.service.model_memory import SNIPPET_TOKENS, Known, ModelMemory, is_id
from offprompt.service.model_words import (
    DESCRIPTIONS,
    CursorError,
    forgot_text,
    nothing_text,
    problem,
    remembered_text,
    saved_text,
)
from offprompt.service.tool_schemas import worded
from offprompt.wire.head import Language, language_of

ALIASES: Final = {"slot": "name", "key": "name", "id": "name", "content": "value", "text": "value", "q": "query"}
"""What models call the arguments all the same."""

MAX_REASON: Final = 120
"""Characters of why arguments do not fit: a name that no tool knows may be of any length."""


class Write(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of mem_write; name: of a slot, or a memory's id."""

    value: Any = msgspec.UNSET
    name: str | None = None
    if_version: int | None = None
    pinned: bool | None = None


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of mem_read."""

    name: str
    cursor: str = ""


class Forget(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of mem_forget."""

    name: str
    if_version: int | None = None


class Search(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of mem_search."""

    query: str
    cursor: str = ""


class Listing(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of mem_list."""

    cursor: str = ""


@dataclass(frozen=True, slots=True)
class ToolDef:
    """A tool as a client lists it.

    hints   MCP's annotations that differ from the protocol's defaults. role: what whoever calls it must be allowed.
    """

    name: str
    arguments: type[msgspec.Struct]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    hints: Mapping[str, bool]
    role: Role

    def description(self, language: Language) -> str:
        """What it is for."""
        return DESCRIPTIONS[self.name][language == "zh"]

    def takes(self) -> str:
        """Its arguments, in a few words."""
        needed = self.inputs.get("required", ())
        named = [name if name in needed else f"{name} (optional)" for name in self.inputs["properties"]]
        return f"{self.name} takes {', '.join(named)}"


_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer"}


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), **({"required": list(required)} if required else {})}


_ITEMS: Final = _object({"items": {"type": "array"}, "cursor": _TEXT}, "items")
_FINDS: Final = {"readOnlyHint": True, "openWorldHint": False}
_VERSION: Final = {"name": _TEXT, "version": _WHOLE}

TOOLS: Final = {
    tool.name: tool
    for tool in (
        ToolDef(
            "mem_write",
            Write,
            _object({"value": _TEXT, "name": _TEXT, "if_version": _WHOLE, "pinned": {"type": "boolean"}}),
            _object(_VERSION, "name"),
            {"destructiveHint": False, "openWorldHint": False},
            "write",
        ),
        ToolDef(
            "mem_read",
            Read,
            _object({"name": _TEXT, "cursor": _TEXT}, "name"),
            _object({**_VERSION, "value": {}, "cursor": _TEXT}, "name", "value"),
            _FINDS,
            "read",
        ),
        ToolDef(
            "mem_forget",
            Forget,
            _object({"name": _TEXT, "if_version": _WHOLE}, "name"),
            _object({"name": _TEXT}, "name"),
            {"destructiveHint": True, "idempotentHint": True, "openWorldHint": False},
            "write",
        ),
        ToolDef("mem_search", Search, _object({"query": _TEXT, "cursor": _TEXT}, "query"), _ITEMS, _FINDS, "read"),
        ToolDef("mem_list", Listing, _object({"cursor": _TEXT}), _ITEMS, _FINDS, "read"),
    )
}


@dataclass(frozen=True, slots=True)
class Tools:
    """Runs calls. language: of receipts; None: that of the call's own words. Thread-safe."""

    tokenizer: Tokenizer
    language: Language | None = None

    def call(self, memory: ModelMemory, tool: ToolDef, arguments: Mapping[str, Any]) -> Answer:
        """What the call answers; what Offprompt raises on purpose is an answer too, with the reason and the way out."""
        language = self.language or language_of(" ".join(each for each in arguments.values() if isinstance(each, str)))
        given: dict[str, Any] = {}
        try:
            given = renamed(arguments, tool)
            return _Call(memory, Pager(self.tokenizer, language), given, tool).run()
        except OffpromptError as exc:
            name = given.get("name")
            shown = name[:64] if isinstance(name, str) else ""
            versioned = given.get("if_version") is not None
            return Answer(problem(exc, shown, language, versioned=versioned), is_error=True)


def toolbox(
    door: Door, *, bodies: Callable[[str], Body | None] | None = None
) -> Callable[[str, Mapping[str, Any]], Answer]:
    """What runs a call of one of the tools, by its name, on the scope behind a door; bodies: see ModelMemory."""
    own, tools = ModelMemory(door, bodies=bodies), Tools(door.tokenizer, door.language)
    return lambda name, arguments: tools.call(own, TOOLS[name], arguments)


def renamed(arguments: Mapping[str, Any], tool: ToolDef) -> dict[str, Any]:
    """The arguments under our names.

    Raises   UsageError if one is given twice, and for what no answer could repeat.
    """
    try:
        compact(arguments).encode()
    except (ValueError, RecursionError) as exc:
        why = (
            "half a character (a lone surrogate)" if isinstance(exc, UnicodeEncodeError) else "no JSON that can be kept"
        )
        raise UsageError(
            f"the arguments of {tool.name} hold {why}; send whole text, or JSON that is less deep"
        ) from None
    given: dict[str, Any] = {}
    for key, value in arguments.items():
        name = key if key in tool.inputs["properties"] else ALIASES.get(key, key)
        if name in given:
            raise UsageError(f"the argument `{name}` is given twice; {tool.takes()}")
        given[name] = value
    return given


@dataclass(frozen=True, slots=True)
class _Call:
    memory: ModelMemory
    pager: Pager
    given: Mapping[str, Any]
    tool: ToolDef

    def run(self) -> Answer:
        """The answer.

        Raises   UsageError for arguments that the tool does not take, and as the memory does.
        """
        try:
            arguments = msgspec.convert(self.given, self.tool.arguments, strict=False)
        except (msgspec.ValidationError, ValueError) as exc:
            raise UsageError(f"{worded(_short(str(exc)))}; {self.tool.takes()}") from exc
        match arguments:
            case Write():
                return self._write(arguments)
            case Read():
                return self._read(arguments)
            case Forget():
                name = self.memory.forget(_named(arguments.name), if_version=arguments.if_version)
                return Answer(forgot_text(name, self.pager.language), {"name": name})
            case Search():
                return self._search(arguments)
            case Listing():
                return self._list(arguments)
            case _:
                raise UsageError(f"there is no tool {self.tool.name!r}; the tools are: {', '.join(TOOLS)}")

    def _write(self, arguments: Write) -> Answer:
        language = self.pager.language
        if arguments.name is not None and is_id(_named(arguments.name)):
            return self._correct(arguments)
        if arguments.pinned is not None:
            raise UsageError("only a memory is pinned, by its id (m_…); a slot without a ttl never expires")
        if arguments.value is msgspec.UNSET:
            raise NeedsError("value")
        if arguments.name is not None:
            slot = self.memory.write(_named(arguments.name), arguments.value, if_version=arguments.if_version)
            data = {"name": slot.name, "version": slot.version}
            return Answer(saved_text(slot.name, slot.version, language), data)
        if not isinstance(arguments.value, str):
            raise NeedsError("name")
        if not arguments.value.strip():
            raise NeedsError("value")
        if arguments.if_version is not None:
            raise UsageError("if_version needs a name: a sentence has no version before it; give both or neither")
        done = self.memory.remember(arguments.value)[0]
        return Answer(remembered_text(done.name, done.outcome, done.why, language), {"name": done.name})

    def _correct(self, arguments: Write) -> Answer:
        name, value = _named(arguments.name or ""), arguments.value
        check_unversioned(name, arguments.if_version)
        text = value if isinstance(value, str) and value.strip() else None
        if text is None and (arguments.pinned is None or value is not msgspec.UNSET):
            raise NeedsError("value")
        done = self.memory.correct(name, text, pinned=arguments.pinned)
        return Answer(remembered_text(done, "added", "", self.pager.language), {"name": done})

    def _read(self, arguments: Read) -> Answer:
        known = self.memory.read(_named(arguments.name))
        return self.pager.piece(known, arguments.cursor, json.loads if known.kind == "json" else str)

    def _search(self, arguments: Search) -> Answer:
        cursor = arguments.cursor or "0"
        if not is_number(cursor):
            raise CursorError(cursor, "mem_search")
        before = int(cursor)
        found = self.memory.search(arguments.query)[before:]
        if not found:
            return Answer(nothing_text(self.pager.language, searched=True, more=before > 0), {"items": []})
        return self.pager.listed(found, lambda number, _last: str(before + number))

    def _list(self, arguments: Listing) -> Answer:
        answer = self.pager.listed(short(self.memory.known(arguments.cursor)), lambda _number, last: last.name)
        if answer.data["items"]:
            return answer
        return Answer(nothing_text(self.pager.language, searched=False, more=bool(arguments.cursor)), {"items": []})


def _short(why: str) -> str:
    """A reason that repeats an argument's name: no more of it than tells which one is meant."""
    return why if len(why) <= MAX_REASON else f"{why[:MAX_REASON]}…`"


def short(known: Iterable[Known]) -> Iterable[Known]:
    """Slots without their values, memories with their beginnings."""
    for each in known:
        text = "" if each.kind != "memory" else " ".join(snippet(each.text, "", max_tokens=SNIPPET_TOKENS).split())
        yield replace(each, text=text)


def _named(name: str) -> str:
    """A name as it was meant: models write handles and marks around it.

    Raises   NeedsError for an empty one.
    """
    bare = name.strip().removeprefix("[[mem:").removesuffix("]]").strip()
    if not bare:
        raise NeedsError("name")
    return bare
