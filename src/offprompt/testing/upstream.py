"""Upstream: scripted replies behind the strict upstreams on loopback, for the providers' real clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from offprompt.testing.strict import RefusedError
from offprompt.testing.strict_server import StrictServer


class Upstream(StrictServer):
    """Serves scripted replies, one after the other, and refuses what a provider would refuse.

    replies   JSON bodies in the wire's shape, e.g. those that `ScriptedModel.create` makes; when they are used up
              the answer is 500. Without counts of their own they say one token in and one out.
    binding   see `StrictUpstream`.
    """

    def __init__(self, replies: Iterable[Mapping[str, Any]] = (), *, binding: bool = False) -> None:
        self.replies = [dict(reply) for reply in replies]
        super().__init__(self._next, binding=binding)

    def _next(self, **request: Any) -> dict[str, Any]:
        del request
        if not self.replies:
            error = {"message": "the script is at its end", "type": "api_error"}
            raise RefusedError(500, {"type": "error", "error": error})
        reply = self.replies.pop(0)
        if "choices" in reply:
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        else:
            usage = {"input_tokens": 1, "output_tokens": 1}
        return {"usage": usage, **reply}
