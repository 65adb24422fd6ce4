"""Checks of what callers hand to memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from offprompt.errors import UsageError
from offprompt.records import Remembered, as_list
from offprompt.records.values import checked_metadata, checked_name, checked_tags, moment
from offprompt.service.remembering import Marks, Said
from offprompt.wire.payload import parts_of, plain


def checked_marks(
    metadata: Mapping[str, Any] | None,
    tags: Iterable[str],
    importance: float | None,
    event_at: object,
    expires_at: object,
    *,
    pinned: bool,
) -> Marks:
    """The options of a remember.

    Raises   UsageError naming the option, its value and the rule.
    """
    checked_metadata(metadata)
    if importance is not None and (
        not isinstance(importance, (int, float)) or isinstance(importance, bool) or not 0 <= importance <= 1  # pyright: ignore[reportUnnecessaryIsInstance]
    ):
        raise UsageError(f"importance={importance!r}: give a number from 0 to 1")
    if not isinstance(pinned, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"pinned={pinned!r}: give true or false")
    return Marks(
        metadata or {},
        checked_tags(tags),
        importance,
        moment("event_at", event_at),
        moment("expires_at", expires_at),
        pinned,
    )


def checked_said(
    what: object, session: str, key: str | None, *, tools: bool = False
) -> tuple[list[Said], list[Remembered]]:
    """What is to be remembered, and what never is: system text, messages without text, tool results unless `tools`.

    Trust    what an assistant says behind a tool's result may repeat it, and is a tool's.
    Raises   UsageError for anything that is neither text nor message, and for a key that is no text or empty.
    """
    if key is not None and not checked_name("idempotency_key", key):
        raise UsageError("idempotency_key='' names nothing; give a text of your own, or leave it out")
    listed = as_list(what)
    items = [what] if listed is None else listed
    said: list[Said] = []
    refused: list[Remembered] = []
    asked, foreign = "", False
    for at, item in enumerate(items):
        where = "what" if listed is None else f"what[{at}]"
        one = _said(item, where, tools=tools)
        foreign = foreign or _is_result(item, where)
        if isinstance(one, str):
            refused.append(Remembered("refused", "", "", "", why=f"{where}: {one}"))
            continue
        order = -1 if listed is None and one.kind == "fact" else at  # of two said at once, the later one holds
        name = None if key is None else f"{key}#{at}"
        trust = "tool" if foreign and one.role == "assistant" else one.trust
        said.append(replace(one, session=session, order=order, op_key=name, asked=asked, trust=trust))
        asked = one.text if one.role == "assistant" else ""
    return said, refused


def _is_result(item: object, where: str) -> bool:
    """Whether it is a tool's result, on any wire."""
    if isinstance(item, str):
        return False
    message = plain(item, where)
    parts = [part.get("type") for part in parts_of(message)]
    return message.get("role") == "tool" or message.get("type") == "function_call_output" or "tool_result" in parts


def _said(item: object, where: str, *, tools: bool) -> Said | str:
    """One text or turn; or why it is no source of memories."""
    if isinstance(item, str):
        if not item.strip():
            raise UsageError(f"{where}={item[:20]!r} says nothing; give some words")
        return Said(item)
    if isinstance(item, (bytes, int, float)) or item is None:
        raise UsageError(f"{where} is no text but {type(item).__name__}; give a text, a message, or a list of them")
    message = plain(item, where)
    role, name = message.get("role"), message.get("name")
    if role not in ("user", "assistant") and not (tools and role == "tool"):
        return f"a message of role {role!r} is no source of memories; those of user and assistant are"
    texts = [str(part["text"]) for part in parts_of(message) if isinstance(part.get("text"), str)]
    text = "\n".join(texts).strip()
    if not text:
        return "the message has no text"
    speaker = name if isinstance(name, str) else ""
    if role == "tool":
        return Said(text, "episode", "tool", speaker, derives=False, source="tool", trust="tool")
    return Said(text, "episode", cast("str", role), speaker, derives=role == "user")
