"""A name between special tokens, then JSON: Mistral, DeepSeek V3 to V3.1 and R1, Kimi, Functionary, Llama functions."""

from __future__ import annotations

import re
from collections.abc import Collection

from offprompt.wire._envelope import Dialect, Envelope
from offprompt.wire._marks import BAR, JOIN, NAME
from offprompt.wire._named import Body, read_named

_BEGIN = rf"<{BAR}tool{JOIN}call{JOIN}begin{BAR}>"
_SEP = rf"<{BAR}tool{JOIN}sep{BAR}>"
_ARGUMENT = rf"<{BAR}tool{JOIN}call{JOIN}argument{JOIN}begin{BAR}>"
_TOKENS = re.compile(rf"(?:{_BEGIN}\s*)?(?:function\s*{_SEP})?\s*([\w.:-]{{1,128}})\s*(?:{_SEP}|{_ARGUMENT}|(?=\n|`))")
_TOKENS_BOUND = re.compile(rf"<{BAR}tool{JOIN}call{JOIN}end{BAR}>|(?={_BEGIN})|(?=<{BAR}tool{JOIN}calls{JOIN})")
_TOKENS_RESUME = re.compile(rf"\s*(?:{_BEGIN}|<{BAR}tool{JOIN}calls{JOIN}|\Z)")

_MISTRAL = re.compile(rf"\[TOOL_CALLS\]\s*({NAME})\s*(?:\[CALL_ID\]\s*\w{{1,64}}\s*)?(?:\[ARGS\])?\s*(?=[{{｛])")
_MISTRAL_BOUND = re.compile(r"(?=\[TOOL_CALLS\])|</s>")
_FUNCTIONARY = re.compile(rf"(?:>>>|\A\s*)({NAME})[^\S\n]*\n")
_FUNCTIONARY_BOUND = re.compile(r"(?=>>>)|<\|eot_id\|>")
_FUNCTION = re.compile(rf"<function=({NAME})>")
_FUNCTION_BOUND = re.compile(r"</function>|(?=<function=)|<\|eom_id\|>|<\|eot_id\|>")


def _tokens(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _TOKENS.match(text, start)
    if header is None:
        return None
    body = Body(start, header.end(), _TOKENS_BOUND, resumes=_TOKENS_RESUME)
    return read_named(text, header[1], body, names)


def _mistral(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _MISTRAL.match(text, start)
    return None if header is None else read_named(text, header[1], Body(start, header.end(), _MISTRAL_BOUND), names)


def _functionary(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _FUNCTIONARY.match(text, start)
    if header is None or header[1] == "all":
        return None
    body = Body(start, header.end(), _FUNCTIONARY_BOUND, empty=False)
    return read_named(text, header[1], body, names)


def read_function(text: str, start: int, names: Collection[str]) -> Envelope | None:
    """`<function=name>{json}</function>`."""
    header = _FUNCTION.match(text, start)
    return None if header is None else read_named(text, header[1], Body(start, header.end(), _FUNCTION_BOUND), names)


TOKENS = Dialect(_BEGIN, _tokens)
MISTRAL = Dialect(rf"\[TOOL_CALLS\](?=\s*{NAME})", _mistral)
FUNCTIONARY = Dialect(rf">>>(?={NAME}[^\S\n]*\n)|\A\s*(?={NAME}[^\S\n]*\n\s*[{{｛])", _functionary)
