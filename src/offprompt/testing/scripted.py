"""ScriptedModel: a stand-in for a model in tests and demonstrations. It is a script, not a language model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from offprompt.records import Message, as_dict, as_list, canonical, compact
from offprompt.wire.profiles import SHAPES
from offprompt.wire.shapes import Shape
from offprompt.wire.stubs import gone_line

OURS: Final = "[memory]\n"
"""How the answer to a call in text begins."""

_FRAME: Final = re.compile(r"<memory [^>\n]*>\n(.*?)\n</memory [^>\n]*>\n*", re.DOTALL)
_NOT_SAID: Final = re.compile(
    "|".join([_FRAME.pattern, *(re.escape(gone_line(each)) for each in ("en", "zh"))]), re.DOTALL
)
_NAME_EN: Final = r"[^\W\d_][\w'’-]*(?: [A-Z][\w'’-]*)*"
_NAME_ZH: Final = r"[\u3400-\u9fff·]{2,8}"


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that the script knows how to save and how to answer.

    states    patterns of a user's sentence that says it; group 1 is the value. asks: of one that asks for it.
    answer    what the script answers, in English and Chinese; `{value}` stands for the value.
    """

    slot: str
    states: tuple[str, ...]
    asks: tuple[str, ...]
    answer: tuple[str, str]


