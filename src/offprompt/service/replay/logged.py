"""A conversation as a log holds it, whatever wrote the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

LoggedKind: TypeAlias = Literal["user", "assistant", "tool", "observation", "note"]
"""`observation`: a tool's result in the user's role. `note`: a system message in the middle of a conversation."""


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """One tool call. arguments: JSON text, or a command line. inline: its text stands in the message's text already."""

    name: str
    arguments: str
    inline: bool = False


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """One message: all of its text, and the calls that it makes."""

    kind: LoggedKind
    text: str
    calls: tuple[LoggedCall, ...] = ()

    @property
    def searchable(self) -> str:
        """Its text and its calls' arguments: where a value can stand."""
        return "\n".join([self.text, *(call.arguments for call in self.calls if not call.inline)])


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation: what stands before it in each request (system text, tool definitions), and its messages."""

    name: str
    system: str
    messages: tuple[LoggedMessage, ...]
