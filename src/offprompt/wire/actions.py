"""What a model asks of its memory: the calls in a reply, native or in its text."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from offprompt.records import MEMORY_ACTIONS, Action, Parsed, Refusal, as_dict, canonical
from offprompt.wire._calls import BadCall, CallError, tidy
from offprompt.wire._frames import without
from offprompt.wire._lenient import UnreadableError, check_value, read_whole
from offprompt.wire._reply import reply_parts
from offprompt.wire._walk import find_envelopes

MAX_RAW_CHARS: Final = 200


@dataclass(slots=True)
class _Found:
    names: Collection[str]
    actions: list[Action] = field(default_factory=list[Action])
    refused: list[Refusal] = field(default_factory=list[Refusal])


def parse_actions(reply: object, *, names: Iterable[str] = MEMORY_ACTIONS) -> Parsed:
    """A model's reply taken apart: the calls it makes under those names, its text without them, what was refused.

    reply    text; or as SDK object or dict: an OpenAI chat completion, choice or message, an OpenAI response or the
             list of its output items, an Anthropic message.
    Native   `tool_calls`, `tool_use` blocks and `function_call` items of those names; those of other names are the
             client's, left alone.
    In text  JSON objects, bare, in prose or in any family's marks: the name under name, action, tool, tool_name or
             function, the arguments under arguments, parameters, args, input or action_input (object or JSON text),
             or flat; and the dialects of docs/actions.md. Reasoning, quotations, code and examples are no calls. A
             call that stands in the text as well as natively counts once. `where` of a call in text is its characters
             in the whole text.
    Memory   of `mem_*` calls, `key` and `name` mean `slot`, `content` means `value`, `q` means `query`.
    Refused  with the reason, never run: what is cut off, has two meanings, holds NaN, or has arguments that are not
             an object.
    Order    as a reply is written: text, then native calls. Raises nothing, whatever the reply.
    """
    parts = reply_parts(reply)
    native, text = _Found(frozenset(names)), _Found(frozenset(names))
    for call in parts.calls:
        if call.name in native.names:
            _native(native, call.name, call.arguments, where=call.where, call_id=call.call_id, cut=call.cut)
    rest = _in_text(text, parts.text, {_key(action) for action in native.actions})
    return Parsed((*text.actions, *native.actions), rest, (*text.refused, *native.refused))


def _native(found: _Found, name: str, arguments: object, *, where: str, call_id: str, cut: bool) -> None:
    raw = arguments if isinstance(arguments, str) else _dump(arguments)
    try:
        value = _native_arguments(arguments, cut=cut)
        found.actions.append(Action(name, tidy(name, value), where, call_id))
    except (UnreadableError, CallError) as exc:
        found.refused.append(Refusal(raw[:MAX_RAW_CHARS], f"{name}: {exc}", where, name, call_id))


def _native_arguments(arguments: object, *, cut: bool) -> dict[str, Any]:
    if cut:
        raise CallError("the reply was cut off in it")
    if isinstance(arguments, str):
        return read_whole(arguments) if arguments.strip() else {}
    value = {} if arguments is None else as_dict(arguments)
    if value is None:
        raise CallError("its arguments are not an object")
    check_value(value)
    return value


def _in_text(found: _Found, text: str, native: set[str]) -> str:
    if not any(name in text for name in found.names):
        return text
    envelopes = find_envelopes(text, found.names)
    for envelope in envelopes:
        raw, where = text[envelope.start : envelope.end], f"text[{envelope.start}:{envelope.end}]"
        for call in envelope.calls:
            if isinstance(call, BadCall):
                found.refused.append(Refusal(raw[:MAX_RAW_CHARS], f"{call.name}: {call.why}", where, call.name))
                continue
            action = Action(call.name, call.arguments, where, raw=raw)
            if _key(action) not in native:
                found.actions.append(action)
    return without(text, envelopes)


def _key(action: Action) -> str:
    return f"{action.name} {_dump(action.arguments)}"


def _dump(value: object) -> str:
    try:
        return canonical(value)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
