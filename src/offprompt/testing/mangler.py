"""Mangler: a stand-in for a small model, whose calls and handles come damaged in a different way each time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from offprompt.records import MEMORY_ACTIONS, as_dict, compact
from offprompt.testing.stand_ins import Caller
from offprompt.testing.strict_replies import Said, SaidCall
from offprompt.wire.shapes import Wire

_FULL_WIDTH: Final = str.maketrans("{}:,", "｛｝：，")
_HANDLE: Final = re.compile(r"\[\[mem:([^\]]+)\]\]")


@dataclass(frozen=True, slots=True)
class Damage:
    """One way to spoil what a model says.

    keeps   True: the meaning is still clear, and what was meant must happen; False: it must not, and the model or the
            application must be told.
    """

    name: str
    keeps: bool
    spoil: Callable[[str], str]


def _full_width_marks(text: str) -> str:
    """JSON with its marks in full width; what stands within quotation marks stays."""
    parts = re.split(r'("[^"]*")', text)
    return "".join(f"“{part[1:-1]}“" if at % 2 else part.translate(_FULL_WIDTH) for at, part in enumerate(parts))


def _full_width(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if char.isascii() and char.isalnum() else char for char in text)


# Each takes the arguments of a native call as JSON text.
ARGUMENTS: Final = (
    Damage("trailing commas", keeps=True, spoil=lambda text: text[:-1] + ",}"),
    Damage("single quotes", keeps=True, spoil=lambda text: text.replace('"', "'")),
    Damage("full-width marks", keeps=True, spoil=_full_width_marks),
    Damage("written as text", keeps=True, spoil=compact),
    Damage("in a fence", keeps=True, spoil=lambda text: f"```json\n{text}\n```"),
    Damage("truncated", keeps=False, spoil=lambda text: text[: len(text) * 2 // 3]),
    Damage("no JSON at all", keeps=False, spoil=lambda _: "the usual, please"),
    Damage("two objects", keeps=False, spoil=lambda text: text + text.replace('":"', '":"x')),
)
# Each takes the arguments of a native call as an object, on a wire that has no other form.
MEMBERS: Final = (
    Damage(
        "other words", keeps=True, spoil=lambda text: text.replace('"slot"', '"key"').replace('"value"', '"content"')
    ),
    Damage("a handle as the name", keeps=True, spoil=lambda text: re.sub(r'("slot":")([^"]+)', r"\1[[mem:\2]]", text)),
    Damage("spaces around", keeps=True, spoil=lambda text: re.sub(r'("slot":")([^"]+)', r"\1 \2 ", text)),
    Damage("nothing in it", keeps=False, spoil=lambda _: "{}"),
    Damage(
        "a list as the name", keeps=False, spoil=lambda text: re.sub(r'"(?:slot|query)":"[^"]*"', '"slot":[1]', text)
    ),
)
# Each takes a call as one JSON object, which stands in the text of a reply.
IN_TEXT: Final = (
    Damage("bare", keeps=True, spoil=lambda text: text),
    Damage("prose around", keeps=True, spoil=lambda text: f"Let me do that.\n{text}\nOne moment."),
    Damage("in a fenced block", keeps=True, spoil=lambda text: f"```json\n{text}\n```"),
    Damage("in tags", keeps=True, spoil=lambda text: f"<tool_call>\n{text}\n</tool_call>"),
    Damage("commas and quotes", keeps=True, spoil=lambda text: text.replace('"', "'").replace("}", ",}", 1)),
    Damage("full-width", keeps=True, spoil=_full_width_marks),
    Damage("cut off", keeps=False, spoil=lambda text: text[:-4]),
    Damage("as an example", keeps=False, spoil=lambda text: f"A call looks like `{text}`, for example."),
)
# Each takes a handle's name; what comes stands where the handle stood.
HANDLES: Final = (
    Damage("capitals", keeps=True, spoil=lambda name: f"[[MEM:{name.upper()}]]"),
    Damage("spaces", keeps=True, spoil=lambda name: f"[[ mem : {name} ]]"),
    Damage("emphasis", keeps=True, spoil=lambda name: f"**[[mem:{name}]]**"),
    Damage("emphasis inside", keeps=True, spoil=lambda name: f"[[mem:**{name}**]]"),
    Damage("full-width letters", keeps=True, spoil=lambda name: f"［［ｍｅｍ：{_full_width(name)}］］"),
    Damage("braces", keeps=True, spoil=lambda name: "{{mem:" + name + "}}"),
    Damage("escaped", keeps=True, spoil=lambda name: "[[mem:" + name.replace("_", "\\_") + "]]"),
    Damage("another name", keeps=False, spoil=lambda name: f"[[mem:{name}_2]]"),
)
WRONG_TOOL: Final = Damage("the tool's name", keeps=False, spoil=lambda name: name.replace("mem_", "memory_"))


class Mangler(Caller):
    """A Caller whose output is spoiled: memory calls natively and in text, handles in answers and arguments.

    Keeps   `done`: the damages so far, in order; each kind comes by turns. A damaged call is not said again.
    """

    def __init__(self, wire: Wire = "openai") -> None:
        super().__init__(wire)
        self.done: list[Damage] = []
        self._wire: Wire = wire
        self._turns: dict[str, int] = {}

    def __call__(self, **request: Any) -> Said:
        """What it says to a request."""
        said = super().__call__(**request)
        if not said.calls:
            return replace(said, text=self._handles(said.text))
        call = said.calls[0]
        if call.name not in MEMORY_ACTIONS:
            arguments = {key: self._handles(str(value)) for key, value in _arguments(call).items()}
            return replace(said, calls=(SaidCall(call.name, arguments),))
        return self._call(call)

    def _call(self, call: SaidCall) -> Said:
        damage = self._next("call", (*ARGUMENTS, *MEMBERS, *IN_TEXT, WRONG_TOOL))
        if self._wire == "anthropic" and damage in ARGUMENTS:
            # This wire carries objects only.
            damage = IN_TEXT[ARGUMENTS.index(damage)]
        self.done.append(damage)
        arguments = compact(_arguments(call))
        if damage is WRONG_TOOL:
            return Said(calls=(SaidCall(damage.spoil(call.name), _arguments(call)),))
        if damage in ARGUMENTS:
            finish = "length" if damage.name == "truncated" else ""
            return Said(calls=(SaidCall(call.name, damage.spoil(arguments)),), finish=finish)
        if damage in MEMBERS:
            return Said(calls=(SaidCall(call.name, as_dict(_loaded(damage.spoil(arguments))) or {}),))
        return Said(damage.spoil(compact({"name": call.name, "arguments": _arguments(call)})))

    def _handles(self, text: str) -> str:
        def spoiled(found: re.Match[str]) -> str:
            damage = self._next("handle", HANDLES)
            self.done.append(damage)
            return damage.spoil(found.group(1))

        return _HANDLE.sub(spoiled, text)

    def _next(self, kind: str, damages: tuple[Damage, ...]) -> Damage:
        at = self._turns.get(kind, 0)
        self._turns[kind] = at + 1
        return damages[at % len(damages)]


def _arguments(call: SaidCall) -> dict[str, Any]:
    return dict(call.arguments) if isinstance(call.arguments, Mapping) else as_dict(_loaded(call.arguments)) or {}


def _loaded(text: str) -> Any:
    return json.loads(text)
