"""What the session needs to know of a wire's message shapes; one implementation per wire."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from offprompt.errors import UsageError
from offprompt.records import MEMORY_ACTIONS, Message, Usage, as_dict, canonical

Wire: TypeAlias = Literal["openai", "anthropic", "responses"]
Kind: TypeAlias = Literal["system", "user", "assistant", "tool"]
Placement: TypeAlias = Literal["message", "part"]
TextMap: TypeAlias = Callable[[str], str]

REASONING: Final = "reasoning_content"
"""Where chat completions of other providers than OpenAI carry a message's thinking, as text that nobody signed."""


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
        """The message with `change` applied to each of its texts (not to signed thinking, nor to calls)."""
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

    def told(self, messages: Sequence[Message], calls: Container[str], *, last_text: bool = False) -> Message:
        """Assistant messages of one answer as one: what its reader gets of them.

        calls    the ids of those for it in the last message: of the others all were answered, and their ids may come
                 again. last_text: of the texts only the last message's, all else of each.
        """
        ...

    def signature(self, message: Message) -> str:
        """What makes two assistant messages the same: role, texts and calls, whatever optional fields say."""
        ...


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
