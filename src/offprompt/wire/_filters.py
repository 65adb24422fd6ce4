"""What the streams of both wires need to know: how text and calls are resolved, chunks of the shape that came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from offprompt.records import MEMORY_ACTIONS, as_dict
from offprompt.wire.argument_stream import ArgumentStream


class TextStage(Protocol):
    """Turns text that comes in pieces into what the application sees, such as `HandleStream`."""

    def feed(self, text: str, /) -> str:
        """The next piece; what is sure by now."""
        ...

    def finish(self) -> str:
        """The rest."""
        ...


@dataclass(frozen=True, slots=True)
class Filters:
    """How one reply is resolved.

    text       makes a stage for a new text. arguments: makes the stream of a call's arguments, by the tool's name.
    hidden     the names of calls that the application does not see. calls: see `ReplyStream`.
    """

    text: Callable[[], TextStage]
    arguments: Callable[[str], ArgumentStream]
    hidden: tuple[str, ...] = MEMORY_ACTIONS
    calls: Literal["whole", "streamed"] = "whole"


def like(chunk: object, data: dict[str, Any]) -> Any:
    """The data in the shape of a chunk: a dict for a dict, else an object of its class."""
    if as_dict(chunk) is not None:
        return data
    build = getattr(type(chunk), "model_construct", None)
    # The SDKs' own construct builds nested objects too, without checks: what came is passed on whatever it is.
    return build(**data) if callable(build) else data
