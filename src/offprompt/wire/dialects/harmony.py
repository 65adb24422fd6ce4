"""OpenAI's Harmony: a channel and a recipient, with its special tokens or after a server took them out."""

from __future__ import annotations

import re
from collections.abc import Collection

from offprompt.wire._envelope import Dialect, Envelope
from offprompt.wire._marks import NAME
from offprompt.wire._named import Body, read_named

_TO = rf"to=({NAME})"
_HEADER = re.compile(
    rf"(?:<\|start\|>assistant)?(?:\s*{_TO})?\s*<\|channel\|>\s*commentary(?:\s+{_TO})?"
    r"(?:\s|<\|constrain\|>|<\|channel\|>|commentary|json|code){0,12}<\|message\|>"
)
_BOUND = re.compile(r"<\|(?:call|end|return)\|>|(?=<\|start\|>)|(?=<\|channel\|>)")
_STRIPPED = re.compile(
    rf"(?:assistant)?\s?commentary\s{{1,4}}{_TO}\s*(?:<\|constrain\|>)?\s*(?:json|code)?\s*(?=[{{｛])"
)
_STRIPPED_BOUND = re.compile(r"(?=assistant\s?(?:final|commentary|analysis))|(?=commentary\s{1,4}to=)|<\|call\|>")


def _harmony(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _HEADER.match(text, start)
    name = (header[1] or header[2]) if header else None
    if header is None or name is None:
        return None
    return read_named(text, name, Body(start, header.end(), _BOUND), names)


def _stripped(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _STRIPPED.match(text, start)
    return None if header is None else read_named(text, header[1], Body(start, header.end(), _STRIPPED_BOUND), names)


HARMONY = Dialect(r"<\|start\|>assistant(?=\s*(?:to=|<\|channel\|>\s*commentary))|<\|channel\|>\s*commentary", _harmony)
STRIPPED = Dialect(
    r"(?:\bassistant|assistant(?=\s?commentary))\s?commentary\s{1,4}to=|\bcommentary\s{1,4}to=", _stripped
)
