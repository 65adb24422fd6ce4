"""Gemma's `call:name{key:<|"|>text<|"|>}`, framed or bare."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Final

from offprompt.records import as_dict
from offprompt.wire._calls import BadCall, call_of, known
from offprompt.wire._envelope import Dialect, Envelope
from offprompt.wire._literal import CUT
from offprompt.wire._marks import NAME
from offprompt.wire._scanner import Style, scan

_FRAME: Final = r"(?:<\|tool_call\|?>|<start_function_call>|<call>)"
_HEADER = re.compile(rf"{_FRAME}?\s*call:\s{{0,4}}({NAME})\s{{0,4}}:?\s{{0,4}}(?=\{{)")
_END = re.compile(r"\s*(?:<tool_call\|>|<\|tool_call\|>|<end_function_call>|</?call>|</tool_call>)")
_STYLE: Final = Style({'<|"|>': ('<|"|>',), "<|'|>": ("<|'|>",), "<escape>": ("<escape>",), '"': ('"',), "'": ("'",)})


def _gemma(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _HEADER.match(text, start)
    if header is None:
        return None
    name = known(header[1], names)
    found = scan(text, header.end(), _STYLE)
    closing = _END.match(text, found.end)
    end = closing.end() if closing else found.end
    if name is None:
        return Envelope(start, end)
    value = None
    if found.closed and found.clean and not found.inner and not found.why:
        try:
            value = as_dict(json.loads(found.normal))
        except (ValueError, RecursionError):
            value = None
    if value is None:
        why = found.why or ("its arguments cannot be read" if found.closed else CUT)
        # What follows may be part of a value.
        return Envelope(start, len(text), (BadCall(name, why),))
    return Envelope(start, end, (call_of(name, value),))


GEMMA = Dialect(
    rf"{_FRAME}\s{{0,9}}call:(?=\s{{0,4}}{NAME})|(?<![\w\"'`])call:(?=\s{{0,4}}{NAME}\s{{0,4}}:?\s{{0,4}}\{{)", _gemma
)
