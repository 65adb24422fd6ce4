"""What holds for every conversation that goes out: the rules of both wires, checked after every transform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from offprompt.records import as_dict, as_list

OPENAI_ROLES: Final = ("system", "developer", "user", "assistant", "tool")
ANTHROPIC_ROLES: Final = ("user", "assistant", "system")
SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")


def check_transcript(messages: Sequence[Mapping[str, Any]], *, wire: Literal["openai", "anthropic"]) -> list[str]:
    """What is wrong with a request's messages, one sentence each with its position; empty if nothing is.

    Both       known roles; at least one message; each call answered once, directly behind its message, before anything
               else; no answer without its call; no id twice in one message; content where the API wants some.
    openai     any first message but a result; system text anywhere but between a call and its result; function
               arguments are text.
    anthropic  first: user; results stand first in the user message that follows; two messages of one role in a row are
               allowed, since they are merged; system messages as `misplaced_system` says.
    Source     the API references of OpenAI chat completions and of Anthropic messages.
    """
    if not messages:
        return ["there are no messages"]
    return _openai(messages) if wire == "openai" else _anthropic(messages)


def misplaced_system(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Why Anthropic would refuse system messages where they stand, one sentence each with its position.

    Rule     not in front, where system text is a parameter; behind a user message or a call of a server's tool; before
             an assistant message or at the end. Only models that know such messages take them. One without content,
             which only sets `output_config`, may stand anywhere.
    Source   Anthropic's page on system messages in mid-conversation.
    """
    for at, message in enumerate(messages):
        if message.get("role") != "system" or not message.get("content"):
            continue
        before: Mapping[str, Any] = messages[at - 1] if at else {}
        blocks = as_list(before.get("content")) or [{}]
        waits = before.get("role") == "assistant" and (as_dict(blocks[-1]) or {}).get("type") in SERVER_CALLS
        behind = messages[at + 1].get("role") if at + 1 < len(messages) else "assistant"
        if not at:
            yield "message 0: system text in front is a parameter of its own"
        elif before.get("role") != "user" and not waits:
            yield f"message {at}: a system message stands behind a user message, not behind {before.get('role')!r}"
        elif behind != "assistant":
            yield f"message {at}: behind a system message comes the assistant, not {behind!r}"


