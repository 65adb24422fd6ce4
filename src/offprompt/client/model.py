"""A scope that a server keeps, as a model may change it: the server knows that it is one, and holds to its rules."""

from __future__ import annotations

from typing import Any

from offprompt.client._answers import records_of, slot_of
from offprompt.client._requests import Asking, Request, asked, path_of
from offprompt.client.scopes import BoundScope
from offprompt.records import Json, Remembered, Slot, Trust
from offprompt.records.values import checked_value


class ModelScope(BoundScope):
    """A bound scope with three calls more, which do less than `write`, `remember` and `forget`: what a model may."""

    @classmethod
    def of(cls, bound: BoundScope) -> ModelScope:
        """The same scope of the same server."""
        return cls(bound._transport, bound._headers, bound.scope)  # noqa: SLF001 - a kind of the same

    @asked
    def model_write(self, name: str, value: Json, *, if_version: int | None, trust: Trust) -> Asking[Slot]:
        """The slot as stored; ConflictError with `kind` where a model may not."""
        body = {"name": name, "value": checked_value(name, value), **_version(if_version), "trust": trust}
        return slot_of((yield self._asking("write", body)))

    @asked
    def model_remember(self, text: str, *, trust: Trust) -> Asking[list[Remembered]]:
        """What became of a sentence."""
        answer = yield self._asking("remember", {"text": text, "trust": trust})
        return records_of(answer["remembered"], Remembered)

    @asked
    def model_forget(self, name: str, *, if_version: int | None = None, trust: Trust) -> Asking[str]:
        """Hide a slot, or a memory by its id; its name."""
        answer = yield self._asking("forget", {"name": name, **_version(if_version), "trust": trust})
        return str(answer["name"])

    @asked
    def model_correct(self, memory_id: str, text: str | None, *, pinned: bool | None, trust: Trust) -> Asking[str]:
        """Another text of a memory, or whether it is pinned; its id."""
        answer = yield self._asking("correct", {"name": memory_id, "text": text, "pinned": pinned, "trust": trust})
        return str(answer["name"])

    def _asking(self, what: str, body: dict[str, Any]) -> Request:
        return Request("POST", path_of("v1", "model", what), body=body, headers=self._headers)


def _version(if_version: int | None) -> dict[str, int]:
    return {} if if_version is None else {"if_version": if_version}
