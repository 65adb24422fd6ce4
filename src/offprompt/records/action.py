"""Action, refusal, receipt: what the model asks of its memory and what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from offprompt.records.recall import Remembered

MEMORY_ACTIONS: Final = ("mem_write", "mem_read", "mem_forget", "mem_search")


@dataclass(frozen=True, slots=True)
class Action:
    """One call that the model asked for.

    where     `tool_calls[0]`, `content[2]` (a native block), `text[17:93]` (a character range of the reply's text).
    call_id   the wire's id of a native call; empty for a call in text. raw: the text of a call in text.
    """

    name: str
    arguments: Mapping[str, Any]
    where: str
    call_id: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What looked like an action and was not run: the raw text (at most 200 characters), why, where, its call id."""

    raw: str
    why: str
    where: str
    name: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A reply taken apart: the actions in order, the text without them, and what was refused."""

    actions: tuple[Action, ...] = ()
    text: str = ""
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """The short answer of an action; never holds a body.

    text      what the model is told. ok: whether it was done. name: the slot or body. version: the slot's, or 0.
    shown     for mem_read: the value as shown, its tokens counted; empty otherwise.
    """

    action: str
    text: str
    ok: bool = True
    name: str = ""
    version: int = 0
    shown: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of the client's own tools, handles resolved; `arguments` as JSON text, untouched bytes where none was."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What `absorb` makes of one model reply.

    done        False: `mem_*` calls were answered, let the model go on with `messages + reply.messages`.
    text        the answer with its handles resolved; `raw_text` as the model wrote it.
    tool_calls  the client's own calls, to be run by the application.
    messages    all that the turn added behind what was given to `prepare`: the model's messages and our receipts.
    reads       values that the model read in this turn, by slot name, for the application.
    remembered  what became a memory, or a part of the profile, when this reply ended its turn.
    """

    done: bool
    text: str
    raw_text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    messages: tuple[dict[str, Any], ...] = ()
    reads: Mapping[str, Any] = field(default_factory=dict[str, Any])
    receipts: tuple[Receipt, ...] = ()
    refused: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    remembered: tuple[Remembered, ...] = ()
