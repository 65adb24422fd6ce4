"""StrictUpstream: a provider's API around a stand-in model, which refuses what the provider would refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from offprompt.models.tokenizers import estimate
from offprompt.records import as_dict, as_list, compact
from offprompt.testing.strict_binding import (
    passed_back_faults,
    reasoning_faults,
    sign_reasoning,
    sign_thinking,
    thinking_faults,
    without_reasoning,
)
from offprompt.testing.strict_cache import Counted, PromptCache, prompt_units
from offprompt.testing.strict_chat import chat_faults
from offprompt.testing.strict_chunks import Delivery, StrictWire, split_reply
from offprompt.testing.strict_clearing import Cleared, clear
from offprompt.testing.strict_lapsing import as_read
from offprompt.testing.strict_messages import message_faults
from offprompt.testing.strict_replies import Said, SaidCall, reply_from, usage_of
from offprompt.testing.strict_responses import response_faults
from offprompt.testing.strict_rules import Fault
from offprompt.wire.prices import PriceSheet
from offprompt.wire.shapes import REASONING

__all__ = ["Delivery", "RefusedError", "Said", "SaidCall", "StrictUpstream", "request_faults"]

Model: TypeAlias = Callable[..., "Said | str | Mapping[str, Any]"]
WHOLE: Final = Delivery()
CLIENT_OPTIONS: Final = ("betas", "timeout", "extra_headers", "extra_query", "extra_body")


class RefusedError(Exception):
    """The provider's answer is not a reply: an HTTP status and the JSON that it sends with it."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status, self.body = status, body
        super().__init__(f"{status}: {compact(body)}")