def _openai(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    faults: list[str] = []
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id in waiting:
                waiting.remove(str(call_id))
            else:
                faults.append(f"message {at}: a result for {call_id!r}, which no call just before it asks for")
            if not isinstance(message.get("content"), (str, list)):
                faults.append(f"message {at}: a result without content")
            continue
        faults += _unanswered(waiting, at)
        waiting = []
        if role not in OPENAI_ROLES:
            faults.append(f"message {at}: unknown role {role!r}")
        elif role == "assistant":
            waiting, wrong = _openai_calls(message, at)
            faults += wrong
        elif not message.get("content") and message.get("content") != "":
            faults.append(f"message {at}: {role} without content")
        else:
            faults += _parts(message.get("content"), at)
    return faults + _unanswered(waiting, len(messages))


def _openai_calls(message: Mapping[str, Any], at: int) -> tuple[list[str], list[str]]:
    """The ids of a message's calls, and what is wrong with it."""
    faults: list[str] = []
    ids: list[str] = []
    calls = message.get("tool_calls")
    if calls is not None and not as_list(calls):
        faults.append(f"message {at}: an empty list of tool calls")
    for item in as_list(calls) or ():
        call = as_dict(item) or {}
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id:
            faults.append(f"message {at}: a call without an id")
            continue
        if call_id in ids:
            faults.append(f"message {at}: the id {call_id!r} twice")
        ids.append(call_id)
        function = as_dict(call.get("function"))
        if call.get("type", "function") == "function":
            if function is None or not function.get("name"):
                faults.append(f"message {at}: call {call_id!r} without a name")
            elif not isinstance(function.get("arguments"), str):
                faults.append(f"message {at}: the arguments of {call_id!r} are not text")
    if not ids and not message.get("content") and not message.get("refusal"):
        faults.append(f"message {at}: assistant without content or calls")
    return ids, faults + _parts(message.get("content"), at)


def _parts(content: object, at: int) -> list[str]:
    parts = as_list(content)
    if parts is None:
        fits = content is None or isinstance(content, str)
        return [] if fits else [f"message {at}: content is neither text nor a list of parts"]
    bad = [part for part in parts if not (as_dict(part) or {}).get("type")]
    return [f"message {at}: a content part without a type"] if bad else []


def _unanswered(waiting: list[str], at: int) -> list[str]:
    return [f"message {at}: call {call_id!r} has no result before it" for call_id in waiting]


def _anthropic(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    faults: list[str] = []
    if messages[0].get("role") not in ("user", "system"):
        faults.append(f"message 0: a conversation begins with the user, not with {messages[0].get('role')!r}")
    faults += misplaced_system(messages)
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = message.get("role")
        if role not in ANTHROPIC_ROLES:
            faults.append(f"message {at}: unknown role {role!r}")
        sets_only = role == "system" and bool(message.get("output_config"))
        may_be_empty = sets_only or (role == "assistant" and at == len(messages) - 1)
        blocks, wrong = _blocks(message, at, may_be_empty=may_be_empty)
        faults += wrong
        results = [block for block in blocks if block.get("type") == "tool_result"]
        faults += _results(blocks, results, role, at)
        answered = [str(block.get("tool_use_id")) for block in results]
        faults += [
            f"message {at}: a result for {each!r}, which was not asked" for each in answered if each not in waiting
        ]
        faults += [f"message {at}: two results for {each!r}" for each in set(answered) if answered.count(each) > 1]
        faults += _unanswered([each for each in waiting if each not in answered], at)
        waiting, wrong = _uses(blocks, role, at)
        faults += wrong
    return faults + _unanswered(waiting, len(messages))


def _blocks(message: Mapping[str, Any], at: int, *, may_be_empty: bool) -> tuple[list[dict[str, Any]], list[str]]:
    content = message.get("content")
    if isinstance(content, str):
        empty = not content.strip() and not may_be_empty
        return [], [f"message {at}: empty text"] if empty else []
    parts = as_list(content)
    if parts is None or not (parts or may_be_empty):
        return [], [f"message {at}: no content"]
    faults: list[str] = []
    blocks: list[dict[str, Any]] = []
    for part in parts:
        block = as_dict(part)
        if block is None or not block.get("type"):
            faults.append(f"message {at}: a content block without a type")
            continue
        blocks.append(block)
        text = block.get("text")
        if block["type"] == "text" and not (isinstance(text, str) and text.strip()):
            faults.append(f"message {at}: an empty text block")
    return blocks, faults


def _results(blocks: list[dict[str, Any]], results: list[dict[str, Any]], role: object, at: int) -> list[str]:
    faults: list[str] = []
    if results and role != "user":
        faults.append(f"message {at}: results in a message of role {role!r}")
    if results and any(block.get("type") != "tool_result" for block in blocks[: len(results)]):
        faults.append(f"message {at}: results do not stand first")
    return faults


def _uses(blocks: list[dict[str, Any]], role: object, at: int) -> tuple[list[str], list[str]]:
    """The ids of a message's calls, and what is wrong with them."""
    ids: list[str] = []
    faults: list[str] = []
    for block in blocks:
        if block.get("type") != "tool_use":
            continue
        call_id = block.get("id")
        if role != "assistant":
            faults.append(f"message {at}: a call in a message of role {role!r}")
        if not isinstance(call_id, str) or not call_id or not block.get("name"):
            faults.append(f"message {at}: a call without id or name")
            continue
        if call_id in ids:
            faults.append(f"message {at}: the id {call_id!r} twice")
        ids.append(call_id)
        if as_dict(block.get("input")) is None:
            faults.append(f"message {at}: the input of {call_id!r} is not an object")
    return ids, faults
