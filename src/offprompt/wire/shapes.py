"""What the session needs to know of a wire's message shapes; one implementation per wire."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast

from offprompt.errors import UnsupportedError, UsageError
from offprompt.records import MEMORY_ACTIONS, Message, Usage, as_dict, as_list, canonical

Wire: TypeAlias = Literal["openai", "anthropic", "responses"]
Kind: TypeAlias = Literal["system", "user", "assistant", "tool"]
Placement: TypeAlias = Literal["message", "part"]
SPEAKING_KEYS = ("tool_calls", "function_call", "refusal", "audio")
TextMap: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call in an assistant message; `arguments` is JSON text."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's answer to a call; `text` is all its text, in order. plain: there is nothing else, such as a picture."""

    call_id: str
    text: str
    plain: bool = True


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One of our tools, before it takes a wire's shape."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RawReply:
    """A model's reply taken out of its envelope: the assistant message, why it ended, what it cost."""

    message: Message
    finish: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The parts of a request, in the order in which they are put together.

    system   the client's own system messages (OpenAI) or text; head: our text behind it.
    tools    the client's own, then ours.
    context_editing_tokens  over which the provider clears old results, None: never. lapsing: system messages of one
                            turn may come.
    """

    model: str
    system: Sequence[Message]
    head: str
    tools: Sequence[Mapping[str, Any]]
    messages: Sequence[Message]
    context_editing_tokens: int | None = None
    lapsing: bool = False


class Shape(Protocol):
    """Pure functions over one wire's messages. None changes what it is given; what is unchanged is the same object."""

    name: Wire

    def gather(self, messages: Sequence[Message]) -> list[Message]:
        """The client's messages, each of them one for the session: all that a model says at once is one message.

        Raises   UsageError naming the place of one that the wire does not have.
        """
        ...

    def spread(self, message: Message) -> list[Message]:
        """A session's message as the client's messages; puts apart what `gather` put together."""
        ...

    def parted(self, message: Message) -> Iterator[tuple[Message, Message]]:
        """The ways to part an assistant message that `gather` made in two, those with a long first part first."""
        ...

    def split_system(self, messages: Sequence[Message], system: str) -> tuple[list[Message], list[Message]]:
        """The system messages in front (the option's text first), and the rest."""
        ...

    def kind(self, message: Message) -> Kind:
        """`tool` for a message that only carries tool results."""
        ...

    def text(self, message: Message) -> str:
        """All text of a message that a reader would see: contents, results; not the calls' arguments."""
        ...

    def map_text(self, message: Message, change: TextMap) -> Message:
        """The message with `change` applied to each of its texts (not to thinking, nor to calls)."""
        ...

    def has_thinking(self, message: Message) -> bool:
        """Whether an assistant message carries thinking that the provider may bind to what stands before it."""
        ...

    def calls(self, message: Message) -> list[Call]:
        """The tool calls of an assistant message."""
        ...

    def with_arguments(self, message: Message, arguments: Mapping[str, str]) -> Message:
        """The message with other argument texts, by call id."""
        ...

    def results(self, message: Message) -> list[Result]:
        """The tool results that a message carries."""
        ...

    def with_results(self, message: Message, texts: Mapping[str, str]) -> Message:
        """The message with other result texts, by call id."""
        ...

    def documents(self, message: Message) -> list[tuple[int, str]]:
        """Documents pasted into a user message beside the user's own words: place among the parts, and text."""
        ...

    def with_documents(self, message: Message, texts: Mapping[int, str]) -> Message:
        """The message with text in place of documents, by their place."""
        ...

    def result_messages(self, results: Sequence[Result], errors: frozenset[str] = frozenset()) -> list[Message]:
        """Tool results as messages of their own; `errors`: the call ids that failed."""
        ...

    def join_results(self, ours: Sequence[Message], message: Message) -> list[Message]:
        """Our result messages put before or into the client's own, as the wire wants it."""
        ...

    def attach(self, text: str, message: Message, placement: Placement) -> list[Message]:
        """A user message with our text before it: in a message or content part of its own."""
        ...

    def tool(self, spec: ToolSpec) -> Mapping[str, Any]:
        """One of our tools in the wire's shape."""
        ...

    def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """Keyword arguments for the client's call."""
        ...

    def reply(self, reply: object) -> RawReply:
        """The assistant message, finish reason and usage of a reply object or dict.

        Raises   UsageError if it is not a reply of this wire; UnsupportedError for a stream.
        """
        ...

    def signature(self, message: Message) -> str:
        """What makes two assistant messages the same: role, texts and calls, whatever optional fields say."""
        ...


def plain(value: object, what: str) -> dict[str, Any]:
    """A dict of an SDK object or dict, None values left out of objects.

    Raises   UsageError if it is neither; UnsupportedError for a stream.
    """
    as_is = as_dict(value)
    if as_is is not None:
        return cast("dict[str, Any]", _dumped(as_is))
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("dict[str, Any]", dump(mode="json", exclude_none=True, warnings=False))
    if hasattr(value, "__await__"):
        raise UsageError(f"{what} is a coroutine that nobody awaited; await the call, and use scope.async_session")
    if hasattr(value, "__next__") or hasattr(value, "__anext__") or type(value).__name__.endswith("Stream"):
        raise UnsupportedError(
            f"{what} is a stream and not whole; pass a stream to absorb_stream, or call the model without stream=True"
        )
    raise UsageError(f"{what} is a {type(value).__name__}; give the client's object or its dict")


