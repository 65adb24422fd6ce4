"""The provider's side of a talk: it takes or refuses each request, and tells what its prompt cache holds of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import as_dict, as_list
from offprompt.service.session import Session
from offprompt.testing.strict import RefusedError, StrictUpstream
from offprompt.testing.strict_cache import PromptCache
from offprompt.testing.strict_chunks import StrictWire
from offprompt.testing.strict_lapsing import as_read
from offprompt.wire.prices import PriceSheet

EVERYTHING: Final = PriceSheet("everything", input=1, cache_write=1, cache_read=0.1, output=1)
"""A cache without minimum or steps: what it reads is what repeats."""

MARK: Final = {"type": "ephemeral"}


@cache
def tokens(text: str) -> int:
    """Tokens as sessions count them."""
    return tokenizer_for("").count(text)


def _ok(**request: Any) -> str:
    del request
    return "ok"


class Provider:
    """A strict upstream of one wire, for one session."""

    def __init__(self, wire: StrictWire) -> None:
        self._wire: StrictWire = wire
        self._upstream = StrictUpstream(wire, _ok)
        self._cache = PromptCache(EVERYTHING, tokens)

    @property
    def taken(self) -> int:
        """How many requests came."""
        return len(self._upstream.requests)

    def take(self, request: Mapping[str, Any], *, illegal: str = "") -> int:
        """The tokens of a request that repeat an earlier one.

        illegal  words of the one refusal that is looked over.
        Raises   RefusedError for a request that the provider would refuse.
        """
        body = {"model": "a model", **request}
        known = len(self._upstream.faults)
        try:
            self._upstream(**body)
        except RefusedError:
            if not illegal or any(illegal not in fault for fault in self._upstream.faults[known:]):
                raise
        return self._cache.counted(_marked(as_read(body)) if self._wire == "anthropic" else body, self._wire).read


def check(request: Mapping[str, Any], wire: StrictWire) -> None:
    """Nothing, if the provider takes the request.

    Raises   RefusedError for one that it would refuse.
    """
    StrictUpstream(wire, _ok)(**{"model": "a model", **request})


def taken(session: Session, wire: StrictWire, messages: Sequence[Any]) -> dict[str, Any]:
    """The request that a session prepares; the provider has taken it."""
    request = session.prepare(messages)
    Provider(wire).take(request)
    return request


def _marked(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request with a cache mark at each block, as if there could be so many: all that repeats is read."""
    messages = [as_dict(each) or {} for each in as_list(body.get("messages")) or []]
    return {
        **body,
        **{part: _blocks(body.get(part)) for part in ("system", "tools") if body.get(part)},
        "messages": [{**message, "content": _blocks(message.get("content"))} for message in messages],
    }


def _blocks(content: object) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content) or []
    return [{**(as_dict(block) or {}), "cache_control": MARK} for block in blocks]
