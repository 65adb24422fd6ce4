"""The shapes in which conversations are kept, each turned into `Conversation`.

OpenAI chat          {"messages": [{"role", "content", "tool_calls"}], "tools"}; also a bare list of messages
Anthropic messages   {"system", "messages": [{"role", "content": [blocks]}], "tools"}
tau-bench            {"traj": [OpenAI messages]}; few-shot: {"messages_display": text}
SWE-agent            {"history": [{"role", "content", "action", …}], "trajectory"}
ShareGPT             {"conversations": [{"from", "value"}]}
LongMemEval          {"haystack_sessions": [[{"role", "content"}]]}: one conversation a session
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from offprompt.records import as_dict, as_list, compact
from offprompt.service.replay.logged import Conversation, LoggedCall, LoggedKind, LoggedMessage

SHAPES: Final = (
    "OpenAI chat, Anthropic messages, tau-bench, SWE-agent, ShareGPT, LongMemEval or a Claude Code transcript"
)
_KINDS: Final[dict[str, LoggedKind]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
    "function_call": "assistant",
}
_SYSTEM: Final = frozenset({"system", "developer"})
_DISPLAY: Final = re.compile(r"^(user|assistant|tool|system): ", re.MULTILINE)


class NotAConversationError(ValueError):
    """The value has none of the known shapes; the text says what is wrong."""


def conversations_of(value: object, name: str) -> Iterator[Conversation]:
    """The conversations in one parsed value.

    Raises   NotAConversationError if the value has no known shape.
    """
    items = as_list(value)
    if items is not None:
        yield conversation_of(items, name)
        return
    table = as_dict(value)
    if table is None:
        raise NotAConversationError(f"a {type(value).__name__} is no conversation; expected {SHAPES}")
    sessions = as_list(table.get("haystack_sessions"))
    if sessions is not None:
        for number, session in enumerate(sessions, 1):
            yield conversation_of(as_list(session) or [], f"{name}/{number}")
        return
    yield _single(table, name)


def _single(table: dict[str, Any], name: str) -> Conversation:
    before = "\n".join(text for text in (text_in(table.get("system")), _tools_text(table.get("tools"))) if text)
    for key in ("messages", "traj", "conversations", "items"):
        messages = as_list(table.get(key))
        if messages is not None:
            return conversation_of(messages, name, system=before)
    history = as_list(table.get("history"))
    if history is not None:
        return conversation_of(history, name, observations=True)
    display = table.get("messages_display")
    if isinstance(display, str):
        parts = _DISPLAY.split(display)[1:]
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return conversation_of([{"role": role, "content": text.rstrip("\n")} for role, text in pairs], name)
    raise NotAConversationError(f"no conversation among its keys ({', '.join(list(table)[:8])}); expected {SHAPES}")


def conversation_of(items: Sequence[Any], name: str, *, system: str = "", observations: bool = False) -> Conversation:
    """A list of messages as a conversation.

    observations   user messages behind an assistant's are results of its action (SWE-agent).
    Raises         NotAConversationError naming the first message that is none.
    """
    front: list[str] = [system] if system else []
    messages: list[LoggedMessage] = []
    for number, item in enumerate(items, 1):
        table = as_dict(item)
        role = None if table is None else table.get("role", table.get("from"))
        if table is None or not isinstance(role, str):
            raise NotAConversationError(f"message {number} has no role; expected {SHAPES}")
        role = role.lower()
        if role in _SYSTEM:
            text = text_in(table.get("content", table.get("value")))
            if messages:
                messages.append(LoggedMessage("note", text))
            else:
                front.append(text)
            continue
        kind = _KINDS.get(role)
        if kind is None:
            raise NotAConversationError(f"message {number} has the unknown role {role[:40]!r}; expected {SHAPES}")
        acted = any(message.kind == "assistant" for message in messages)
        messages += messages_of(table, "observation" if observations and kind == "user" and acted else kind)
    return Conversation(name, "\n".join(front), tuple(messages))


def messages_of(table: dict[str, Any], kind: LoggedKind) -> list[LoggedMessage]:
    """One wire message as messages: Anthropic's tool results in a user message stand before its text."""
    content = table.get("content", table.get("value"))
    blocks = [block for block in map(as_dict, as_list(content) or []) if block is not None]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    uses = [block for block in blocks if block.get("type") == "tool_use"]
    calls = [LoggedCall(str(block.get("name", "")), compact(block.get("input"))) for block in uses]
    calls += _openai_calls(table)
    text = text_in(content)
    if not calls and isinstance(table.get("action"), str) and kind == "assistant":
        action = str(table["action"]).strip()
        calls = [LoggedCall(action.split(maxsplit=1)[0] if action else "", action, inline=action in text)]
    messages = [LoggedMessage("tool", text_in(block.get("content"))) for block in results]
    if text or calls or not messages:
        messages.append(LoggedMessage(kind, text, tuple(calls)))
    return messages


def _openai_calls(table: dict[str, Any]) -> list[LoggedCall]:
    calls: list[LoggedCall] = []
    found = [as_dict(call) for call in as_list(table.get("tool_calls")) or []]
    for function in [as_dict((call or {}).get("function")) for call in found] + [as_dict(table.get("function_call"))]:
        if function is not None:
            arguments = function.get("arguments", "")
            text = arguments if isinstance(arguments, str) else compact(arguments)
            calls.append(LoggedCall(str(function.get("name", "")), text))
    return calls


def text_in(content: object) -> str:
    """All text of a message's content: a text, or the text of its parts; images and files by their type."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in as_list(content) or []:
        table = as_dict(part)
        if isinstance(part, str):
            texts.append(part)
        elif table is None or table.get("type") in ("tool_use", "tool_result"):
            continue
        else:
            text = table.get("text", table.get("thinking"))
            texts.append(text if isinstance(text, str) else f"[{table.get('type', 'part')}]")
    return "\n".join(texts)


def _tools_text(tools: object) -> str:
    return compact(tools) if as_list(tools) else ""