def _dumped(value: object) -> object:
    """Payload with SDK objects in it as plain data; the same object where there is none."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        changed = {key: _dumped(item) for key, item in members.items()}
        return changed if any(changed[key] is not item for key, item in members.items()) else members
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[object]", value)
        dumped = [_dumped(item) for item in items]
        return (
            dumped if isinstance(value, tuple) or any(a is not b for a, b in zip(dumped, items, strict=True)) else items
        )
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_none=True, warnings=False) if callable(dump) else value


def check_tools(tools: Sequence[Any], wire: str) -> None:
    """Nothing, if the client's tools are of the wire's shape and leave our names alone.

    Raises   UsageError naming the tool and what is wrong with it.
    """
    for at, item in enumerate(tools):
        tool = as_dict(item)
        if tool is None:
            raise UsageError(f"tools[{at}] is a {type(item).__name__}; give each tool's definition as a dict")
        if tool.get("type") == "custom" and "input_schema" not in tool:
            raise UsageError(
                f"tools[{at}] is a custom tool, whose calls hold free text and are not read; "
                "make it a function with one text parameter"
            )
        theirs = _tool_wire(tool)
        if theirs not in ("", wire):
            raise UsageError(
                f"tools[{at}] has the shape of {theirs}, and the session's wire is {wire}; pass wire={theirs!r}"
            )
        name = (as_dict(tool.get("function")) or tool).get("name")
        if name in MEMORY_ACTIONS:
            raise UsageError(f"tools[{at}] is called {name!r}, a name of Offprompt's own; call it something else")
        try:
            canonical(tool)
        except (TypeError, ValueError) as exc:
            raise UsageError(f"tools[{at}] ({name!r}) is not JSON: {exc}; give plain data") from exc


def _tool_wire(tool: Mapping[str, Any]) -> str:
    """The wire whose shape a tool has; empty: it may be of any."""
    if "input_schema" in tool:
        return "anthropic"
    if as_dict(tool.get("function")) is not None:
        return "openai"
    return "responses" if tool.get("type") == "function" else ""


def comparable(text: str) -> str:
    """Text without what applications change in passing: composition, line ends, hard spaces, space at the ends."""
    return unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\u00a0", " ").strip()


def distinct(ids: Sequence[str]) -> list[str]:
    """Call ids, each once and none empty: results must name one call. What is distinct stays."""
    seen: dict[str, None] = {}
    for at, given in enumerate(ids):
        call_id = given or f"call_{at}"
        while call_id in seen:
            call_id = f"{call_id}_{at}"
        seen[call_id] = None
    return list(seen)


def error_text(data: Mapping[str, Any]) -> str:
    """The provider's own words about what went wrong, at most 200 characters."""
    error = data.get("error")
    return str((as_dict(error) or {}).get("message") or error)[:200]


def checked(messages: Sequence[Message]) -> list[Message]:
    """The messages, if each has content, or calls in its place.

    Raises   UsageError naming a message's place and role.
    """
    for at, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, (str, list)) or message.get("tool_calls") or message.get("role") == "assistant":
            continue
        what = "no content" if content is None else f"content of type {type(content).__name__}"
        raise UsageError(f"messages[{at}] ({message.get('role')!r}) has {what}; content is text or a list of parts")
    return list(messages)


def parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The content parts of a message; text content as one part, none for empty text."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [as_dict(part) or {} for part in as_list(content) or []]


def with_parts(message: Message, texts: Mapping[int, str]) -> Message:
    """The message with text parts in place of others, by their place."""
    if not texts:
        return message
    parts = [{"type": "text", "text": texts[at]} if at in texts else part for at, part in enumerate(parts_of(message))]
    return {**message, "content": parts}


def is_silent(message: Message) -> bool:
    """Whether an assistant message holds nothing: models answer so, and no provider takes it back."""
    if any(message.get(key) for key in SPEAKING_KEYS):
        return False
    items = as_list(message.get("output"))
    return all(map(_is_blank, parts_of(message) if items is None else [as_dict(item) or {} for item in items]))


def _is_blank(part: Mapping[str, Any]) -> bool:
    """Whether a part, or an item of a response, holds nothing that a reader would miss."""
    if "role" in part:
        return all(map(_is_blank, parts_of(part)))
    if part.get("type") in ("text", "output_text"):
        return not str(part.get("text", "")).strip()
    return part.get("type") == "reasoning"


def repaired(value: object) -> Any:
    """Payload that can be sent: half characters (lone surrogates) become U+FFFD, NaN and infinity their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: repaired(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [repaired(item) for item in cast("list[object]", value)]
    return value


def loaded(arguments: str) -> Any:
    """A call's arguments as JSON values; text that is no JSON stays text."""
    try:
        return json.loads(arguments, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return arguments


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no number that JSON readers know")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def number(value: object) -> int | None:
    """A count from a provider, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def loose(value: object) -> Any:
    """Message content for comparing: without cache marks, which clients move from message to message."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: loose(item) for key, item in items if key != "cache_control"}
    if isinstance(value, list):
        return [loose(item) for item in cast("list[Any]", value)]
    return value


def identity(message: Mapping[str, Any]) -> str:
    """The canonical text of a message for digests; cache marks do not count.

    Raises   UsageError if the message is not JSON, or holds half a character, which cannot be sent.
    """
    try:
        text = canonical(loose(dict(message)))
        text.encode()
    except UnicodeEncodeError as exc:
        raise UsageError(
            f"a message with role {message.get('role')!r} holds half a character (a lone surrogate); pass valid text"
        ) from exc
    except (TypeError, ValueError) as exc:
        raise UsageError(f"a message with role {message.get('role')!r} is not JSON: {exc}; pass plain data") from exc
    return text
