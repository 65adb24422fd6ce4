"""Claude Code transcripts: one line an event, a reply spread over lines that share its message id."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from offprompt.records import as_dict, as_list

Session: TypeAlias = tuple[str, list[dict[str, Any]]]
"""A session's name and its messages in Anthropic's shape."""

LINE_TYPES: Final = frozenset(
    {
        "user",
        "assistant",
        "system",
        "summary",
        "progress",
        "attachment",
        "file-history-snapshot",
        "queue-operation",
        "last-prompt",
        "custom-title",
        "agent-name",
    }
)


def is_transcript_line(table: dict[str, Any]) -> bool:
    """Whether a line is one of a transcript's: a known type, and a message or none of a conversation's keys."""
    if str(table.get("type")) not in LINE_TYPES:
        return False
    return as_dict(table.get("message")) is not None or not ("role" in table or "messages" in table)


class Transcript:
    """The lines of a file, sorted into sessions; side conversations of sub-agents are conversations of their own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._current = ""
        self._main: list[dict[str, Any]] = []
        self._sides: dict[str, list[dict[str, Any]]] = {}

    def add(self, table: dict[str, Any]) -> list[Session]:
        """Take a line; returns the sessions that are whole once another one begins."""
        message = as_dict(table.get("message"))
        if table.get("type") not in ("user", "assistant") or message is None or table.get("isMeta") is True:
            return []
        session = str(table.get("sessionId", ""))
        if table.get("isSidechain") is True:
            _append(self._sides.setdefault(str(table.get("agentId", session)), []), message)
            return []
        whole = self.finish() if session != self._current and self._main else []
        self._current = session
        _append(self._main, message)
        return whole

    def finish(self) -> list[Session]:
        """What is left."""
        left = [(self._current, self._main), *self._sides.items()]
        self._main, self._sides = [], {}
        return [(f"{self._name}/{name[:8]}" if name else self._name, messages) for name, messages in left if messages]


def _append(messages: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """Add a message, or the next blocks of the reply before it."""
    last = messages[-1] if messages else None
    same = last is not None and message.get("id") is not None and message.get("id") == last.get("id")
    if last is not None and same:
        last["content"] = [*(as_list(last.get("content")) or []), *(as_list(message.get("content")) or [])]
    else:
        messages.append(dict(message))