FACTS: Final = (
    Fact(
        "user_name",
        (rf"(?i:my name is) ({_NAME_EN})", rf"我(?:叫|的名字是)({_NAME_ZH})"),
        (r"(?i:what(?:'s| is) my name)", r"我(?:叫什么|的名字是什么)"),
        ("Your name is {value}.", "你叫{value}。"),
    ),
    Fact(
        "home_city",
        (rf"(?i:i live in) ({_NAME_EN})", rf"我住在({_NAME_ZH})"),
        (r"(?i:where do i live)", r"我住(?:在)?哪"),
        ("You live in {value}.", "你住在{value}。"),
    ),
)
SAVED: Final = ("Noted.", "记下了。")
UNKNOWN: Final = ("I have no record of that.", "没有记录。")
CHAT: Final = (
    ("That is worth a closer look.", "I would begin with the smallest step.", "It depends on how much time you have."),
    ("这个值得细看。", "我会从最小的一步开始。", "这要看你有多少时间。"),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a stand-in read in one request.

    user      the newest words of the user. frames: what is shown to the turn. results: of all calls; answered: of the
              turn's own. said: earlier words of the user. tools: offered. called: in this turn.
    """

    user: str
    frames: str
    results: tuple[str, ...]
    answered: tuple[str, ...]
    system: str
    said: tuple[str, ...]
    tools: frozenset[str]
    called: frozenset[str]

    @property
    def chinese(self) -> bool:
        """Whether the user writes Chinese."""
        return re.search(r"[\u3400-\u9fff]", self.user) is not None


class ScriptedModel:
    """Answers by a script, from nothing but the request that it is given; nothing is kept between calls.

    It saves a stated name or city with `mem_write`, and answers a question for one only if the value stands in the
    request: in a memory frame, in a tool result, in the system text, or in what the user said. Where it stands
    nowhere and `mem_read` is offered, it reads the slot; failing that it says that it has no record.

    wire         the shape of requests and replies: `openai` or `anthropic`.
    calls_tools  False: a model that never calls a tool.
    """

    def __init__(self, wire: Literal["openai", "anthropic"] = "openai", *, calls_tools: bool = True) -> None:
        self.wire: Literal["openai", "anthropic"] = wire
        self.calls_tools = calls_tools
        self._shape = SHAPES[wire]

    def create(self, **request: Any) -> dict[str, Any]:
        """A reply in the wire's shape, as the provider's client returns it (a dict)."""
        seen = read_request(request, self._shape)
        language = 1 if seen.chinese else 0
        fact = next((fact for fact in FACTS if _first(fact.asks, seen.user) is not None), None)
        if fact is not None:
            value = found_value(fact, seen)
            if value is not None:
                return self._text(request, fact.answer[language].format(value=value))
            return self._call_or(request, seen, "mem_read", {"slot": fact.slot}, UNKNOWN[language])
        for stated in FACTS:
            match = _first(stated.states, seen.user)
            if match is not None:
                arguments = {"slot": stated.slot, "value": match.group(1)}
                return self._call_or(request, seen, "mem_write", arguments, SAVED[language])
        chosen = int(hashlib.sha256(seen.user.encode()).hexdigest(), 16) % len(CHAT[language])
        return self._text(request, CHAT[language][chosen])

    __call__ = create

    def _call_or(
        self, request: Mapping[str, Any], seen: Seen, name: str, arguments: Mapping[str, str], text: str
    ) -> dict[str, Any]:
        """The call, once in a turn and where the tool is offered; else the text."""
        if not self.calls_tools or name not in seen.tools or name in seen.called:
            return self._text(request, text)
        call_id = "call_" + hashlib.sha256(canonical(dict(request)).encode()).hexdigest()[:12]
        if self.wire == "anthropic":
            block = {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)}
            return self._message(request, [block], "tool_use")
        function = {"name": name, "arguments": compact(dict(arguments))}
        call = {"id": call_id, "type": "function", "function": function}
        return self._choice(request, {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")

    def _text(self, request: Mapping[str, Any], text: str) -> dict[str, Any]:
        if self.wire == "anthropic":
            return self._message(request, [{"type": "text", "text": text}], "end_turn")
        return self._choice(request, {"role": "assistant", "content": text}, "stop")

    def _choice(self, request: Mapping[str, Any], message: Message, finish: str) -> dict[str, Any]:
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {"object": "chat.completion", "model": request.get("model", "scripted"), "choices": [choice]}

    def _message(self, request: Mapping[str, Any], content: list[dict[str, Any]], stop: str) -> dict[str, Any]:
        head = {"type": "message", "role": "assistant", "model": request.get("model", "scripted")}
        return {**head, "content": content, "stop_reason": stop}


def messages_in(request: Mapping[str, Any]) -> list[Message]:
    """The messages of a request, or its items."""
    return [as_dict(each) or {} for each in as_list(request.get("messages") or request.get("input")) or []]


def read_request(request: Mapping[str, Any], shape: Shape) -> Seen:
    """The request's parts as the script needs them; a turn begins at the newest words of the user."""
    messages = messages_in(request)
    own = [shape.kind(each) == "user" for each in messages]
    ours = [mine and shape.text(each).startswith(OURS) for each, mine in zip(messages, own, strict=True)]
    words = [
        _NOT_SAID.sub("", shape.text(each)).strip() if mine and not answer else ""
        for each, mine, answer in zip(messages, own, ours, strict=True)
    ]
    begun = max((at for at, text in enumerate(words) if text), default=0)
    first = begun
    while first > 0 and own[first - 1] and not words[first - 1]:
        first -= 1
    turn = messages[first:]
    frames = [part for each in turn for part in _FRAME.findall(shape.text(each))]
    calls = [call.name for each in turn if shape.kind(each) == "assistant" for call in shape.calls(each)]
    in_text = [shape.text(each) for each, answer in zip(turn, ours[first:], strict=True) if answer]
    return Seen(
        words[begun] if words else "",
        "\n".join(frames),
        tuple(result.text for each in messages for result in shape.results(each)),
        (*(result.text for each in turn for result in shape.results(each)), *in_text),
        "\n".join([_system(request), *(shape.text(each) for each in messages if shape.kind(each) == "system")]),
        tuple(text for text in words[:begun] if text),
        frozenset(_tool_names(as_list(request.get("tools")) or [])),
        frozenset(calls),
    )


def found_value(fact: Fact, seen: Seen) -> str | None:
    """The fact's value where it stands in the request, or None: shown, read, listed, or said before."""
    line = re.compile(rf"^{re.escape(fact.slot)}(?: \([^)\n]*\))?:[ \n](\S.*)$", re.MULTILINE)
    for text in (seen.frames, *reversed(seen.results), seen.system):
        found = line.search(text)
        if found is not None:
            return found.group(1).strip()
    for text in reversed(seen.said):
        said = _first(fact.states, text)
        if said is not None:
            return said.group(1)
    return None


def _first(patterns: Sequence[str], text: str) -> re.Match[str] | None:
    return next((match for pattern in patterns if (match := re.search(pattern, text)) is not None), None)


def _system(request: Mapping[str, Any]) -> str:
    system = request.get("system")
    if isinstance(system, str):
        return system
    return "\n".join(str((as_dict(block) or {}).get("text", "")) for block in as_list(system) or [])


def _tool_names(tools: Sequence[Any]) -> list[str]:
    names: list[str] = []
    for item in tools:
        tool = as_dict(item) or {}
        names.append(str((as_dict(tool.get("function")) or tool).get("name", "")))
    return names
