"""Thinking that is bound to the prompt it was made with: signed, and verified when it comes back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from offprompt.records import as_dict, as_list, canonical
from offprompt.testing.strict_rules import Fault
from offprompt.wire.payload import loose
from offprompt.wire.shapes import REASONING

THOUGHT: Final = ("thinking", "redacted_thinking")


def sign_thinking(body: Mapping[str, Any], thought: str) -> str:
    """A signature over all that stands before the answer to a request: tools, system text, messages; and the thought.

    Cache marks do not count, and text is the same as a text block.
    """
    return _signature(_chain(body)[-1], thought)


def sign_reasoning(body: Mapping[str, Any], items: Sequence[Mapping[str, Any]], thought: str) -> str:
    """The same of a response's reasoning; `items`: the input before it."""
    return _digest(["responses", body.get("tools") or [], body.get("instructions"), list(items), thought])


def thinking_faults(body: Mapping[str, Any]) -> list[Fault]:
    """Thinking that does not stand behind what it was made with, or is missing where it must stand.

    Cost     O(request), however many thoughts it holds.
    Source   Anthropic's page on extended thinking: signed blocks are passed back as they came, and within a tool loop
             the answer that called begins with its thinking.
    """
    chain = _chain(body)
    faults: list[Fault] = []
    messages = [as_dict(each) or {} for each in as_list(body.get("messages")) or []]
    for at, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        blocks = [as_dict(each) or {} for each in as_list(message.get("content")) or []]
        thoughts = [(place, block) for place, block in enumerate(blocks) if block.get("type") in THOUGHT]
        for place, block in thoughts:
            given, thought = block.get("signature", block.get("data")), str(block.get("thinking", ""))
            if given != _signature(chain[at], thought):
                where = f"messages.{at}.content.{place}"
                faults.append(Fault(f"{where}: Invalid `signature` in `{block['type']}` block", where))
        calls = any(block.get("type") == "tool_use" for block in blocks)
        thinks = (as_dict(body.get("thinking")) or {}).get("type") == "enabled"
        if thinks and calls and _in_loop(messages[at + 1 :]) and blocks[0].get("type") not in THOUGHT:
            why = f"Expected `thinking` or `redacted_thinking`, but found `{blocks[0].get('type')}`"
            faults.append(Fault(f"messages.{at}.content.0.type: {why}", f"messages.{at}"))
    return faults


def without_reasoning(body: Mapping[str, Any]) -> dict[str, Any]:
    """A chat completion's request without the thinking in its assistant messages, which OpenAI itself does not know."""
    messages = [as_dict(each) or {} for each in as_list(body.get("messages")) or []]
    return {**body, "messages": [{key: each[key] for key in each if key != REASONING} for each in messages]}


def passed_back_faults(body: Mapping[str, Any], thought: Mapping[str, str]) -> list[Fault]:
    """Calls in a chat completion's request that came back without the thinking that they were made with, by call id.

    Source   DeepSeek's page on its thinking mode: that of calls is passed back in all later requests.
    """
    messages = [as_dict(each) or {} for each in as_list(body.get("messages")) or []]
    calls = [
        (at, as_dict(call) or {}) for at, one in enumerate(messages) for call in as_list(one.get("tool_calls")) or []
    ]
    return [
        Fault(f"The {REASONING} in the thinking mode must be passed back to the API.", f"messages[{at}]")
        for at, call in calls
        if call.get("id") in thought and messages[at].get(REASONING) != thought[str(call["id"])]
    ]


def reasoning_faults(body: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> list[Fault]:
    """Reasoning items with encrypted content that was made with another input."""
    faults: list[Fault] = []
    for at, item in enumerate(items):
        given = item.get("encrypted_content")
        if item.get("type") != "reasoning" or given is None:
            continue
        if given != sign_reasoning(body, items[:at], _summary(item)):
            why = f"The encrypted content of item '{item.get('id')}' could not be verified."
            faults.append(Fault(why, f"input[{at}]"))
    return faults


def _summary(item: Mapping[str, Any]) -> str:
    return "".join(str((as_dict(part) or {}).get("text", "")) for part in as_list(item.get("summary")) or [])


def _in_loop(later: Iterable[Mapping[str, Any]]) -> bool:
    """Whether nothing but results, calls and system messages came since."""
    return all(
        message.get("role") in ("assistant", "system")
        or any((as_dict(block) or {}).get("type") == "tool_result" for block in as_list(message.get("content")) or [])
        for message in later
    )


def _chain(body: Mapping[str, Any]) -> list[str]:
    """A digest of what stands before each message, and of the whole."""
    chain = [_digest(loose([body.get("tools") or [], _text_blocks(body.get("system"))]))]
    for message in as_list(body.get("messages")) or []:
        chain.append(_digest([chain[-1], loose(_plain(as_dict(message) or {}))]))
    return chain


def _signature(before: str, thought: str) -> str:
    return _digest(["anthropic", before, thought])


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": message.get("role"), "content": _text_blocks(message.get("content"))}


def _text_blocks(content: object) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return as_list(content) or []


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()