class StrictUpstream:
    """One wire of a provider, as a plain callable that takes a request's keyword arguments.

    wire      `openai` (chat completions), `responses` (OpenAI's), `anthropic` (messages).
    model     called with the request's fields as keyword arguments, such as `ScriptedModel`; says `Said`, a text, or
              a reply in the wire's shape, whose missing fields are filled in.
    sheet     the profile *cache*: counts what is read from and written to the prompt cache, by the sheet's minimum
              and step. None: nothing is cached.
    binding   the profile *binding*: thoughts are signed over the prompt that they were made with, and a request that
              brings them back behind another prompt is refused. Of chat completions they come as `reasoning_content`,
              and calls that come back without it are refused.
    delivery  how streams come; may be set anew at any time. count: tokens of a text, by default an estimate.
    Keeps     `requests`: the bodies that came, in order; `faults`: why requests were refused, one text a reason.
    """

    def __init__(
        self,
        wire: StrictWire,
        model: Model,
        *,
        sheet: PriceSheet | None = None,
        binding: bool = False,
        delivery: Delivery = WHOLE,
        count: Callable[[str], int] = estimate,
    ) -> None:
        self.wire: StrictWire = wire
        self.delivery = delivery
        self.requests: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self._model, self._binding, self._count = model, binding, count
        self.cache = None if sheet is None else PromptCache(sheet, count)
        self._stored: dict[str, list[dict[str, Any]]] = {}
        self._thought: dict[str, str] = {}

    def __call__(self, **request: Any) -> Any:
        """A reply as a dict, or for `stream=True` its chunks as an iterator of dicts.

        Raises   RefusedError for a request that the provider would refuse.
        """
        extra = as_dict(request.get("extra_body")) or {}
        body = {key: value for key, value in request.items() if key not in CLIENT_OPTIONS} | extra
        betas = [str(each) for each in as_list(request.get("betas")) or []]
        return self.stream(body, betas) if body.get("stream") else self.answer(body, betas)

    def stream(self, body: Mapping[str, Any], betas: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """The chunks of the reply; refused before the first one. betas: see `answer`."""
        reply = self.answer(body, betas)
        wanted = bool((as_dict(body.get("stream_options")) or {}).get("include_usage"))
        return split_reply(reply, self.wire, self.delivery, usage=wanted)

    def answer(self, body: Mapping[str, Any], betas: Sequence[str] = ()) -> dict[str, Any]:
        """The whole reply.

        betas    of Anthropic's: those that the request's header names.
        Raises   RefusedError as `__call__`.
        """
        given: dict[str, Any] = json.loads(compact(dict(body)))
        self.requests.append(given)
        before = self._earlier(given)
        faults = self._faults(given, before, betas)
        if faults:
            self.faults += [fault.message for fault in faults]
            raise RefusedError(400, error_body(self.wire, faults))
        number = len(self.requests)
        # Thinking is verified as it came; what lapsed or is cleared then is neither read nor counted.
        edited = clear(as_read(given), self._count) if self.wire == "anthropic" else Cleared(given)
        asked = {key: value for key, value in edited.body.items() if key not in ("stream", "stream_options")}
        said = self._model(**asked)
        reply = reply_from(said, self.wire, number, sign=lambda thought: self._sign(given, before, thought))
        if self._binding and self.wire == "openai":
            self._think_aloud(reply, said.thinking if isinstance(said, Said) else "")
        reply.setdefault("model", given["model"])
        reply.setdefault("usage", usage_of(self._counted(edited.body, before), self._spoken(reply), self.wire))
        if edited.report is not None:
            reply.setdefault("context_management", edited.report)
        if self.wire == "responses" and given.get("store", True):
            self._stored[str(reply["id"])] = [*before, *_input_items(given), *reply["output"]]
        return reply

    def _think_aloud(self, reply: Mapping[str, Any], thought: str) -> None:
        """Put the thought into a completion, and note what its calls are to come back with."""
        for message in [as_dict(choice["message"]) or {} for choice in reply["choices"] if "message" in choice]:
            if thought:
                message[REASONING] = thought
            if message.get(REASONING):
                self._thought |= {call["id"]: message[REASONING] for call in message.get("tool_calls") or ()}

    def _earlier(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The items that `previous_response_id` stands for."""
        named = body.get("previous_response_id")
        if self.wire != "responses" or named is None:
            return []
        if named not in self._stored:
            fault = Fault(f"Previous response with id '{named}' not found.", "previous_response_id")
            self.faults.append(fault.message)
            raise RefusedError(400, error_body(self.wire, [fault]))
        return self._stored[named]

    def _faults(self, body: Mapping[str, Any], before: list[dict[str, Any]], betas: Sequence[str]) -> list[Fault]:
        if self._binding and self.wire == "openai":
            return request_faults(without_reasoning(body), self.wire) + passed_back_faults(body, self._thought)
        faults = request_faults(body, self.wire, before, betas)
        if self._binding and self.wire == "anthropic":
            faults += thinking_faults(body)
        elif self._binding and self.wire == "responses":
            faults += reasoning_faults(body, [*before, *_input_items(body)])
        return faults

    def _sign(self, body: Mapping[str, Any], before: list[dict[str, Any]], thought: str) -> str:
        if self.wire == "anthropic":
            return sign_thinking(body, thought)
        return sign_reasoning(body, [*before, *_input_items(body)], thought)

    def _counted(self, body: Mapping[str, Any], before: list[dict[str, Any]]) -> Counted:
        whole = {**body, "input": [*before, *_input_items(body)]} if before else body
        if self.cache is not None:
            return self.cache.counted(whole, self.wire)
        return Counted(sum(self._count(unit.text) for unit in prompt_units(whole, self.wire) if unit.counts))

    def _spoken(self, reply: Mapping[str, Any]) -> int:
        key = {"openai": "choices", "anthropic": "content", "responses": "output"}[self.wire]
        return max(1, self._count(compact(reply.get(key))))


def request_faults(
    body: Mapping[str, Any],
    wire: StrictWire,
    before: Sequence[Mapping[str, Any]] = (),
    betas: Sequence[str] = (),
) -> list[Fault]:
    """Why the wire's provider would refuse a request; empty if it would not.

    before   of responses: the items that `previous_response_id` stands for. betas: of Anthropic's, by its header.
    """
    if wire == "openai":
        return chat_faults(body)
    return message_faults(body, betas) if wire == "anthropic" else response_faults(body, before)


def _input_items(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = body.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [as_dict(each) or {} for each in as_list(given) or []]


def error_body(wire: StrictWire, faults: list[Fault]) -> dict[str, Any]:
    """A refusal in the provider's words; all reasons in one message."""
    message = " ".join(fault.message for fault in faults)
    if wire == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}
    param = faults[0].field or None
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}
