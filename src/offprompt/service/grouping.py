"""The messages of a request, grouped by the places of the conversation that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from offprompt.records import Message
from offprompt.service.conversation import Forms, Placed, lapsing_frame, sent_messages
from offprompt.wire.shapes import Shape

SILENCE: Final = {"role": "assistant", "content": "…"}


def joined_results(placed: Sequence[Placed], shape: Shape) -> frozenset[int]:
    """The places whose results join the message before, on a wire that wants all results of a reply in one message."""
    if shape.name != "anthropic":
        return frozenset()
    carries = [bool(shape.results(each.message)) for each in placed]
    return frozenset(at for at in range(1, len(placed)) if carries[at] and carries[at - 1])


def _unanswered(before: Message, message: Message, shape: Shape) -> bool:
    """Whether Anthropic would miss an assistant's message between the two: the reply there said nothing."""
    return shape.kind(before) == "system" and bool(before.get("content")) and shape.kind(message) != "assistant"


def rendered(placed: Sequence[Placed], indices: Iterable[int], shape: Shape, forms: Forms) -> list[list[Message]]:
    """The messages for each of those places, in their forms; results that the wire wants in one message are in one.

    A frame that lapses stands behind each message of the turn that the model answers, since each next one of role
    `user` lets it lapse; where the application put a system message, it does not stand.
    """
    joined, groups, frame = joined_results(placed, shape), list[list[Message]](), None
    places = list(indices)
    for at, behind in zip(places, [*places[1:], None], strict=True):
        entry, messages = placed[at].entry, sent_messages(placed[at], forms)
        if entry.kind == "user":
            frame = lapsing_frame(entry) if forms.of(entry) == "live" else None
            messages = messages if frame is None else messages[:-1]
        if at in joined:
            messages = [*shape.join_results(groups.pop(), messages[0]), *messages[1:]]
        elif shape.name == "anthropic" and messages and groups and _unanswered(groups[-1][-1], messages[0], shape):
            groups.append([dict(SILENCE)])
        answered = behind is None or placed[behind].entry.kind == "assistant"
        if frame is not None and answered and entry.kind in ("user", "tool", "answer"):
            messages = [*messages, dict(frame)]
        if messages:
            groups.append(messages)
    return groups
