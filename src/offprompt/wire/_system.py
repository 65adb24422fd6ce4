"""System messages of OpenAI's wires, chat completions and responses: which they are, and our head behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from offprompt.records import Message, as_list

SYSTEM_ROLES: Final = ("system", "developer")


def parted_system(messages: Sequence[Message], system: str) -> tuple[list[Message], list[Message]]:
    """The system messages in front (the option's text first), and the rest."""
    count = next((at for at, each in enumerate(messages) if each.get("role") not in SYSTEM_ROLES), len(messages))
    own: list[Message] = [{"role": "system", "content": system}] if system else []
    return own + list(messages[:count]), list(messages[count:])


def with_head(system: Sequence[Message], head: str, part: Literal["text", "input_text"]) -> list[Message]:
    """The system messages with our text at the end of the last of them; part: the type of a text part of the wire."""
    if not head:
        return list(system)
    if not system:
        return [{"role": "system", "content": head}]
    last = system[-1]
    content = last.get("content")
    joined = (
        f"{content}\n\n{head}"
        if isinstance(content, str)
        else [*(as_list(content) or []), {"type": part, "text": head}]
    )
    return [*system[:-1], {**last, "content": joined}]
